//! Keys that wait to be sent, oldest first. A key waits once, however often it changes.

use std::collections::BTreeMap;

use super::snapshot::{LastSent, Snapshot};
use crate::{ChangeSince, Key, Payload};

#[derive(Debug, Clone)]
struct Waiting<P: Payload> {
    ticket: u64,
    since: ChangeSince,
    last_sent: LastSent<P>,
}

#[derive(Debug, Clone)]
pub(super) struct Outbox<P: Payload> {
    waiting: BTreeMap<P::Key, Waiting<P>>,
    order: BTreeMap<u64, P::Key>,
    tickets: u64,
}

impl<P: Payload> Default for Outbox<P> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), order: BTreeMap::new(), tickets: 0 }
    }
}

impl<P: Payload> Outbox<P> {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn contains(&self, key: &P::Key) -> bool {
        self.waiting.contains_key(key)
    }

    /// Queues a key. One that waits already keeps its place and its last sent state, and is as old as the oldest of its
    /// changes.
    pub(super) fn mark(&mut self, key: &P::Key, last_sent: impl FnOnce() -> LastSent<P>, since: ChangeSince) {
        match self.waiting.get_mut(key) {
            Some(waiting) => waiting.since = waiting.since.older(since),
            None => {
                self.tickets += 1;
                self.order.insert(self.tickets, key.clone());
                self.waiting.insert(key.clone(), Waiting { ticket: self.tickets, since, last_sent: last_sent() });
            }
        }
    }

    /// Queues a key that is sent whole, although the writer may hold the same.
    pub(super) fn mark_whole(&mut self, key: &P::Key, since: ChangeSince) {
        self.mark(key, || LastSent::Whole, since);
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.last_sent = LastSent::Whole;
        }
    }

    /// Returns the key that has waited longest.
    pub(super) fn oldest(&self) -> Option<(&P::Key, &LastSent<P>, ChangeSince)> {
        let key = self.order.first_key_value()?.1;
        self.waiting.get(key).map(|waiting| (key, &waiting.last_sent, waiting.since))
    }

    /// Returns all waiting keys, each with the age of its oldest change.
    pub(super) fn ages(&self) -> impl Iterator<Item = (&P::Key, ChangeSince)> {
        self.waiting.iter().map(|(key, waiting)| (key, waiting.since))
    }

    /// Returns all waiting keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &P::Key> {
        self.order.values()
    }

    /// Removes the key that has waited longest.
    pub(super) fn pop(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.waiting.remove(&key);
        }
    }

    /// Marks the last sent state of these namespaces as unknown.
    pub(super) fn forget(&mut self, namespaces: impl Fn(&str) -> bool) {
        for (key, waiting) in &mut self.waiting {
            if namespaces(key.namespace()) {
                waiting.last_sent = LastSent::Unknown;
            }
        }
    }

    /// Removes the keys that a snapshot carries, in order.
    pub(super) fn take(&mut self, carried: impl Fn(&P::Key) -> bool) -> Vec<(P::Key, ChangeSince)> {
        let keys: Vec<_> = self.order.values().filter(|key| carried(key)).cloned().collect();
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(waiting) = self.waiting.remove(&key) {
                self.order.remove(&waiting.ticket);
                taken.push((key, waiting.since));
            }
        }
        taken
    }

    /// Called when a snapshot was sent completely. Keys in its scope whose last sent state was unknown now have that of
    /// the snapshot.
    pub(super) fn settle_on(&mut self, snapshot: &Snapshot<P>) {
        for (key, waiting) in &mut self.waiting {
            if matches!(waiting.last_sent, LastSent::Unknown) && snapshot.covers(key.namespace()) {
                waiting.last_sent = LastSent::Sent(snapshot.entry(key).map(|(entry, _)| entry.clone()));
            }
        }
    }
}
