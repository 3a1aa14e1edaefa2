//! The messages of `proto/gimbal/discovery/v1/discovery.proto` as parsed values. Field meanings are documented there.

use std::sync::Arc;
use std::time::Duration;

use gimbal_model::Digest;

use crate::{Payload, Services};

/// What an agent says.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentMessage<P: Payload = Services> {
    /// Opens the stream.
    Hello(Hello),
    /// A numbered frame.
    Data(Data<P>),
    /// Signs of life, of the agent and of its source.
    Heartbeat {
        /// For each kind that is watched.
        sources: Vec<Freshness>,
        /// Services waiting to be sent.
        backlog: u64,
    },
    /// A part of the source cannot be seen.
    ScopeUnknown {
        /// Which part.
        scope: Scope,
        /// Why, in words.
        reason: String,
    },
    /// The window for reports. There are none before the first one.
    ReportCredit(Credit),
    /// Every report up to this number was dealt with, or a newer one of its key takes its place.
    ReportAck(u64),
    /// Answers a [`WriterMessage::ContentRequest`].
    Content {
        /// As it was asked for.
        hash: P::Hash,
        /// `None`: the agent has no such content.
        content: Option<P::Content>,
    },
    /// Ends the stream on purpose.
    Goodbye(Goodbye),
    /// A message that could not be read. Made by the wire, never sent.
    Unreadable {
        /// What was wrong with it, in words.
        reason: String,
    },
}

/// What the writer says.
#[derive(Debug, Clone, PartialEq)]
pub enum WriterMessage<P: Payload = Services> {
    /// Answers Hello.
    Welcome(Welcome),
    /// Every change up to this number is applied, superseded, rejected or held.
    Ack(u64),
    /// A Service, or a part of it, is not in the Gimbal cluster.
    Reject(Reject<P>),
    /// Ends a Reject.
    Resolved(P::Key),
    /// A new window.
    Credit(Credit),
    /// Asks for a snapshot in the middle of a stream.
    Resync {
        /// Of what.
        need: Need,
        /// Why, in words.
        reason: String,
    },
    /// The latest report of an entry.
    Report {
        /// 1, 2, 3... within a stream.
        seq: u64,
        /// The entry.
        key: P::Key,
        /// Replaces whatever was reported of it before.
        report: P::Report,
    },
    /// What the writer tells of itself; replaces whatever it told before.
    Facts(P::Facts),
    /// Asks for a content that the writer lacks.
    ContentRequest(P::Hash),
    /// Ends the stream on purpose.
    Goodbye(Goodbye),
}

/// Number of Services and the digest over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Services.
    pub count: u64,
    /// Sum of their digests.
    pub digest: Digest,
}

/// See the proto.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    /// Lowest and highest protocol version spoken.
    pub protocol: (u32, u32),
    /// Optional abilities.
    pub capabilities: Vec<String>,
    /// The backend's name as the agent knows it.
    pub backend: String,
    /// Random for each process.
    pub agent_instance: String,
    /// What the source is; empty while that is not known.
    pub source_incarnation: String,
    /// What the agent holds; `None` while its source is not read: such a stream carries no data.
    pub held: Option<Summary>,
    /// Program and version.
    pub agent_version: String,
}

/// See the proto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Version spoken from here on.
    pub protocol: u32,
    /// Larger for each later stream of this backend.
    pub generation: u64,
    /// What the writer needs.
    pub need: Need,
    /// The first window.
    pub credit: Credit,
    /// The backend that the certificate names.
    pub backend: String,
    /// Time within which the writer must hear something.
    pub heartbeat_timeout: Duration,
}

/// What a writer needs to hold what the agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the digests agree.
    Nothing,
    /// The namespaces that differ from these. A namespace that is not listed is held empty; one that is listed as empty is
    /// one whose emptiness the writer wants to hear of, whatever else it asks for next.
    Namespaces(Vec<(Arc<str>, Summary)>),
    /// Everything.
    All,
}

/// A part of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// Some namespaces; never empty on the wire (an empty list means everything there).
    Namespaces(Vec<Arc<str>>),
}

impl Scope {
    /// Whether a namespace belongs to it.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.iter().any(|n| &**n == namespace),
        }
    }
}

/// A numbered frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Data<P: Payload = Services> {
    /// 1, 2, 3... within a stream.
    pub seq: u64,
    /// Content.
    pub frame: Frame<P>,
}

/// What becomes of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<P: Payload> {
    /// The whole entry, in place of whatever was held.
    Replace(P::Entry),
    /// The difference to what is held.
    Update {
        /// The new header, if it changed.
        header: Option<Arc<P::Header>>,
        /// Parts set or gone.
        parts: Vec<P::PartChange>,
    },
    /// The entry is gone.
    Remove,
}

/// Content of a data frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame<P: Payload = Services> {
    /// A view was frozen; its pieces follow.
    SnapshotBegin {
        /// What it covers.
        scope: Scope,
    },
    /// Pieces of the frozen view.
    SnapshotChunk {
        /// In order; a Service may go on in the next chunk. `Err` is a piece that could not be read.
        pieces: Vec<Result<Piece<P>, Unreadable<P>>>,
        /// Sum of the digests of the Services whose last piece is among them; `None` from agents that do not tell it.
        digest: Option<Digest>,
    },
    /// The frozen view is complete.
    SnapshotEnd {
        /// Of the frozen view.
        summary: Summary,
    },
    /// Changes.
    Delta {
        /// In order. `Err` is a change that could not be read.
        changes: Vec<Result<PieceChange<P>, Unreadable<P>>>,
        /// Age of the oldest change in it.
        oldest_age: Duration,
    },
}

/// One Service of a frame that could not be turned into a value; the others of the frame stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable<P: Payload = Services> {
    /// Whose it was, if that much could be read.
    pub key: Option<P::Key>,
    /// What was wrong with it, in words.
    pub reason: String,
    /// It is a piece of a Service, and another one follows.
    pub more: bool,
}

/// A Service, or a part of one that does not fit in a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece<P: Payload = Services> {
    /// Whose.
    pub key: P::Key,
    /// Set in the first piece.
    pub header: Option<Arc<P::Header>>,
    /// Parts.
    pub parts: Vec<P::Part>,
    /// Another piece of this Service follows.
    pub more: bool,
}

/// A change of one Service, or a part of one that does not fit in a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum PieceChange<P: Payload = Services> {
    /// The whole Service, in place of whatever was held.
    Replace(Piece<P>),
    /// The difference to what was held.
    Update {
        /// Whose.
        key: P::Key,
        /// Set if it changed.
        header: Option<Arc<P::Header>>,
        /// Parts set or gone.
        parts: Vec<P::PartChange>,
        /// Another part of this update follows.
        more: bool,
    },
    /// The Service is gone.
    Remove(P::Key),
}

/// When the source last said anything about a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freshness {
    /// "services", "endpointslices", ...
    pub kind: String,
    /// Time since; `None`: never.
    pub age: Option<Duration>,
}

/// Changes and bytes that may be unacknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// Services.
    pub changes: u32,
    /// Bytes, as estimated by the sender.
    pub bytes: u64,
}

/// See the proto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject<P: Payload = Services> {
    /// Whose; `None`: a message that could not be read at all.
    pub key: Option<P::Key>,
    /// Type.
    pub reason: P::Reason,
    /// The writer tries again by itself.
    pub retryable: bool,
    /// In words.
    pub message: String,
}

/// Why a stream ends on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GoodbyeReason {
    /// The process ends and is expected back.
    Shutdown,
    /// A newer stream of the same backend took over.
    Superseded,
    /// The certificate names no backend, or not the one that Hello names.
    UnknownBackend,
    /// Another source than the one that this backend name belongs to.
    Incarnation,
    /// No common version.
    Protocol,
    /// A rule of the protocol was broken.
    ProtocolError,
    /// This writer does not lead.
    NotLeader,
    /// Nothing was heard for too long.
    Timeout,
    /// The certificate has expired, or is not accepted any more.
    Certificate,
}

/// See the proto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodbye {
    /// Type.
    pub reason: GoodbyeReason,
    /// In words.
    pub message: String,
    /// When to dial again; `None`: the agent's own back-off decides.
    pub retry_after: Option<Duration>,
}
