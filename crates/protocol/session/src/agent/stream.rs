//! The agent's state of one stream. It is dropped with the stream.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::DigestTree;

use super::contents::ContentAnswers;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::snapshot::{LastSent, Snapshot};
use crate::capability::Capabilities;
use crate::namespaces::NamespaceSet;
use crate::window::Window;
use crate::{CarriedBy, ChangeSince, Goodbye, Key, Payload, PieceChange, Scope, UnknownScopes};

/// Interval of heartbeats, unless the payload has [another one](Payload::HEARTBEAT).
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// What the stream's Hello said.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) incarnation: Option<String>,
    /// Whether it offered data.
    pub(super) data: bool,
    /// The digests that it was made from, kept until Welcome is compared with them.
    pub(super) tree: DigestTree,
}

/// A change that needs more than one frame. All of it is sent, as it was at the first frame, before other data, unless
/// the writer needs a snapshot of its namespace meanwhile.
#[derive(Debug, Clone)]
pub(super) struct Begun<P: Payload> {
    pub(super) key: P::Key,
    pub(super) parts: VecDeque<PieceChange<P>>,
    pub(super) since: ChangeSince,
}

/// The changes of a frame.
#[derive(Debug, Clone)]
pub(super) struct SentChanges<P: Payload> {
    pub(super) seq: u64,
    pub(super) changes: Vec<(P::Key, ChangeSince)>,
}

#[derive(Debug, Clone)]
pub(super) struct Stream<P: Payload> {
    pub(super) opened: Instant,
    pub(super) offer: Option<Offer>,
    /// The stream's number; set by Welcome.
    pub(super) generation: Option<u64>,
    /// What the writer named in Welcome.
    pub(super) writer_capabilities: Capabilities,
    /// Whether [`capability::CHANGE_AGE`](crate::capability::CHANGE_AGE) is among them.
    pub(super) takes_age: bool,
    pub(super) goodbye: Option<Goodbye>,
    pub(super) ended: bool,
    /// Unknown scopes that were announced to the writer.
    pub(super) announced: UnknownScopes,
    pub(super) last_heartbeat: Option<Instant>,
    pub(super) seq: u64,
    pub(super) window: Window<P::Key>,
    pub(super) outbox: Outbox<P>,
    /// The changes of each frame that is not acknowledged: a writer that ends may not have written them.
    pub(super) unacknowledged: VecDeque<SentChanges<P>>,
    pub(super) begun: Option<Begun<P>>,
    /// Namespaces of which the writer needs a snapshot that has not begun.
    pub(super) owed: NamespaceSet,
    /// Empty namespaces that the writer named last. A snapshot covers them even if the agent has no entries there.
    pub(super) named: BTreeSet<Arc<str>>,
    pub(super) snapshot: Option<Snapshot<P>>,
    /// Owed namespaces that no snapshot can cover now, and whose entries were queued one by one.
    pub(super) spelled_out: BTreeSet<Arc<str>>,
    /// Whether the writer asked for a snapshot that has not begun.
    pub(super) asked: bool,
    pub(super) inbox: Inbox<P>,
    pub(super) contents: ContentAnswers<P>,
}

impl<P: Payload> Stream<P> {
    pub(super) fn new(now: Instant, number: u64) -> Self {
        Self {
            opened: now,
            offer: None,
            generation: None,
            writer_capabilities: Capabilities::default(),
            takes_age: false,
            goodbye: None,
            ended: false,
            announced: UnknownScopes::default(),
            last_heartbeat: None,
            seq: 0,
            window: Window::new(),
            outbox: Outbox::default(),
            unacknowledged: VecDeque::new(),
            begun: None,
            owed: NamespaceSet::default(),
            named: BTreeSet::new(),
            snapshot: None,
            spelled_out: BTreeSet::new(),
            asked: false,
            inbox: Inbox::new(number),
            contents: ContentAnswers::default(),
        }
    }

    /// Returns whether Hello offered data of the present source.
    fn offered(&self, incarnation: Option<&str>) -> bool {
        self.offer.as_ref().is_some_and(|offer| offer.data && offer.incarnation.as_deref() == incarnation)
    }

    pub(super) fn is_dataless(&self, incarnation: Option<&str>) -> bool {
        self.offer.is_some() && !self.offered(incarnation)
    }

    /// Returns whether data may be sent.
    pub(super) fn flows(&self, incarnation: Option<&str>) -> bool {
        self.generation.is_some() && self.offered(incarnation)
    }

    /// Returns whether Hello was sent and offered data, so that changes are queued.
    pub(super) fn carries(&self) -> bool {
        self.offer.as_ref().is_some_and(|offer| offer.data)
    }

    /// Returns the entries whose changes are not acknowledged, each with the age of its oldest change.
    pub(super) fn pending_ages(&self) -> impl Iterator<Item = (&P::Key, ChangeSince)> {
        let begun = self.begun.iter().map(|begun| (&begun.key, begun.since));
        let sent = self.unacknowledged.iter().flat_map(|sent| &sent.changes).map(|(key, since)| (key, *since));
        self.outbox.ages().chain(begun).chain(sent).chain(self.snapshot.iter().flat_map(Snapshot::unsent_ages))
    }

    /// Returns the frame that would be sent now.
    pub(super) fn next_frame(&self, now: Instant) -> CarriedBy {
        CarriedBy { generation: self.generation.unwrap_or_default(), seq: self.seq + 1, at: now }
    }

    /// The writer has acknowledged all frames up to this number. Calls `done` for each key that no later frame carries.
    pub(super) fn acknowledged(&mut self, seq: u64, done: impl FnMut(P::Key)) {
        self.window.acknowledged(seq, done);
        while self.unacknowledged.pop_front_if(|sent| sent.seq <= seq).is_some() {}
    }

    /// Called when a key changes from the state `sent`. `refused` says that the writer may not have been able to parse
    /// that state.
    pub(super) fn changed(&mut self, key: &P::Key, sent: Option<P::Kept>, refused: bool, since: ChangeSince) {
        // Before Hello, or after one without data, nothing was sent.
        if self.carries() {
            let unsure = refused
                || self.owed.contains(key.namespace())
                || self.snapshot.as_ref().is_some_and(|s| s.covers(key.namespace()) && !s.is_mentioned(key));
            self.outbox.mark(key, || if unsure { LastSent::Unknown } else { LastSent::Sent(sent) }, since);
        }
    }

    /// Queues a key of which it is not known what the writer holds.
    pub(super) fn queue_unknown(&mut self, key: &P::Key, since: ChangeSince) {
        self.outbox.mark(key, || LastSent::Unknown, since);
    }

    /// Called when a key has to be sent whole, whatever was sent of it.
    pub(super) fn send_whole(&mut self, key: &P::Key, now: Instant) {
        if self.carries() {
            self.outbox.mark_whole(key, ChangeSince::now(now));
        }
    }

    /// Queues a snapshot of `scope`. Until then it is not known what the writer holds of it.
    pub(super) fn owe(&mut self, scope: &Scope) {
        if !self.carries() {
            return;
        }
        self.owed.add(scope);
        self.spelled_out.clear();
        let owed = &self.owed;
        self.outbox.forget(|namespace| owed.contains(namespace));
        if let Some(begun) = self.begun.take_if(|begun| owed.contains(begun.key.namespace())) {
            self.outbox.mark(&begun.key, || LastSent::Unknown, begun.since);
        }
    }

    /// Abandons the running snapshot and queues its scope again.
    pub(super) fn abandon(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.owe(&snapshot.scope);
        }
    }

    /// Abandons the running snapshot, as `abandon` does, if it overlaps `scope`.
    pub(super) fn abandon_if(&mut self, scope: &Scope) {
        let touched = self.snapshot.as_ref().is_some_and(|snapshot| match scope {
            Scope::All => true,
            Scope::Namespaces(namespaces) => namespaces.iter().any(|namespace| snapshot.covers(namespace)),
        });
        if touched {
            self.abandon();
        }
    }

    /// Returns when the next heartbeat is due. The first is due at once after Hello.
    pub(super) fn heartbeat_due(&self, now: Instant) -> Option<Instant> {
        let running = self.offer.is_some() && !self.ended;
        running.then(|| self.last_heartbeat.map_or(now, |last| last + P::HEARTBEAT))
    }

    /// Returns whether the entries of a namespace wait for a snapshot. Those that were queued one by one do not.
    pub(super) fn owes(&self, namespace: &str) -> bool {
        self.owed.contains(namespace) && !self.spelled_out.contains(namespace)
    }

    pub(super) fn is_pending(&self, key: &P::Key) -> bool {
        self.outbox.contains(key)
            || self.window.is_in_flight(key)
            || self.begun.as_ref().is_some_and(|begun| begun.key == *key)
            || self.snapshot.as_ref().and_then(|snapshot| snapshot.entry(key)).is_some_and(|(_, sent)| !sent)
    }

    /// Returns the number of keys that wait in the outbox, in a divided change or in a running snapshot.
    pub(super) fn unsent(&self) -> usize {
        let begun = usize::from(self.begun.is_some());
        self.outbox.len() + begun + self.snapshot.as_ref().map_or(0, Snapshot::unsent)
    }
}
