//! Floating IPs that somebody else has used, and uses no more: who waits for one of them looks again.

use std::collections::BTreeMap;

use gimbal_kuryr_model::Text;

use super::PollRun;
use crate::cluster::ManagedCluster;

impl ManagedCluster {
    /// Lets those look again who wait for a floating IP that lists show to have changed. Those of other projects are in no list,
    /// and are looked at as rarely as `run` lists everything.
    pub(super) fn look_for_freed(&mut self, run: &PollRun) {
        let Some(rows) = &run.floating else { return };
        let ports: BTreeMap<&str, Option<&str>> =
            rows.iter().filter_map(|row| Some((row["id"].as_str()?, row["port_id"].as_str()))).collect();
        let mut owners: Vec<Text> = Vec::new();
        for (owner, cell) in &self.cells {
            let Some(awaited) = cell.actor.awaited_floating_ip() else { continue };
            let is_listed = self.settings.projects.iter().any(|project| **project == *awaited.project)
                && !run.failed.contains_key(&*awaited.project);
            let is_same = ports.get(awaited.id.as_str()) == Some(&awaited.port.as_deref());
            if if is_listed { !is_same } else { run.ports.is_some() } {
                owners.push(owner.clone());
            }
        }
        for owner in owners {
            if let Some(cell) = self.cells.get_mut(&owner).filter(|cell| !cell.is_busy()) {
                cell.actor.look_again();
                self.wake(&owner);
            }
        }
    }
}
