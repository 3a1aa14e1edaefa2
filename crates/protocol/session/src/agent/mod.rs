//! The agent's end: the entries that the source offers, and what of them the writer has not received.

mod contents;
mod inbox;
mod outbox;
mod receive;
mod send;
mod snapshot;
mod stream;
mod too_large;
mod way_back;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Digest, DigestTree};

use crate::namespaces::NamespaceSet;
use crate::{
    ChangeSince, Credit, Entry, EntryChange, EntryProgress, Freshness, Goodbye, GoodbyeReason, KeptEntry, Key, Payload,
    Reason, Reject, Scope, Services, UnknownScopes, key,
};
use stream::Stream;
use too_large::TooLargeEntry;

pub use inbox::ReceivedReport;
pub use receive::AgentVerdict;
pub use stream::HEARTBEAT;

/// Names the agent in its Hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// The backend's name.
    pub backend: String,
    /// A random name of the process.
    pub instance: String,
    /// Program name and version.
    pub version: String,
}

/// The state of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// No stream is open.
    Closed,
    /// The writer has not answered Hello yet.
    Opening,
    /// The writer has accepted the stream, and it carries data.
    Open,
    /// The writer has accepted the stream, but it carries no data: it was opened before the source was read, or the
    /// source was replaced since.
    Dataless,
}

#[derive(Debug, Clone)]
struct Held<P: Payload> {
    entry: P::Kept,
    digest: Digest,
    progress: EntryProgress,
}

/// The entries that the source offers; outlives streams. The transport reports what happens and pulls messages with
/// [`AgentEnd::next`] whenever it can send one, so that a change is compared and encoded as late as possible.
#[derive(Debug, Clone)]
pub struct AgentEnd<P: Payload = Services> {
    config: AgentConfig,
    incarnation: Option<String>,
    complete: bool,
    entries: BTreeMap<P::Key, Held<P>>,
    tree: DigestTree,
    /// Namespaces that had entries and have none now. They were read, so they are known to be empty even while other
    /// namespaces may exist that cannot be named.
    emptied: NamespaceSet,
    unknown: UnknownScopes,
    rest_unknown: bool,
    freshness: Vec<Freshness>,
    /// The clock's time, for the next heartbeat.
    clock_ms: Option<i64>,
    /// Entries that changed while no stream carried changes, and since when, until a snapshot carries them.
    unsent: BTreeMap<P::Key, ChangeSince>,
    /// What the writer rejects, and what fits in no frame.
    rejects: BTreeMap<P::Key, Reject<P>>,
    /// Entries that fit in no frame. Neither end holds them, so the digests agree without them.
    too_large: BTreeMap<P::Key, TooLargeEntry<P>>,
    supersessions: receive::Supersessions,
    stream: Option<Stream<P>>,
    /// The window for reports on each stream; `None` allows none.
    report_credit: Option<Credit>,
    /// Number of streams that were opened.
    streams: u64,
    /// Number of messages that could not be parsed and were skipped.
    skipped: u64,
    facts: Option<P::Facts>,
}

impl<P: Payload> AgentEnd<P> {
    /// Creates an end that holds nothing.
    #[must_use]
    pub fn new(config: AgentConfig) -> Self {
        Self {
            config,
            incarnation: None,
            complete: false,
            entries: BTreeMap::new(),
            tree: DigestTree::default(),
            emptied: NamespaceSet::default(),
            unknown: UnknownScopes::default(),
            rest_unknown: false,
            freshness: Vec::new(),
            clock_ms: None,
            unsent: BTreeMap::new(),
            rejects: BTreeMap::new(),
            too_large: BTreeMap::new(),
            supersessions: receive::Supersessions::default(),
            stream: None,
            report_credit: None,
            streams: 0,
            skipped: 0,
            facts: None,
        }
    }

    /// Sets the identity of the source. If it differs from the one in the open stream's Hello, that stream carries no
    /// more data, and [`Self::wants_redial`] returns true when the new source is ready.
    pub fn set_incarnation(&mut self, incarnation: String) {
        self.incarnation = Some(incarnation);
    }

    /// Sets the newest state of a key in the source; `None` if it is gone. An entry that fits in no frame counts as
    /// gone, or stays as it was ([`Payload::KEEPS_TOO_LARGE`]), and is listed in [`Self::rejects`]. If this end does not
    /// know how it was, its namespace is unknown until it fits or is gone.
    pub fn set(&mut self, key: P::Key, entry: Option<P::Kept>, now: Instant) {
        self.set_since(key, entry, ChangeSince::now(now));
    }

    /// As [`Self::set`], of a change that may have begun before the source reported it.
    pub fn set_since(&mut self, key: P::Key, entry: Option<P::Kept>, since: ChangeSince) {
        let withheld = self.withholds(key.namespace());
        self.forget_too_large(&key);
        let offered = entry.is_some();
        let whole = entry.as_ref().map(KeptEntry::entry).filter(|whole| self.fits(&key, whole));
        let entry = entry.filter(|_| whole.is_some());
        self.follow_withheld(key.namespace(), withheld);
        if P::KEEPS_TOO_LARGE && offered && entry.is_none() {
            return;
        }
        let old = self.entries.get(&key);
        if old.map(|held| &held.entry) == entry.as_ref() {
            return;
        }
        let last_sent = old.map(|held| held.entry.clone());
        let progress = EntryProgress::reported(since.reported, old.map(|held| held.progress));
        let digest = whole.map(|whole| digest_after(&key, old, &whole));
        if let Some(old) = old {
            self.tree.subtract(key.namespace(), old.digest);
        }
        if let Some(stream) = &mut self.stream {
            let said = self.too_large.get(&key).map_or_else(|| self.rejects.get(&key), |large| large.hides.as_ref());
            let refused = said.is_some_and(|reject| reject.reason == P::Reason::INVALID);
            stream.changed(&key, last_sent, refused, since);
        }
        if entry.is_none() {
            self.unsent.remove(&key);
        } else if self.complete && !self.stream.as_ref().is_some_and(Stream::carries) {
            // Before the source is read, nothing is a change.
            let unsent = self.unsent.entry(key.clone()).or_insert(since);
            *unsent = unsent.older(since);
        }
        match (entry, digest) {
            (Some(entry), Some(digest)) => {
                self.tree.add(key.namespace(), digest);
                self.entries.insert(key, Held { entry, digest, progress });
            }
            _ => {
                self.entries.remove(&key);
                if self.tree.namespace(key.namespace()).0 == 0 {
                    self.emptied.add(&Scope::Namespaces(vec![key.namespace().clone()]));
                    self.emptied.bound();
                }
            }
        }
    }

    /// Called when the whole source was read, for the first time or after a part of it was unknown. Nothing is unknown
    /// any more, and the parts that were are sent to the writer in a snapshot.
    pub fn source_complete(&mut self) {
        self.complete = true;
        let unknown = std::mem::take(&mut self.unknown);
        if let Some(stream) = &mut self.stream {
            for (scope, _) in unknown.iter() {
                stream.owe(&scope);
            }
            stream.announced = UnknownScopes::default();
        }
    }

    /// Called when a part of the source cannot be read. No snapshot covers it until [`Self::source_complete`]; a
    /// running one that does is abandoned. An empty list of namespaces means the whole source, as on the wire.
    pub fn scope_unknown(&mut self, scope: Scope, reason: String) {
        let scope = if scope == Scope::Namespaces(Vec::new()) { Scope::All } else { scope };
        self.unknown.add(&scope, &reason);
        if let Some(stream) = &mut self.stream {
            stream.abandon_if(&scope);
        }
    }

    /// Sets whether the source may have parts that cannot be named yet. While it may, no snapshot covers a namespace
    /// that never had an entry here, so the writer keeps what it holds of that. Nothing else is affected.
    pub fn set_rest_unknown(&mut self, unknown: bool) {
        let was = std::mem::replace(&mut self.rest_unknown, unknown);
        if let Some(stream) = self.stream.as_mut().filter(|_| unknown && !was) {
            stream.abandon();
        }
    }

    /// Sets when the source was last heard, for the next heartbeat. Ages are sent as given, so call this shortly before
    /// [`Self::next`].
    pub fn set_freshness(&mut self, freshness: Vec<Freshness>) {
        self.freshness = freshness;
    }

    /// Sets the time of this machine's clock for the next heartbeat, in milliseconds since 1970. Without it heartbeats have
    /// none. Call it shortly before [`Self::next`], too.
    pub fn set_clock(&mut self, clock_ms: i64) {
        self.clock_ms = Some(clock_ms);
    }

    /// Called when a stream is open. [`Self::next`] then returns Hello.
    pub fn connected(&mut self, now: Instant) {
        self.disconnected();
        self.streams += 1;
        self.stream = Some(Stream::new(now, self.streams));
    }

    /// Called when the stream is gone.
    pub fn disconnected(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        let held = |(key, since): (&P::Key, ChangeSince)| self.entries.contains_key(key).then(|| (key.clone(), since));
        for (key, since) in stream.pending_ages().filter_map(held) {
            let unsent = self.unsent.entry(key).or_insert(since);
            *unsent = unsent.older(since);
        }
    }

    /// Ends the stream: [`Self::next`] returns Goodbye and then nothing.
    pub fn goodbye(&mut self, reason: GoodbyeReason, message: impl Into<String>) {
        if let Some(stream) = &mut self.stream {
            stream.goodbye = Some(Goodbye { reason, message: message.into(), retry_after: None });
        }
    }

    /// Returns whether the open stream carries no data although a new one would.
    #[must_use]
    pub fn wants_redial(&self) -> bool {
        self.may_offer() && self.stream.as_ref().is_some_and(|stream| stream.is_dataless(self.incarnation.as_deref()))
    }

    /// Returns whether a Hello may offer data.
    fn may_offer(&self) -> bool {
        let has_entries = P::SENDS_UNKNOWN || self.unknown.all().is_none();
        self.complete && has_entries && self.incarnation.is_some()
    }

    /// Returns all entries of the source, in order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = (&P::Key, &P::Kept)> {
        self.entries.iter().map(|(key, held)| (key, &held.entry))
    }

    /// Returns the keys of a namespace (of all if it is empty), in order, that come after `after`.
    pub fn keys_after(&self, namespace: &str, after: Option<&P::Key>) -> impl Iterator<Item = &P::Key> {
        key::within(&self.entries, namespace, after)
    }

    /// Returns the entry of a key.
    #[must_use]
    pub fn entry(&self, key: &P::Key) -> Option<&P::Kept> {
        self.entries.get(key).map(|held| &held.entry)
    }

    /// Returns the digest of the entry of a key.
    #[must_use]
    pub fn digest(&self, key: &P::Key) -> Option<Digest> {
        self.entries.get(key).map(|held| held.digest)
    }

    /// Returns how far the entry of a key has come.
    #[must_use]
    pub fn progress(&self, key: &P::Key) -> Option<EntryProgress> {
        self.entries.get(key).map(|held| held.progress)
    }

    /// Returns the entries that the writer rejected or that fit in no frame.
    #[must_use]
    pub fn rejects(&self) -> &BTreeMap<P::Key, Reject<P>> {
        &self.rejects
    }

    /// Returns the digests of the entries.
    #[must_use]
    pub fn tree(&self) -> &DigestTree {
        &self.tree
    }

    /// Returns the parts of the source that cannot be read.
    #[must_use]
    pub fn unknown(&self) -> &UnknownScopes {
        &self.unknown
    }

    /// Returns whether the source was read completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns whether the writer has not acknowledged a key's newest state. Without a stream that carries data this is
    /// true of every entry.
    #[must_use]
    pub fn is_pending(&self, key: &P::Key) -> bool {
        match self.flowing() {
            None => self.entries.contains_key(key),
            Some(stream) => stream.is_pending(key) || (stream.owes(key.namespace()) && self.entries.contains_key(key)),
        }
    }

    /// Returns the number of keys that wait to be sent or acknowledged. A key that waits for both counts twice.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.backlog() + self.flowing().map_or(0, |stream| stream.window.in_flight())
    }

    /// Returns the number of keys that wait to be sent: all keys while no stream carries data.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let Some(stream) = self.flowing() else { return self.entries.len() };
        let owed = if stream.owed.is_all() && stream.spelled_out.is_empty() {
            self.tree.count()
        } else {
            let owed = self.tree.namespaces().filter(|(namespace, ..)| stream.owes(namespace));
            owed.map(|(_, count, _)| count).sum()
        };
        stream.unsent() + usize::try_from(owed).unwrap_or(usize::MAX)
    }

    fn flowing(&self) -> Option<&Stream<P>> {
        self.stream.as_ref().filter(|stream| stream.flows(self.incarnation.as_deref()))
    }

    /// Returns the number that the writer gave the open stream.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.stream.as_ref()?.generation
    }

    /// Returns the [capabilities](crate::capability) that the open stream's writer named.
    #[must_use]
    pub fn writer_capabilities(&self) -> &[Cow<'static, str>] {
        self.stream.as_ref().map_or(&[], |stream| &*stream.writer_capabilities)
    }

    /// Returns whether the open stream's writer named a capability.
    #[must_use]
    pub fn writer_has(&self, capability: &str) -> bool {
        self.writer_capabilities().iter().any(|name| name == capability)
    }

    /// Returns the state of the stream.
    #[must_use]
    pub fn stream_state(&self) -> StreamState {
        match &self.stream {
            None => StreamState::Closed,
            Some(stream) if stream.generation.is_none() => StreamState::Opening,
            Some(stream) if stream.is_dataless(self.incarnation.as_deref()) => StreamState::Dataless,
            Some(_) => StreamState::Open,
        }
    }

    /// Returns when [`Self::next`] may have a message although nothing happened.
    #[must_use]
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.stream.as_ref()?.heartbeat_due(now)
    }
}

/// Returns the digest of `new`. Where few parts of a large entry changed, which is the usual case, it costs only those.
fn digest_after<P: Payload>(key: &P::Key, old: Option<&Held<P>>, new: &P::Entry) -> Digest {
    let old = old.map(|old| (old.entry.entry(), old.digest));
    match old.map(|(old, digest)| (P::Entry::between(Some(&old), Some(new)), old, digest)) {
        Some((Some(EntryChange::Update { header, parts }), old, mut digest)) if parts.len() * 4 < new.part_count() => {
            let mut entry = Arc::unwrap_or_clone(old);
            entry.update(key, &mut digest, header, parts);
            digest
        }
        _ => new.digest(key),
    }
}
