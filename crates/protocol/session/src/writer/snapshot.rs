//! A snapshot while it comes.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_model::Digest;

use super::staging::{Misplaced, Pieces, Staged};
use crate::namespaces::NamespaceSet;
use crate::{Entry, Key, Payload, Piece, Scope, Summary};

#[derive(Debug, Clone)]
pub(super) struct Snapshot<P: Payload> {
    pub(super) scope: Scope,
    pub(super) begun: Instant,
    covered: NamespaceSet,
    summary: Summary,
    /// Of the chunk that comes.
    chunk: Chunk,
    /// Something could not be read, and nothing tells what it adds to the sender's digest; so that is not to be trusted even
    /// if it should agree.
    spoiled: bool,
    seen: BTreeSet<P::Key>,
    /// Keys that a delta named since Begin; it outranks their entries.
    mentioned: BTreeSet<P::Key>,
    /// The Service whose next piece is to come; `None`: one of its pieces could not be read.
    staged: Option<(P::Key, Option<Pieces<P>>)>,
}

/// What a chunk holds.
#[derive(Debug, Clone, Default)]
struct Chunk {
    /// Of the Services that could be read.
    digest: Digest,
    /// The last piece of a Service came that could not be read.
    unreadable: bool,
}

/// What a piece of a snapshot amounts to.
#[derive(Debug, Clone)]
pub(super) enum Taken<P: Payload> {
    /// Nothing to do yet, or any more: a delta has said something newer.
    Nothing,
    /// The Service is whole and counts.
    Whole(P::Entry, Digest),
}

impl<P: Payload> Snapshot<P> {
    pub(super) fn new(scope: Scope, begun: Instant) -> Self {
        Self {
            covered: NamespaceSet::of(&scope),
            scope,
            begun,
            summary: Summary::default(),
            chunk: Chunk::default(),
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

    pub(super) fn mention(&mut self, key: &P::Key) {
        if self.covers(key.namespace()) {
            self.mentioned.insert(key.clone());
        }
    }

    pub(super) fn is_mentioned(&self, key: &P::Key) -> bool {
        self.mentioned.contains(key)
    }

    /// Whether the agent holds the key: the view or a later delta says so, or at least speaks of it.
    pub(super) fn speaks_of(&self, key: &P::Key) -> bool {
        self.seen.contains(key) || self.mentioned.contains(key)
    }

    /// A piece could not be read: its key is not absent, whatever else it is.
    pub(super) fn unreadable(&mut self, key: Option<&P::Key>, more: bool) {
        let before = self.staged.take();
        self.spoiled |= key.is_none() || before.is_some_and(|(before, _)| Some(&before) != key);
        if let Some(key) = key {
            self.unreadable_service(key.clone(), more);
        }
    }

    /// A Service counts, unread, once its last piece is there.
    fn unreadable_service(&mut self, key: P::Key, more: bool) {
        self.seen.insert(key.clone());
        if more {
            self.staged = Some((key, None));
        } else {
            self.summary.count += 1;
            self.chunk.unreadable = true;
        }
    }

    /// All pieces of a chunk are taken. Where one was the last of a Service that could not be read, the sender's word says
    /// what the chunk adds to the digest.
    pub(super) fn chunk_ends(&mut self, told: Option<Digest>) {
        let Chunk { digest, unreadable } = std::mem::take(&mut self.chunk);
        self.spoiled |= unreadable && told.is_none();
        self.summary.digest = self.summary.digest + told.filter(|_| unreadable).unwrap_or(digest);
    }

    pub(super) fn take(&mut self, piece: Piece<P>) -> Result<Taken<P>, Misplaced> {
        let (key, more) = (piece.key.clone(), piece.more);
        let staged = self.staged.take();
        if !self.covers(key.namespace()) {
            self.spoiled = true;
            self.seen.insert(key);
            return Err(Misplaced::OutOfScope);
        }
        let staged = match staged {
            Some((before, None)) if before == key && piece.header.is_none() => {
                self.unreadable_service(key, more);
                return Ok(Taken::Nothing);
            }
            Some((before, pieces)) if before == key => pieces,
            Some(_) => {
                self.spoiled = true;
                None
            }
            None => None,
        };
        match Pieces::add(staged, piece) {
            Ok(Staged::Partial(pieces)) => {
                self.staged = Some((key, Some(pieces)));
                Ok(Taken::Nothing)
            }
            Ok(Staged::Whole(entry)) => {
                let digest = entry.digest(&key);
                self.summary.count += 1;
                self.chunk.digest = self.chunk.digest + digest;
                let outranked = self.mentioned.contains(&key);
                self.seen.insert(key);
                Ok(if outranked { Taken::Nothing } else { Taken::Whole(entry, digest) })
            }
            Err(misplaced) => {
                // Without its first piece nobody knows what came before.
                self.spoiled |= misplaced == Misplaced::NoFirst;
                self.unreadable_service(key, more);
                Err(misplaced)
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
            format!(
                "the snapshot holds {count} {} where the agent froze {expected}, or their digests differ",
                P::ENTRIES
            )
        })
    }
}
