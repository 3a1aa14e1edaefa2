//! The record by which a new writer learns what the previous one may have removed: how many endpoints each target had
//! before it lost some. It is written ahead: a removal waits until a stored record in the Gimbal cluster lists its
//! target. A bounded number of endpoints may go unlisted, so that single removals cost few writes in a window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use crate::GuardKey;

/// Divisor of the allowance: this fraction of what may be missing within a window may go without being listed.
const UNLISTED: u64 = 8;
/// The first records of a window, up to this many, list every removal; only later ones let some go unlisted.
const NAMED: usize = 4;
/// Lower bound for the time that a record is in use, however short the window, because writing a record takes time as
/// well.
const SHORTEST: Duration = Duration::from_secs(10);
/// A removal may be in flight for this long after its record is out of use.
const SLACK: Duration = Duration::from_secs(30);
/// Bound for the keys in a record; a `ConfigMap` holds 1 MiB.
const MOST_BYTES: usize = 256 << 10;

/// Storing a record normally takes less than this; beyond it the record is late.
const PATIENCE: Duration = Duration::from_secs(1);
/// A record that is not confirmed within this time is returned again: the lease of a process that led throughout may
/// have been renewed too late just when the record was to be written.
const REPEAT: Duration = Duration::from_secs(5);

/// What a writer may have removed, as it is stored to survive restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRecord<K: Ord = gimbal_model::TargetKey> {
    /// When the record was made. It permits removals for one window from then on.
    pub at: SystemTime,
    /// Endpoints that the losses were compared with.
    pub base: u64,
    /// Endpoints that may have gone within the window, including those that may go before the next record. For a writer
    /// that does not understand the other fields.
    pub lost: u64,
    /// Peak of each target that lost something or is about to; the endpoints that it has when the record is read are
    /// not lost.
    pub listed: BTreeMap<K, u64>,
    /// Endpoints that may be missing without a target being listed for them.
    pub unlisted: u64,
}

impl<K: GuardKey> WindowRecord<K> {
    /// Returns whether a removal that the record covers can be within the window at `wall`; true if the clock was set
    /// back.
    pub(crate) fn counts(&self, wall: SystemTime, window: Duration) -> bool {
        !self.left(wall, window).is_zero()
    }

    /// Returns the last moment at which a removal that the record permits may have been written.
    pub(crate) fn end(&self, window: Duration) -> SystemTime {
        self.at.checked_add(window.max(SHORTEST).saturating_add(SLACK)).unwrap_or(self.at)
    }

    /// Returns how long the record may still count. If the clock was set back it counts as younger, never as older.
    pub(crate) fn left(&self, wall: SystemTime, window: Duration) -> Duration {
        window.saturating_sub(wall.duration_since(self.end(window)).unwrap_or_default())
    }
}

/// The losses of one target, for a record.
pub(crate) struct TargetLoss<K> {
    pub(crate) target: K,
    pub(crate) had: u64,
    /// Endpoints that are missing or about to be.
    pub(crate) lost: u64,
}

#[derive(Debug, Clone)]
struct Content<K> {
    base: u64,
    lost: u64,
    listed: BTreeMap<K, u64>,
    unlisted: u64,
}

#[derive(Debug, Clone)]
struct Asked<K> {
    at: Instant,
    sent: bool,
    again: Instant,
    content: Content<K>,
}

/// The stored record, and the one that is to be stored next.
#[derive(Debug, Clone)]
pub(crate) struct Records<K> {
    kept: Option<(Instant, Content<K>)>,
    asked: Option<Asked<K>>,
    /// When records were asked for within the last window.
    recent: Vec<Instant>,
}

impl<K> Default for Records<K> {
    fn default() -> Self {
        Self { kept: None, asked: None, recent: Vec::new() }
    }
}

impl<K: GuardKey> Records<K> {
    /// Returns how many endpoints the stored record lists for a target.
    pub(crate) fn listed(&self, target: &K) -> u64 {
        self.kept.as_ref().and_then(|(_, content)| content.listed.get(target)).copied().unwrap_or_default()
    }

    /// Returns whether the stored record permits removals. It does not while another record is being written: the next
    /// writer may find either of the two, and the new one does not cover them.
    pub(crate) fn is_in_use(&self, now: Instant, window: Duration) -> bool {
        let fresh = |at: Instant| now.saturating_duration_since(at) < window.max(SHORTEST);
        self.asked.is_none() && self.kept.as_ref().is_some_and(|(at, _)| fresh(*at))
    }

    /// Drops a record that is out of use. Returns true if there was one.
    pub(crate) fn drop_old(&mut self, now: Instant, window: Duration) -> bool {
        self.kept.take_if(|(at, _)| now.saturating_duration_since(*at) >= window.max(SHORTEST)).is_some()
    }

    /// Returns how many endpoints may be missing that the stored record does not list.
    pub(crate) fn unlisted(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(_, content)| content.unlisted)
    }

    /// Returns whether a record is outstanding.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns how many endpoints the next record lets go unlisted if `allowance` may be missing in all.
    pub(crate) fn grant(&mut self, allowance: u64, now: Instant, window: Duration) -> u64 {
        self.recent.retain(|at| now.saturating_duration_since(*at) < window);
        if self.recent.len() < NAMED {
            self.recent.push(now);
            return 0;
        }
        allowance / UNLISTED
    }

    /// Asks for a record of `entries`. `unlisted` endpoints may be missing, or go missing under it, that it does not
    /// list.
    pub(crate) fn ask(&mut self, mut entries: Vec<TargetLoss<K>>, base: u64, unlisted: u64, now: Instant) {
        let mut content = Content { base, lost: unlisted, listed: BTreeMap::new(), unlisted };
        // If there are too many entries, the smallest losses are counted without their targets.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.lost));
        let mut bytes = 0;
        for TargetLoss { target, had, lost } in entries {
            bytes += target.record_bytes();
            content.lost += lost;
            if bytes <= MOST_BYTES {
                content.listed.insert(target, had);
            } else {
                content.unlisted += lost;
            }
        }
        self.asked = Some(Asked { at: now, sent: false, again: now + REPEAT, content });
    }

    /// Lets a record that is not confirmed for long be returned again.
    pub(crate) fn repeat(&mut self, now: Instant) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| now >= asked.again) {
            (asked.sent, asked.again) = (false, now + REPEAT);
        }
    }

    /// Returns whether the record has not been confirmed for longer than storing normally takes.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.asked.as_ref().is_some_and(|asked| now.saturating_duration_since(asked.at) >= PATIENCE)
    }

    /// Returns whether the record had to be returned again.
    pub(crate) fn was_late(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.again > asked.at + REPEAT)
    }

    /// Returns the record to store: once, and again each time `repeat` finds it unconfirmed.
    pub(crate) fn take(&mut self, wall: SystemTime) -> Option<WindowRecord<K>> {
        let asked = self.asked.as_mut().filter(|asked| !asked.sent)?;
        asked.sent = true;
        let Content { base, lost, listed, unlisted } = asked.content.clone();
        Some(WindowRecord { at: wall, base, lost, listed, unlisted })
    }

    /// Uses the record of an earlier writer as the stored one, so that it is not written again.
    pub(crate) fn restored(record: &WindowRecord<K>, now: Instant, wall: SystemTime) -> Self {
        let WindowRecord { at, base, lost, listed, unlisted } = record.clone();
        let at = now.checked_sub(wall.duration_since(at).unwrap_or_default());
        Self { kept: at.map(|at| (at, Content { base, lost, listed, unlisted })), ..Self::default() }
    }

    /// Records that the record returned last is stored. Returns false if none was outstanding.
    pub(crate) fn kept(&mut self) -> bool {
        let Some(asked) = self.asked.take_if(|asked| asked.sent) else { return false };
        self.kept = Some((asked.at, asked.content));
        true
    }
}
