//! For how long a backend has been lost, and what its policy makes of that (DESIGN 2, rule 5). Two facts count: whether an
//! agent is connected, and, where the policy says so, whether its source is alive.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant, SystemTime};

use gimbal_plan::Lost;

/// What happens when a backend is lost. The default is to hold what was last known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossPolicy {
    /// After this, its endpoints are not ready.
    pub not_ready_after: Option<Duration>,
    /// After this, they are removed. Not before `not_ready_after`.
    pub drain_after: Option<Duration>,
    /// A source that was silent for so long is lost, although its agent is connected. `None`: only the connection counts.
    pub source_stale_after: Option<Duration>,
}

/// After the first look of a writer that begins to lead, agents have so long to come back before anything new is done about
/// their loss: that they are away then may be the writer's own doing.
pub const GRACE: Duration = Duration::from_secs(30);
/// A loss is kept from this age on: a mere reconnect writes nothing.
const SETTLED: Duration = Duration::from_secs(5);

/// What is made of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// Nothing: what was last known stays.
    #[default]
    Hold,
    /// Endpoints are not ready.
    NotReady,
    /// Endpoints are removed.
    Drained,
}

impl Stage {
    /// For a plan; `None` where it is the ordinary one.
    #[must_use]
    pub fn lost(self) -> Option<Lost> {
        match self {
            Self::Hold => None,
            Self::NotReady => Some(Lost::NotReady),
            Self::Drained => Some(Lost::Drained),
        }
    }

    /// For people and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::NotReady => "not-ready",
            Self::Drained => "drained",
        }
    }
}

/// A loss as it is kept over restarts of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossRecord {
    /// When it began, by the writer's clock.
    pub since: SystemTime,
    /// What was made of it.
    pub stage: Stage,
}

/// What is known of a backend at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// An agent is connected.
    pub connected: bool,
    /// For how long its source has been silent; `None` while the agent has not told.
    pub silence: Option<Duration>,
}

/// A loss that goes on.
#[derive(Debug, Clone, Copy)]
struct Period {
    /// When this process first knew of it.
    at: Instant,
    /// How old it was then.
    before: Duration,
    stage: Stage,
    record: Option<LossRecord>,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Loss {
    /// When this process first looked, since it leads.
    first: Option<Instant>,
    period: Option<Period>,
    disconnected: Option<Instant>,
    stale: Option<Instant>,
}

impl Loss {
    /// Goes on with a loss that began before this process. A clock that was set back makes it younger, never older.
    pub(crate) fn restore(record: Option<LossRecord>, now: Instant, wall: SystemTime) -> Self {
        let period = record.map(|record| Period {
            at: now,
            before: wall.duration_since(record.since).unwrap_or_default(),
            stage: record.stage,
            record: Some(record),
        });
        Self { period, ..Self::default() }
    }

    /// Takes in how things are. The stage from now on. `grace`: how long after the first look nothing new is done.
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
            // An agent that is back and has not told of its source ends nothing and begins nothing.
            let fresh = Period { at: now, before: Duration::ZERO, stage: Stage::Hold, record: None };
            self.period.get_or_insert(fresh);
        }
        let Some(period) = &mut self.period else { return Stage::Hold };
        period.stage = period.stage_by(policy, graced, now);
        period.note(policy, now, wall);
        period.stage
    }

    /// Agents have so long to come back once more, from the next look on.
    pub(crate) fn begin_grace(&mut self) {
        self.first = None;
    }

    /// What is to be kept.
    pub(crate) fn record(&self) -> Option<LossRecord> {
        self.period.and_then(|period| period.record)
    }

    /// What is made of it now.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.period.map(|period| period.stage).unwrap_or_default()
    }

    /// For how long the backend has been lost, restarts of the writer included where that is kept.
    #[must_use]
    pub fn lost_for(&self, now: Instant) -> Option<Duration> {
        self.period.map(|period| period.age(now))
    }

    /// For how long no agent has been connected, as far as this process knows.
    #[must_use]
    pub fn disconnected_for(&self, now: Instant) -> Option<Duration> {
        self.disconnected.map(|since| now.saturating_duration_since(since))
    }

    /// Whether the source of a connected agent counts as silent.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale.is_some()
    }

    /// For how long the source of a connected agent has counted as silent.
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
        // What was done stays done while the policy still wants it, whatever a clock says.
        let reached = match self.stage {
            Stage::Drained if policy.drain_after.is_some() => Stage::Drained,
            Stage::Drained | Stage::NotReady if policy.not_ready_after.is_some() => Stage::NotReady,
            _ => Stage::Hold,
        };
        by_time.max(reached)
    }

    /// Keeps it once it is settled, and again when its stage changes; not at all where nothing follows from it.
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
