//! Rejects in force, and which of them the agent knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Payload, Reason, Reject, WriterMessage};

/// The rejects of one backend. Bounded by the number of keys: a reject that changes twice before it is sent is sent
/// once.
#[derive(Debug, Clone)]
pub(super) struct Rejects<P: Payload> {
    standing: BTreeMap<P::Key, Reject<P>>,
    /// Number of rejects by reason.
    counts: BTreeMap<P::Reason, usize>,
    /// What was sent on this stream.
    sent: BTreeMap<P::Key, Reject<P>>,
    changed: BTreeSet<P::Key>,
    /// Keys that are rejected since before the stream opened. They are sent after everything that is new.
    earlier: BTreeSet<P::Key>,
    /// Keys whose newest state could not be parsed. They stay rejected, whatever happens to their older state.
    unreadable: BTreeSet<P::Key>,
}

impl<P: Payload> Default for Rejects<P> {
    fn default() -> Self {
        Self {
            standing: BTreeMap::new(),
            counts: BTreeMap::new(),
            sent: BTreeMap::new(),
            changed: BTreeSet::new(),
            earlier: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        }
    }
}

impl<P: Payload> Rejects<P> {
    pub(super) fn standing(&self) -> &BTreeMap<P::Key, Reject<P>> {
        &self.standing
    }

    pub(super) fn counts(&self) -> &BTreeMap<P::Reason, usize> {
        &self.counts
    }

    /// Called on a new stream, whose agent has received no reject.
    pub(super) fn opened(&mut self) {
        self.sent.clear();
        self.changed.clear();
        self.earlier = self.standing.keys().cloned().collect();
    }

    pub(super) fn reject(&mut self, key: &P::Key, reject: Reject<P>) {
        if !self.unreadable.contains(key) {
            self.put(key, Some(reject));
        }
    }

    pub(super) fn resolve(&mut self, key: &P::Key) {
        if !self.unreadable.contains(key) {
            self.put(key, None);
        }
    }

    pub(super) fn unreadable(&mut self, key: &P::Key, reason: &str) {
        let message = format!("could not be read: {reason}");
        self.unreadable.insert(key.clone());
        self.put(key, Some(invalid(Some(key.clone()), message)));
    }

    /// Called when a newer state of the key could be parsed. The reject stays until that state is settled.
    pub(super) fn readable(&mut self, key: &P::Key) {
        self.unreadable.remove(key);
    }

    pub(super) fn is_unreadable(&self, key: &P::Key) -> bool {
        self.unreadable.contains(key)
    }

    pub(super) fn all_unreadable(&self) -> Vec<P::Key> {
        self.unreadable.iter().cloned().collect()
    }

    /// Resolves the unreadable keys that are `gone`, which nothing else would settle.
    pub(super) fn forget_unreadable(&mut self, gone: impl Fn(&P::Key) -> bool) {
        let keys: Vec<_> = self.unreadable.iter().filter(|key| gone(key)).cloned().collect();
        for key in keys {
            self.unreadable.remove(&key);
            self.put(&key, None);
        }
    }

    fn put(&mut self, key: &P::Key, reject: Option<Reject<P>>) {
        if self.standing.get(key) == reject.as_ref() {
            // Said of the newest state, so it is sent before that state is acknowledged.
            if self.earlier.remove(key) {
                self.changed.insert(key.clone());
            }
            return;
        }
        if let Some(reject) = &reject {
            *self.counts.entry(reject.reason).or_default() += 1;
        }
        let old = match reject {
            Some(reject) => self.standing.insert(key.clone(), reject),
            None => self.standing.remove(key),
        };
        if let Some(old) = old {
            let left = self.counts.entry(old.reason).or_default();
            *left -= 1;
            if *left == 0 {
                self.counts.remove(&old.reason);
            }
        }
        self.changed.insert(key.clone());
    }

    /// Adds the rejects and resolutions of this stream that the agent has not received, until there are `room`
    /// messages. Returns whether all of them had room.
    pub(super) fn take_changed(&mut self, room: usize, out: &mut Vec<WriterMessage<P>>) -> bool {
        while out.len() < room {
            let Some(key) = self.changed.pop_first() else { return true };
            out.extend(self.message(key));
        }
        self.changed.is_empty()
    }

    /// Adds the rejects that are in force since before the stream opened, as [`Self::take_changed`] does.
    pub(super) fn take_earlier(&mut self, room: usize, out: &mut Vec<WriterMessage<P>>) {
        while out.len() < room
            && let Some(key) = self.earlier.pop_first()
        {
            out.extend(self.message(key));
        }
    }

    /// Returns what the agent has to receive about a key, if it has not.
    fn message(&mut self, key: P::Key) -> Option<WriterMessage<P>> {
        match (self.standing.get(&key), self.sent.get(&key)) {
            (standing, sent) if standing == sent => None,
            (Some(reject), _) => {
                self.sent.insert(key, reject.clone());
                Some(WriterMessage::Reject(reject.clone()))
            }
            (None, _) => {
                self.sent.remove(&key);
                Some(WriterMessage::Resolved(key))
            }
        }
    }
}

/// The reject of something that could not be parsed. Only a newer state ends it.
pub(super) fn invalid<P: Payload>(key: Option<P::Key>, message: String) -> Reject<P> {
    Reject { key, reason: P::Reason::INVALID, retryable: false, message }
}
