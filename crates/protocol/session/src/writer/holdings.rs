//! What one backend said, by key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::{Digest, DigestTree, EndpointChange, Header, Service, SourceKey};

use crate::namespaces::NamespaceSet;
use crate::{Scope, UnknownScopes};

#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) service: Arc<Service>,
    digest: Digest,
}

/// Services with their digests, and keys that were removed by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Holdings {
    services: BTreeMap<SourceKey, Held>,
    removed: BTreeSet<SourceKey>,
    pub(super) tree: DigestTree,
}

impl Holdings {
    pub(super) fn get(&self, key: &SourceKey) -> Option<&Arc<Service>> {
        self.services.get(key).map(|held| &held.service)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SourceKey, &Arc<Service>)> {
        self.services.iter().map(|(key, held)| (key, &held.service))
    }

    pub(super) fn keys_after(&self, namespace: &str, after: Option<&SourceKey>) -> impl Iterator<Item = &SourceKey> {
        SourceKey::within(&self.services, namespace, after)
    }

    pub(super) fn replace(&mut self, key: SourceKey, service: Arc<Service>, digest: Digest) {
        self.take(&key);
        self.removed.remove(&key);
        self.tree.add(&key, digest);
        self.services.insert(key, Held { service, digest });
    }

    /// Applies a difference; false where nothing is held that it could apply to.
    pub(super) fn update(
        &mut self,
        key: &SourceKey,
        header: Option<Arc<Header>>,
        endpoints: Vec<EndpointChange>,
    ) -> bool {
        let Some(held) = self.services.get_mut(key) else { return false };
        self.tree.subtract(key, held.digest);
        Arc::make_mut(&mut held.service).update(key, &mut held.digest, header, endpoints);
        self.tree.add(key, held.digest);
        true
    }

    /// It is not held any more; whether it was.
    pub(super) fn take(&mut self, key: &SourceKey) -> bool {
        let held = self.services.remove(key);
        if let Some(held) = &held {
            self.tree.subtract(key, held.digest);
        }
        held.is_some()
    }

    /// The agent said by name that it is gone. That counts for a key that is not held, too: before a restart it may
    /// have been.
    pub(super) fn remove(&mut self, key: &SourceKey) {
        self.take(key);
        self.removed.insert(key.clone());
    }

    pub(super) fn was_removed(&self, key: &SourceKey) -> bool {
        self.removed.contains(key)
    }

    pub(super) fn forget_removed(&mut self, key: &SourceKey) {
        self.removed.remove(key);
    }
}

/// Of which namespaces the holdings are the whole truth, so that absence means something.
#[derive(Debug, Clone, Default)]
pub(super) struct Knowledge {
    complete: NamespaceSet,
    unknown: UnknownScopes,
}

impl Knowledge {
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.complete.contains(namespace) && !self.unknown.contains(namespace)
    }

    /// Whether complete snapshots covered everything.
    pub(super) fn was_complete(&self) -> bool {
        self.complete.is_all()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete.is_all() && self.unknown.is_empty()
    }

    pub(super) fn unknown(&self) -> &UnknownScopes {
        &self.unknown
    }

    /// The holdings were proven to be the agent's.
    pub(super) fn proven(&mut self, scope: &Scope) {
        self.complete.add(scope);
        self.complete.bound();
        self.unknown.clear(scope);
    }

    /// Something was lost: only another snapshot proves anything.
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
