//! A snapshot while it comes.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_model::{Digest, Service, SourceKey};

use super::staging::{Misplaced, Pieces, Staged};
use crate::namespaces::NamespaceSet;
use crate::{Piece, Scope, Summary};

#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) scope: Scope,
    pub(super) begun: Instant,
    covered: NamespaceSet,
    summary: Summary,
    /// Something could not be read; the sender's count and digest include it, so they are not to be trusted even
    /// if they should agree.
    spoiled: bool,
    seen: BTreeSet<SourceKey>,
    /// Keys that a delta named since Begin; it outranks their entries.
    mentioned: BTreeSet<SourceKey>,
    staged: Option<(SourceKey, Pieces)>,
}

/// What a piece of a snapshot amounts to.
#[derive(Debug)]
pub(super) enum Taken {
    /// Nothing to do yet, or any more: a delta has said something newer.
    Nothing,
    /// The Service is whole and counts.
    Service(Service, Digest),
}

impl Snapshot {
    pub(super) fn new(scope: Scope, begun: Instant) -> Self {
        Self {
            covered: NamespaceSet::of(&scope),
            scope,
            begun,
            summary: Summary::default(),
            spoiled: false,
            seen: BTreeSet::new(),
            mentioned: BTreeSet::new(),
            staged: None,
        }
    }

    pub(super) fn covers(&self, namespace: &str) -> bool {
        self.covered.contains(namespace)
    }

    pub(super) fn overlaps(&self, scope: &Scope) -> bool {
        match scope {
            Scope::All => true,
            Scope::Namespaces(namespaces) => namespaces.iter().any(|namespace| self.covers(namespace)),
        }
    }

    pub(super) fn mention(&mut self, key: &SourceKey) {
        if self.covers(&key.namespace) {
            self.mentioned.insert(key.clone());
        }
    }

    pub(super) fn is_mentioned(&self, key: &SourceKey) -> bool {
        self.mentioned.contains(key)
    }

    /// Whether the agent holds the key: the view or a later delta says so, or at least speaks of it.
    pub(super) fn speaks_of(&self, key: &SourceKey) -> bool {
        self.seen.contains(key) || self.mentioned.contains(key)
    }

    /// A piece could not be read; nothing is proven any more, and least of all that its key is absent.
    pub(super) fn spoil(&mut self, key: Option<&SourceKey>) {
        self.spoiled = true;
        self.seen.extend(key.cloned());
    }

    pub(super) fn take(&mut self, piece: Piece) -> Result<Taken, Misplaced> {
        let key = piece.key.clone();
        if !self.covers(&key.namespace) {
            return Err(Misplaced::OutOfScope);
        }
        let staged = match self.staged.take() {
            Some((before, pieces)) if before == key => Some(pieces),
            Some(_) => {
                self.spoiled = true;
                None
            }
            None => None,
        };
        match Pieces::add(staged, piece)? {
            Staged::Partial(pieces) => {
                self.staged = Some((key, pieces));
                Ok(Taken::Nothing)
            }
            Staged::Whole(service) => {
                let digest = service.digest(&key);
                let Summary { count, digest: sum } = self.summary;
                self.summary = Summary { count: count + 1, digest: sum + digest };
                let outranked = self.mentioned.contains(&key);
                self.seen.insert(key);
                Ok(if outranked { Taken::Nothing } else { Taken::Service(service, digest) })
            }
        }
    }

    /// Why the view is not what the agent froze, if it is not.
    pub(super) fn mismatch(&self, summary: Summary) -> Option<String> {
        if self.spoiled {
            return Some("a part of the snapshot could not be read".into());
        }
        if let Some((key, _)) = &self.staged {
            return Some(format!("the last piece of {key} did not come before the snapshot's end"));
        }
        let (count, expected) = (self.summary.count, summary.count);
        (self.summary != summary).then(|| {
            format!("the snapshot holds {count} Services where the agent froze {expected}, or their digests differ")
        })
    }
}
