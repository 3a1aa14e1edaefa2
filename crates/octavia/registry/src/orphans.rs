//! What is there without an owner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_guard::Fall;
use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, Text};
use gimbal_octavia_plan::{Actor, is_group};
use serde_json::Value;

use crate::cell::Cell;
use crate::cluster::ManagedCluster;
use crate::journal::Deed;
use crate::owner_look::Stray;
use crate::removals::{self, GuardedOwner};
use crate::shared::RegistryCore;

/// The number of complete lists that an owner must have been missing from.
const LISTS: u32 = 2;

#[derive(Debug)]
struct Missing {
    since: Instant,
    lists: u32,
    /// It has no load balancer, and the rest is not listed every time.
    only_in_neutron: bool,
}

/// Owners that objects carry the mark of, and that are not wanted.
#[derive(Debug, Default)]
pub(crate) struct Orphans(BTreeMap<Text, Missing>);

impl Orphans {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets everything: what was seen before the stream was lost counts for nothing.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes note of complete lists that showed load balancers of `owners`, and ports and floating IPs of `in_neutron` if those
    /// were listed. None of them is wanted.
    pub(crate) fn listed(&mut self, owners: &BTreeSet<Text>, in_neutron: Option<&BTreeSet<Text>>, now: Instant) {
        self.0.retain(|owner, one| match in_neutron {
            Some(others) => owners.contains(owner) || others.contains(owner),
            None => owners.contains(owner) || one.only_in_neutron,
        });
        let none = BTreeSet::new();
        for owner in owners.union(in_neutron.unwrap_or(&none)) {
            let missing =
                self.0.entry(owner.clone()).or_insert(Missing { since: now, lists: 0, only_in_neutron: false });
            missing.only_in_neutron = !owners.contains(owner);
            missing.lists += 1;
        }
    }

    /// Returns the owners that have been missing for long enough.
    pub(crate) fn proven(&self, grace: Duration, now: Instant) -> Vec<Text> {
        let proven = self.0.iter().filter(|(_, one)| one.lists >= LISTS && one.since + grace <= now);
        proven.map(|(owner, _)| owner.clone()).collect()
    }

    pub(crate) fn forget(&mut self, owner: &str) -> bool {
        self.0.remove(owner).is_some()
    }
}

impl ManagedCluster {
    /// Compares what lists have shown of owners that are not wanted with what they showed before.
    pub(crate) fn compare_orphans(
        &mut self,
        present: &BTreeSet<Text>,
        in_groups: &BTreeSet<Text>,
        in_neutron: Option<&BTreeSet<Text>>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        for owner in present.union(in_groups) {
            self.count_balancer(owner, true, now);
        }
        // A group goes with its last owner. One that names none has none.
        let has_owners = |one: &Text| self.groups.owners_of(one).next().is_some();
        let alone = |all: &BTreeSet<Text>| all.iter().filter(|one| !has_owners(one)).cloned().collect::<BTreeSet<_>>();
        let (mut missing, in_neutron) = (alone(present), in_neutron.map(alone));
        let is_missing = |owner: &&Text| self.groups.key_of(owner).is_none() && !self.cells.contains_key(*owner);
        missing.extend(in_groups.iter().filter(is_missing).cloned());
        let gone: Vec<Text> = self
            .counted
            .iter()
            .filter(|owner| {
                !present.contains(*owner) && !in_groups.contains(*owner) && !self.cells.contains_key(*owner)
            })
            .cloned()
            .collect();
        for owner in gone {
            self.count_balancer(&owner, false, now);
        }
        if !self.is_complete {
            return;
        }
        self.searched_at = Some(now);
        let refused = self.refused.all(&self.groups);
        let others = |all: &BTreeSet<Text>| all.difference(&refused).cloned().collect::<BTreeSet<_>>();
        self.orphans.listed(&others(&missing), in_neutron.as_ref().map(others).as_ref(), now);
        let proven = self.orphans.proven(shared.settings.orphan_grace, now);
        let key = |owner: &Text| GuardedOwner(owner.clone());
        for owner in &proven {
            self.balancers.pending(&key(owner), 1, 1, now);
        }
        for owner in proven {
            if removals::may_go(&mut self.balancers, &key(&owner), now) {
                self.remove_orphan(&owner, shared, now);
            }
        }
    }

    /// Takes note whether an owner has a load balancer, or a part of one: a shared one counts for each of its owners.
    pub(crate) fn count_balancer(&mut self, owner: &Text, is_there: bool, now: Instant) {
        if is_group(owner) {
            return;
        }
        let key = GuardedOwner(owner.clone());
        if is_there && self.counted.insert(owner.clone()) {
            removals::observe(&mut self.balancers, &key, 0, 1, Fall::Forgiven, now);
        } else if !is_there && self.counted.remove(owner) {
            removals::observe(&mut self.balancers, &key, 1, 0, Fall::Forgiven, now);
        }
    }

    /// Removes what was made for an owner that is gone.
    fn remove_orphan(&mut self, owner: &Text, shared: &RegistryCore, now: Instant) {
        self.orphans.forget(owner);
        let key = DesiredKey::new(DesiredKind::LoadBalancer, "", owner.clone());
        let deleting = DesiredEntry::Deleting { owner: owner.clone() };
        let actor = Actor::new(key.clone(), self.mark(owner), deleting, shared.settings.repair);
        let project = self.settings.projects.first().cloned().unwrap_or_default();
        let mut cell = Box::new(Cell::new(key, actor, project));
        cell.is_orphan = true;
        cell.journal.note(shared.at(now), Deed::Deleting);
        self.cells.insert(owner.clone(), cell);
        self.ready.push_back(owner.clone());
    }

    /// Takes note of what a search for the mark of its owner would not find.
    pub(crate) fn add_strays<'a>(&mut self, rows: impl Iterator<Item = &'a Value>) {
        for row in rows {
            let Some(owner) = self.owner_in(&row["description"]) else { continue };
            let mark = self.mark(&owner);
            let is_wanted = self.cells.get(&owner).is_some_and(|cell| !cell.is_orphan && !cell.is_deleting());
            if !is_wanted && !mark.descriptions().iter().any(|one| row["description"] == *one) {
                self.strays.entry(owner).or_default().extend(Stray::of(row));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_missing_in_two_lists_and_for_the_whole_time() {
        let (mut orphans, start) = (Orphans::default(), Instant::now());
        let (grace, minute) = (Duration::from_secs(600), Duration::from_secs(60));
        let one = BTreeSet::from([Text::from("u1")]);
        orphans.listed(&one, None, start);
        assert!(orphans.proven(grace, start + 2 * grace).is_empty(), "one list proves nothing");
        orphans.listed(&one, None, start + minute);
        assert!(orphans.proven(grace, start + minute).is_empty());
        assert_eq!(orphans.proven(grace, start + grace), [Text::from("u1")]);
        orphans.listed(&BTreeSet::new(), None, start + grace);
        orphans.listed(&one, None, start + grace + minute);
        assert!(orphans.proven(grace, start + grace + minute).is_empty(), "it begins anew");
    }

    #[test]
    fn a_port_or_a_floating_ip_is_not_in_every_list() {
        let (mut orphans, start) = (Orphans::default(), Instant::now());
        let (one, none) = (BTreeSet::from([Text::from("u1")]), BTreeSet::new());
        let grace = Duration::from_secs(600);
        orphans.listed(&none, Some(&one), start);
        orphans.listed(&none, None, start + grace / 2);
        assert!(orphans.proven(grace, start + grace).is_empty(), "seen once");
        orphans.listed(&none, Some(&one), start + grace);
        assert_eq!(orphans.proven(grace, start + grace).len(), 1);
        orphans.listed(&none, Some(&none), start + grace);
        assert!(orphans.proven(grace, start + grace).is_empty());
    }
}
