//! Ports of VIPs, which no short list of Neutron's shows, read by their IDs for those who are looked at first.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, SeenPort, cluster_tag, marked_owner};

use super::{PollPart, PollRun};
use crate::advance::waits_for_lists;
use crate::cell::Cell;
use crate::cluster::{ManagedCluster, PlannedRead};
use crate::fingerprint::tags_of;
use crate::listed_row::ListedRow;
use crate::owner_look::list;
use crate::shared::ReadFor;

/// Ports that are asked for by their IDs in one read: some servers take no longer request lines than 4 kB.
const PORTS_AT_ONCE: usize = 50;

/// Ports with an owner's mark.
#[derive(Debug)]
pub(super) struct ListedPorts {
    /// Those that nothing uses.
    pub(super) unused: BTreeMap<Text, Vec<SeenPort>>,
    /// What a search for the mark of one who is looked at first would find, but for ports with it that something else uses; unset:
    /// not all were read.
    pub(super) exact: Option<BTreeMap<Text, Vec<SeenPort>>>,
}

impl ManagedCluster {
    /// Asks for the ports of the VIPs of those who are looked at first, many in one read. Returns whether there are any.
    pub(super) fn ask_for_vip_ports(&mut self) -> bool {
        let Some(run) = self.poller.run.as_mut().filter(|run| run.ports.is_some() && run.failed.is_empty()) else {
            return false;
        };
        if run.life != self.life {
            return false;
        }
        let tag = cluster_tag(&self.settings.uid);
        let mut by_project: BTreeMap<Text, Vec<String>> = BTreeMap::new();
        let mut asked = BTreeSet::new();
        let is_first = |owner: &str, cell: &Cell| cell.looked_at.is_none() && waits_for_lists(owner, cell);
        // Where there is none of these, no row need be unpacked.
        let is_any_first = self.cells.iter().any(|(owner, cell)| is_first(owner, cell));
        for row in run.balancers.iter().filter(|_| is_any_first).map(ListedRow::get) {
            let owner = marked_owner(tags_of(&row), &tag, &self.settings.name);
            let owner = owner.filter(|owner| self.cells.get(*owner).is_some_and(|cell| is_first(owner, cell)));
            if let (Some(owner), Some(port), Some(project)) =
                (owner, row["vip_port_id"].as_str(), row["project_id"].as_str())
            {
                by_project.entry(project.into()).or_default().push(port.to_owned());
                asked.insert(Text::from(owner));
            }
        }
        let mut reads = Vec::new();
        for (project, ports) in &by_project {
            for ports in ports.chunks(PORTS_AT_ONCE) {
                let query = ports.iter().map(|id| ("id", id.clone())).collect();
                let read = list(ApiService::Neutron, "port", "ports", query);
                reads.push(PlannedRead { what: ReadFor::Poll(PollPart::VipPorts), project: project.clone(), read });
            }
        }
        (run.outstanding, run.vip_ports, run.asked) = (reads.len(), Some(Vec::new()), asked);
        let is_any = !reads.is_empty();
        self.reads.extend(reads);
        is_any
    }

    /// Sorts ports by the owner that their description names.
    pub(super) fn listed_ports(&self, run: &mut PollRun) -> ListedPorts {
        let vip_ports = run.vip_ports.take();
        let is_complete = vip_ports.is_some();
        let mut unused: BTreeMap<Text, Vec<SeenPort>> = BTreeMap::new();
        let mut exact: BTreeMap<Text, Vec<SeenPort>> = BTreeMap::new();
        let free = run.ports.take().unwrap_or_default();
        let free = free.into_iter().map(|mut row| (SeenPort::read(&row), row["description"].take(), true));
        let used = vip_ports.into_iter().flatten().map(|(port, description)| (port, description, false));
        for (port, description, is_free) in free.chain(used) {
            let Some(owner) = self.owner_in(&description) else { continue };
            let known = exact.entry(owner.clone()).or_default();
            // The search compares whole descriptions.
            let is_exact = self.mark(&owner).descriptions().iter().any(|one| description == *one);
            if is_exact && known.iter().all(|one| one.id != port.id) {
                known.push(port.clone());
            }
            if is_free {
                unused.entry(owner).or_default().push(port);
            }
        }
        ListedPorts { unused, exact: is_complete.then_some(exact) }
    }
}
