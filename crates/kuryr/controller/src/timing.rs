//! How long it takes until what is wanted is there, and what does not come about.

use std::time::{Duration, Instant};

use gimbal_kuryr_crd::names::conditions;
use gimbal_kuryr_model::{DesiredEntry, DesiredKey, LoadBalancerReport, Phase};
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::item::BalancerItem;

/// A load balancer that the writer tries is late when it has not been ready for this long.
pub const LATE: Duration = Duration::from_secs(15 * 60);

/// How many load balancers the writer tries that have not been ready for [`LATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LateCounts {
    /// Those that are being made or changed, serve badly, or of which nothing was reported.
    pub late: usize,
    /// Those that cannot go on: somebody has to mend what they ask for, or what is in their way.
    pub blocked: usize,
}

/// What is measured, until it is asked for.
#[derive(Debug, Default)]
pub(crate) struct ReadyTimes {
    times: Vec<Duration>,
    /// Load balancers that came into a state in which they do not serve as they should.
    stuck: u64,
}

impl<T> KuryrController<T> {
    /// Returns how long those load balancers took that became ready since the last call: from when a change of theirs was first
    /// offered to when everything that was offered by then is there.
    pub fn drain_times(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.measured.times)
    }

    /// Returns how often since the last call a load balancer was reported as degraded that was not before.
    pub fn drain_stuck(&mut self) -> u64 {
        std::mem::take(&mut self.measured.stuck)
    }

    /// Looks which load balancers are ready, and counts those that have not been for long. Call it about once a second. A
    /// process counts from when it began to lead, at the earliest.
    pub fn count_late(&mut self, now: Instant) -> LateCounts {
        let mut counts = LateCounts::default();
        for item in self.items.values_mut() {
            if !item.is_tried_and_unready() {
                item.unready_since = None;
                continue;
            }
            let since = *item.unready_since.get_or_insert(now);
            let is_late = now.saturating_duration_since(since) >= LATE;
            let is_blocked = item.report.as_ref().is_some_and(|report| report.phase == Phase::Blocked);
            counts.late += usize::from(is_late && !is_blocked);
            counts.blocked += usize::from(is_late && is_blocked);
        }
        counts
    }

    /// Returns the latest report of an entry.
    #[must_use]
    pub fn report(&self, key: &DesiredKey) -> Option<&LoadBalancerReport> {
        let key = SourceKey { namespace: key.namespace.clone(), name: key.name.clone() };
        self.items.get(&key)?.report.as_deref()
    }

    pub(crate) fn measure(&mut self, key: &SourceKey, report: &LoadBalancerReport, now: Instant) {
        let Some(item) = self.items.get_mut(key) else { return };
        let was_degraded = item.report.as_ref().is_some_and(|before| before.phase == Phase::Degraded);
        self.measured.stuck += u64::from(report.phase == Phase::Degraded && !was_degraded);
        let wanted = match item.drained.as_deref() {
            Some(DesiredEntry::LoadBalancer(wanted)) => wanted.generation,
            Some(DesiredEntry::Deleting { .. }) | None => return,
        };
        if report.phase == Phase::Ready
            && report.generation == wanted
            && let Some(since) = item.changing_since.take()
        {
            self.measured.times.push(now.saturating_duration_since(since));
        }
    }
}

impl<T> BalancerItem<T> {
    /// Called when the entry was drained, and when the writer begins to try it.
    pub(crate) fn note_drained(&mut self, now: Instant) {
        let Some(DesiredEntry::LoadBalancer(wanted)) = self.drained.as_deref() else {
            self.changing_since = None;
            return;
        };
        // After a restart everything is offered again; the statuses say what is there.
        if !self.shows_ready(wanted.generation) && self.reject.is_none() {
            self.changing_since.get_or_insert(now);
        }
    }

    /// Whether the status of the KuryrLoadBalancer says that a generation is there.
    fn shows_ready(&self, generation: i64) -> bool {
        let status = self.held.as_ref().and_then(|held| held.object.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|one| {
            (&*one.type_, &*one.status, one.observed_generation) == (conditions::READY, "True", Some(generation))
        })
    }

    /// Whether the writer tries it, and it is not ready. A change of one that is ready takes its time.
    fn is_tried_and_unready(&self) -> bool {
        let Some(DesiredEntry::LoadBalancer(wanted)) = self.drained.as_deref() else { return false };
        let is_ready = || match &self.report {
            Some(report) => report.phase == Phase::Ready,
            None => self.shows_ready(wanted.generation),
        };
        self.reject.is_none() && !is_ready()
    }
}
