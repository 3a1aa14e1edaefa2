//! The agent's end: what the source offers, and what of it the writer must still hear.

mod outbox;
mod receive;
mod send;
mod snapshot;
mod stream;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Change, Digest, DigestTree, Service, SourceKey};

use crate::namespaces::NamespaceSet;
use crate::size::largest_part;
use crate::split::LARGEST_PART;
use crate::{Freshness, Goodbye, GoodbyeReason, Reject, RejectReason, Scope, UnknownScopes};
use stream::Stream;

pub use receive::AgentVerdict;
pub use send::HEARTBEAT;

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
struct Held {
    service: Arc<Service>,
    digest: Digest,
}

/// Holds what the source offers; outlives streams. The transport reports what happens and pulls messages with
/// [`AgentEnd::next`] whenever it can send one, so that a change is compared and encoded as late as possible.
#[derive(Debug, Clone)]
pub struct AgentEnd {
    config: AgentConfig,
    incarnation: Option<String>,
    complete: bool,
    services: BTreeMap<SourceKey, Held>,
    tree: DigestTree,
    /// Namespaces of which something was held, and nothing is: they were read, so that they are empty is known whatever rest is
    /// not.
    emptied: NamespaceSet,
    unknown: UnknownScopes,
    rest_unknown: bool,
    freshness: Vec<Freshness>,
    rejects: BTreeMap<SourceKey, Reject>,
    /// Services that fit in no frame. They are held nowhere, so that both ends' digests agree without them.
    too_large: BTreeMap<SourceKey, Reject>,
    supersessions: receive::Supersessions,
    stream: Option<Stream>,
}

impl AgentEnd {
    /// Holds nothing yet.
    #[must_use]
    pub fn new(config: AgentConfig) -> Self {
        Self {
            config,
            incarnation: None,
            complete: false,
            services: BTreeMap::new(),
            tree: DigestTree::default(),
            emptied: NamespaceSet::default(),
            unknown: UnknownScopes::default(),
            rest_unknown: false,
            freshness: Vec::new(),
            rejects: BTreeMap::new(),
            too_large: BTreeMap::new(),
            supersessions: receive::Supersessions::default(),
            stream: None,
        }
    }

    /// The source has told what it is. If it is another one than the open stream's Hello said, that stream carries no
    /// more data, and [`Self::wants_redial`] tells when the new source is ready.
    pub fn set_incarnation(&mut self, incarnation: String) {
        self.incarnation = Some(incarnation);
    }

    /// The newest state of a key in the source; `None`: it is gone. A Service that fits in no frame counts as gone and
    /// is found in [`Self::rejects`].
    pub fn set(&mut self, key: SourceKey, service: Option<Arc<Service>>, now: Instant) {
        if self.too_large.remove(&key).is_some() {
            self.rejects.remove(&key);
        }
        let service = service.filter(|service| self.fits(&key, service));
        let old = self.services.get(&key);
        if old.map(|held| &held.service) == service.as_ref() {
            return;
        }
        let told = old.map(|held| held.service.clone());
        let digest = service.as_ref().map(|service| digest_after(&key, old, service));
        if let Some(old) = old {
            self.tree.subtract(&key, old.digest);
        }
        if let Some(stream) = &mut self.stream {
            let refused = self.rejects.get(&key).is_some_and(|reject| reject.reason == RejectReason::Invalid);
            stream.changed(&key, told, refused, now);
        }
        match (service, digest) {
            (Some(service), Some(digest)) => {
                self.tree.add(&key, digest);
                self.services.insert(key, Held { service, digest });
            }
            _ => {
                self.services.remove(&key);
                if self.tree.namespace(&key.namespace).0 == 0 {
                    self.emptied.add(&Scope::Namespaces(vec![key.namespace]));
                    self.emptied.bound();
                }
            }
        }
    }

    fn fits(&mut self, key: &SourceKey, service: &Service) -> bool {
        let len = largest_part(key, service);
        if len <= LARGEST_PART {
            return true;
        }
        let message = format!(
            "header, or ports and details of one endpoint, take {len} bytes, more than the {LARGEST_PART} that fit in a frame: make labels and annotations smaller"
        );
        let reject = Reject { key: Some(key.clone()), reason: RejectReason::TooLarge, retryable: false, message };
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
        self.stream = Some(Stream::new(now));
    }

    /// The stream is gone.
    pub fn disconnected(&mut self) {
        self.stream = None;
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
    pub fn services(&self) -> impl Iterator<Item = (&SourceKey, &Arc<Service>)> {
        self.services.iter().map(|(key, held)| (key, &held.service))
    }

    /// The keys of what the source offers in a namespace (empty: in every one), in order, after one of them.
    pub fn keys_after(&self, namespace: &str, after: Option<&SourceKey>) -> impl Iterator<Item = &SourceKey> {
        SourceKey::within(&self.services, namespace, after)
    }

    /// What the source offers under a key.
    #[must_use]
    pub fn service(&self, key: &SourceKey) -> Option<&Arc<Service>> {
        self.services.get(key).map(|held| &held.service)
    }

    /// What the writer, or a frame, would not take.
    #[must_use]
    pub fn rejects(&self) -> &BTreeMap<SourceKey, Reject> {
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
    pub fn is_pending(&self, key: &SourceKey) -> bool {
        match self.flowing() {
            None => self.services.contains_key(key),
            Some(stream) => stream.is_pending(key) || (stream.owes(key) && self.services.contains_key(key)),
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
        let Some(stream) = self.flowing() else { return self.services.len() };
        let owed = if stream.owed.is_all() {
            self.tree.count()
        } else {
            let owed = self.tree.namespaces().filter(|(namespace, ..)| stream.owed.contains(namespace));
            owed.map(|(_, count, _)| count).sum()
        };
        stream.unsent() + usize::try_from(owed).unwrap_or(usize::MAX)
    }

    fn flowing(&self) -> Option<&Stream> {
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
fn digest_after(key: &SourceKey, old: Option<&Held>, new: &Arc<Service>) -> Digest {
    match old.map(|old| (old, Change::between(Some(&old.service), Some(new)))) {
        Some((old, Some(Change::Update { header, endpoints }))) if endpoints.len() * 4 < new.endpoint_count() => {
            let (mut service, mut digest) = ((*old.service).clone(), old.digest);
            service.update(key, &mut digest, header, endpoints);
            digest
        }
        _ => new.digest(key),
    }
}
