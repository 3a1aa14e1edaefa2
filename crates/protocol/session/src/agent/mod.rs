//! The agent's end: what the source offers, and what of it the writer must still hear.

mod contents;
mod inbox;
mod outbox;
mod receive;
mod send;
mod snapshot;
mod stream;
mod way_back;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Digest, DigestTree};

use crate::namespaces::NamespaceSet;
use crate::size::largest_part;
use crate::split::LARGEST_PART;
use crate::{
    Change, Credit, Entry, Freshness, Goodbye, GoodbyeReason, Key, Payload, Reason, Reject, Scope, Services,
    UnknownScopes, key,
};
use stream::Stream;

pub use inbox::ReceivedReport;
pub use receive::AgentVerdict;
pub use stream::HEARTBEAT;

/// Who the agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// The backend's name.
    pub backend: String,
    /// Random for each process.
    pub instance: String,
    /// Program and version.
    pub version: String,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// There is none.
    Closed,
    /// Opened; the writer has not answered yet.
    Opening,
    /// Welcome, and data flows.
    Open,
    /// Welcome, but this stream carries no data: it was opened before the source was read, or the source is another
    /// one since.
    Dataless,
}

#[derive(Debug, Clone)]
struct Held<P: Payload> {
    entry: Arc<P::Entry>,
    digest: Digest,
}

/// Holds what the source offers; outlives streams. The transport reports what happens and pulls messages with
/// [`AgentEnd::next`] whenever it can send one, so that a change is compared and encoded as late as possible.
#[derive(Debug, Clone)]
pub struct AgentEnd<P: Payload = Services> {
    config: AgentConfig,
    incarnation: Option<String>,
    complete: bool,
    entries: BTreeMap<P::Key, Held<P>>,
    tree: DigestTree,
    /// Namespaces of which something was held, and nothing is: they were read, so that they are empty is known whatever rest is
    /// not.
    emptied: NamespaceSet,
    unknown: UnknownScopes,
    rest_unknown: bool,
    freshness: Vec<Freshness>,
    rejects: BTreeMap<P::Key, Reject<P>>,
    /// Services that fit in no frame. They are held nowhere, so that both ends' digests agree without them.
    too_large: BTreeMap<P::Key, Reject<P>>,
    supersessions: receive::Supersessions,
    stream: Option<Stream<P>>,
    /// What is granted to the writer on each stream; `None`: no reports.
    report_credit: Option<Credit>,
    /// Reports that came so far, on all streams.
    report_tickets: u64,
    facts: Option<P::Facts>,
}

impl<P: Payload> AgentEnd<P> {
    /// Holds nothing yet.
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
            rejects: BTreeMap::new(),
            too_large: BTreeMap::new(),
            supersessions: receive::Supersessions::default(),
            stream: None,
            report_credit: None,
            report_tickets: 0,
            facts: None,
        }
    }

    /// The source has told what it is. If it is another one than the open stream's Hello said, that stream carries no
    /// more data, and [`Self::wants_redial`] tells when the new source is ready.
    pub fn set_incarnation(&mut self, incarnation: String) {
        self.incarnation = Some(incarnation);
    }

    /// The newest state of a key in the source; `None`: it is gone. A Service that fits in no frame counts as gone and
    /// is found in [`Self::rejects`].
    pub fn set(&mut self, key: P::Key, entry: Option<Arc<P::Entry>>, now: Instant) {
        if self.too_large.remove(&key).is_some() {
            self.rejects.remove(&key);
        }
        let entry = entry.filter(|entry| self.fits(&key, entry));
        let old = self.entries.get(&key);
        if old.map(|held| &held.entry) == entry.as_ref() {
            return;
        }
        let told = old.map(|held| held.entry.clone());
        let digest = entry.as_ref().map(|entry| digest_after(&key, old, entry));
        if let Some(old) = old {
            self.tree.subtract(key.namespace(), old.digest);
        }
        if let Some(stream) = &mut self.stream {
            let refused = self.rejects.get(&key).is_some_and(|reject| reject.reason == P::Reason::INVALID);
            stream.changed(&key, told, refused, now);
        }
        match (entry, digest) {
            (Some(entry), Some(digest)) => {
                self.tree.add(key.namespace(), digest);
                self.entries.insert(key, Held { entry, digest });
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

    fn fits(&mut self, key: &P::Key, entry: &P::Entry) -> bool {
        let len = largest_part::<P>(key, entry);
        if len <= LARGEST_PART {
            return true;
        }
        let message = format!(
            "{} take {len} bytes, more than the {LARGEST_PART} that fit in a frame: make labels and annotations smaller",
            P::INDIVISIBLE
        );
        let reject = Reject { key: Some(key.clone()), reason: P::Reason::TOO_LARGE, retryable: false, message };
        self.too_large.insert(key.clone(), reject.clone());
        self.rejects.insert(key.clone(), reject);
        false
    }

    /// Everything in the source has been read once, or again after a part of it was unknown: nothing is unknown any
    /// more, and a snapshot of what was is owed to the writer.
    pub fn source_complete(&mut self, _now: Instant) {
        self.complete = true;
        let unknown = std::mem::take(&mut self.unknown);
        if let Some(stream) = &mut self.stream {
            for (scope, _) in unknown.iter() {
                stream.owe(&scope);
            }
            stream.announced = UnknownScopes::default();
        }
    }

    /// A part of the source cannot be seen. No snapshot covers it until [`Self::source_complete`]; one that runs is
    /// abandoned. An empty list of namespaces means everything, as on the wire.
    pub fn scope_unknown(&mut self, scope: Scope, reason: String) {
        let scope = if scope == Scope::Namespaces(Vec::new()) { Scope::All } else { scope };
        self.unknown.add(&scope, &reason);
        if let Some(stream) = &mut self.stream {
            stream.abandon_if(&scope);
        }
    }

    /// Whether there may be parts of the source that cannot be named yet. As long as there may, no snapshot covers a
    /// namespace of which nothing ever was held, so that what the writer has of it stands; all else goes on.
    pub fn set_rest_unknown(&mut self, unknown: bool) {
        let was = std::mem::replace(&mut self.rest_unknown, unknown);
        if let Some(stream) = self.stream.as_mut().filter(|_| unknown && !was) {
            stream.abandon();
        }
    }

    /// When the source was last heard, for the next heartbeat. Ages travel as they are given: set them shortly before
    /// [`Self::next`] is asked.
    pub fn set_freshness(&mut self, freshness: Vec<Freshness>) {
        self.freshness = freshness;
    }

    /// A stream opened; Hello is the first message out.
    pub fn connected(&mut self, now: Instant) {
        self.disconnected();
        self.stream = Some(Stream::new(now, self.report_tickets));
    }

    /// The stream is gone.
    pub fn disconnected(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.report_tickets = stream.inbox.last_ticket();
        }
    }

    /// Ends the stream on purpose: after this message nothing comes any more.
    pub fn goodbye(&mut self, reason: GoodbyeReason, message: impl Into<String>) {
        if let Some(stream) = &mut self.stream {
            stream.goodbye = Some(Goodbye { reason, message: message.into(), retry_after: None });
        }
    }

    /// Whether the open stream cannot carry data that a new one could.
    #[must_use]
    pub fn wants_redial(&self) -> bool {
        self.may_offer() && self.stream.as_ref().is_some_and(|stream| stream.is_dataless(self.incarnation.as_deref()))
    }

    /// Whether a Hello may tell what is held.
    fn may_offer(&self) -> bool {
        self.complete && self.unknown.all().is_none() && self.incarnation.is_some()
    }

    /// Everything the source offers.
    pub fn entries(&self) -> impl Iterator<Item = (&P::Key, &Arc<P::Entry>)> {
        self.entries.iter().map(|(key, held)| (key, &held.entry))
    }

    /// The keys of what the source offers in a namespace (empty: in every one), in order, after one of them.
    pub fn keys_after(&self, namespace: &str, after: Option<&P::Key>) -> impl Iterator<Item = &P::Key> {
        key::within(&self.entries, namespace, after)
    }

    /// What the source offers under a key.
    #[must_use]
    pub fn entry(&self, key: &P::Key) -> Option<&Arc<P::Entry>> {
        self.entries.get(key).map(|held| &held.entry)
    }

    /// What the writer, or a frame, would not take.
    #[must_use]
    pub fn rejects(&self) -> &BTreeMap<P::Key, Reject<P>> {
        &self.rejects
    }

    /// Digests of what the source offers.
    #[must_use]
    pub fn tree(&self) -> &DigestTree {
        &self.tree
    }

    /// What cannot be seen of the source.
    #[must_use]
    pub fn unknown(&self) -> &UnknownScopes {
        &self.unknown
    }

    /// Whether the source has been read once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether the writer has not yet acknowledged a key's newest state. Without a stream that carries data that is so
    /// for every key, for nothing is known of the writer.
    #[must_use]
    pub fn is_pending(&self, key: &P::Key) -> bool {
        match self.flowing() {
            None => self.entries.contains_key(key),
            Some(stream) => stream.is_pending(key) || (stream.owes(key) && self.entries.contains_key(key)),
        }
    }

    /// Number of keys that wait to be sent or acknowledged; one that waits for two reasons counts twice.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.backlog() + self.flowing().map_or(0, |stream| stream.window.in_flight())
    }

    /// Number of keys that wait to be sent; every key while no stream carries data.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let Some(stream) = self.flowing() else { return self.entries.len() };
        let owed = if stream.owed.is_all() {
            self.tree.count()
        } else {
            let owed = self.tree.namespaces().filter(|(namespace, ..)| stream.owed.contains(namespace));
            owed.map(|(_, count, _)| count).sum()
        };
        stream.unsent() + usize::try_from(owed).unwrap_or(usize::MAX)
    }

    fn flowing(&self) -> Option<&Stream<P>> {
        self.stream.as_ref().filter(|stream| stream.flows(self.incarnation.as_deref()))
    }

    /// The writer's number for the open stream.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.stream.as_ref()?.generation
    }

    /// How far the stream has come.
    #[must_use]
    pub fn stream_state(&self) -> StreamState {
        match &self.stream {
            None => StreamState::Closed,
            Some(stream) if stream.generation.is_none() => StreamState::Opening,
            Some(stream) if stream.is_dataless(self.incarnation.as_deref()) => StreamState::Dataless,
            Some(_) => StreamState::Open,
        }
    }

    /// When [`Self::next`] may have something although nothing happened.
    #[must_use]
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.stream.as_ref()?.heartbeat_due(now)
    }
}

/// The digest of `new`, at the cost of what changed: a large Service of which one endpoint changes is the usual case.
fn digest_after<P: Payload>(key: &P::Key, old: Option<&Held<P>>, new: &Arc<P::Entry>) -> Digest {
    match old.map(|old| (old, P::Entry::between(Some(&old.entry), Some(new)))) {
        Some((old, Some(Change::Update { header, parts }))) if parts.len() * 4 < new.part_count() => {
            let (mut entry, mut digest) = ((*old.entry).clone(), old.digest);
            entry.update(key, &mut digest, header, parts);
            digest
        }
        _ => new.digest(key),
    }
}
