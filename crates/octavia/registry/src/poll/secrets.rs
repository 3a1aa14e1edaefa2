//! Secrets of the key manager in the lists that are rare: what somebody has removed, and what has no owner any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kuryr_model::{DesiredKind, Text};
use gimbal_octavia_plan::owner_of_secret;
use serde_json::Value;

use super::PollRun;
use crate::cluster::ManagedCluster;

/// The references of secrets, by owner.
pub(super) type SecretsByOwner = BTreeMap<Text, BTreeSet<String>>;

impl PollRun {
    /// Adds the secrets of a project; `None` if they could not be read.
    pub(super) fn add_secrets(&mut self, listed: Option<SecretsByOwner>) {
        let Some(listed) = listed else {
            self.secrets = None;
            return;
        };
        for (owner, ids) in listed {
            self.secrets.iter_mut().for_each(|all| all.entry(owner.clone()).or_default().extend(ids.iter().cloned()));
        }
    }
}

impl ManagedCluster {
    /// Returns whose the rows are that are this cluster's.
    pub(super) fn owners_of_secrets(&self, rows: Option<&[Value]>) -> Option<SecretsByOwner> {
        let mut owners = SecretsByOwner::new();
        for row in rows? {
            let name = row["name"].as_str().unwrap_or_default();
            let owner = owner_of_secret(name, &self.settings.uid, &self.settings.name);
            if let (Some(owner), Some(reference)) = (owner, row["secret_ref"].as_str()) {
                owners.entry(owner.into()).or_default().insert(reference.to_owned());
            }
        }
        Some(owners)
    }

    /// Lets routers look whose secrets are others than they were. Returns the owners of all.
    pub(super) fn compare_secrets(&mut self, listed: &SecretsByOwner, begun: Instant) -> BTreeSet<Text> {
        let nothing = BTreeSet::new();
        let differs = |owner: &Text, cell: &crate::cell::Cell| {
            let is_calm = !cell.is_busy() && cell.looked_at.is_some() && cell.changed_at.is_none_or(|at| at < begun);
            let known = || cell.actor.secrets().iter().map(|one| one.reference.clone()).collect::<BTreeSet<_>>();
            let is_router = cell.key.kind == DesiredKind::L7Router;
            is_router && is_calm && known() != *listed.get(owner).unwrap_or(&nothing)
        };
        let others: Vec<Text> =
            self.cells.iter().filter(|(owner, cell)| differs(owner, cell)).map(|(owner, _)| owner.clone()).collect();
        for owner in others {
            if let Some(cell) = self.cells.get_mut(&owner) {
                cell.actor.look_again();
            }
            self.wake(&owner);
        }
        listed.keys().cloned().collect()
    }
}
