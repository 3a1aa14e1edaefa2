//! Keys that wait to be sent, in the order in which they began to wait. One entry a key, whatever happens to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Service, SourceKey};

use super::snapshot::Snapshot;

/// What the writer holds of a key.
#[derive(Debug, Clone)]
pub(super) enum Base {
    /// What it was told last on this stream, or what both ends agreed on when it opened.
    Told(Option<Arc<Service>>),
    /// Not known: only the whole Service can be sent.
    Unknown,
}

#[derive(Debug, Clone)]
struct Waiting {
    ticket: u64,
    since: Instant,
    base: Base,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Outbox {
    waiting: BTreeMap<SourceKey, Waiting>,
    order: BTreeMap<u64, SourceKey>,
    tickets: u64,
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn contains(&self, key: &SourceKey) -> bool {
        self.waiting.contains_key(key)
    }

    /// The key changed. A key that waits already keeps its place and its base.
    pub(super) fn mark(&mut self, key: &SourceKey, base: impl FnOnce() -> Base, now: Instant) {
        if !self.waiting.contains_key(key) {
            self.tickets += 1;
            self.order.insert(self.tickets, key.clone());
            self.waiting.insert(key.clone(), Waiting { ticket: self.tickets, since: now, base: base() });
        }
    }

    /// The key that has waited longest.
    pub(super) fn oldest(&self) -> Option<(&SourceKey, &Base, Instant)> {
        let key = self.order.first_key_value()?.1;
        self.waiting.get(key).map(|waiting| (key, &waiting.base, waiting.since))
    }

    /// The keys that wait.
    pub(super) fn keys(&self) -> impl Iterator<Item = &SourceKey> {
        self.order.values()
    }

    /// Takes the key that has waited longest away.
    pub(super) fn pop(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.waiting.remove(&key);
        }
    }

    /// What the writer holds of these is not known any more.
    pub(super) fn forget(&mut self, namespaces: impl Fn(&str) -> bool) {
        for (key, waiting) in &mut self.waiting {
            if namespaces(&key.namespace) {
                waiting.base = Base::Unknown;
            }
        }
    }

    /// Takes keys away, in order: a snapshot carries them.
    pub(super) fn take(&mut self, carried: impl Fn(&SourceKey) -> bool) -> Vec<SourceKey> {
        let taken: Vec<_> = self.order.values().filter(|key| carried(key)).cloned().collect();
        for key in &taken {
            if let Some(waiting) = self.waiting.remove(key) {
                self.order.remove(&waiting.ticket);
            }
        }
        taken
    }

    /// A snapshot has been sent whole: where only it told what the writer holds, the key remembers that by itself.
    pub(super) fn settle_on(&mut self, snapshot: &Snapshot) {
        for (key, waiting) in &mut self.waiting {
            if matches!(waiting.base, Base::Unknown) && snapshot.covers(&key.namespace) {
                waiting.base = Base::Told(snapshot.entry(key).map(|(service, _)| service.clone()));
            }
        }
    }
}
