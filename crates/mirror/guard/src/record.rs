//! What a writer that is killed leaves to the next one: which targets had how many endpoints before they lost some. Noted
//! ahead: a removal waits until a record in the Gimbal cluster tells of its target. A few endpoints may go that none tells
//! of, so that single removals cost few writes a window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use crate::GuardKey;

/// This part of all that may go within a window may go without being told of,
const UNLISTED: u64 = 8;
/// from the record on that comes after so many within a window.
const NAMED: usize = 4;
/// However short the window: writing a record takes its time, too.
const SHORTEST: Duration = Duration::from_secs(10);
/// A removal may be under way for so long after its record is out of use.
const SLACK: Duration = Duration::from_secs(30);
/// A `ConfigMap` holds 1 MiB.
const MOST_BYTES: usize = 256 << 10;

/// A record is kept in less than this, or something is wrong with keeping it.
const PATIENCE: Duration = Duration::from_secs(1);
/// What is not told to be kept after this is asked for again: a process that led all the while may have failed to renew its
/// lease in time at the very moment when it was to be written.
const REPEAT: Duration = Duration::from_secs(5);

/// What a writer may have removed, as it is kept over restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRecord<K: Ord = gimbal_model::TargetKey> {
    /// When it was made. Removals go by it for one window from then on.
    pub at: SystemTime,
    /// What losses were measured by.
    pub base: u64,
    /// So many may have gone within the window, those included that may go until the next record. For a writer that does
    /// not understand the rest.
    pub lost: u64,
    /// What each target had that lost something or is about to: what it has now is not lost.
    pub listed: BTreeMap<K, u64>,
    /// So many may be missing of which nobody knows whose they were.
    pub unlisted: u64,
}

impl<K: GuardKey> WindowRecord<K> {
    /// Whether a removal that it covers can be within the window at `wall`. A clock that was set back says yes.
    pub(crate) fn counts(&self, wall: SystemTime, window: Duration) -> bool {
        !self.left(wall, window).is_zero()
    }

    /// The last moment at which something may have gone by it.
    pub(crate) fn end(&self, window: Duration) -> SystemTime {
        self.at.checked_add(window.max(SHORTEST).saturating_add(SLACK)).unwrap_or(self.at)
    }

    /// For how long it may still count. A clock that was set back makes it younger, never older.
    pub(crate) fn left(&self, wall: SystemTime, window: Duration) -> Duration {
        window.saturating_sub(wall.duration_since(self.end(window)).unwrap_or_default())
    }
}

/// What is to be told of one target.
pub(crate) struct Entry<K> {
    pub(crate) target: K,
    pub(crate) had: u64,
    /// Missing, or about to be.
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

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Records<K> {
    kept: Option<(Instant, Content<K>)>,
    asked: Option<Asked<K>>,
    /// When the last ones were asked for, within a window.
    recent: Vec<Instant>,
}

impl<K> Default for Records<K> {
    fn default() -> Self {
        Self { kept: None, asked: None, recent: Vec::new() }
    }
}

impl<K: GuardKey> Records<K> {
    /// How many endpoints the record that is kept says that a target had.
    pub(crate) fn listed(&self, target: &K) -> u64 {
        self.kept.as_ref().and_then(|(_, content)| content.listed.get(target)).copied().unwrap_or_default()
    }

    /// Whether removals may go by the record that is kept. Not while another is under way: either may be the one that is
    /// found, and that one does not know of them.
    pub(crate) fn is_in_use(&self, now: Instant, window: Duration) -> bool {
        let fresh = |at: Instant| now.saturating_duration_since(at) < window.max(SHORTEST);
        self.asked.is_none() && self.kept.as_ref().is_some_and(|(at, _)| fresh(*at))
    }

    /// Forgets a record that is out of use; true if there was one.
    pub(crate) fn drop_old(&mut self, now: Instant, window: Duration) -> bool {
        self.kept.take_if(|(at, _)| now.saturating_duration_since(*at) >= window.max(SHORTEST)).is_some()
    }

    /// Endpoints that may be missing and that it does not tell of.
    pub(crate) fn unlisted(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(_, content)| content.unlisted)
    }

    /// Whether one is under way.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// How many may go without being told of by the record that is asked for next, if `allowance` may go in all.
    pub(crate) fn grant(&mut self, allowance: u64, now: Instant, window: Duration) -> u64 {
        self.recent.retain(|at| now.saturating_duration_since(*at) < window);
        if self.recent.len() < NAMED {
            self.recent.push(now);
            return 0;
        }
        allowance / UNLISTED
    }

    /// Asks for one. So many endpoints may be missing, or go missing by it, that it does not tell of.
    pub(crate) fn ask(&mut self, mut entries: Vec<Entry<K>>, base: u64, unlisted: u64, now: Instant) {
        let mut content = Content { base, lost: unlisted, listed: BTreeMap::new(), unlisted };
        // Where it is too much, the small ones are counted without their names.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.lost));
        let mut bytes = 0;
        for Entry { target, had, lost } in entries {
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

    /// What is not told to be kept for long is given once more.
    pub(crate) fn repeat(&mut self, now: Instant) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| now >= asked.again) {
            (asked.sent, asked.again) = (false, now + REPEAT);
        }
    }

    /// Whether what was asked for is not kept for so long that it may never be.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.asked.as_ref().is_some_and(|asked| now.saturating_duration_since(asked.at) >= PATIENCE)
    }

    /// Whether it had to be asked for once more.
    pub(crate) fn was_late(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.again > asked.at + REPEAT)
    }

    /// What is to be kept, once, and again each time that it is not kept for long.
    pub(crate) fn take(&mut self, wall: SystemTime) -> Option<WindowRecord<K>> {
        let asked = self.asked.as_mut().filter(|asked| !asked.sent)?;
        asked.sent = true;
        let Content { base, lost, listed, unlisted } = asked.content.clone();
        Some(WindowRecord { at: wall, base, lost, listed, unlisted })
    }

    /// What a writer before this one kept is what is kept: it need not be written again.
    pub(crate) fn restored(record: &WindowRecord<K>, now: Instant, wall: SystemTime) -> Self {
        let WindowRecord { at, base, lost, listed, unlisted } = record.clone();
        let at = now.checked_sub(wall.duration_since(at).unwrap_or_default());
        Self { kept: at.map(|at| (at, Content { base, lost, listed, unlisted })), ..Self::default() }
    }

    /// It is kept.
    pub(crate) fn kept(&mut self) -> bool {
        let Some(asked) = self.asked.take_if(|asked| asked.sent) else { return false };
        self.kept = Some((asked.at, asked.content));
        true
    }
}
