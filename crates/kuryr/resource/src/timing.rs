//! How long it takes until what is wanted is there, and what does not come about.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::{LoadBalancerReport, Phase};
use gimbal_kuryr_wire::PackedEntry;

use crate::OfferedEntry;

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

impl LateCounts {
    /// Counts one of which [`OfferedEntry::note_unready`] has said this.
    pub fn add(&mut self, lateness: Option<Lateness>) {
        self.late += usize::from(lateness == Some(Lateness::Late));
        self.blocked += usize::from(lateness == Some(Lateness::Blocked));
    }
}

/// Why one that is tried is not ready for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// It is being made or changed, or serves badly.
    Late,
    /// It cannot go on.
    Blocked,
}

/// What is measured, until it is asked for.
#[derive(Debug, Default)]
pub struct ReadyTimes {
    times: Vec<Duration>,
    /// Load balancers that came into a state in which they do not serve as they should.
    stuck: u64,
}

impl ReadyTimes {
    /// Returns how long those took that became ready since the last call: from when a change of theirs was first offered to when
    /// everything that was offered by then is there.
    pub fn drain_times(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.times)
    }

    /// Returns how often since the last call one was reported as degraded that was not before.
    pub fn drain_stuck(&mut self) -> u64 {
        std::mem::take(&mut self.stuck)
    }

    /// Looks at a report before it takes the place of the one before it.
    pub fn measure<T>(&mut self, offer: &mut OfferedEntry<T>, report: &LoadBalancerReport, now: Instant) {
        let was_degraded = offer.report.as_ref().is_some_and(|before| before.phase == Phase::Degraded);
        self.stuck += u64::from(report.phase == Phase::Degraded && !was_degraded);
        let Some(wanted) = offer.drained.as_ref().and_then(PackedEntry::generation) else { return };
        if report.phase == Phase::Ready
            && report.generation == wanted
            && let Some(since) = offer.changing_since.take()
        {
            self.times.push(now.saturating_duration_since(since));
        }
    }
}

impl<T> OfferedEntry<T> {
    /// Looks whether it is ready, and returns what it is if it has not been for long. `shows_ready` says whether the status shows
    /// that a generation is there.
    pub fn note_unready(&mut self, now: Instant, shows_ready: impl Fn(i64) -> bool) -> Option<Lateness> {
        if !self.is_tried_and_unready(shows_ready) {
            self.unready_since = None;
            return None;
        }
        let since = *self.unready_since.get_or_insert(now);
        let is_blocked = self.report.as_ref().is_some_and(|report| report.phase == Phase::Blocked);
        let lateness = if is_blocked { Lateness::Blocked } else { Lateness::Late };
        (now.saturating_duration_since(since) >= LATE).then_some(lateness)
    }

    /// Whether the writer tries it, and it is not ready. A change of one that is ready takes its time.
    fn is_tried_and_unready(&self, shows_ready: impl Fn(i64) -> bool) -> bool {
        let Some(generation) = self.drained.as_ref().and_then(PackedEntry::generation) else { return false };
        let is_ready = || match &self.report {
            Some(report) => report.phase == Phase::Ready,
            None => shows_ready(generation),
        };
        self.reject.is_none() && !is_ready()
    }
}
