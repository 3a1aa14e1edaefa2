//! The account of one target: its endpoints now, their peak within the window, and the pending loss.

use std::time::{Duration, Instant};

use crate::floors::TargetSums;
use crate::pending::Pending;

/// Drops that are closer together than this fraction of the window share one step.
const PIECES: u32 = 64;

/// The target had `level` endpoints until `until`, and fewer since.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: Instant,
    until: Instant,
    level: u64,
}

/// The account of one target. Kept only while the target has lost something within the window, has a pending loss or a
/// write in flight, or moves.
#[derive(Debug, Clone)]
pub(crate) struct Account<S> {
    /// Endpoints that the target has now.
    now: u64,
    /// Larger counts that it had within the window, falling, the largest first. Steps that are close in time are merged
    /// and count until the last of them leaves the window: rather too long than too short.
    steps: Vec<Step>,
    /// The source of the endpoints that it lost last.
    pub(crate) source: Option<S>,
    /// Time of its last loss, even if the endpoints are back.
    fell: Option<Instant>,
    pub(crate) pending: Pending,
    /// Endpoints whose removal was allowed since no write was in flight. A write in flight completes even if the
    /// desired state has changed since.
    pub(crate) granted: u64,
    /// Whether the result of the write that was allowed is unknown.
    pub(crate) in_doubt: bool,
    /// Endpoints of `now` that also exist under another target because they are moving there.
    pub(crate) twice: u64,
}

impl<S> Default for Account<S> {
    fn default() -> Self {
        Self {
            now: 0,
            steps: Vec::new(),
            source: None,
            fell: None,
            pending: Pending::default(),
            granted: 0,
            in_doubt: false,
            twice: 0,
        }
    }
}

impl<S: Clone + Eq> Account<S> {
    pub(crate) fn having(now: u64) -> Self {
        Self { now, ..Self::default() }
    }

    /// Returns the largest count that the target had within the window.
    pub(crate) fn peak(&self) -> u64 {
        self.steps.first().map_or(self.now, |step| step.level)
    }

    /// Returns how many endpoints of the peak it does not have now.
    pub(crate) fn missing(&self) -> u64 {
        self.peak().saturating_sub(self.now)
    }

    /// Returns how many endpoints are missing, or may be removed by writes in flight, beyond what a record with
    /// `listed` endpoints for this target accounts for.
    pub(crate) fn unlisted(&self, listed: u64) -> u64 {
        self.unlisted_with(self.granted, listed)
    }

    /// Like `unlisted`, as if the removal of `granted` endpoints had been allowed.
    pub(crate) fn unlisted_with(&self, granted: u64, listed: u64) -> u64 {
        (self.missing() + granted).min(self.peak().saturating_sub(listed))
    }

    /// Returns how many endpoints may still go: those pending, or those granted to a write in flight if these are more.
    pub(crate) fn at_risk(&self) -> u64 {
        self.pending.waiting().max(self.granted)
    }

    pub(crate) fn part(&self) -> TargetSums {
        TargetSums { of: self.now, loss: self.pending.loss, waiting: self.pending.waiting() }
    }

    /// Returns whether `source` was the last to lose endpoints here, nothing is left here, and no write is in flight.
    pub(crate) fn was_of(&self, source: &S) -> bool {
        self.source.as_ref() == Some(source) && self.now == 0 && self.pending.loss == 0 && self.granted == 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        let lost = !self.steps.is_empty() || self.fell.is_some();
        !lost && self.pending.loss == 0 && self.granted == 0 && self.twice == 0
    }

    /// Sets the observed count. No write is in flight afterwards unless it is in doubt. Of the fall, `forgiven`
    /// endpoints count as if they had never existed.
    pub(crate) fn set(&mut self, count: u64, forgiven: u64, at: Instant, window: Duration) {
        let fallen = self.now.saturating_sub(count);
        self.pending.fell(fallen);
        self.granted = if self.in_doubt { self.granted.saturating_sub(fallen) } else { 0 };
        self.twice = self.twice.min(count);
        let forgiven = forgiven.min(fallen);
        let had = self.now - forgiven;
        for step in &mut self.steps {
            step.level = step.level.saturating_sub(forgiven);
        }
        self.now = count;
        if had > count {
            self.had(had, at, window);
        } else {
            self.drop_reached();
        }
    }

    /// Records that the target had `level` endpoints until `at`. What it has by now is not missing.
    pub(crate) fn had(&mut self, level: u64, at: Instant, window: Duration) {
        self.fell = Some(at);
        while self.steps.pop_if(|step| step.level <= level).is_some() {}
        match self.steps.last_mut().filter(|last| at.saturating_duration_since(last.from) <= window / PIECES) {
            Some(last) => last.until = at,
            None => self.steps.push(Step { from: at, until: at, level }),
        }
        self.drop_reached();
    }

    /// Takes over the past of another target. Of that, `released` endpoints count as if they had never existed.
    pub(crate) fn inherit(&mut self, other: &Self, released: u64) {
        let theirs = other.steps.iter().map(|step| Step { level: step.level.saturating_sub(released), ..*step });
        let mut all: Vec<Step> = self.steps.iter().copied().chain(theirs).collect();
        all.sort_by_key(|step| step.until);
        let mut most = self.now;
        self.steps.clear();
        for step in all.into_iter().rev() {
            if step.level > most {
                most = step.level;
                self.steps.push(step);
            }
        }
        self.steps.reverse();
        self.fell = self.fell.max(other.fell);
        self.source = self.source.take().or_else(|| other.source.clone());
    }

    /// Drops the steps that the current count has reached again: nothing of them is missing.
    fn drop_reached(&mut self) {
        while self.steps.pop_if(|step| step.level <= self.now).is_some() {}
    }

    /// Returns the time of the loss that leaves the window first.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.steps.first().map(|step| step.until).or(self.fell)
    }

    /// Drops the losses that have left the window.
    pub(crate) fn expire(&mut self, now: Instant, window: Duration) {
        let out = |at: Instant| now.saturating_duration_since(at) >= window;
        self.steps.retain(|step| !out(step.until));
        self.fell.take_if(|fell| out(*fell));
    }
}
