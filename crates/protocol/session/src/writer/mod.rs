//! The writer's end for one backend: what its agent said, and what has to be reconciled.

mod contents;
mod data;
mod holdings;
mod receive;
mod rejects;
mod reports;
mod resync;
mod snapshot;
mod staging;
mod way_back;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::DigestTree;

use crate::ledger::Ledger;
use crate::namespaces::NamespaceSet;
use crate::{
    Credit, Freshness, Goodbye, GoodbyeReason, Hello, Need, PROTOCOL, Payload, Reject, Scope, Services, Summary,
    UnknownScopes, Welcome, WriterMessage,
};
use contents::Contents;
use holdings::{Holdings, Knowledge};
use rejects::Rejects;
use reports::Reports;
use resync::Resync;
use snapshot::Snapshot;
use staging::Unfinished;

/// Most namespaces, and most bytes of their names, that a Need lists; beyond these everything is asked for.
const LISTED: (usize, usize) = (8000, 600 << 10);

/// What a writer grants an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterLimits {
    /// The window.
    pub credit: Credit,
    /// Time within which something must be heard.
    pub heartbeat_timeout: Duration,
}

/// What has become of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<P: Payload = Services> {
    /// The Gimbal cluster is as the key's newest state wants it.
    Applied,
    /// It is not, for this reason; a hold is one too.
    Rejected(Reject<P>),
}

/// What a message leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum WriterOutput<P: Payload = Services> {
    /// The key has to be reconciled: its state is new, or was sent again.
    Changed(P::Key),
    /// The key is gone from the source, by name or by proven absence.
    Removed(P::Key),
    /// A complete snapshot proved what is absent from `scope`; further keys that this makes absent are reported with
    /// [`WriterEnd::expect`].
    ScopeComplete {
        /// What it covered.
        scope: Scope,
        /// The frame that ended it.
        seq: u64,
        /// When it began.
        begun: Instant,
    },
    /// A part of the source cannot be seen.
    ScopeUnknown,
    /// The agent has dealt with the latest report of an entry.
    ReportDone {
        /// The entry.
        key: P::Key,
        /// The report.
        report: P::Report,
    },
    /// The agent has answered [`WriterEnd::want_content`].
    Content {
        /// As it was asked for; the content has this hash.
        hash: P::Hash,
        /// `None`: the agent has no such content.
        content: Option<P::Content>,
    },
    /// The transport sends what [`WriterEnd::take_messages`] still gives, and closes.
    Close,
    /// Something could not be read; for the log.
    Unreadable {
        /// Whose it was, if that is known.
        key: Option<P::Key>,
        /// In words.
        reason: String,
    },
}

/// What is remembered of one stream.
#[derive(Debug, Clone)]
struct Stream<P: Payload> {
    /// Whether Hello offered data.
    data: bool,
    ledger: Ledger<P::Key>,
    snapshot: Option<Snapshot<P>>,
    unfinished: Option<Unfinished<P>>,
    /// Namespaces where a difference can be applied: no frame was lost since both ends agreed on a state.
    trusted: NamespaceSet,
    /// Keys whose newest state could not be read, so that a difference to it cannot be applied.
    broken: BTreeSet<P::Key>,
    resync: Resync,
    /// A snapshot has been asked for and has not begun.
    awaiting: bool,
}

/// One backend's state; outlives streams.
#[derive(Debug, Clone)]
pub struct WriterEnd<P: Payload = Services> {
    limits: WriterLimits,
    holdings: Holdings<P>,
    knowledge: Knowledge,
    rejects: Rejects<P>,
    stream: Option<Stream<P>>,
    outbox: Vec<WriterMessage<P>>,
    hello: Option<Hello>,
    generation: u64,
    freshness: Vec<Freshness>,
    /// When that came, on the open stream.
    heartbeat: Option<Instant>,
    backlog: u64,
    last_heard: Option<Instant>,
    last_complete: Option<(Instant, Scope)>,
    reports: Reports<P>,
    contents: Contents<P>,
    facts: Option<P::Facts>,
    /// The agent of this stream was not told them yet.
    facts_changed: bool,
}

impl<P: Payload> WriterEnd<P> {
    /// Nothing has been heard yet.
    #[must_use]
    pub fn new(limits: WriterLimits) -> Self {
        Self {
            limits,
            holdings: Holdings::default(),
            knowledge: Knowledge::default(),
            rejects: Rejects::default(),
            stream: None,
            outbox: Vec::new(),
            hello: None,
            generation: 0,
            freshness: Vec::new(),
            heartbeat: None,
            backlog: 0,
            last_heard: None,
            last_complete: None,
            reports: Reports::default(),
            contents: Contents::default(),
            facts: None,
            facts_changed: false,
        }
    }

    /// A stream of this backend opened; identity and incarnation are already checked. Whatever an older stream left
    /// behind is forgotten, but for what it said.
    pub fn open(&mut self, hello: &Hello, backend: &str, generation: u64, now: Instant) -> Vec<WriterOutput<P>> {
        self.closed();
        self.hello = Some(hello.clone());
        self.generation = generation;
        self.heartbeat = None;
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
        }));
        self.rejects.tell_again();
        self.tell_all_again();
        outputs
    }

    /// What the agent has to send so that both ends hold the same.
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
        let names: usize = tree.namespaces().map(|(namespace, ..)| namespace.len()).sum();
        let namespaces: Vec<_> =
            tree.namespaces().map(|(name, count, digest)| (name.clone(), Summary { count, digest })).collect();
        let lists = !namespaces.is_empty() && namespaces.len() <= LISTED.0 && names <= LISTED.1;
        let need = if lists && self.knowledge.is_complete() { Need::Namespaces(namespaces) } else { Need::All };
        (need, Vec::new())
    }

    /// The agent holds what is held here, so whatever could not be read is no more.
    fn reread(&mut self) -> Vec<WriterOutput<P>> {
        let keys = self.rejects.all_unreadable();
        let holdings = &self.holdings;
        self.rejects.forget_unreadable(|key| holdings.get(key).is_none());
        let held = keys.into_iter().filter(|key| holdings.get(key).is_some());
        let rejects = &mut self.rejects;
        held.inspect(|key| rejects.readable(key)).map(WriterOutput::Changed).collect()
    }

    /// The stream is gone. What is held stays, and what is known stays known.
    pub fn closed(&mut self) {
        self.stream = None;
        self.outbox.clear();
    }

    /// Notices silence, and asks for what is due.
    pub fn tick(&mut self, now: Instant) -> Vec<WriterOutput<P>> {
        let timeout = self.limits.heartbeat_timeout;
        let heard = self.last_heard.is_some_and(|last| now.saturating_duration_since(last) < timeout);
        if self.stream.is_some() && !heard {
            let message = format!("nothing was heard for {} s", timeout.as_secs_f32());
            return vec![self.dismiss(GoodbyeReason::Timeout, message)];
        }
        self.ask(now);
        Vec::new()
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let stream = self.stream.as_ref()?;
        let silence = self.last_heard.map(|last| last + self.limits.heartbeat_timeout);
        silence.into_iter().chain(stream.resync.due()).min()
    }

    /// What has become of a key. Only what is new is told to the agent.
    pub fn settle(&mut self, key: &P::Key, outcome: Outcome<P>) {
        match outcome {
            Outcome::Applied => self.rejects.resolve(key),
            Outcome::Rejected(reject) => self.rejects.reject(key, Reject { key: Some(key.clone()), ..reject }),
        }
        if let Some(stream) = &mut self.stream {
            stream.ledger.settle(key);
        }
    }

    /// A further key has to be reconciled before a frame counts as done.
    pub fn expect(&mut self, key: &P::Key, seq: u64) {
        if let Some(stream) = &mut self.stream {
            stream.ledger.wait(key, seq);
        }
    }

    /// Asks for a snapshot of everything, if a stream with data is open. Of `namespaces` those are named of which nothing is
    /// held: while a part of the source is unknown, an agent tells of no others that they are empty.
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

    /// Everything to send now: control, one cumulative Ack at most, and then what goes back within the agent's window.
    pub fn take_messages(&mut self) -> Vec<WriterMessage<P>> {
        let mut messages = std::mem::take(&mut self.outbox);
        if let Some(stream) = &mut self.stream {
            self.rejects.take_messages(&mut messages);
            messages.extend(stream.ledger.acknowledge().map(WriterMessage::Ack));
            self.take_way_back(&mut messages);
        }
        messages
    }

    /// What is held under a key.
    #[must_use]
    pub fn entry(&self, key: &P::Key) -> Option<&Arc<P::Entry>> {
        self.holdings.get(key)
    }

    /// Everything held.
    pub fn entries(&self) -> impl Iterator<Item = (&P::Key, &Arc<P::Entry>)> {
        self.holdings.iter()
    }

    /// The keys of what is held of a namespace (empty: of every one), in order, after one of them.
    pub fn keys_after(&self, namespace: &str, after: Option<&P::Key>) -> impl Iterator<Item = &P::Key> {
        self.holdings.keys_after(namespace, after)
    }

    /// Digests of what is held.
    #[must_use]
    pub fn tree(&self) -> &DigestTree {
        &self.holdings.tree
    }

    /// Whether the agent said by name that a key is gone.
    #[must_use]
    pub fn removed_explicitly(&self, key: &P::Key) -> bool {
        self.holdings.was_removed(key)
    }

    /// Whether the agent holds a state of a key that could not be read: whatever is held here, the key is not absent.
    #[must_use]
    pub fn is_unreadable(&self, key: &P::Key) -> bool {
        self.rejects.is_unreadable(key)
    }

    /// Nothing is left of a key that was removed.
    pub fn forget_removed(&mut self, key: &P::Key) {
        self.holdings.forget_removed(key);
    }

    /// Whether absence means something in a namespace: since the process started a complete snapshot, or an equal
    /// digest, covered it, nothing was lost since, and it is not unknown now.
    #[must_use]
    pub fn knows(&self, namespace: &str) -> bool {
        self.knowledge.knows(namespace)
    }

    /// Whether all of the source is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.knowledge.is_complete()
    }

    /// When the snapshot that is coming now began.
    #[must_use]
    pub fn snapshot_begun(&self) -> Option<Instant> {
        Some(self.stream.as_ref()?.snapshot.as_ref()?.begun)
    }

    /// When the last complete snapshot began, and what it covered.
    #[must_use]
    pub fn last_complete(&self) -> Option<&(Instant, Scope)> {
        self.last_complete.as_ref()
    }

    /// What stands rejected.
    #[must_use]
    pub fn rejects(&self) -> &BTreeMap<P::Key, Reject<P>> {
        self.rejects.standing()
    }

    /// How many stand rejected for each reason.
    #[must_use]
    pub fn reject_counts(&self) -> &BTreeMap<P::Reason, usize> {
        self.rejects.counts()
    }

    /// What the agent cannot see of its source.
    #[must_use]
    pub fn unknown(&self) -> &UnknownScopes {
        self.knowledge.unknown()
    }

    /// The source's signs of life, as of the last heartbeat.
    #[must_use]
    pub fn freshness(&self) -> &[Freshness] {
        &self.freshness
    }

    /// For how long the most silent kind of the source has been silent; `None` while the agent of the newest stream has not
    /// told. A kind that never said anything has been silent for ever.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.heartbeat?);
        let longest = self.freshness.iter().map(|source| source.age.unwrap_or(Duration::MAX)).max();
        Some(longest.unwrap_or_default().saturating_add(since))
    }

    /// Services that waited in the agent at the last heartbeat.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// When the agent was last heard.
    #[must_use]
    pub fn last_heard(&self) -> Option<Instant> {
        self.last_heard
    }

    /// Whether a stream is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// The newest stream's number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The newest stream's Hello.
    #[must_use]
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// Ends the stream.
    fn dismiss(&mut self, reason: GoodbyeReason, message: String) -> WriterOutput<P> {
        self.stream = None;
        self.outbox.push(WriterMessage::Goodbye(Goodbye { reason, message, retry_after: None }));
        WriterOutput::Close
    }

    /// Asks for a snapshot, if it is time to.
    fn ask(&mut self, now: Instant) {
        if let Some(stream) = &mut self.stream
            && let Some(reason) = stream.resync.take_due(now)
        {
            stream.awaiting = true;
            self.outbox.push(WriterMessage::Resync { need: Need::All, reason });
        }
    }
}

impl<P: Payload> Stream<P> {
    fn new(data: bool) -> Self {
        Self {
            data,
            ledger: Ledger::default(),
            snapshot: None,
            unfinished: None,
            trusted: NamespaceSet::of(&Scope::All),
            broken: BTreeSet::new(),
            resync: Resync::default(),
            awaiting: false,
        }
    }
}
