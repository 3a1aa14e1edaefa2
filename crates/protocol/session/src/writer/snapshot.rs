//! A snapshot while it is received.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_model::Digest;

use super::staging::{Misplaced, PartialEntry, Staged};
use crate::namespaces::NamespaceSet;
use crate::{Entry, Key, Payload, Piece, Scope, Summary};

#[derive(Debug, Clone)]
pub(super) struct Snapshot<P: Payload> {
    pub(super) scope: Scope,
    pub(super) begun: Instant,
    covered: NamespaceSet,
    summary: Summary,
    /// The chunk that is being received.
    chunk: Chunk,
    /// Whether a piece could not be parsed and its share of the digest is unknown. The snapshot then proves nothing,
    /// even if the digests happen to be equal.
    spoiled: bool,
    seen: BTreeSet<P::Key>,
    /// Keys that a delta changed since Begin. The delta outranks the chunk.
    mentioned: BTreeSet<P::Key>,
    /// The entry whose next piece has to come; `None` in the second place if one of its pieces could not be parsed.
    staged: Option<(P::Key, Option<PartialEntry<P>>)>,
}

/// What a chunk has brought so far.
#[derive(Debug, Clone, Default)]
struct Chunk {
    /// Sum of the digests of the entries that could be parsed.
    digest: Digest,
    /// Whether the last piece of an entry came that could not be parsed.
    unreadable: bool,
}

/// The result of a piece.
#[derive(Debug, Clone)]
pub(super) enum PieceOutcome<P: Payload> {
    /// Nothing to do: more pieces have to come, or a delta brought a newer state.
    Nothing,
    /// The entry is complete and is the newest state.
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

    /// Returns whether the view or a later delta mentions the key, even if it could not be parsed.
    pub(super) fn speaks_of(&self, key: &P::Key) -> bool {
        self.seen.contains(key) || self.mentioned.contains(key)
    }

    /// Called when a piece could not be parsed. Its key is not absent.
    pub(super) fn unreadable(&mut self, key: Option<&P::Key>, more: bool) {
        let before = self.staged.take();
        self.spoiled |= key.is_none() || before.is_some_and(|(before, _)| Some(&before) != key);
        if let Some(key) = key {
            self.unreadable_entry(key.clone(), more);
        }
    }

    /// Counts an entry that could not be parsed, once its last piece has come.
    fn unreadable_entry(&mut self, key: P::Key, more: bool) {
        self.seen.insert(key.clone());
        if more {
            self.staged = Some((key, None));
        } else {
            self.summary.count += 1;
            self.chunk.unreadable = true;
        }
    }

    /// Called after the last piece of a chunk. If it completed an entry that could not be parsed, the sender's digest
    /// of the chunk is used instead of our own.
    pub(super) fn chunk_ends(&mut self, sent: Option<Digest>) {
        let Chunk { digest, unreadable } = std::mem::take(&mut self.chunk);
        self.spoiled |= unreadable && sent.is_none();
        self.summary.digest = self.summary.digest + sent.filter(|_| unreadable).unwrap_or(digest);
    }

    pub(super) fn take(&mut self, piece: Piece<P>) -> Result<PieceOutcome<P>, Misplaced> {
        let (key, more) = (piece.key.clone(), piece.more);
        let staged = self.staged.take();
        if !self.covers(key.namespace()) {
            self.spoiled = true;
            self.seen.insert(key);
            return Err(Misplaced::OutOfScope);
        }
        let staged = match staged {
            Some((before, None)) if before == key && piece.header.is_none() => {
                self.unreadable_entry(key, more);
                return Ok(PieceOutcome::Nothing);
            }
            Some((before, pieces)) if before == key => pieces,
            Some(_) => {
                self.spoiled = true;
                None
            }
            None => None,
        };
        match PartialEntry::add(staged, piece) {
            Ok(Staged::Partial(pieces)) => {
                self.staged = Some((key, Some(pieces)));
                Ok(PieceOutcome::Nothing)
            }
            Ok(Staged::Whole(entry)) => {
                let digest = entry.digest(&key);
                self.summary.count += 1;
                self.chunk.digest = self.chunk.digest + digest;
                let outranked = self.mentioned.contains(&key);
                self.seen.insert(key);
                Ok(if outranked { PieceOutcome::Nothing } else { PieceOutcome::Whole(entry, digest) })
            }
            Err(misplaced) => {
                // Without its first piece, its share of the digest is unknown.
                self.spoiled |= matches!(misplaced, Misplaced::NoFirst(_));
                self.unreadable_entry(key, more);
                Err(misplaced)
            }
        }
    }

    /// Returns why the received view differs from the agent's, if it does.
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
