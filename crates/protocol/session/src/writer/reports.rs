//! Reports for the agent: the latest of each key.

use std::collections::BTreeMap;

use crate::size::{FRAME, entry_len};
use crate::window::{Share, Window};
use crate::{Credit, Payload, WriterMessage};

/// The reports of one backend. Bounded by the number of keys: a report replaces the one before, even while that waits.
#[derive(Debug, Clone)]
pub(super) struct Reports<P: Payload> {
    /// The latest report of each key; outlives streams.
    latest: BTreeMap<P::Key, P::Report>,
    /// Keys whose latest report was not sent on this stream, in the order in which they began to wait.
    order: BTreeMap<u64, P::Key>,
    tickets: BTreeMap<P::Key, u64>,
    last_ticket: u64,
    window: Window<P::Key>,
    seq: u64,
}

impl<P: Payload> Default for Reports<P> {
    fn default() -> Self {
        Self {
            latest: BTreeMap::new(),
            order: BTreeMap::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
            window: Window::new(),
            seq: 0,
        }
    }
}

impl<P: Payload> Reports<P> {
    pub(super) fn get(&self, key: &P::Key) -> Option<&P::Report> {
        self.latest.get(key)
    }

    pub(super) fn put(&mut self, key: P::Key, report: P::Report) {
        if self.latest.get(&key) != Some(&report) {
            self.wait(&key);
            self.latest.insert(key, report);
        }
    }

    pub(super) fn forget(&mut self, key: &P::Key) {
        self.latest.remove(key);
        if let Some(ticket) = self.tickets.remove(key) {
            self.order.remove(&ticket);
        }
    }

    /// Called when a new stream opened, on which the agent has received no report and granted nothing yet.
    pub(super) fn opened(&mut self) {
        (self.window, self.seq) = (Window::new(), 0);
        let keys: Vec<_> = self.latest.keys().cloned().collect();
        keys.iter().for_each(|key| self.wait(key));
    }

    /// Queues a key. One that waits already keeps its place.
    fn wait(&mut self, key: &P::Key) {
        if !self.tickets.contains_key(key) {
            self.last_ticket += 1;
            self.order.insert(self.last_ticket, key.clone());
            self.tickets.insert(key.clone(), self.last_ticket);
        }
    }

    pub(super) fn set_credit(&mut self, credit: Credit) {
        self.window.set_credit(credit);
    }

    /// Returns whether the agent has not yet dealt with the latest report of a key.
    pub(super) fn is_pending(&self, key: &P::Key) -> bool {
        self.tickets.contains_key(key) || self.window.is_in_flight(key)
    }

    /// Frees the window up to `seq`. Returns the latest reports among those that this acknowledges; `None` if no report
    /// with this number was sent.
    pub(super) fn acknowledged(&mut self, seq: u64) -> Option<Vec<(P::Key, P::Report)>> {
        if seq > self.seq {
            return None;
        }
        let mut done = Vec::new();
        let Self { latest, tickets, window, .. } = self;
        window.acknowledged(seq, |key| {
            // Where a newer one waits, it is that one which counts.
            if !tickets.contains_key(&key)
                && let Some(report) = latest.get(&key)
            {
                done.push((key, report.clone()));
            }
        });
        Some(done)
    }

    /// Returns the report that has waited longest, if the window has room for it.
    pub(super) fn next(&mut self) -> Option<WriterMessage<P>> {
        let key = self.order.first_key_value()?.1;
        let report = self.latest.get(key)?;
        let mut room = self.window.room(Share::Whole, FRAME);
        if !self.window.is_granted() || !room.take(entry_len(key) + P::report_len(report), key) {
            return None;
        }
        let (key, report) = (key.clone(), report.clone());
        self.order.pop_first();
        self.tickets.remove(&key);
        self.seq += 1;
        self.window.sent(self.seq, room);
        Some(WriterMessage::Report { seq: self.seq, key, report })
    }
}
