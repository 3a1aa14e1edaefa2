//! The window: what may be sent before the other end acknowledges it. Data and reports have one each.

use std::collections::{BTreeMap, VecDeque};

use crate::Credit;
use crate::split::TARGET;

/// The part of the window that a frame may use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WindowShare {
    /// All of it. For fresh changes.
    Whole,
    /// Three quarters of it. For snapshots, so that fresh changes never wait behind them.
    Bulk,
}

/// The room that a frame has in the window.
#[derive(Debug, Clone)]
pub(crate) struct FrameRoom<K> {
    changes: u64,
    bytes: u64,
    /// Whether nothing is outstanding. Then one entry fits however large it is, because an entry larger than the window
    /// could never be sent otherwise.
    free: bool,
    used: u64,
    target: u64,
    pub(crate) keys: Vec<K>,
}

impl<K: Clone + Ord> FrameRoom<K> {
    /// Returns whether an entry fits.
    pub(crate) fn would_take(&self, len: usize) -> bool {
        let used = self.used + len as u64;
        let first = self.keys.is_empty();
        let fits = used <= self.bytes && (self.keys.len() as u64) < self.changes;
        first && self.free || fits && (first || used <= self.target)
    }

    /// Takes room for an entry. Returns whether it fits.
    pub(crate) fn take(&mut self, len: usize, key: &K) -> bool {
        let fits = self.would_take(len);
        if fits {
            self.used += len as u64;
            self.keys.push(key.clone());
        }
        fits
    }

    /// Takes room for a frame without entries. Returns whether it fits.
    pub(crate) fn take_frame(&mut self, len: usize) -> bool {
        let fits = self.free || self.used + len as u64 <= self.bytes;
        if fits {
            self.used += len as u64;
        }
        fits
    }
}

#[derive(Debug, Clone)]
struct Sent<K> {
    seq: u64,
    keys: Vec<K>,
    bytes: u64,
}

/// The frames that are sent and not acknowledged. The credit bounds their number.
#[derive(Debug, Clone)]
pub(crate) struct Window<K> {
    credit: Credit,
    sent: VecDeque<Sent<K>>,
    changes: u64,
    bytes: u64,
    /// The last frame that carried each key.
    in_flight: BTreeMap<K, u64>,
}

impl<K: Clone + Ord> Window<K> {
    pub(crate) fn new() -> Self {
        let credit = Credit { changes: 0, bytes: 0 };
        Self { credit, sent: VecDeque::new(), changes: 0, bytes: 0, in_flight: BTreeMap::new() }
    }

    pub(crate) fn set_credit(&mut self, credit: Credit) {
        self.credit = credit;
    }

    /// Returns whether the other end has granted anything.
    pub(crate) fn is_granted(&self) -> bool {
        self.credit.changes > 0
    }

    /// Returns the target size of a frame.
    pub(crate) fn target(&self) -> usize {
        usize::try_from(self.credit.bytes / 4).map_or(TARGET, |quarter| quarter.min(TARGET))
    }

    /// Returns the room of the next frame, whose own size is `overhead`.
    pub(crate) fn room(&self, share: WindowShare, overhead: usize) -> FrameRoom<K> {
        let limit = |credit: u64| match share {
            WindowShare::Whole => credit,
            WindowShare::Bulk => credit - credit.div_ceil(4),
        };
        FrameRoom {
            changes: limit(self.credit.changes.into()).saturating_sub(self.changes),
            bytes: limit(self.credit.bytes).saturating_sub(self.bytes),
            free: self.sent.is_empty(),
            used: overhead as u64,
            target: self.target() as u64,
            keys: Vec::new(),
        }
    }

    pub(crate) fn sent(&mut self, seq: u64, room: FrameRoom<K>) {
        self.changes += room.keys.len() as u64;
        self.bytes += room.used;
        for key in &room.keys {
            self.in_flight.insert(key.clone(), seq);
        }
        self.sent.push_back(Sent { seq, keys: room.keys, bytes: room.used });
    }

    /// Frees everything up to `seq`. Calls `done` for each key that no later frame carries.
    pub(crate) fn acknowledged(&mut self, seq: u64, mut done: impl FnMut(K)) {
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.seq <= seq) {
            self.changes -= sent.keys.len() as u64;
            self.bytes -= sent.bytes;
            for key in sent.keys {
                if self.in_flight.get(&key) == Some(&sent.seq) {
                    self.in_flight.remove(&key);
                    done(key);
                }
            }
        }
    }

    pub(crate) fn is_in_flight(&self, key: &K) -> bool {
        self.in_flight.contains_key(key)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}
