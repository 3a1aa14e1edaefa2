//! The writer's end of one backend: the entries that its agent sent, and which of them have to be reconciled.

mod contents;
mod data;
mod deadlines;
mod holdings;
mod receive;
mod rejects;
mod reports;
mod resync;
mod snapshot;
mod sources;
mod staging;
mod unacknowledged;
mod way_back;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{Digest, DigestTree};

use crate::ledger::Ledger;
use crate::namespaces::NamespaceSet;
use crate::{
    CarriedBy, Credit, Goodbye, GoodbyeReason, Hello, Key as _, Need, PROTOCOL, Payload, Reject, Scope, Services,
    Summary, UnknownScopes, Welcome, WriterMessage,
};
use contents::RequestedContents;
use holdings::{Holdings, Knowledge};
use rejects::Rejects;
use reports::Reports;
pub use reports::{ReportError, TooLarge};
use resync::Resync;
use snapshot::Snapshot;
use sources::HeardSources;
use staging::Unfinished;
use unacknowledged::Unacknowledged;

/// Largest number of namespaces, and of bytes of their names, that a Need lists. Beyond these it asks for everything.
const LISTED: (usize, usize) = (8000, 600 << 10);

/// What a writer grants an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterLimits {
    /// The window for data.
    pub credit: Credit,
    /// The stream ends after this time without a message.
    pub heartbeat_timeout: Duration,
}

/// The result of reconciling a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<P: Payload = Services> {
    /// The key's newest state is in effect.
    Applied,
    /// It is not in effect, for this reason. A hold is a reason too.
    Rejected(Reject<P>),
}

/// What the caller has to do after a message.
#[derive(Debug, Clone, PartialEq)]
pub enum WriterOutput<P: Payload = Services> {
    /// Reconcile the key: its state is new or was sent again.
    Changed(P::Key),
    /// Reconcile the key: it is gone from the source, by an explicit removal or by proven absence.
    Removed(P::Key),
    /// A complete snapshot covered `scope`, so every other key in it is absent. The caller reports the ones that only
    /// it knows of with [`WriterEnd::expect`].
    ScopeComplete {
        /// The part of the source that the snapshot covered.
        scope: Scope,
        /// The number of its last frame.
        seq: u64,
        /// When its first frame came.
        begun: Instant,
    },
    /// A part of the source became unknown.
    ScopeUnknown,
    /// The agent has dealt with the latest report of an entry.
    ReportDone {
        /// The entry.
        key: P::Key,
        /// The report.
        report: P::Report,
    },
    /// The agent could not parse the latest report of an entry. It is sent again on the next stream.
    ReportUnreadable {
        /// The entry.
        key: P::Key,
        /// The report.
        report: P::Report,
        /// The agent's parse error, for logs.
        reason: String,
    },
    /// The agent has answered [`WriterEnd::want_content`].
    Content {
        /// As it was asked for; the content has this hash.
        hash: P::Hash,
        /// `None`: the agent has no such content, or sent another one.
        content: Option<P::Content>,
    },
    /// Send what [`WriterEnd::take_messages`] returns, and close the stream.
    Close,
    /// Log that something could not be parsed.
    Unreadable {
        /// The key, if that is known.
        key: Option<P::Key>,
        /// The reason.
        reason: String,
    },
}

/// The state of one stream.
#[derive(Debug, Clone)]
struct Stream<P: Payload> {
    /// Whether Hello offered data.
    data: bool,
    ledger: Ledger<P::Key>,
    unacknowledged: Unacknowledged,
    snapshot: Option<Snapshot<P>>,
    unfinished: Option<Unfinished<P>>,
    /// Namespaces where an update can be applied, because no frame was lost since both ends held the same.
    trusted: NamespaceSet,
    /// Keys whose newest state could not be parsed, so an update of it cannot be applied.
    broken: BTreeSet<P::Key>,
    resync: Resync,
    /// Whether a requested snapshot has not begun yet.
    awaiting: bool,
}

/// The entries of one backend; outlives streams.
#[derive(Debug, Clone)]
pub struct WriterEnd<P: Payload = Services> {
    limits: WriterLimits,
    holdings: Holdings<P>,
    knowledge: Knowledge,
    rejects: Rejects<P>,
    stream: Option<Stream<P>>,
    outbox: Vec<WriterMessage<P>>,
    has_more: bool,
    hello: Option<Hello>,
    generation: u64,
    sources: HeardSources,
    backlog: u64,
    last_heard: Option<Instant>,
    /// The agent's silence counts from here at the earliest.
    excused: Option<Instant>,
    last_complete: Option<(Instant, Scope)>,
    reports: Reports<P>,
    contents: RequestedContents<P>,
    facts: Option<P::Facts>,
    /// Whether the facts were not sent on this stream yet.
    facts_changed: bool,
}

impl<P: Payload> WriterEnd<P> {
    /// Creates an end that holds nothing.
    #[must_use]
    pub fn new(limits: WriterLimits) -> Self {
        Self {
            limits,
            holdings: Holdings::default(),
            knowledge: Knowledge::default(),
            rejects: Rejects::default(),
            stream: None,
            outbox: Vec::new(),
            has_more: false,
            hello: None,
            generation: 0,
            sources: HeardSources::default(),
            backlog: 0,
            last_heard: None,
            excused: None,
            last_complete: None,
            reports: Reports::default(),
            contents: RequestedContents::default(),
            facts: None,
            facts_changed: false,
        }
    }

    /// Called when a stream of this backend opened and its identity and incarnation were checked. Drops the state of an
    /// older stream, but not the entries that it brought.
    pub fn open(&mut self, hello: &Hello, backend: &str, generation: u64, now: Instant) -> Vec<WriterOutput<P>> {
        self.closed();
        self.hello = Some(hello.clone());
        self.generation = generation;
        self.sources.opened(now);
        self.last_heard = Some(now);
        let (lowest, highest) = hello.protocol;
        if !(lowest..=highest).contains(&PROTOCOL) {
            let message = format!(
                "the agent speaks protocol {lowest} to {highest}, this writer {PROTOCOL}: update the older of the two"
            );
            return vec![self.dismiss(GoodbyeReason::Protocol, message)];
        }
        let (need, outputs) = self.need(hello.held);
        self.stream = Some(Stream::new(hello.held.is_some()));
        self.outbox.push(WriterMessage::Welcome(Welcome {
            protocol: PROTOCOL,
            generation,
            need,
            credit: self.limits.credit,
            backend: backend.into(),
            heartbeat_timeout: self.limits.heartbeat_timeout,
            capabilities: P::CAPABILITIES.into(),
        }));
        self.rejects.opened();
        self.way_back_opened();
        outputs
    }

    /// Returns what the agent has to send so that both ends hold the same.
    fn need(&mut self, held: Option<Summary>) -> (Need, Vec<WriterOutput<P>>) {
        let Some(offered) = held else { return (Need::Nothing, Vec::new()) };
        let tree = &self.holdings.tree;
        if !self.knowledge.was_complete() {
            return (Need::All, Vec::new());
        }
        if offered == (Summary { count: tree.count(), digest: tree.root() }) {
            self.knowledge.proven(&Scope::All);
            return (Need::Nothing, self.reread());
        }
        let mut namespaces: BTreeMap<Arc<str>, Summary> =
            tree.namespaces().map(|(name, count, digest)| (name.clone(), Summary { count, digest })).collect();
        // A summary that nothing equals: what could not be read may be gone, and a namespace that is left out proves nothing.
        let unequal = Summary { count: u64::MAX, ..Summary::default() };
        let unreadable = self.rejects.all_unreadable();
        namespaces.extend(unreadable.into_iter().map(|key| (key.namespace().clone(), unequal)));
        let names: usize = namespaces.keys().map(|namespace| namespace.len()).sum();
        let lists = !namespaces.is_empty() && namespaces.len() <= LISTED.0 && names <= LISTED.1;
        let need = if lists && self.knowledge.is_complete() {
            Need::Namespaces(namespaces.into_iter().collect())
        } else {
            Need::All
        };
        (need, Vec::new())
    }

    /// Called when the agent holds exactly what is held here, so no unparsed state is left.
    fn reread(&mut self) -> Vec<WriterOutput<P>> {
        let keys = self.rejects.all_unreadable();
        let holdings = &self.holdings;
        self.rejects.forget_unreadable(|key| holdings.get(key).is_none());
        let held = keys.into_iter().filter(|key| holdings.get(key).is_some());
        let rejects = &mut self.rejects;
        held.inspect(|key| rejects.readable(key)).map(WriterOutput::Changed).collect()
    }

    /// Called when the stream is gone. Entries, and the knowledge of what is complete, stay.
    pub fn closed(&mut self) {
        self.stream = None;
        self.outbox.clear();
        self.has_more = false;
    }

    /// Sets the result of reconciling a key. The agent receives only changes of it.
    pub fn settle(&mut self, key: &P::Key, outcome: Outcome<P>) {
        match outcome {
            Outcome::Applied => self.rejects.resolve(key),
            Outcome::Rejected(reject) => self.rejects.reject(key, Reject { key: Some(key.clone()), ..reject }),
        }
        if let Some(stream) = &mut self.stream {
            stream.ledger.settle(key);
        }
        self.reports.settled(key);
    }

    /// Adds a key that has to be settled before a frame is acknowledged.
    pub fn expect(&mut self, key: &P::Key, seq: u64) {
        if let Some(stream) = &mut self.stream {
            stream.ledger.wait(key, seq);
        }
    }

    /// Whether the agent may soon send nothing more before something is acknowledged.
    #[must_use]
    pub fn is_credit_scarce(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.unacknowledged.is_half_used(self.limits.credit))
    }

    /// Requests a snapshot of everything, if a stream with data is open. Names those of `namespaces` that have no
    /// entries here: while a part of the source is unknown, an agent confirms only named namespaces as empty.
    pub fn request_snapshot(&mut self, namespaces: impl IntoIterator<Item = Arc<str>>, reason: &str) {
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.data && !stream.awaiting) else { return };
        stream.awaiting = true;
        let empty = namespaces.into_iter().filter(|namespace| self.holdings.tree.namespace(namespace).0 == 0);
        let mut bytes = 0;
        let listed = empty.take(LISTED.0).take_while(|namespace| {
            bytes += namespace.len();
            bytes <= LISTED.1
        });
        let named: Vec<_> = listed.map(|namespace| (namespace, Summary::default())).collect();
        if !named.is_empty() {
            self.outbox.push(WriterMessage::Resync { need: Need::Namespaces(named), reason: reason.into() });
        }
        self.outbox.push(WriterMessage::Resync { need: Need::All, reason: reason.into() });
    }

    /// Returns all messages to send now: see [`Self::take_messages_within`].
    pub fn take_messages(&mut self) -> Vec<WriterMessage<P>> {
        self.take_messages_within(usize::MAX)
    }

    /// Returns at most `room` of the messages to send now, so that what an agent does not read is not kept as messages:
    /// control messages and new rejects, at most one cumulative Ack, then facts, the rejects that are older than the
    /// stream, requests, and as many reports as the agent's window allows. So an agent that receives a report of an entry
    /// has received its reject, if it has one. [`Self::has_more`] says whether to call again when there is room.
    pub fn take_messages_within(&mut self, room: usize) -> Vec<WriterMessage<P>> {
        let mut messages: Vec<_> = self.outbox.drain(..room.min(self.outbox.len())).collect();
        if let Some(stream) = &mut self.stream {
            // An Ack says that what is rejected was rejected before.
            if self.rejects.take_changed(room, &mut messages)
                && messages.len() < room
                && let Some(seq) = stream.ledger.acknowledge()
            {
                stream.unacknowledged.acknowledged(seq);
                messages.push(WriterMessage::Ack(seq));
            }
            self.take_facts(room, &mut messages);
            self.rejects.take_earlier(room, &mut messages);
            self.take_way_back(room, &mut messages);
        }
        self.has_more = messages.len() == room;
        messages
    }

    /// Returns whether the last [`Self::take_messages_within`] may have left messages for which there was no room.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns the entry of a key.
    #[must_use]
    pub fn entry(&self, key: &P::Key) -> Option<&Arc<P::Entry>> {
        self.holdings.get(key)
    }

    /// Returns the digest of the entry of a key.
    #[must_use]
    pub fn digest(&self, key: &P::Key) -> Option<Digest> {
        self.holdings.digest(key)
    }

    /// Returns the frame that carried the entry of a key last.
    #[must_use]
    pub fn carried_by(&self, key: &P::Key) -> Option<CarriedBy> {
        self.holdings.carried_by(key)
    }

    /// Returns all entries, in order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = (&P::Key, &Arc<P::Entry>)> {
        self.holdings.iter()
    }

    /// Returns the keys of a namespace (of all if it is empty), in order, that come after `after`.
    pub fn keys_after(&self, namespace: &str, after: Option<&P::Key>) -> impl Iterator<Item = &P::Key> {
        self.holdings.keys_after(namespace, after)
    }

    /// Returns the digests of the entries.
    #[must_use]
    pub fn tree(&self) -> &DigestTree {
        &self.holdings.tree
    }

    /// Returns whether the agent removed a key explicitly.
    #[must_use]
    pub fn removed_explicitly(&self, key: &P::Key) -> bool {
        self.holdings.was_removed(key)
    }

    /// Returns whether the agent holds a state of a key that could not be parsed. Such a key is not absent, whatever is
    /// held here.
    #[must_use]
    pub fn is_unreadable(&self, key: &P::Key) -> bool {
        self.rejects.is_unreadable(key)
    }

    /// Called when nothing is left of a removed key.
    pub fn forget_removed(&mut self, key: &P::Key) {
        self.holdings.forget_removed(key);
    }

    /// Returns whether a key without an entry is absent from the source in this namespace: since the process started, a
    /// complete snapshot or an equal digest covered it, nothing was lost since, and it is not unknown now.
    #[must_use]
    pub fn knows(&self, namespace: &str) -> bool {
        self.knowledge.knows(namespace)
    }

    /// Returns whether a key without an entry is absent, as [`Self::knows`] says, in the whole source.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.knowledge.is_complete()
    }

    /// Returns when the running snapshot began.
    #[must_use]
    pub fn snapshot_begun(&self) -> Option<Instant> {
        Some(self.stream.as_ref()?.snapshot.as_ref()?.begun)
    }

    /// Returns when the last complete snapshot began and what it covered.
    #[must_use]
    pub fn last_complete(&self) -> Option<&(Instant, Scope)> {
        self.last_complete.as_ref()
    }

    /// Returns the rejects that are in force.
    #[must_use]
    pub fn rejects(&self) -> &BTreeMap<P::Key, Reject<P>> {
        self.rejects.standing()
    }

    /// Returns the number of rejects by reason.
    #[must_use]
    pub fn reject_counts(&self) -> &BTreeMap<P::Reason, usize> {
        self.rejects.counts()
    }

    /// Returns the parts of its source that the agent cannot read.
    #[must_use]
    pub fn unknown(&self) -> &UnknownScopes {
        self.knowledge.unknown()
    }

    /// Returns the number of entries that waited in the agent at the last heartbeat.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Returns when the agent was last heard.
    #[must_use]
    pub fn last_heard(&self) -> Option<Instant> {
        self.last_heard
    }

    /// Returns whether a stream is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the newest stream's number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the newest stream's Hello.
    #[must_use]
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// Ends the stream with a Goodbye.
    fn dismiss(&mut self, reason: GoodbyeReason, message: String) -> WriterOutput<P> {
        self.stream = None;
        self.outbox.push(WriterMessage::Goodbye(Goodbye { reason, message, retry_after: None }));
        WriterOutput::Close
    }
}

impl<P: Payload> Stream<P> {
    fn new(data: bool) -> Self {
        Self {
            data,
            ledger: Ledger::default(),
            unacknowledged: Unacknowledged::default(),
            snapshot: None,
            unfinished: None,
            trusted: NamespaceSet::of(&Scope::All),
            broken: BTreeSet::new(),
            resync: Resync::default(),
            awaiting: false,
        }
    }
}
