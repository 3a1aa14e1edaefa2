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
    told: BTreeMap<P::Key, Reject<P>>,
    changed: BTreeSet<P::Key>,
    /// Keys whose newest state could not be parsed. They stay rejected, whatever happens to their older state.
    unreadable: BTreeSet<P::Key>,
}

impl<P: Payload> Default for Rejects<P> {
    fn default() -> Self {
        Self {
            standing: BTreeMap::new(),
            counts: BTreeMap::new(),
            told: BTreeMap::new(),
            changed: BTreeSet::new(),
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

    /// Called on a new stream, whose agent knows nothing.
    pub(super) fn tell_again(&mut self) {
        self.told.clear();
        self.changed = self.standing.keys().cloned().collect();
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

    /// Adds the rejects and resolutions that the agent does not know.
    pub(super) fn take_messages(&mut self, out: &mut Vec<WriterMessage<P>>) {
        for key in std::mem::take(&mut self.changed) {
            match (self.standing.get(&key), self.told.get(&key)) {
                (standing, told) if standing == told => {}
                (Some(reject), _) => {
                    self.told.insert(key, reject.clone());
                    out.push(WriterMessage::Reject(reject.clone()));
                }
                (None, _) => {
                    self.told.remove(&key);
                    out.push(WriterMessage::Resolved(key));
                }
            }
        }
    }
}

/// The reject of something that could not be parsed. Only a newer state ends it.
pub(super) fn invalid<P: Payload>(key: Option<P::Key>, message: String) -> Reject<P> {
    Reject { key, reason: P::Reason::INVALID, retryable: false, message }
}
