//! Reports for the agent: the latest of each key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::size::{FRAME, entry_len};
use crate::split::LARGEST_PART;
use crate::waiting::Waiting;
use crate::window::{Window, WindowShare};
use crate::{Credit, Payload, StoredReport as _, WriterMessage};

/// Largest window that an agent can grant for reports. A larger one would only move what waits from here into queues.
const WIDEST: Credit = Credit { changes: 1024, bytes: 4 << 20 };

/// A report or facts that fit in no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it takes {len} bytes, more than the {LARGEST_PART} that fit in a message")]
pub struct TooLarge {
    /// Its estimated size.
    pub len: usize,
}

impl TooLarge {
    pub(super) fn check(len: usize) -> Result<(), Self> {
        if len > LARGEST_PART { Err(Self { len }) } else { Ok(()) }
    }
}

/// Why a report is not taken. The one before stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It fits in no message.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// No entry is held under its key, so no one waits for it.
    #[error("no entry is held under its key")]
    NoEntry,
}

/// The reports of one backend. Bounded by the number of keys: a report replaces the one before, even while that waits.
#[derive(Debug, Clone)]
pub(super) struct Reports<P: Payload> {
    /// The latest report of each key; outlives streams.
    latest: BTreeMap<P::Key, P::StoredReport>,
    /// Keys whose latest report was not sent on this stream.
    waiting: Waiting<P::Key>,
    /// Keys that the agent sent again since their report was sent, so that it may have lost the report.
    sent_again: BTreeSet<P::Key>,
    /// The number of the last report that was sent of each key, unless the agent has dealt with it, and the other way
    /// round.
    sent: BTreeMap<P::Key, u64>,
    numbers: BTreeMap<u64, P::Key>,
    window: Window<P::Key>,
    seq: u64,
}

impl<P: Payload> Default for Reports<P> {
    fn default() -> Self {
        Self {
            latest: BTreeMap::new(),
            waiting: Waiting::default(),
            sent_again: BTreeSet::new(),
            sent: BTreeMap::new(),
            numbers: BTreeMap::new(),
            window: Window::new(),
            seq: 0,
        }
    }
}

/// A report and its key.
type KeyedReport<P> = (<P as Payload>::Key, <P as Payload>::Report);

/// A report was acknowledged that was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeverSent;

impl<P: Payload> Reports<P> {
    pub(super) fn get(&self, key: &P::Key) -> Option<&P::StoredReport> {
        self.latest.get(key)
    }

    /// Sets the report of a key. An equal one is sent only if the agent sent the entry again since.
    pub(super) fn put(&mut self, key: P::Key, report: P::Report) -> Result<(), TooLarge> {
        TooLarge::check(entry_len(&key) + P::report_len(&report))?;
        let is_new = self.latest.get(&key).is_none_or(|kept| *kept.report() != report);
        if self.sent_again.remove(&key) || is_new {
            self.waiting.push(key.clone());
            self.latest.insert(key, P::StoredReport::keep(report));
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, key: &P::Key) {
        self.latest.remove(key);
        self.waiting.remove(key);
        self.sent_again.remove(key);
        self.forget_sent(key);
    }

    /// Called when the agent sent the entry of a key.
    pub(super) fn entry_came(&mut self, key: &P::Key) {
        if self.latest.contains_key(key) {
            self.sent_again.insert(key.clone());
        }
    }

    /// Called when the newest state of a key was dealt with: if no report came meanwhile, the latest one still counts.
    pub(super) fn settled(&mut self, key: &P::Key) {
        if self.sent_again.remove(key) {
            self.waiting.push(key.clone());
        }
    }

    /// Called when a new stream opened, on which the agent has received no report and granted nothing yet.
    pub(super) fn opened(&mut self) {
        (self.window, self.seq) = (Window::new(), 0);
        self.sent.clear();
        self.numbers.clear();
        self.sent_again.clear();
        self.latest.keys().for_each(|key| self.waiting.push(key.clone()));
    }

    pub(super) fn set_credit(&mut self, credit: Credit) {
        let Credit { changes, bytes } = credit;
        self.window.set_credit(Credit { changes: changes.min(WIDEST.changes), bytes: bytes.min(WIDEST.bytes) });
    }

    /// Returns whether the agent has not yet dealt with the latest report of a key.
    pub(super) fn is_pending(&self, key: &P::Key) -> bool {
        self.waiting.contains(key) || self.sent.contains_key(key)
    }

    /// Frees the window up to `seq`.
    pub(super) fn acknowledged(&mut self, seq: u64) -> Result<(), NeverSent> {
        if seq > self.seq {
            return Err(NeverSent);
        }
        self.window.acknowledged(seq, drop);
        Ok(())
    }

    /// Called when the agent has dealt with a report, or cannot. Returns it if it is the latest of its key.
    pub(super) fn ended(&mut self, seq: u64) -> Result<Option<KeyedReport<P>>, NeverSent> {
        if seq > self.seq {
            return Err(NeverSent);
        }
        let Some(key) = self.numbers.remove(&seq) else { return Ok(None) };
        self.sent.remove(&key);
        // Where a newer one waits, it is that one which counts.
        let latest = self.latest.get(&key).filter(|_| !self.waiting.contains(&key));
        Ok(latest.map(|kept| (key, Arc::unwrap_or_clone(kept.report()))))
    }

    /// Returns the report that has waited longest, if the window has room for it.
    pub(super) fn next(&mut self) -> Option<WriterMessage<P>> {
        let key = self.waiting.first().filter(|_| self.window.is_granted())?;
        let report = self.latest.get(key)?.report();
        let mut room = self.window.room(WindowShare::Whole, FRAME);
        if !room.take(entry_len(key) + P::report_len(&report), key) {
            return None;
        }
        let (key, report) = (self.waiting.pop()?, Arc::unwrap_or_clone(report));
        self.seq += 1;
        self.window.sent(self.seq, room);
        self.forget_sent(&key);
        self.sent.insert(key.clone(), self.seq);
        self.numbers.insert(self.seq, key.clone());
        Some(WriterMessage::Report { seq: self.seq, key, report })
    }

    fn forget_sent(&mut self, key: &P::Key) {
        if let Some(seq) = self.sent.remove(key) {
            self.numbers.remove(&seq);
        }
    }
}
