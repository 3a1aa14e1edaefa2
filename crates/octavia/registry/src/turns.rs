//! How much is done at a time. Whoever has the registry hears of nothing else meanwhile, so thousands of owners of one cluster
//! that want something at once are served in several turns, and other clusters in between.

use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, LoadBalancerReport, Text};

use crate::cell::Cell;
use crate::cluster::ManagedCluster;
use crate::registry::Registry;

/// Most decisions in a turn, of small load balancers.
const DECISIONS: u32 = 256;
/// Most reports in a turn, about small load balancers.
const REPORTS: u32 = 256;
/// How many of these one cluster has before it is another one's turn.
const AT_A_TIME: u32 = 16;

/// What may still be done in a turn. A turn is everything that happens at one time.
#[derive(Debug, Default)]
pub(crate) struct WorkTurn {
    at: Option<Instant>,
    decisions: u32,
    reports: u32,
    /// Whether something was left to the next one.
    is_cut: bool,
}

impl WorkTurn {
    fn begin(&mut self, now: Instant) {
        if self.at != Some(now) {
            *self = Self { at: Some(now), decisions: DECISIONS, reports: REPORTS, is_cut: false };
        }
    }

    /// Whether something waits for the next turn.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Returns what a decision or a report about an owner costs: 1, and more for one with many ports and members.
pub(crate) fn cost(cell: &Cell) -> u32 {
    let size = match cell.wanted() {
        DesiredEntry::LoadBalancer(wanted) => wanted.header.listeners.len() / 8 + wanted.members.as_slice().len() / 64,
        DesiredEntry::Deleting { .. } => 0,
    };
    u32::try_from(size).unwrap_or(u32::MAX).saturating_add(1)
}

impl Registry {
    /// Asks those who are ready for their next steps, the clusters in turns, until the turn is over.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.shared.turn.begin(now);
        let age = self.shared.settings.heartbeat_age;
        let busy = self.after(self.advanced.as_ref(), |cluster| cluster.is_live(age, now) && cluster.has_work());
        for name in &busy {
            // All of them first: a guard has to know of every loss before it is asked about one.
            self.clusters.get_mut(name).into_iter().for_each(|one| one.regroup_stirred(&self.shared, now));
        }
        let mut is_over = busy.is_empty();
        while !is_over {
            is_over = true;
            for name in &busy {
                let Some(cluster) = self.clusters.get_mut(name).filter(|cluster| cluster.has_work()) else { continue };
                if self.shared.turn.decisions == 0 {
                    self.shared.turn.is_cut = true;
                    return;
                }
                let most = self.shared.turn.decisions.min(AT_A_TIME);
                let cost = cluster.advance(most, &mut self.shared, now);
                self.shared.turn.decisions = self.shared.turn.decisions.saturating_sub(cost.max(1));
                self.advanced = Some(name.clone());
                is_over = false;
            }
        }
    }

    /// Returns reports that changed since they were sent, by cluster: as many as a turn allows.
    pub fn take_reports(&mut self, now: Instant) -> Vec<(Text, DesiredKey, LoadBalancerReport)> {
        self.shared.turn.begin(now);
        let at = self.shared.at(now);
        let telling = self.after(self.reported.as_ref(), |cluster| !cluster.told.is_empty());
        let (mut all, mut is_over) = (Vec::new(), telling.is_empty());
        while !is_over {
            is_over = true;
            for name in &telling {
                let Some(cluster) = self.clusters.get_mut(name).filter(|one| !one.told.is_empty()) else { continue };
                if self.shared.turn.reports == 0 {
                    self.shared.turn.is_cut = true;
                    return all;
                }
                let most = self.shared.turn.reports.min(AT_A_TIME);
                let (reports, cost) = cluster.take_reports(most, now, at);
                self.shared.turn.reports = self.shared.turn.reports.saturating_sub(cost.max(1));
                all.extend(reports.into_iter().map(|(key, report)| (name.clone(), key, report)));
                self.reported = Some(name.clone());
                is_over = false;
            }
        }
        all
    }

    /// Returns the clusters that something holds for, beginning after the one that had the last turn.
    fn after(&self, last: Option<&Text>, holds: impl Fn(&ManagedCluster) -> bool) -> Vec<Text> {
        let all = self.clusters.iter().filter(|(_, cluster)| holds(cluster));
        let mut names: Vec<Text> = all.map(|(name, _)| name.clone()).collect();
        let before = names.partition_point(|name| last.is_some_and(|last| name <= last));
        names.rotate_left(before);
        names
    }
}

impl ManagedCluster {
    /// Whether an owner waits to be asked for its next step, or to be compared, or a group to be put together.
    fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.is_comparing() || self.groups.is_stirred()
    }
}
