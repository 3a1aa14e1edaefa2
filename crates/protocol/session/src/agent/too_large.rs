//! Entries that fit in no frame.

use std::sync::Arc;

use super::AgentEnd;
use crate::size::largest_part;
use crate::split::LARGEST_PART;
use crate::{Key, Payload, Reason, Reject, Scope, key};

/// An entry whose newest state fits in no frame.
#[derive(Debug, Clone)]
pub(super) struct TooLargeEntry<P: Payload> {
    reject: Reject<P>,
    /// What the writer says of the state that it holds. It counts again when that state is offered again.
    pub(super) hides: Option<Reject<P>>,
}

impl<P: Payload> AgentEnd<P> {
    /// Returns the rejects of entries whose newest state fits in no frame, and whether an older one is offered instead.
    pub fn too_large(&self) -> impl Iterator<Item = (&P::Key, &Reject<P>, bool)> {
        self.too_large.iter().map(|(key, large)| (key, &large.reject, self.entries.contains_key(key)))
    }

    /// Returns whether the newest state of an entry fits in no frame.
    #[must_use]
    pub fn is_too_large(&self, key: &P::Key) -> bool {
        self.too_large.contains_key(key)
    }

    /// Returns whether an entry fits in frames, and rejects it if not.
    pub(super) fn fits(&mut self, key: &P::Key, entry: &P::Entry) -> bool {
        let len = largest_part::<P>(key, entry);
        if len <= LARGEST_PART {
            return true;
        }
        let message = format!(
            "{} take {len} bytes, more than the {LARGEST_PART} that fit in a frame: make labels and annotations smaller",
            P::INDIVISIBLE
        );
        let reject = Reject { key: Some(key.clone()), reason: P::Reason::TOO_LARGE, retryable: false, message };
        let hides = self.rejects.insert(key.clone(), reject.clone());
        self.too_large.insert(key.clone(), TooLargeEntry { reject, hides });
        false
    }

    /// Called when there is another state of an entry. What the writer says of it is in force again.
    pub(super) fn forget_too_large(&mut self, key: &P::Key) {
        if let Some(large) = self.too_large.remove(key) {
            self.put_reject(key, large.hides);
        }
    }

    /// Takes in what the writer says of the state that it holds; `None` if it accepts that.
    pub(super) fn said_of(&mut self, key: &P::Key, reject: Option<Reject<P>>) {
        match self.too_large.get_mut(key) {
            // The newest state is still too large to be sent.
            Some(large) => large.hides = reject,
            None => self.put_reject(key, reject),
        }
    }

    fn put_reject(&mut self, key: &P::Key, reject: Option<Reject<P>>) {
        match reject {
            Some(reject) => self.rejects.insert(key.clone(), reject),
            None => self.rejects.remove(key),
        };
    }

    /// Forgets what the writer said on an older stream.
    pub(super) fn forget_said(&mut self) {
        self.rejects.clear();
        for (key, large) in &mut self.too_large {
            large.hides = None;
            self.rejects.insert(key.clone(), large.reject.clone());
        }
    }

    /// Returns whether a namespace has an entry that is to stay as it was and that this end never had in a state that fits.
    /// The writer may hold one, so its absence must not be implied.
    pub(super) fn withholds(&self, namespace: &str) -> bool {
        P::KEEPS_TOO_LARGE
            && !self.too_large.is_empty()
            && key::within(&self.too_large, namespace, None).any(|key| !self.entries.contains_key(key))
    }

    /// Returns the namespaces that [`Self::withholds`] is true of, in order.
    pub(super) fn withheld(&self) -> impl Iterator<Item = &Arc<str>> {
        let keys = self.too_large.keys().filter(|key| P::KEEPS_TOO_LARGE && !self.entries.contains_key(key));
        let mut last = None;
        keys.map(Key::namespace).filter(move |namespace| last.replace(*namespace) != Some(*namespace))
    }

    /// Called after a change of a namespace. `before` says whether it had such an entry before.
    pub(super) fn follow_withheld(&mut self, namespace: &Arc<str>, before: bool) {
        let after = self.withholds(namespace);
        let Some(stream) = self.stream.as_mut().filter(|_| before != after) else { return };
        let scope = Scope::Namespaces(vec![namespace.clone()]);
        if after {
            stream.abandon_if(&scope);
        } else {
            stream.announced.clear(&scope);
            stream.owe(&scope);
        }
    }
}
