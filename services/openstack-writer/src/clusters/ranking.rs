//! The first decision about all entries of a cluster. It waits until the controller has said everything that it wants, and the
//! lists what exists: whichever entry comes first by name must not take the place in the quota, or the owner, of one that is
//! served.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, LoadBalancerHeader, Text};
use gimbal_octavia_registry::FoundOwner;

use super::{ClusterState, Clusters};

/// What the first decision waits for, and what is remembered of it.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    pub(super) is_done: bool,
    /// What exists in OpenStack, the oldest first.
    pub(super) found: Option<Vec<FoundOwner>>,
    /// Whether that is everything.
    is_complete: bool,
    /// Snapshots that have ended meanwhile: their namespaces, if not all, and when the last one of them began.
    pub(super) snapshots: Vec<(Option<Vec<Text>>, Instant)>,
    /// The age of what exists of entries that the quota had no room for: the lower, the older.
    ages: BTreeMap<DesiredKey, usize>,
    /// How many members each router has in OpenStack, until all has been decided about once.
    had: BTreeMap<DesiredKey, u64>,
}

impl Ranking {
    /// The stream has ended, and another writer may be at work.
    pub(super) fn stream_ended(&mut self) {
        (self.found, self.snapshots) = (None, Vec::new());
    }

    /// Returns the order in which entries get another chance: what exists before what is new, older before younger.
    pub(super) fn place(&self, key: &DesiredKey) -> usize {
        self.ages.get(key).copied().unwrap_or(usize::MAX)
    }

    /// Returns the most members that a router may have for now, whatever there is room for. It is served with as many as there is
    /// room for, and a Service for which there is none is not. So what a router has is its own, and it gets more when the Services
    /// have what they had.
    pub(super) fn most_members(&self, key: &DesiredKey) -> u64 {
        self.had.get(key).copied().unwrap_or(u64::MAX)
    }

    pub(super) fn forget(&mut self, key: &DesiredKey) {
        self.ages.remove(key);
    }
}

impl Clusters {
    /// Takes what exists of a cluster.
    pub(super) fn listed(&mut self, name: &Text, found: &[FoundOwner], is_complete: bool, now: Instant) {
        // A stream that was ended meanwhile gets lists of its own when it comes back.
        let waits = |state: &&mut ClusterState| !state.ranking.is_done && state.is_connected();
        if let Some(state) = self.clusters.get_mut(name).filter(waits) {
            (state.ranking.found, state.ranking.is_complete) = (Some(found.to_vec()), is_complete);
            self.rank(name, now);
        }
    }

    /// Takes note that a snapshot of these namespaces, or of all, has ended.
    pub(super) fn snapshot_ended(&mut self, name: &Text, namespaces: Option<Vec<Text>>, begun: Instant, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        if state.ranking.is_done {
            self.registry.snapshot_of(name, namespaces.as_deref(), begun, now);
        } else {
            // One of all namespaces says what those before it have said.
            let before = &mut state.ranking.snapshots;
            before.retain(|(of, _)| namespaces.is_some() && *of != namespaces);
            before.push((namespaces, begun));
        }
    }

    /// Decides about everything that has waited, if nothing is missing for that any more.
    pub(super) fn rank(&mut self, name: &Text, now: Instant) {
        let is_ready =
            |state: &&mut ClusterState| !state.ranking.is_done && state.is_current && state.reading.is_some();
        let Some(state) = self.clusters.get_mut(name).filter(is_ready) else { return };
        let Some(found) = state.ranking.found.take() else { return };
        state.ranking.is_done = true;
        let keys = state.ranked(&found);
        for key in &keys {
            self.check(name, key, now);
        }
        let state = self.clusters.get_mut(name);
        let routers = state.map(|state| std::mem::take(&mut state.ranking.had)).unwrap_or_default();
        for key in routers.keys() {
            self.check(name, key, now);
        }
        if let Some(state) = self.clusters.get_mut(name) {
            let refused = &state.refused;
            state.ranking.ages.retain(|key, _| refused.contains_key(key));
            for (namespaces, begun) in std::mem::take(&mut state.ranking.snapshots) {
                self.registry.snapshot_of(name, namespaces.as_deref(), begun, now);
            }
        }
        self.prove(name);
    }
}

impl ClusterState {
    /// Returns all keys in the order in which they are decided about.
    fn ranked(&mut self, found: &[FoundOwner]) -> Vec<DesiredKey> {
        let found: BTreeMap<&Text, (usize, &FoundOwner)> =
            found.iter().enumerate().map(|(age, one)| (&one.owner, (age, one))).collect();
        let mut by_owner: BTreeMap<&Text, Vec<&DesiredKey>> = BTreeMap::new();
        for (key, entry) in self.end.entries() {
            by_owner.entry(entry.owner()).or_default().push(key);
        }
        let mut first = BTreeSet::new();
        let mut contested = Vec::new();
        for (owner, keys) in by_owner.into_iter().filter(|(_, keys)| keys.len() > 1) {
            let name = match found.get(owner) {
                Some((_, one)) => Some(&one.name),
                None if self.ranking.is_complete => continue,
                // What it has may be where nothing could be listed.
                None => None,
            };
            let is_named = |key: &&&DesiredKey| {
                matches!(key.kind, DesiredKind::LoadBalancer | DesiredKind::L7Router)
                    && name.is_some_and(|name| LoadBalancerHeader::display_name(&key.namespace, &key.name) == **name)
            };
            match keys.iter().find(is_named) {
                Some(key) => {
                    first.insert(DesiredKey::clone(key));
                }
                // Nothing tells the copy from the original, and one of them may be a removal.
                None => contested.push((owner.clone(), keys.into_iter().cloned().collect::<Vec<_>>())),
            }
        }
        for (owner, keys) in contested {
            self.owners.contest(&owner, &keys);
        }
        let mut places: Vec<_> = self.end.entries().map(|(key, entry)| (place(entry, &found), key.clone())).collect();
        self.ranking.ages = places.iter().filter_map(|((age, ..), key)| Some((key.clone(), (*age)?))).collect();
        let routers = self.end.entries().filter(|(key, _)| key.kind == DesiredKind::L7Router);
        let had = routers.filter_map(|(key, entry)| Some((key.clone(), found.get(entry.owner())?.1.members?)));
        self.ranking.had = had.collect();
        // Routers come first, with what they have, and those without an age last.
        let had = &self.ranking.had;
        places.sort_by_cached_key(|((age, rest), key)| {
            (!first.contains(key), !had.contains_key(key), age.is_none(), *age, *rest, key.clone())
        });
        places.into_iter().map(|(_, key)| key).collect()
    }
}

/// Returns the age of what exists of an entry, and the order among those of which nothing does: first those whose status says
/// that something did, and those that go last.
fn place(entry: &DesiredEntry, found: &BTreeMap<&Text, (usize, &FoundOwner)>) -> (Option<usize>, u8) {
    let rest = match entry {
        DesiredEntry::LoadBalancer(wanted) => u8::from(!wanted.header.known),
        DesiredEntry::Deleting { .. } => 2,
    };
    (found.get(entry.owner()).map(|(age, _)| *age), rest)
}
