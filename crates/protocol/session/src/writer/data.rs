//! Applies data frames to the entries.

use std::sync::Arc;
use std::time::Instant;

use gimbal_model::Digest;

use super::snapshot::{PieceOutcome, Snapshot};
use super::staging::{Misplaced, PartialEntry, PartialUpdate, Staged, Unfinished};
use super::{Stream, WriterEnd, WriterOutput};
use crate::{Entry, Key, Payload, Piece, PieceChange, Scope, Summary, Unreadable};

impl<P: Payload> WriterEnd<P> {
    /// Begins a snapshot and drops a running one. Updates can be applied again, because the agent makes them relative
    /// to this view.
    pub(super) fn begin(&mut self, scope: Scope, now: Instant) {
        let Some(stream) = &mut self.stream else { return };
        let scope = if scope == Scope::Namespaces(Vec::new()) { Scope::All } else { scope };
        stream.awaiting = false;
        // An agent finishes a divided change before it begins a snapshot, unless it gave the change up.
        stream.unfinished = None;
        if scope == Scope::All {
            stream.resync.begun();
        }
        stream.trusted.add(&scope);
        if stream.trusted.bound() {
            stream.request("more namespaces were named than can be kept apart", now);
        }
        stream.snapshot = Some(Snapshot::new(scope, now));
    }

    pub(super) fn piece(&mut self, piece: Result<Piece<P>, Unreadable<P>>, seq: u64, out: &mut Vec<WriterOutput<P>>) {
        // Without a running snapshot, the piece belongs to one that was dropped.
        let Some(snapshot) = self.stream.as_mut().and_then(|stream| stream.snapshot.as_mut()) else { return };
        let piece = match piece {
            Ok(piece) => piece,
            Err(Unreadable { key, reason, more }) => {
                snapshot.unreadable(key.as_ref(), more);
                return self.spoiled(key, reason, out);
            }
        };
        let key = piece.key.clone();
        match snapshot.take(piece) {
            Ok(PieceOutcome::Nothing) => {}
            Ok(PieceOutcome::Whole(entry, digest)) => self.hold(key, entry, digest, seq, out),
            Err(misplaced) => self.spoiled(Some(key), misplaced.to_string(), out),
        }
    }

    fn spoiled(&mut self, key: Option<P::Key>, reason: String, out: &mut Vec<WriterOutput<P>>) {
        let Some(stream) = &self.stream else { return };
        let Some(snapshot) = &stream.snapshot else { return };
        // Where a delta brought a newer state, an older one that cannot be parsed does not matter.
        match key {
            Some(key) if snapshot.is_mentioned(&key) => {}
            key => self.unreadable(key, reason, out),
        }
    }

    /// Ends a snapshot. Only one that came complete proves absence.
    pub(super) fn end(&mut self, summary: Summary, seq: u64, now: Instant, out: &mut Vec<WriterOutput<P>>) {
        let Some(stream) = &mut self.stream else { return };
        let Some(snapshot) = stream.snapshot.take() else { return };
        if let Some(mismatch) = snapshot.mismatch(summary) {
            self.knowledge.disproven(&snapshot.scope);
            return stream.request(&mismatch, now);
        }
        let absent = |key: &P::Key| snapshot.covers(key.namespace()) && !snapshot.speaks_of(key);
        let gone: Vec<_> = self.holdings.iter().map(|(key, _)| key).filter(|key| absent(key)).cloned().collect();
        let holdings = &self.holdings;
        self.rejects.forget_unreadable(|key| absent(key) && holdings.get(key).is_none());
        for key in gone {
            self.holdings.take(&key);
            self.rejects.readable(&key);
            self.reports.forget(&key);
            stream.ledger.wait(&key, seq);
            out.push(WriterOutput::Removed(key));
        }
        self.knowledge.proven(&snapshot.scope);
        self.last_complete = Some((snapshot.begun, snapshot.scope.clone()));
        out.push(WriterOutput::ScopeComplete { scope: snapshot.scope, seq, begun: snapshot.begun });
    }

    pub(super) fn change(
        &mut self,
        change: Result<PieceChange<P>, Unreadable<P>>,
        seq: u64,
        now: Instant,
        out: &mut Vec<WriterOutput<P>>,
    ) {
        let Some(stream) = &mut self.stream else { return };
        match change {
            Err(Unreadable { key: None, reason, .. }) => {
                stream.request("a change could not be read", now);
                self.unreadable(None, reason, out);
            }
            Err(Unreadable { key: Some(key), reason, .. }) => {
                stream.mention(&key);
                stream.unfinished.take_if(|unfinished| *unfinished.key() == key);
                self.unreadable(Some(key), reason, out);
            }
            Ok(PieceChange::Remove(key)) => {
                stream.mention(&key);
                stream.unfinished.take_if(|unfinished| *unfinished.key() == key);
                stream.broken.remove(&key);
                stream.ledger.wait(&key, seq);
                self.rejects.readable(&key);
                self.holdings.remove(&key);
                self.reports.forget(&key);
                out.push(WriterOutput::Removed(key));
            }
            Ok(PieceChange::Replace(piece)) => self.replace(piece, seq, out),
            Ok(PieceChange::Update { key, header, parts, more }) => {
                let staged = stream.unfinished.take_if(|unfinished| *unfinished.key() == key);
                // The update is relative to a state that was lost. A snapshot is requested already.
                if !stream.trusted.contains(key.namespace()) {
                    return;
                }
                let staged = staged.and_then(|unfinished| match unfinished {
                    Unfinished::Update(_, parts) => Some(parts),
                    Unfinished::Replace(..) => None,
                });
                match PartialUpdate::add(staged, header, parts, more) {
                    Ok(Staged::Partial(parts)) => stream.unfinished = Some(Unfinished::Update(key, parts)),
                    Ok(Staged::Whole(PartialUpdate { header, parts })) => {
                        self.update(key, header, parts, seq, now, out);
                    }
                    Err(misplaced) => self.unreadable(Some(key), misplaced.to_string(), out),
                }
            }
        }
    }

    fn replace(&mut self, piece: Piece<P>, seq: u64, out: &mut Vec<WriterOutput<P>>) {
        let Some(stream) = &mut self.stream else { return };
        let key = piece.key.clone();
        let staged = stream.unfinished.take().and_then(|unfinished| match unfinished {
            Unfinished::Replace(before, pieces) if before == key => Some(pieces),
            _ => None,
        });
        match PartialEntry::add(staged, piece) {
            Ok(Staged::Partial(pieces)) => {
                stream.mention(&key);
                stream.unfinished = Some(Unfinished::Replace(key, pieces));
            }
            Ok(Staged::Whole(entry)) => {
                stream.mention(&key);
                let digest = entry.digest(&key);
                self.hold(key, entry, digest, seq, out);
            }
            // The first piece was in a lost frame.
            Err(Misplaced::NoFirst(_)) if !stream.trusted.contains(key.namespace()) => {}
            Err(misplaced) => {
                stream.mention(&key);
                self.unreadable(Some(key), misplaced.to_string(), out);
            }
        }
    }

    fn update(
        &mut self,
        key: P::Key,
        header: Option<Arc<P::Header>>,
        parts: Vec<P::PartChange>,
        seq: u64,
        now: Instant,
        out: &mut Vec<WriterOutput<P>>,
    ) {
        let Some(stream) = &mut self.stream else { return };
        if stream.broken.contains(&key) || !self.holdings.update(&key, header, parts) {
            self.knowledge.disproven(&Scope::Namespaces(vec![key.namespace().clone()]));
            return stream.request(&format!("a difference of {key} came, but what it differs from is not held"), now);
        }
        stream.mention(&key);
        stream.ledger.wait(&key, seq);
        self.rejects.readable(&key);
        self.reports.entry_came(&key);
        out.push(WriterOutput::Changed(key));
    }

    fn hold(&mut self, key: P::Key, entry: P::Entry, digest: Digest, seq: u64, out: &mut Vec<WriterOutput<P>>) {
        let Some(stream) = &mut self.stream else { return };
        stream.broken.remove(&key);
        stream.ledger.wait(&key, seq);
        self.rejects.readable(&key);
        self.reports.entry_came(&key);
        self.holdings.replace(key.clone(), Arc::new(entry), digest);
        out.push(WriterOutput::Changed(key));
    }

    /// Called when the newest state of a key (or of an unknown one) cannot be parsed. The entry that is held stays.
    fn unreadable(&mut self, key: Option<P::Key>, reason: String, out: &mut Vec<WriterOutput<P>>) {
        match &key {
            Some(key) => {
                self.rejects.unreadable(key, &reason);
                // The agent holds the key, so it is not removed.
                self.holdings.forget_removed(key);
                if let Some(stream) = &mut self.stream {
                    stream.broken.insert(key.clone());
                }
            }
            None => self.reject_of_nobody(format!("an entry could not be read, and its key neither: {reason}")),
        }
        out.push(WriterOutput::Unreadable { key, reason });
    }
}

impl<P: Payload> Stream<P> {
    fn mention(&mut self, key: &P::Key) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.mention(key);
        }
    }

    /// Requests a snapshot, unless one is requested already.
    pub(super) fn request(&mut self, reason: &str, now: Instant) {
        if !self.awaiting {
            self.resync.request(reason, now);
        }
    }
}
