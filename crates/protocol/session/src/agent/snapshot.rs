//! A frozen view of the entries while it is sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gimbal_model::Digest;

use crate::namespaces::NamespaceSet;
use crate::split::pieces;
use crate::{ChangeSince, KeptEntry, Key, Payload, Piece, Scope, Summary};

/// The state of a key that the writer holds, which the next change starts from.
#[derive(Debug, Clone)]
pub(super) enum LastSent<P: Payload> {
    /// The state that was sent last on this stream, or that both ends had when it opened.
    Sent(Option<P::Kept>),
    /// Not known, so only the whole entry can be sent.
    Unknown,
    /// Of no account: the whole entry is sent, even if it is the same.
    Whole,
}

#[derive(Debug, Clone)]
struct Frozen<P: Payload> {
    entry: P::Kept,
    digest: Digest,
    sent: bool,
}

/// The state that a change of a key starts from while the snapshot runs.
#[derive(Debug, Clone)]
pub(super) enum Start<P: Payload> {
    /// The state that the writer holds, or will hold when the snapshot ends.
    From(LastSent<P>),
    /// No change is needed, because the view has the newest state and is still to be sent.
    Carried,
}

#[derive(Debug, Clone)]
pub(super) struct Snapshot<P: Payload> {
    pub(super) scope: Scope,
    covered: NamespaceSet,
    pub(super) summary: Summary,
    view: BTreeMap<P::Key, Frozen<P>>,
    order: VecDeque<P::Key>,
    pieces: VecDeque<Piece<P>>,
    /// The entries of the view that changed since the writer was sent them, as far as that is known, and since when.
    since: BTreeMap<P::Key, ChangeSince>,
    /// Keys that are not in the view and whose removal was already waiting. The writer may hold them, so their removal
    /// is sent by name, before the end of the snapshot would imply it.
    gone: BTreeSet<P::Key>,
    /// Keys that a delta changed since Begin. The delta outranks the chunk.
    mentioned: BTreeSet<P::Key>,
}

impl<P: Payload> Snapshot<P> {
    /// Creates a snapshot. `first` are keys that have waited, which are sent before the others; `since` says since when
    /// entries of the view have waited, which come next; `gone` are keys that have waited and are not in the view.
    pub(super) fn new(
        scope: Scope,
        summary: Summary,
        view: impl Iterator<Item = (P::Key, P::Kept, Digest)>,
        first: Vec<P::Key>,
        since: BTreeMap<P::Key, ChangeSince>,
        gone: BTreeSet<P::Key>,
    ) -> Self {
        let entry = |(key, entry, digest)| (key, Frozen { entry, digest, sent: false });
        let view: BTreeMap<_, _> = view.map(entry).collect();
        let early: BTreeSet<_> = first.iter().cloned().collect();
        let aged = since.keys().filter(|key| view.contains_key(key) && !early.contains(key)).cloned();
        let rest = view.keys().filter(|key| !early.contains(key) && !since.contains_key(key)).cloned();
        let order = first.iter().filter(|key| view.contains_key(key)).cloned().chain(aged).chain(rest).collect();
        let covered = NamespaceSet::of(&scope);
        Self { scope, covered, summary, view, order, pieces: VecDeque::new(), since, gone, mentioned: BTreeSet::new() }
    }

    pub(super) fn covers(&self, namespace: &str) -> bool {
        self.covered.contains(namespace)
    }

    /// Returns the frozen state of a key and whether it was sent.
    pub(super) fn entry(&self, key: &P::Key) -> Option<(&P::Kept, bool)> {
        self.view.get(key).map(|entry| (&entry.entry, entry.sent))
    }

    /// Returns the number of keys that were not sent.
    pub(super) fn unsent(&self) -> usize {
        self.order.len()
    }

    pub(super) fn mention(&mut self, key: &P::Key) {
        if self.covers(key.namespace()) {
            self.mentioned.insert(key.clone());
        }
    }

    pub(super) fn is_mentioned(&self, key: &P::Key) -> bool {
        self.mentioned.contains(key)
    }

    /// Returns what a change of a key starts from, if no delta has changed the key since Begin.
    pub(super) fn start(&self, key: &P::Key, current: Option<&P::Kept>) -> Start<P> {
        match self.entry(key) {
            None if self.gone.contains(key) => Start::From(LastSent::Unknown),
            // End implies its absence.
            None => Start::From(LastSent::Sent(None)),
            Some((frozen, true)) => Start::From(LastSent::Sent(Some(frozen.clone()))),
            Some((frozen, false)) if current == Some(frozen) => Start::Carried,
            Some((_, false)) => Start::From(LastSent::Unknown),
        }
    }

    /// Returns the next piece; `None` when all are sent.
    pub(super) fn peek(&mut self, target: usize) -> Option<&Piece<P>> {
        if self.pieces.is_empty() {
            let key = self.order.front()?;
            let entry = self.view.get(key)?;
            self.pieces = pieces::<P>(key, &entry.entry.entry(), target);
        }
        self.pieces.front()
    }

    /// Returns the entries that changed and were not sent, and since when.
    pub(super) fn unsent_ages(&self) -> impl Iterator<Item = (&P::Key, ChangeSince)> {
        self.since.iter().map(|(key, since)| (key, *since))
    }

    /// Whether an entry changed and was not sent. A chunk has one age, so it carries either such entries or others.
    pub(super) fn is_aged(&self, key: &P::Key) -> bool {
        self.since.contains_key(key)
    }

    /// Takes since when an entry has waited, once all of it is sent: only then has the writer a change.
    pub(super) fn take_since(&mut self, key: &P::Key) -> Option<ChangeSince> {
        self.since.remove(key)
    }

    /// Takes the next piece, with the digest of its entry if it is the last piece of that.
    pub(super) fn pop(&mut self) -> Option<(Piece<P>, Option<Digest>)> {
        let piece = self.pieces.pop_front()?;
        let mut whole = None;
        if !piece.more {
            self.order.pop_front();
            if let Some(entry) = self.view.get_mut(&piece.key) {
                entry.sent = true;
                whole = Some(entry.digest);
            }
        }
        Some((piece, whole))
    }
}
