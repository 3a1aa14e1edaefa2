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
pub(crate) struct Since {
    pub(crate) at: Instant,
    /// Its age at that time.
    pub(crate) before: Duration,
}

impl Since {
    pub(crate) fn new(at: Instant) -> Self {
        Self { at, before: Duration::ZERO }
    }

    /// Its age; `None` before it is known of.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.checked_duration_since(self.at)? + self.before)
    }
}

/// A hold that stands.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) id: String,
    pub(crate) since: Since,
    pub(crate) to_nothing: bool,
    /// Endpoints that waited to go when its id was given.
    pub(crate) told: u64,
}

impl Hold {
    /// It holds more by a quarter than what its id was given for: an approval by that id is not meant for it. Not for
    /// less, or nobody could approve what grows while he looks.
    pub(crate) fn has_outgrown_its_id(&self, endpoints: u64) -> bool {
        endpoints > self.told + self.told / 4
    }
}

/// A hold of a writer before this one, until it is met again.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    pub(crate) since: Since,
    record: HoldRecord,
}

impl Earlier {
    pub(crate) fn new(record: HoldRecord, now: Instant, wall: SystemTime) -> Self {
        // A clock that was set back makes it younger, never older.
        let before = wall.duration_since(record.since).unwrap_or_default();
        Self { since: Since { at: now, before }, record }
    }

    pub(crate) fn record(&self) -> &HoldRecord {
        &self.record
    }

    /// Whoever was to tell what it holds has done so by now.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since.at) >= LONGEST_EARLIER
    }

    /// The same figures: the same hold.
    pub(crate) fn is(&self, endpoints: u64, to_nothing: bool) -> bool {
        self.record.endpoints == endpoints && self.record.to_nothing == to_nothing
    }

    pub(crate) fn into_hold(self) -> Hold {
        let HoldRecord { id, to_nothing, told, .. } = self.record;
        Hold { id, since: self.since, to_nothing, told }
    }
}
