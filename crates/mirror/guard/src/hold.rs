//! A hold, and how it continues over restarts of the writer.

use std::time::{Duration, Instant, SystemTime};

/// A stored hold is no longer matched after this time, even if a part of its backend is unknown throughout: it would
/// lend its age to a drop that no person has seen yet.
const LONGEST_EARLIER: Duration = Duration::from_secs(600);

/// A hold as it is stored to survive restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRecord {
    /// Id of the hold.
    pub id: String,
    /// When the hold began.
    pub since: SystemTime,
    /// Endpoints whose removal was held.
    pub endpoints: u64,
    /// Endpoints whose removal was held when the id was given.
    pub told: u64,
    /// Whether nothing of the backend would remain.
    pub to_nothing: bool,
}

/// When something began, possibly before this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    pub(crate) at: Instant,
    /// Age at `at`.
    pub(crate) before: Duration,
}

impl Since {
    pub(crate) fn new(at: Instant) -> Self {
        Self { at, before: Duration::ZERO }
    }

    /// Returns the age at `now`; `None` if `now` is before `at`.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.checked_duration_since(self.at)? + self.before)
    }
}

/// The current hold.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) id: String,
    pub(crate) since: Since,
    pub(crate) to_nothing: bool,
    /// Endpoints whose removal was held when the id was given.
    pub(crate) told: u64,
}

impl Hold {
    /// Returns whether over a quarter more is held than when the id was given, so that an approval by that id does not
    /// cover it. A smaller growth keeps the id; otherwise a growing hold could never be approved.
    pub(crate) fn has_outgrown_its_id(&self, endpoints: u64) -> bool {
        endpoints > self.told + self.told / 4
    }
}

/// A hold of an earlier writer, until a hold of this process matches it.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    pub(crate) since: Since,
    record: HoldRecord,
}

impl Earlier {
    pub(crate) fn new(record: HoldRecord, now: Instant, wall: SystemTime) -> Self {
        // If the clock was set back, the hold counts as younger, never as older.
        let before = wall.duration_since(record.since).unwrap_or_default();
        Self { since: Since { at: now, before }, record }
    }

    pub(crate) fn record(&self) -> &HoldRecord {
        &self.record
    }

    /// Returns whether the time to match the hold is over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since.at) >= LONGEST_EARLIER
    }

    /// Returns whether the figures are those of this hold.
    pub(crate) fn is(&self, endpoints: u64, to_nothing: bool) -> bool {
        self.record.endpoints == endpoints && self.record.to_nothing == to_nothing
    }

    pub(crate) fn into_hold(self) -> Hold {
        let HoldRecord { id, to_nothing, told, .. } = self.record;
        Hold { id, since: self.since, to_nothing, told }
    }
}
