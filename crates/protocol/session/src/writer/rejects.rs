//! What is not in the Gimbal cluster and why, and what of it the agent has been told.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Payload, Reason, Reject, WriterMessage};

/// Bounded by keys: what changes twice before it is told is told once.
#[derive(Debug, Clone)]
pub(super) struct Rejects<P: Payload> {
    standing: BTreeMap<P::Key, Reject<P>>,
    /// How many of these stand for each reason.
    counts: BTreeMap<P::Reason, usize>,
    told: BTreeMap<P::Key, Reject<P>>,
    changed: BTreeSet<P::Key>,
    /// Keys whose newest state could not be read. Whatever becomes of their older one, the newest is rejected.
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

    /// A new agent: it has been told nothing.
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

    /// A newer state of the key could be read. Its reject stands until that state is settled.
    pub(super) fn readable(&mut self, key: &P::Key) {
        self.unreadable.remove(key);
    }

    pub(super) fn is_unreadable(&self, key: &P::Key) -> bool {
        self.unreadable.contains(key)
    }

    pub(super) fn all_unreadable(&self) -> Vec<P::Key> {
        self.unreadable.iter().cloned().collect()
    }

    /// Takes the unreadable keys away for which `gone` says so; they are resolved where nobody else will settle them.
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

    /// What the agent has to be told.
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

/// What could not be read is rejected as invalid, and only a newer state ends that.
pub(super) fn invalid<P: Payload>(key: Option<P::Key>, message: String) -> Reject<P> {
    Reject { key, reason: P::Reason::INVALID, retryable: false, message }
}
