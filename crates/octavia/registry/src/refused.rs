//! Entries that are refused. They are not served, and what exists of them is no orphan's.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::{DesiredKey, Text};
use gimbal_octavia_plan::is_group;

use crate::sharing::Groups;

/// The owners of entries that are refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedEntries {
    /// The own one of each, and the group that it wants.
    owners: BTreeMap<DesiredKey, Vec<Text>>,
    /// How many of them name each group. As long as one does, none of its owners is gone: thousands may name the same.
    groups: BTreeMap<Text, usize>,
}

impl RefusedEntries {
    /// Adds an entry. Returns the groups that no other one names.
    pub(crate) fn insert(&mut self, key: DesiredKey, owners: Vec<Text>) -> Vec<Text> {
        self.remove(&key);
        let mut first = Vec::new();
        for group in owners.iter().filter(|owner| is_group(owner)) {
            let count = self.groups.entry(group.clone()).or_default();
            *count += 1;
            first.extend((*count == 1).then(|| group.clone()));
        }
        self.owners.insert(key, owners);
        first
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &DesiredKey) {
        for group in self.owners.remove(key).into_iter().flatten().filter(|owner| is_group(owner)) {
            if let Some(count) = self.groups.get_mut(&group) {
                *count -= 1;
                if *count == 0 {
                    self.groups.remove(&group);
                }
            }
        }
    }

    /// Returns the owners of all entries, and those of the groups that they name.
    pub(crate) fn all(&self, groups: &Groups) -> BTreeSet<Text> {
        let of_groups = self.groups.keys().flat_map(|group| groups.owners_of(group));
        self.owners.values().flatten().chain(of_groups).cloned().collect()
    }
}
