//! The entries of one backend, and which namespaces of it are completely known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::{Digest, DigestTree};

use crate::namespaces::NamespaceSet;
use crate::{CarriedBy, Entry, Key, Payload, Scope, UnknownScopes, key};

#[derive(Debug, Clone)]
struct Held<P: Payload> {
    entry: Arc<P::Entry>,
    digest: Digest,
    /// The frame that carried it last.
    carried: Option<CarriedBy>,
}

/// Entries with their digests, and keys that were removed explicitly.
#[derive(Debug, Clone)]
pub(super) struct Holdings<P: Payload> {
    entries: BTreeMap<P::Key, Held<P>>,
    removed: BTreeSet<P::Key>,
    pub(super) tree: DigestTree,
}

impl<P: Payload> Default for Holdings<P> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), removed: BTreeSet::new(), tree: DigestTree::default() }
    }
}

impl<P: Payload> Holdings<P> {
    pub(super) fn get(&self, key: &P::Key) -> Option<&Arc<P::Entry>> {
        self.entries.get(key).map(|held| &held.entry)
    }

    pub(super) fn digest(&self, key: &P::Key) -> Option<Digest> {
        self.entries.get(key).map(|held| held.digest)
    }

    pub(super) fn carried_by(&self, key: &P::Key) -> Option<CarriedBy> {
        self.entries.get(key)?.carried
    }

    /// A frame has carried an entry.
    pub(super) fn carried(&mut self, key: &P::Key, frame: CarriedBy) {
        if let Some(held) = self.entries.get_mut(key) {
            held.carried = Some(frame);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&P::Key, &Arc<P::Entry>)> {
        self.entries.iter().map(|(key, held)| (key, &held.entry))
    }

    pub(super) fn keys_after(&self, namespace: &str, after: Option<&P::Key>) -> impl Iterator<Item = &P::Key> {
        key::within(&self.entries, namespace, after)
    }

    pub(super) fn replace(&mut self, key: P::Key, entry: Arc<P::Entry>, digest: Digest) {
        self.take(&key);
        self.removed.remove(&key);
        self.tree.add(key.namespace(), digest);
        self.entries.insert(key, Held { entry, digest, carried: None });
    }

    /// Applies an update. Returns false if there is no entry to apply it to.
    pub(super) fn update(&mut self, key: &P::Key, header: Option<Arc<P::Header>>, parts: Vec<P::PartChange>) -> bool {
        let Some(held) = self.entries.get_mut(key) else { return false };
        self.tree.subtract(key.namespace(), held.digest);
        Arc::make_mut(&mut held.entry).update(key, &mut held.digest, header, parts);
        self.tree.add(key.namespace(), held.digest);
        true
    }

    /// Removes an entry. Returns whether there was one.
    pub(super) fn take(&mut self, key: &P::Key) -> bool {
        let held = self.entries.remove(key);
        if let Some(held) = &held {
            self.tree.subtract(key.namespace(), held.digest);
        }
        held.is_some()
    }

    /// Called when the agent removes a key explicitly. Remembers it even without an entry: there may have been one
    /// before a restart.
    pub(super) fn remove(&mut self, key: &P::Key) {
        self.take(key);
        self.removed.insert(key.clone());
    }

    pub(super) fn was_removed(&self, key: &P::Key) -> bool {
        self.removed.contains(key)
    }

    pub(super) fn forget_removed(&mut self, key: &P::Key) {
        self.removed.remove(key);
    }
}

/// The namespaces whose entries are complete, so that a key without an entry is absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Knowledge {
    complete: NamespaceSet,
    unknown: UnknownScopes,
}

impl Knowledge {
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.complete.contains(namespace) && !self.unknown.contains(namespace)
    }

    /// Returns whether complete snapshots covered the whole source.
    pub(super) fn was_complete(&self) -> bool {
        self.complete.is_all()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete.is_all() && self.unknown.is_empty()
    }

    pub(super) fn unknown(&self) -> &UnknownScopes {
        &self.unknown
    }

    /// Called when the entries of `scope` were proven to be the agent's.
    pub(super) fn proven(&mut self, scope: &Scope) {
        self.complete.add(scope);
        self.complete.bound();
        self.unknown.clear(scope);
    }

    /// Called when something was lost, so that only another snapshot proves completeness.
    pub(super) fn disproven(&mut self, scope: &Scope) {
        self.complete.remove(scope);
        self.complete.bound();
    }

    pub(super) fn add_unknown(&mut self, scope: &Scope, reason: &str) {
        self.unknown.add(scope, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::MOST;

    #[test]
    fn more_namespaces_than_can_be_kept_are_none() {
        let some = |n: usize| Scope::Namespaces(vec![format!("n{n}").into()]);
        let mut knowledge = Knowledge::default();
        (0..MOST).for_each(|n| knowledge.proven(&some(n)));
        assert!(knowledge.knows("n0"));
        knowledge.proven(&some(MOST));
        assert!(!knowledge.knows("n0") && knowledge.complete.listed().is_empty());
        knowledge.proven(&Scope::All);
        assert!(knowledge.knows("n0"));
        (0..=MOST).for_each(|n| knowledge.disproven(&some(n)));
        assert!(!knowledge.knows("n0") && !knowledge.is_complete());
    }
}
