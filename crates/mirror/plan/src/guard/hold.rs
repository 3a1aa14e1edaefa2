//! A hold, and how it goes on over restarts of the writer.

use std::time::{Duration, Instant, SystemTime};

/// A hold of before a restart is not met any more after so long, though a part of its backend be unknown all the while: it
/// would lend its age to a drop that nobody has seen yet.
const LONGEST_EARLIER: Duration = Duration::from_secs(600);

/// A hold, as it is kept over restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRecord {
    /// Its id.
    pub id: String,
    /// Since when it holds.
    pub since: SystemTime,
    /// Endpoints that waited to go.
    pub endpoints: u64,
    /// Endpoints that waited to go when its id was given.
    pub told: u64,
    /// Nothing would remain of the backend.
    pub to_nothing: bool,
}

/// When something began, maybe before this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    pub(super) at: Instant,
    /// Its age at that time.
    pub(super) before: Duration,
}

impl Since {
    pub(super) fn new(at: Instant) -> Self {
        Self { at, before: Duration::ZERO }
    }

    /// Its age; `None` before it is known of.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.checked_duration_since(self.at)? + self.before)
    }
}

/// A hold that stands.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) id: String,
    pub(super) since: Since,
    pub(super) to_nothing: bool,
    /// Endpoints that waited to go when its id was given.
    pub(super) told: u64,
}

impl Hold {
    /// It holds more by a quarter than what its id was given for: an approval by that id is not meant for it. Not for
    /// less, or nobody could approve what grows while he looks.
    pub(super) fn has_outgrown_its_id(&self, endpoints: u64) -> bool {
        endpoints > self.told + self.told / 4
    }
}

/// A hold of a writer before this one, until it is met again.
#[derive(Debug, Clone)]
pub(super) struct Earlier {
    pub(super) since: Since,
    record: HoldRecord,
}

impl Earlier {
    pub(super) fn new(record: HoldRecord, now: Instant, wall: SystemTime) -> Self {
        // A clock that was set back makes it younger, never older.
        let before = wall.duration_since(record.since).unwrap_or_default();
        Self { since: Since { at: now, before }, record }
    }

    pub(super) fn record(&self) -> &HoldRecord {
        &self.record
    }

    /// Whoever was to tell what it holds has done so by now.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since.at) >= LONGEST_EARLIER
    }

    /// The same figures: the same hold.
    pub(super) fn is(&self, endpoints: u64, to_nothing: bool) -> bool {
        self.record.endpoints == endpoints && self.record.to_nothing == to_nothing
    }

    pub(super) fn into_hold(self) -> Hold {
        let HoldRecord { id, to_nothing, told, .. } = self.record;
        Hold { id, since: self.since, to_nothing, told }
    }
}
