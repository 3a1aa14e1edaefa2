//! What a registry shows of itself.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredLoadBalancer};
use gimbal_octavia_plan::{Block, PlannedStep};

use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, NameCheck};
use crate::looking::is_newcomer;
use crate::pace::Line;
use crate::registry::Registry;
use crate::replacements::AFTER_OTHERS;
use crate::view::{BalancerExplanation, ClusterView, RegistryCounts};

/// Most changes that are shown before they are made.
const PLANNED: usize = 50;

impl Registry {
    /// Returns what is known about a cluster.
    #[must_use]
    pub fn cluster(&self, cluster: &str, now: Instant) -> Option<ClusterView> {
        let cluster = self.clusters.get(cluster)?;
        Some(ClusterView {
            settings: cluster.settings.clone(),
            is_fresh: cluster.is_live(self.shared.settings.heartbeat_age, now),
            other_uid: match &cluster.name_check {
                NameCheck::Other(uid) => Some(uid.clone()),
                NameCheck::Unchecked | NameCheck::Ours => None,
            },
            unreadable: cluster.unreadable.iter().map(|(one, words)| (one.clone(), words.clone())).collect(),
            entries: cluster.keys.len(),
            orphans: cluster.orphans.len(),
            held_balancers: cluster.balancers.held(),
            held_members: cluster.members.held(),
        })
    }

    /// Returns for how long orphans of a cluster were not searched for: not all of its owners are known, or not all of its
    /// projects can be read. `None` without a live stream: another registry may have the cluster.
    #[must_use]
    pub fn unsearched(&self, cluster: &str, now: Instant) -> Option<Duration> {
        let age = self.shared.settings.heartbeat_age;
        let cluster = self.clusters.get(cluster).filter(|cluster| cluster.is_live(age, now))?;
        Some(now.saturating_duration_since(cluster.searched_at?))
    }

    /// Says why an entry is as it is.
    #[must_use]
    pub fn explain(&self, cluster: &str, key: &DesiredKey, now: Instant) -> Option<BalancerExplanation> {
        let cluster = self.clusters.get(cluster)?;
        let owner = cluster.keys.get(key)?;
        let cell = cluster.cells.get(owner)?;
        let at = self.shared.at(now);
        Some(BalancerExplanation {
            report: cluster.report_for(key, owner, cell, now, at),
            working_for: cell.working_since.map(|since| now.saturating_duration_since(since)),
            next: self.next(cluster, cell, now),
            steps: cell.journal.told(at),
        })
    }

    /// Returns the changes that would follow for an entry if nothing were in the way, the first 50 of them; none while OpenStack was
    /// not looked at.
    #[must_use]
    pub fn planned(&self, cluster: &str, key: &DesiredKey, now: Instant) -> Vec<PlannedStep> {
        let Some(cluster) = self.clusters.get(cluster) else { return Vec::new() };
        let cell = cluster.keys.get(key).and_then(|owner| cluster.cells.get(owner));
        let planned = cell.and_then(|cell| cell.actor.planned(&cluster.facts, self.shared.at(now), PLANNED));
        planned.unwrap_or_default()
    }

    /// Returns what is wanted under a key, whatever the guard says; `None` if that is a removal.
    #[must_use]
    pub fn wanted(&self, cluster: &str, key: &DesiredKey) -> Option<&DesiredLoadBalancer> {
        let cluster = self.clusters.get(cluster)?;
        let owner = cluster.keys.get(key)?;
        if let Some(group) = cluster.groups.all.get(owner) {
            return group.wants.get(key);
        }
        match cluster.cells.get(owner)?.wanted() {
            DesiredEntry::LoadBalancer(wanted) => Some(wanted),
            DesiredEntry::Deleting { .. } => None,
        }
    }

    /// Returns whether what exists of an owner is being removed although nothing of the stream names it any more: a person has
    /// asked for that, and it goes on.
    #[must_use]
    pub fn is_removing(&self, cluster: &str, owner: &str) -> bool {
        let cell = self.clusters.get(cluster).and_then(|cluster| cluster.cells.get(owner));
        cell.is_some_and(|cell| cell.is_former && !matches!(cell.state, CellState::Gone))
    }

    /// Returns whether a change of what an owner has was sent and is not answered yet.
    #[must_use]
    pub fn is_changing(&self, cluster: &str, owner: &str) -> bool {
        let cell = self.clusters.get(cluster).and_then(|cluster| cluster.cells.get(owner));
        cell.is_some_and(|cell| matches!(cell.state, CellState::Sending(_)))
    }

    fn next(&self, cluster: &ManagedCluster, cell: &Cell, now: Instant) -> String {
        if !cluster.is_live(self.shared.settings.heartbeat_age, now) {
            return "waits for the cluster's stream".to_owned();
        }
        if cluster.name_check != NameCheck::Ours {
            return "waits until it is sure that no other cluster has this one's name".to_owned();
        }
        let rest =
            cell.timer.map(|timer| format!("; again in {:.1} s", timer.saturating_duration_since(now).as_secs_f32()));
        let rest = rest.unwrap_or_default();
        match &cell.state {
            CellState::Ready => "is about to decide".to_owned(),
            CellState::Looking(_) | CellState::Reading => format!("reads{}", self.asked_pause(None, now)),
            CellState::InLine(Line::Looks)
                if is_newcomer(cell.actor.desired().owner(), cell) && self.shared.pace.may_look(now) =>
            {
                let creation = Line::Creation(cell.project.clone());
                let pause = self.asked_pause(Some(&creation), now);
                format!("waits until there is room for one more to be made in its project{pause}")
            }
            CellState::InLine(Line::Looks) => format!("waits for its turn to look{}", self.asked_pause(None, now)),
            CellState::InLine(line) => {
                let step = cell.actor.step(&cluster.facts, self.shared.at(now));
                match step {
                    gimbal_octavia_plan::BalancerStep::Change(change) => {
                        let is_first = Line::of(&change, &cell.project) == *line;
                        let call = change.request();
                        let may = cluster.may_change(&self.shared, now);
                        let why = if may { "its turn" } else { "changes to be allowed" };
                        let pause = self.asked_pause(Some(line), now);
                        // It changes what it can meanwhile.
                        let before = if is_first { "" } else { " in Octavia, and later" };
                        format!("waits for {why}{before}: {:?} {} {}{pause}", call.verb, call.path, call.body)
                    }
                    other => format!("waits for its turn: {other:?}"),
                }
            }
            CellState::Sending(_) => "waits for the answer to a change".to_owned(),
            CellState::Resting if cluster.waits_for_others(cell, self.shared.at(now)) => {
                format!("{AFTER_OTHERS}{rest}")
            }
            CellState::Resting => format!("pauses{rest}"),
            CellState::Pending => format!("waits until Octavia has finished{rest}"),
            CellState::Unlisted => "waits for the lists of what the cluster has".to_owned(),
            CellState::Grouped => {
                format!("waits for other owners of a shared load balancer: {}", cluster.not_heard(cell).join(", "))
            }
            CellState::Unproven => "waits until its controller says that it is still wanted".to_owned(),
            CellState::Behind => "waits until the former owner of its name is gone".to_owned(),
            CellState::Done => format!("has nothing to do{rest}"),
            CellState::Blocked(block) => format!("cannot go on: {block}{rest}"),
            CellState::Gone => "nothing of it is left".to_owned(),
        }
    }

    /// Returns words about a pause that OpenStack has asked for, if there is one: of changes, or of reads if no line is given.
    fn asked_pause(&self, line: Option<&Line>, now: Instant) -> String {
        let until = self.shared.pace.pause_until(line, now);
        let rest = until.map(|until| until.saturating_duration_since(now).as_secs() + 1);
        rest.map(|rest| format!("; OpenStack asks for a pause of {rest} s more")).unwrap_or_default()
    }

    /// Returns numbers for metrics.
    #[must_use]
    pub fn counts(&self, now: Instant) -> RegistryCounts {
        let sums = self.shared.sums;
        let mut counts = RegistryCounts {
            drift: sums.drift,
            drift_missing: sums.drift_missing,
            drift_added: sums.drift_added,
            reads: sums.reads,
            changes: sums.changes,
            unknown: sums.unknown,
            refused: sums.refused,
            decisions: sums.decisions,
            ..RegistryCounts::default()
        };
        for cluster in self.clusters.values() {
            counts.owners += cluster.cells.len();
            counts.pending += cluster.tracker.len();
            counts.group_wishes += cluster.groups.wishes;
            for (count, seconds) in counts.pending_for.iter_mut().zip([10, 60, 600]) {
                *count += cluster.tracker.pending_for(Duration::from_secs(seconds), now);
            }
            for cell in cluster.cells.values() {
                counts.removing += usize::from(cell.is_deleting() && !matches!(cell.state, CellState::Gone));
                counts.ready += usize::from(matches!(cell.state, CellState::Done) && cell.fault().is_none());
            }
            // An operator is asked to act on these. Without its stream another registry may have the cluster, and what this
            // one saw last is no reason to act.
            if !cluster.is_live(self.shared.settings.heartbeat_age, now) {
                continue;
            }
            counts.stuck += cluster.tracker.stuck();
            counts.held += cluster.held.len();
            counts.orphans += cluster.orphans.len();
            for cell in cluster.cells.values() {
                match &cell.state {
                    CellState::Blocked(Block::RepairBudget) => counts.budget_spent += 1,
                    CellState::Blocked(Block::Quota(_)) => counts.over_quota += 1,
                    _ => {}
                }
            }
        }
        counts
    }
}
