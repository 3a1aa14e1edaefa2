//! The stream of a cluster: when it was heard of, and what ends with it.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredKey, Text};

use crate::cell::{Cell, CellState};
use crate::cluster::ManagedCluster;
use crate::registry::Registry;
use crate::removals::GuardedOwner;

impl Registry {
    /// Takes note that a former stream has brought these entries, and that the open one may not be able to say what became of all
    /// of them. They are looked at, and nothing is changed for one until it is proven.
    pub fn doubt(&mut self, cluster: &str, entries: impl IntoIterator<Item = DesiredKey>) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.unproven.extend(entries);
        }
    }

    /// Takes note that the open stream has sent an entry, or its removal.
    pub fn entry_proven(&mut self, cluster: &str, key: &DesiredKey) {
        if let Some(cluster) = self.clusters.get_mut(cluster)
            && cluster.unproven.remove(key)
        {
            cluster.wake_entry(key);
        }
    }

    /// Takes note that the open stream has said everything about these namespaces, or about all.
    pub fn namespaces_proven(&mut self, cluster: &str, namespaces: Option<&[Text]>) {
        let Some(cluster) = self.clusters.get_mut(cluster) else { return };
        let is_in = |key: &DesiredKey| namespaces.is_none_or(|all| all.contains(&key.namespace));
        let proven: Vec<DesiredKey> = cluster.unproven.extract_if(.., |key| is_in(key)).collect();
        proven.iter().for_each(|key| cluster.wake_entry(key));
    }
}

impl ManagedCluster {
    fn wake_entry(&mut self, key: &DesiredKey) {
        if let Some(owner) = self.keys.get(key).cloned() {
            self.wake(&owner);
        }
    }

    /// Whether the open stream has said what an owner wants: of a group, what each of its owners wants.
    pub(crate) fn is_proven(&self, owner: &Text, cell: &Cell) -> bool {
        match self.groups.all.get(owner) {
            _ if self.unproven.is_empty() => true,
            Some(group) => !group.wants.keys().any(|key| self.unproven.contains(key)),
            None => !self.unproven.contains(&cell.key),
        }
    }

    pub(crate) fn heard(&mut self, age: Duration, now: Instant) {
        if !self.is_live(age, now) {
            self.life += 1;
            self.searched_at.get_or_insert(now);
            (self.alive_since, self.has_snapshot) = (Some(now), false);
            self.poller.now();
            self.doubt_orphans(now);
            self.wake_those_who_waited();
        }
        self.heard = Some(now);
    }

    /// Forgets who was an orphan, also those that are being removed: the new stream may want them.
    fn doubt_orphans(&mut self, now: Instant) {
        self.orphans.clear();
        let removed = self.cells.iter().filter(|(_, cell)| cell.is_orphan).map(|(owner, _)| owner.clone());
        for owner in removed.collect::<Vec<_>>() {
            self.balancers.pending(&GuardedOwner(owner.clone()), 0, 0, now);
            self.is_wanted_again(&owner, now);
        }
    }

    /// Lets everybody of whom nothing was left look again, and say so again: another writer may have made something since. Whoever
    /// waited for the former stream to say what it wants waits for this one, which may hold just that and say nothing about it.
    fn wake_those_who_waited(&mut self) {
        let mut owners = Vec::new();
        for (owner, cell) in &mut self.cells {
            // Requests of a writer that had the stream meanwhile may still arrive.
            cell.is_resumed |= self.life > 1;
            match cell.state {
                CellState::Gone => cell.reported = None,
                CellState::Unproven => {}
                _ => continue,
            }
            owners.push(owner.clone());
        }
        owners.iter().for_each(|owner| self.wake(owner));
    }

    pub(crate) fn stream_ended(&mut self) {
        self.heard = None;
        (self.is_current, self.is_complete) = (false, false);
        self.unproven.clear();
        (self.has_snapshot, self.is_told_all) = (false, false);
        self.wipe_contents();
    }

    /// Whether its stream was heard of lately.
    pub(crate) fn is_live(&self, age: Duration, now: Instant) -> bool {
        self.live_until(age).is_some_and(|until| now < until)
    }

    pub(crate) fn live_until(&self, age: Duration) -> Option<Instant> {
        self.heard.map(|heard| heard + age)
    }
}
