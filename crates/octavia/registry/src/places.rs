//! How many objects the policy lets a cluster have, and who has a place among them: also those who left the stream, as long as
//! something of theirs is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{CloudChange, Seen};

use crate::cell::Cell;
use crate::cluster::ManagedCluster;

/// What an owner has a place for: it has that, or has asked for it. It keeps its place while it wants it, so that no other owner
/// takes it while one load balancer gives way to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// For a load balancer, or the port of one.
    balancer: bool,
    floating: bool,
}

impl Places {
    /// Takes note of what was seen.
    pub(crate) fn has(&mut self, seen: &Seen) {
        self.balancer |= !seen.balancers.is_empty() || !seen.ports.is_empty();
        self.floating |= !seen.floating.is_empty();
    }

    /// Takes note of a change that is sent.
    pub(crate) fn asks_for(&mut self, change: &CloudChange) {
        match change {
            CloudChange::CreateBalancer { .. } | CloudChange::CreatePort { .. } => self.balancer = true,
            CloudChange::CreateFloatingIp { .. } => self.floating = true,
            _ => {}
        }
    }
}

impl Cell {
    /// Gives up what it has a place for and neither has nor wants.
    pub(crate) fn gives_up_places(&mut self) {
        let wants = matches!(self.wanted(), DesiredEntry::LoadBalancer(wanted) if wanted.header.floating.is_some());
        self.places.floating &= wants || self.actor.has_floating_ip();
    }
}

/// Owners that were forgotten, and when. What they have counts until lists tell.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind(BTreeMap<Text, (Instant, Places)>);

impl LeftBehind {
    pub(crate) fn left(&mut self, owner: &Text, places: Places, now: Instant) {
        if places != Places::default() {
            self.0.insert(owner.clone(), (now, places));
        }
    }

    pub(crate) fn nothing_left(&mut self, owner: &Text) {
        self.0.remove(owner);
    }

    /// Takes note of complete lists, which began at that time. Those of load balancers do not show a port that nothing uses.
    pub(crate) fn listed(&mut self, begun: Instant, with_balancers: &BTreeSet<Text>, floating: bool, ports: bool) {
        let is_told =
            |owner: &Text, places: &Places| ports || (with_balancers.contains(owner) && (floating || !places.floating));
        self.0.retain(|owner, (left, places)| *left >= begun || !is_told(owner, places));
    }
}

impl ManagedCluster {
    /// Returns why the policy does not let the cluster have one more.
    pub(crate) fn over_limit(&self, owner: &Text, cell: &Cell, change: &CloudChange) -> Option<Text> {
        let limits = &self.settings.limits;
        let (limit, has, what): (_, fn(&Places) -> bool, _) = match change {
            CloudChange::CreateBalancer { .. } | CloudChange::CreatePort { .. } => {
                (limits.load_balancers?, |places| places.balancer, "load balancers")
            }
            CloudChange::CreateFloatingIp { .. } => (limits.floating_ips?, |places| places.floating, "floating IPs"),
            _ => return None,
        };
        let listed: [&BTreeSet<Text>; 2] = match change {
            CloudChange::CreateFloatingIp { .. } => [&self.floating, &self.floating],
            _ => [&self.counted, &self.with_ports],
        };
        let at_most = self.cells.len() + listed[0].len() + listed[1].len() + self.left_behind.0.len();
        if has(&cell.places) || at_most < limit as usize {
            return None;
        }
        // Of those who have not looked, and of those who are not served, the lists tell.
        let is_unseen = |one: &&Text| {
            *one != owner
                && self.cells.get(*one).is_none_or(|cell| cell.looked_at.is_none())
                && !self.groups.has_owner(one)
        };
        let left = self.left_behind.0.iter().filter(|(_, (_, places))| has(places)).map(|(owner, _)| owner);
        let others: BTreeSet<&Text> = listed.into_iter().flatten().chain(left).filter(is_unseen).collect();
        let count = self.cells.values().filter(|cell| has(&cell.places)).count() + others.len();
        (count >= limit as usize).then(|| format!("the policy allows the cluster {limit} {what}").into())
    }
}
