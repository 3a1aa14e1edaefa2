//! Produces the agent's messages. Each is made when the transport asks for it, so that the newest state is sent and no
//! event is queued.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::Digest;

use super::AgentEnd;
use super::snapshot::{LastSent, Snapshot, Start};
use super::stream::{Begun, Offer, SentChanges, Stream};
use crate::size::{FRAME, change_len, piece_len, scope_len};
use crate::split::parts;
use crate::window::{FrameRoom, WindowShare};
use crate::{
    AgentMessage, ChangeSince, Data, Entry, EntryChange, Frame, Hello, KeptEntry, Key, PROTOCOL, Payload, Scope,
    Summary, key,
};

/// Largest number of namespaces in one message. With it the message fits in a frame however long the names are.
const NAMESPACES: usize = 1000;
/// Why a namespace counts as unknown although the source was read.
const WITHHELD: &str = "it has an entry that fits in no frame";

impl<P: Payload> AgentEnd<P> {
    /// Returns the next message to send, if there is one and the writer has room for it. Hello first; then Goodbye,
    /// unknown scopes and heartbeats; then what answers the writer; then, within the credit, the rest of a divided
    /// change, the begin of a snapshot, other changes, and the pieces of a snapshot.
    pub fn next(&mut self, now: Instant) -> Option<AgentMessage<P>> {
        let offers = self.may_offer();
        let stream = self.stream.as_mut().filter(|stream| !stream.ended)?;
        if stream.offer.is_none() {
            return Some(AgentMessage::Hello(self.hello(offers)));
        }
        if let Some(goodbye) = stream.goodbye.take() {
            stream.ended = true;
            return Some(AgentMessage::Goodbye(goodbye));
        }
        if let Some(unknown) = self.announcement() {
            return Some(unknown);
        }
        if let Some(heartbeat) = self.heartbeat(now) {
            return Some(heartbeat);
        }
        if let Some(back) = self.back() {
            return Some(back);
        }
        self.flowing()?;
        self.spell_out(now);
        self.change(now).or_else(|| self.begin()).or_else(|| self.delta(now)).or_else(|| self.bulk(now))
    }

    fn hello(&mut self, offers: bool) -> Hello {
        let held = offers.then(|| Summary { count: self.tree.count(), digest: self.tree.root() });
        if let Some(stream) = &mut self.stream {
            let tree = self.tree.clone();
            stream.offer = Some(Offer { incarnation: self.incarnation.clone(), data: offers, tree });
        }
        Hello {
            protocol: (PROTOCOL, PROTOCOL),
            capabilities: P::CAPABILITIES.into(),
            backend: self.config.backend.clone(),
            agent_instance: self.config.instance.clone(),
            source_incarnation: self.incarnation.clone().unwrap_or_default(),
            held,
            agent_version: self.config.version.clone(),
        }
    }

    /// Returns the announcement of an unknown scope. Each is announced once on a stream, and again when its reason
    /// changes. Namespaces with the same reason share a message.
    fn announcement(&mut self) -> Option<AgentMessage<P>> {
        let withheld: Vec<Arc<str>> =
            self.withheld().filter(|namespace| !self.unknown.contains(namespace)).cloned().collect();
        let stream = self.stream.as_mut()?;
        let (scope, reason) = match self.unknown.all() {
            Some(reason) if stream.announced.all() != Some(reason) => (Scope::All, reason.to_owned()),
            _ => {
                let announced = &stream.announced;
                let is_announced = |namespace: &str, reason: &str| announced.reason(namespace) == Some(reason);
                let withheld = withheld.iter().map(|namespace| (namespace, WITHHELD));
                let unknown = self.unknown.namespaces().chain(withheld);
                let mut unannounced = unknown.filter(|(namespace, reason)| !is_announced(namespace, reason)).peekable();
                let reason = unannounced.peek()?.1.to_owned();
                let alike = unannounced.filter(|(_, other)| *other == reason).map(|(namespace, _)| namespace.clone());
                (Scope::Namespaces(alike.take(NAMESPACES).collect()), reason)
            }
        };
        stream.announced.add(&scope, &reason);
        Some(AgentMessage::ScopeUnknown { scope, reason })
    }

    fn heartbeat(&mut self, now: Instant) -> Option<AgentMessage<P>> {
        let backlog = self.backlog() as u64;
        let stream = self.stream.as_mut()?;
        stream.heartbeat_due(now).filter(|due| *due <= now)?;
        stream.last_heartbeat = Some(now);
        Some(AgentMessage::Heartbeat { sources: self.freshness.clone(), backlog, clock_ms: self.clock_ms })
    }

    /// Queues the entries of namespaces that no snapshot can cover, for they are unknown or have an entry that is too large, so
    /// that the writer has the others.
    fn spell_out(&mut self, now: Instant) {
        let Some(stream) = &self.stream else { return };
        let of_all = self.tree.namespaces().map(|(namespace, ..)| namespace).filter(|_| self.unknown.all().is_some());
        let unknown = self.unknown.namespaces().map(|(namespace, _)| namespace).chain(of_all);
        let unknown = unknown.filter(|_| P::SENDS_UNKNOWN);
        let due = |namespace: &&Arc<str>| stream.owed.contains(namespace) && !stream.spelled_out.contains(*namespace);
        let due: Vec<Arc<str>> = self.withheld().chain(unknown).filter(due).cloned().collect();
        for namespace in due {
            let keys: Vec<P::Key> = key::within(&self.entries, &namespace, None).cloned().collect();
            if let Some(stream) = &mut self.stream {
                for key in &keys {
                    let since = self.unsent.remove(key).unwrap_or_else(|| ChangeSince::now(now));
                    stream.queue_unknown(key, since);
                }
                stream.spelled_out.insert(namespace);
            }
        }
    }

    /// Begins a snapshot: freezes a view of what the writer needs and the source knows.
    fn begin(&mut self) -> Option<AgentMessage<P>> {
        let scope = self.startable()?;
        let stream = self.stream.as_mut()?;
        let mut room = stream.window.room(WindowShare::Bulk, 0);
        // The frames that fill the window may be lost, and the writer only notices by a later frame. So a Begin that it
        // asked for ignores the window.
        if !std::mem::take(&mut stream.asked) && !room.take_frame(FRAME + scope_len(&scope)) {
            return None;
        }
        stream.owed.remove(&scope);
        stream.inbox.retain(|key| !scope.contains(key.namespace()) || self.entries.contains_key(key));
        let waited = stream.outbox.take(|key| scope.contains(key.namespace()) && self.entries.contains_key(key));
        // What changed while no stream carried changes is as old as that; where both are known, that was earlier.
        let mut since: BTreeMap<P::Key, ChangeSince> = waited.iter().cloned().collect();
        let first = waited.into_iter().map(|(key, _)| key).collect();
        since.extend(self.unsent.extract_if(.., |key, _| scope.contains(key.namespace())));
        let gone = stream.outbox.keys().filter(|key| scope.contains(key.namespace())).cloned().collect();
        let (summary, view): (_, Vec<_>) = match &scope {
            Scope::All => {
                let view = self.entries.iter().collect();
                (Summary { count: self.tree.count(), digest: self.tree.root() }, view)
            }
            Scope::Namespaces(namespaces) => {
                let mut summary = Summary::default();
                for namespace in namespaces {
                    let (count, digest) = self.tree.namespace(namespace);
                    summary = Summary { count: summary.count + count, digest: summary.digest + digest };
                }
                let of = |namespace: &Arc<str>| {
                    let namespace = namespace.clone();
                    let first = P::Key::first_in(namespace.clone());
                    self.entries.range(first..).take_while(move |(key, _)| *key.namespace() == namespace)
                };
                (summary, namespaces.iter().flat_map(of).collect())
            }
        };
        let view = view.into_iter().map(|(key, held)| (key.clone(), held.entry.clone(), held.digest));
        stream.snapshot = Some(Snapshot::new(scope.clone(), summary, view, first, since, gone));
        Some(frame(stream, room, Frame::SnapshotBegin { scope }))
    }

    /// Returns the scope that a snapshot can begin with now, which has no unknown part.
    fn startable(&self) -> Option<Scope> {
        let stream = self.stream.as_ref().filter(|stream| stream.snapshot.is_none() && stream.begun.is_none())?;
        if self.unknown.all().is_some() {
            return None;
        }
        if stream.owed.has_rest() && self.unknown.is_empty() && !self.rest_unknown && self.withheld().next().is_none() {
            return Some(Scope::All);
        }
        let held = |namespace: &str| self.tree.namespace(namespace).0 > 0;
        let read = |namespace: &str| !self.rest_unknown || held(namespace) || self.emptied.contains(namespace);
        let known =
            |namespace: &&Arc<str>| !self.unknown.contains(namespace) && !self.withholds(namespace) && read(namespace);
        // Only a snapshot of everything covers namespaces that neither end names. Until that can begin, the namespaces
        // that have entries, or that the writer named, do not wait for the unknown ones.
        let namespaces: Vec<_> = if stream.owed.has_rest() {
            let named = stream.named.iter().filter(|namespace| !held(namespace));
            let all = self.tree.namespaces().map(|(namespace, ..)| namespace).chain(named);
            all.filter(|namespace| stream.owed.contains(namespace)).filter(known).take(NAMESPACES).cloned().collect()
        } else {
            stream.owed.listed().iter().filter(known).take(NAMESPACES).cloned().collect()
        };
        (!namespaces.is_empty()).then_some(Scope::Namespaces(namespaces))
    }

    /// Continues a change that did not fit in one frame.
    fn change(&mut self, now: Instant) -> Option<AgentMessage<P>> {
        self.stream.as_ref()?.begun.as_ref()?;
        self.delta(now)
    }

    fn delta(&mut self, now: Instant) -> Option<AgentMessage<P>> {
        let stream = self.stream.as_mut()?;
        let mut room = stream.window.room(WindowShare::Whole, FRAME);
        let carried = stream.next_frame(now);
        let mut changes = Vec::new();
        let mut sent: Vec<(P::Key, ChangeSince)> = Vec::new();
        let mut oldest: Option<ChangeSince> = None;
        loop {
            if let Some(begun) = &mut stream.begun {
                if let Some(part) = begun.parts.pop_front_if(|part| room.take(change_len(part), &begun.key)) {
                    oldest = Some(oldest.map_or(begun.since, |oldest| oldest.older(begun.since)));
                    changes.push(Ok(part));
                }
                if !begun.parts.is_empty() {
                    break;
                }
                if let Some(begun) = stream.begun.take() {
                    if let Some(held) = self.entries.get_mut(&begun.key) {
                        held.progress.send(carried);
                    }
                    sent.push((begun.key, begun.since));
                }
            }
            let Some((key, base, since)) = stream.outbox.oldest() else { break };
            let key = key.clone();
            let current = self.entries.get(&key).map(|held| &held.entry);
            let change = change_from(&key, base, current, stream.snapshot.as_ref(), self.report_credit.is_some());
            let parts = change.map(|change| parts(&key, change, stream.window.target()));
            if parts.as_ref().is_some_and(|parts| parts.front().is_none_or(|part| !room.would_take(change_len(part)))) {
                break;
            }
            stream.outbox.pop();
            // Only now: an entry that comes back before its removal is sent keeps its report.
            if current.is_none() {
                stream.inbox.forget(&key);
            }
            let Some(parts) = parts else { continue };
            if let Some(snapshot) = &mut stream.snapshot {
                snapshot.mention(&key);
            }
            stream.begun = Some(Begun { key, parts, since });
        }
        let age = oldest?.age_for(stream.takes_age, now);
        let message = frame(stream, room, Frame::Delta { changes, age });
        stream.unacknowledged.push_back(SentChanges { seq: stream.seq, changes: sent });
        Some(message)
    }

    /// Returns the next pieces of a running snapshot, or its end.
    fn bulk(&mut self, now: Instant) -> Option<AgentMessage<P>> {
        let stream = self.stream.as_mut()?;
        let mut room = stream.window.room(WindowShare::Bulk, FRAME);
        let (target, carried) = (stream.window.target(), stream.next_frame(now));
        let snapshot = stream.snapshot.as_mut()?;
        let (mut pieces, mut digest, mut sent) = (Vec::new(), Digest::default(), Vec::new());
        let mut aged = None;
        while let Some(piece) = snapshot.peek(target) {
            let (key, len) = (piece.key.clone(), piece_len(piece));
            // What was read first is no change, and does not get the age of one.
            if *aged.get_or_insert_with(|| snapshot.is_aged(&key)) != snapshot.is_aged(&key) || !room.take(len, &key) {
                break;
            }
            if let Some((piece, whole)) = snapshot.pop() {
                digest = digest + whole.unwrap_or_default();
                if let Some(held) = self.entries.get_mut(&key).filter(|_| whole.is_some()) {
                    held.progress.send(carried);
                }
                let since = whole.and_then(|_| snapshot.take_since(&key));
                sent.extend(since.map(|since| (key, since)));
                pieces.push(Ok(piece));
            }
        }
        if !pieces.is_empty() {
            let oldest = sent.iter().map(|(_, since)| *since).reduce(ChangeSince::older);
            let age = oldest.filter(|_| stream.takes_age).map(|oldest| oldest.age(now));
            let message = frame(stream, room, Frame::SnapshotChunk { pieces, digest: Some(digest), age });
            if !sent.is_empty() {
                stream.unacknowledged.push_back(SentChanges { seq: stream.seq, changes: sent });
            }
            return Some(message);
        }
        if snapshot.unsent() > 0 || !room.take_frame(0) {
            return None;
        }
        let snapshot = stream.snapshot.take()?;
        stream.outbox.settle_on(&snapshot);
        Some(frame(stream, room, Frame::SnapshotEnd { summary: snapshot.summary }))
    }
}

/// Returns the change from what the writer holds to `current`; `None` if there is nothing to send.
///
/// An entry that changed and is now what the writer holds is sent whole if there are reports of it (`reported`): what was
/// reported of it may have been dropped as out of date, and the writer reports again of what comes again.
fn change_from<P: Payload>(
    key: &P::Key,
    base: &LastSent<P>,
    current: Option<&P::Kept>,
    snapshot: Option<&Snapshot<P>>,
    reported: bool,
) -> Option<EntryChange<P>> {
    let current_entry = || current.map(KeptEntry::entry);
    let whole = || current_entry().map(|entry| EntryChange::Replace(Arc::unwrap_or_clone(entry)));
    let start = match (base, snapshot) {
        (LastSent::Unknown, Some(snapshot)) if snapshot.covers(key.namespace()) => snapshot.start(key, current),
        _ => Start::From(base.clone()),
    };
    match start {
        Start::Carried => None,
        Start::From(LastSent::Sent(old)) => {
            let old = old.as_ref().map(KeptEntry::entry);
            let change = P::Entry::between(old.as_deref(), current_entry().as_deref());
            change.or_else(|| whole().filter(|_| reported))
        }
        Start::From(LastSent::Unknown | LastSent::Whole) => Some(whole().unwrap_or(EntryChange::Remove)),
    }
}

/// Numbers a frame and charges it to the window.
fn frame<P: Payload>(stream: &mut Stream<P>, room: FrameRoom<P::Key>, frame: Frame<P>) -> AgentMessage<P> {
    stream.seq += 1;
    stream.window.sent(stream.seq, room);
    AgentMessage::Data(Data { seq: stream.seq, frame, trace: None })
}
