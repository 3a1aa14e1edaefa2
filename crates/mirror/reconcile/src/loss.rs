//! For how long a backend has been lost, and the stage that its policy is in (`docs/design.md#rule-5`). A backend is
//! lost while no agent is connected, or, if the policy says so, while its source is silent.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant, SystemTime};

use gimbal_plan::Lost;

/// What happens when a backend is lost. By default its last known endpoints are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossPolicy {
    /// After this time, its endpoints are marked not ready.
    pub not_ready_after: Option<Duration>,
    /// After this time, its endpoints are removed. At least `not_ready_after`.
    pub drain_after: Option<Duration>,
    /// After this time without a sign of life from the source, the backend is lost although its agent is connected.
    /// `None`: only the connection counts.
    pub source_stale_after: Option<Duration>,
}

/// How long agents have to come back to a writer that begins to lead, before the loss policy does anything new: they
/// may be away because of the writer itself.
pub const GRACE: Duration = Duration::from_secs(30);
/// A loss is stored from this age on, so that a mere reconnect writes nothing.
const SETTLED: Duration = Duration::from_secs(5);

/// What the loss policy does to a backend's endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// The last known endpoints stay.
    #[default]
    Hold,
    /// Endpoints are marked not ready.
    NotReady,
    /// Endpoints are removed.
    Drained,
}

impl Stage {
    /// Returns how a plan changes. `None` if it is the ordinary plan.
    #[must_use]
    pub fn lost(self) -> Option<Lost> {
        match self {
            Self::Hold => None,
            Self::NotReady => Some(Lost::NotReady),
            Self::Drained => Some(Lost::Drained),
        }
    }

    /// Returns the name of the stage for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::NotReady => "not-ready",
            Self::Drained => "drained",
        }
    }
}

/// A loss as it is stored over restarts of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossRecord {
    /// When it began, by the writer's wall clock.
    pub since: SystemTime,
    /// The stage that was reached.
    pub stage: Stage,
}

/// The signs of life of a backend at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether an agent is connected.
    pub connected: bool,
    /// For how long the source has been silent. `None` until the agent reports it.
    pub silence: Option<Duration>,
}

/// A current loss.
#[derive(Debug, Clone, Copy)]
struct Period {
    /// When this process first noticed it.
    at: Instant,
    /// How old it was then.
    before: Duration,
    stage: Stage,
    record: Option<LossRecord>,
}

/// Whether and for how long a backend is lost.
#[derive(Debug, Clone, Default)]
pub struct Loss {
    /// When the grace period began: at the first `observe`, or the first after `begin_grace`.
    first: Option<Instant>,
    period: Option<Period>,
    disconnected: Option<Instant>,
    stale: Option<Instant>,
}

impl Loss {
    /// Continues a stored loss. A wall clock that was set back makes it younger, never older.
    pub(crate) fn restore(record: Option<LossRecord>, now: Instant, wall: SystemTime) -> Self {
        let period = record.map(|record| Period {
            at: now,
            before: wall.duration_since(record.since).unwrap_or_default(),
            stage: record.stage,
            record: Some(record),
        });
        Self { period, ..Self::default() }
    }

    /// Updates the loss, and returns the stage that applies from now on. No later stage is reached within `grace` of
    /// the first call, or of the first call after `begin_grace`.
    pub(crate) fn observe(
        &mut self,
        facts: Facts,
        policy: &LossPolicy,
        grace: Duration,
        now: Instant,
        wall: SystemTime,
    ) -> Stage {
        let graced = now.saturating_duration_since(*self.first.get_or_insert(now)) < grace;
        let limit = policy.source_stale_after;
        let silent = limit.is_some_and(|limit| facts.silence.is_some_and(|silence| silence >= limit));
        let heard = limit.is_none() || facts.silence.is_some();
        let since = |old: Option<Instant>, bad: bool| old.or(Some(now)).filter(|_| bad);
        self.disconnected = since(self.disconnected, !facts.connected);
        self.stale = since(self.stale, facts.connected && silent);
        if facts.connected && heard && !silent {
            self.period = None;
        } else if self.disconnected.or(self.stale).is_some() {
            // An agent that is back but has not reported on its source neither ends nor begins a loss.
            let fresh = Period { at: now, before: Duration::ZERO, stage: Stage::Hold, record: None };
            self.period.get_or_insert(fresh);
        }
        let Some(period) = &mut self.period else { return Stage::Hold };
        period.stage = period.stage_by(policy, graced, now);
        period.note(policy, now, wall);
        period.stage
    }

    /// Gives agents the grace period once more, beginning with the next [`Loss::observe`].
    pub(crate) fn begin_grace(&mut self) {
        self.first = None;
    }

    /// Returns the record to be stored.
    pub(crate) fn record(&self) -> Option<LossRecord> {
        self.period.and_then(|period| period.record)
    }

    /// Returns the current stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.period.map(|period| period.stage).unwrap_or_default()
    }

    /// Returns for how long the backend has been lost, including the time before a restart if that was stored.
    #[must_use]
    pub fn lost_for(&self, now: Instant) -> Option<Duration> {
        self.period.map(|period| period.age(now))
    }

    /// Returns for how long no agent has been connected, as far as this process knows.
    #[must_use]
    pub fn disconnected_for(&self, now: Instant) -> Option<Duration> {
        self.disconnected.map(|since| now.saturating_duration_since(since))
    }

    /// Whether the source of a connected agent counts as silent.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale.is_some()
    }

    /// Returns for how long the source of a connected agent has counted as silent.
    #[must_use]
    pub fn stale_for(&self, now: Instant) -> Option<Duration> {
        self.stale.map(|since| now.saturating_duration_since(since))
    }
}

impl Period {
    fn age(&self, now: Instant) -> Duration {
        self.before.saturating_add(now.saturating_duration_since(self.at))
    }

    fn stage_by(&self, policy: &LossPolicy, graced: bool, now: Instant) -> Stage {
        let due = |after: Option<Duration>| !graced && after.is_some_and(|after| self.age(now) >= after);
        let by_time = match (due(policy.drain_after), due(policy.not_ready_after)) {
            (true, _) => Stage::Drained,
            (false, true) => Stage::NotReady,
            (false, false) => Stage::Hold,
        };
        // A stage that was reached stays while the policy has it, whatever the clock says.
        let reached = match self.stage {
            Stage::Drained if policy.drain_after.is_some() => Stage::Drained,
            Stage::Drained | Stage::NotReady if policy.not_ready_after.is_some() => Stage::NotReady,
            _ => Stage::Hold,
        };
        by_time.max(reached)
    }

    /// Updates the record: a loss is recorded once it is old enough, again when its stage changes, and not at all if
    /// the policy does not react to it.
    fn note(&mut self, policy: &LossPolicy, now: Instant, wall: SystemTime) {
        let follows = policy.not_ready_after.is_some() || policy.drain_after.is_some();
        if !follows {
            self.record = None;
            return;
        }
        let settled = self.age(now) >= SETTLED || self.stage != Stage::Hold;
        if self.record.is_none() && settled {
            let since = wall.checked_sub(self.age(now)).unwrap_or(wall);
            self.record = Some(LossRecord { since, stage: self.stage });
        }
        if let Some(record) = &mut self.record {
            record.stage = self.stage;
        }
    }
}
