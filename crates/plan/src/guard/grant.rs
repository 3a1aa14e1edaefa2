//! What may be removed before the next note of it: a removal waits until a record in the Gimbal cluster says that it may
//! have happened, so that a writer that is killed forgets no loss. Noted in coarse steps, so that it costs few writes a
//! window.

use std::time::{Duration, Instant, SystemTime};

/// A grant is this part of all that may go within a window.
const STEPS: u64 = 4;
/// A removal may be under way for so long after its grant ended.
const SLACK: Duration = Duration::from_secs(30);

/// A record is kept in less than this, or something is wrong with keeping it.
const PATIENCE: Duration = Duration::from_secs(1);
/// What is not told to be kept after this is asked for again: a process that led all the while may have failed to renew its
/// lease in time at the very moment when it was to be written.
const REPEAT: Duration = Duration::from_secs(5);

/// What a writer may have removed, as it is kept over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRecord {
    /// When it was made. What it grants is used for one window from then on.
    pub at: SystemTime,
    /// What losses were measured by.
    pub base: u64,
    /// So many may have gone within the window, those included that may go until the next record.
    pub lost: u64,
}

impl WindowRecord {
    /// Whether a removal that it covers can be within the window at `wall`. A clock that was set back says yes.
    pub(super) fn counts(&self, wall: SystemTime, window: Duration) -> bool {
        wall.duration_since(self.at).map_or(true, |age| age < window * 2 + SLACK)
    }
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Beyond what was reserved already.
    extra: u64,
    at: Instant,
    sent: bool,
    again: Instant,
    record: (u64, u64),
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants {
    /// What may yet be reserved.
    left: u64,
    /// Reserved and not yet known to be removed.
    pub(super) reserved: u64,
    until: Option<Instant>,
    asked: Option<Asked>,
}

impl Grants {
    /// Reserves; false where it must be asked for.
    pub(super) fn reserve(&mut self, more: u64, now: Instant) -> bool {
        let valid = self.until.is_some_and(|until| now < until) && more <= self.left;
        if valid {
            self.left -= more;
            self.reserved += more;
        }
        valid
    }

    /// Asks, unless that is under way: for all that waits, or a step. `waiting` counts what is reserved as well.
    pub(super) fn ask(&mut self, base: u64, lost: u64, waiting: u64, allowance: u64, now: Instant) {
        if let Some(asked) = &mut self.asked {
            if now >= asked.again {
                (asked.sent, asked.again) = (false, now + REPEAT);
            }
            return;
        }
        let room = allowance.saturating_sub(lost + self.reserved);
        let extra = (allowance / STEPS).min(room).max(waiting.saturating_sub(self.reserved));
        let record = (base, lost + self.reserved + extra);
        // The record to come counts from here on.
        self.left = 0;
        self.asked = Some(Asked { extra, at: now, sent: false, again: now + REPEAT, record });
    }

    /// Whether what was asked for is not kept for so long that it may never be.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now.saturating_duration_since(asked.at) >= PATIENCE)
    }

    /// What is to be kept, once, and again each time that it is not kept for long.
    pub(super) fn take(&mut self, wall: SystemTime) -> Option<WindowRecord> {
        let asked = self.asked.as_mut().filter(|asked| !asked.sent)?;
        asked.sent = true;
        let (base, lost) = asked.record;
        Some(WindowRecord { at: wall, base, lost })
    }

    /// It is kept.
    pub(super) fn kept(&mut self, window: Duration) -> bool {
        let Some(asked) = self.asked.take_if(|asked| asked.sent) else { return false };
        self.left = asked.extra;
        self.until = Some(asked.at + window);
        true
    }
}
