//! The messages of a session as parsed values. `proto/gimbal/discovery/v1/discovery.proto` documents their fields.

use std::sync::Arc;
use std::time::Duration;

use gimbal_model::Digest;

use crate::capability::Capabilities;
use crate::{ChangeAge, Payload, Services, TraceContext};

/// A message from the agent to the writer.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentMessage<P: Payload = Services> {
    /// Opens the stream. Always the first message.
    Hello(Hello),
    /// A numbered data frame.
    Data(Data<P>),
    /// Shows that the agent is alive, and when its source was last heard.
    Heartbeat {
        /// One for each kind of object that the agent watches.
        sources: Vec<Freshness>,
        /// Number of entries that wait to be sent.
        backlog: u64,
        /// Time of the agent's clock, in milliseconds since 1970; `None`: it does not say. It decides nothing.
        clock_ms: Option<i64>,
    },
    /// The agent cannot read a part of its source.
    ScopeUnknown {
        /// The part.
        scope: Scope,
        /// The reason, for logs.
        reason: String,
    },
    /// The same, ahead of data that came before it and waits. It comes again at its place, because that data may make the
    /// part known before it. Only the receiving side makes it.
    ScopeUnknownAhead {
        /// The part.
        scope: Scope,
        /// The reason, for logs.
        reason: String,
    },
    /// The window for reports. Without it the writer sends none.
    ReportCredit(Credit),
    /// Frees the window: the agent works on every report up to this number, or on a newer one of its key.
    ReportAck(u64),
    /// The agent has dealt with these reports, in any order. One that is never dealt with keeps no other waiting.
    ReportsDone(Vec<u64>),
    /// A report could not be parsed. The stream goes on.
    ReportUnreadable {
        /// Its number.
        seq: u64,
        /// The parse error.
        reason: String,
    },
    /// Answers a [`WriterMessage::ContentRequest`].
    Content {
        /// As it was asked for.
        hash: P::Hash,
        /// `None`: the agent has no such content.
        content: Option<P::Content>,
    },
    /// Ends the stream on purpose.
    Goodbye(Goodbye),
    /// A message that could not be parsed. Only the receiving side makes it.
    Unreadable {
        /// The parse error.
        reason: String,
    },
}

/// A message from the writer to the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum WriterMessage<P: Payload = Services> {
    /// Answers Hello.
    Welcome(Welcome),
    /// Every change in the frames up to this number is applied, superseded, rejected or held.
    Ack(u64),
    /// The writer does not take an entry, or a part of it.
    Reject(Reject<P>),
    /// Ends a Reject.
    Resolved(P::Key),
    /// Replaces the window for data.
    Credit(Credit),
    /// Asks for a snapshot on an open stream.
    Resync {
        /// What the snapshot has to cover.
        need: Need,
        /// The reason, for logs.
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
    /// What the writer says about itself; replaces whatever it said before.
    Facts(P::Facts),
    /// Asks for a content that the writer lacks.
    ContentRequest(P::Hash),
    /// Ends the stream on purpose.
    Goodbye(Goodbye),
    /// A message that could not be parsed, where the stream goes on without it. Only the receiving side makes it.
    Unreadable {
        /// The number of the report that it is.
        report: Option<u64>,
        /// The parse error.
        reason: String,
    },
}

/// The number of entries in a set and the digest over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Number of entries.
    pub count: u64,
    /// Sum of the digests of the entries.
    pub digest: Digest,
}

/// Introduces an agent and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    /// Lowest and highest protocol version that the agent speaks.
    pub protocol: (u32, u32),
    /// The agent's [capabilities](crate::capability).
    pub capabilities: Capabilities,
    /// The backend's name in the agent's configuration. The certificate decides; this is only compared with it.
    pub backend: String,
    /// A random name of the agent's process.
    pub agent_instance: String,
    /// The identity of the source; empty while it is not known.
    pub source_incarnation: String,
    /// What the agent holds. `None` while its source was not read; a stream with such a Hello carries no data.
    pub held: Option<Summary>,
    /// Program name and version.
    pub agent_version: String,
}

/// Accepts a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol version of the rest of the stream.
    pub protocol: u32,
    /// The stream's number; later streams of a backend have larger ones.
    pub generation: u64,
    /// What the writer needs to hold what the agent holds.
    pub need: Need,
    /// The first window for data.
    pub credit: Credit,
    /// The backend that the certificate names.
    pub backend: String,
    /// The writer ends the stream after this time without a message.
    pub heartbeat_timeout: Duration,
    /// The writer's [capabilities](crate::capability).
    pub capabilities: Capabilities,
}

/// The part of the agent's entries that the writer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the digests are equal.
    Nothing,
    /// The namespaces whose summary differs from the one listed here. The writer holds nothing of a namespace that is
    /// not listed. It lists an empty one to have its emptiness confirmed, whatever it asks for next.
    Namespaces(Vec<(Arc<str>, Summary)>),
    /// All entries.
    All,
}

/// A part of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The whole source.
    All,
    /// These namespaces. Never empty on the wire, where an empty list means the whole source.
    Namespaces(Vec<Arc<str>>),
}

impl Scope {
    /// Returns whether a namespace is part of the scope.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.iter().any(|n| &**n == namespace),
        }
    }
}

/// A numbered data frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Data<P: Payload = Services> {
    /// Counts the data frames of a stream from 1.
    pub seq: u64,
    /// The content.
    pub frame: Frame<P>,
    /// The trace of its oldest change, if that is sampled. Whoever sends the frame sets it, for a writer that
    /// [takes it](crate::AgentEnd::writer_has); nothing here depends on it.
    pub trace: Option<TraceContext>,
}

/// A change of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryChange<P: Payload> {
    /// Replaces the entry.
    Replace(P::Entry),
    /// Changes the entry that is held.
    Update {
        /// The new header; `None` if it is unchanged.
        header: Option<Arc<P::Header>>,
        /// Parts that are set or gone.
        parts: Vec<P::PartChange>,
    },
    /// Removes the entry.
    Remove,
}

/// The content of a data frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame<P: Payload = Services> {
    /// Begins a snapshot: the agent froze a view, whose pieces follow.
    SnapshotBegin {
        /// The part of the source that the view covers.
        scope: Scope,
    },
    /// Pieces of the frozen view.
    SnapshotChunk {
        /// Pieces in order. An entry may continue in the next chunk. `Err` is a piece that could not be parsed.
        pieces: Vec<Result<Piece<P>, Unreadable<P>>>,
        /// Sum of the digests of the entries whose last piece is in this chunk; `None` from older agents.
        digest: Option<Digest>,
        /// Age of the oldest of the entries that changed while no frame could carry the change; `None` if the agent knows
        /// of none.
        age: Option<ChangeAge>,
    },
    /// Ends a snapshot.
    SnapshotEnd {
        /// Number and digest of the entries in the view.
        summary: Summary,
    },
    /// Changes.
    Delta {
        /// Changes in order. `Err` is a change that could not be parsed.
        changes: Vec<Result<PieceChange<P>, Unreadable<P>>>,
        /// Age of the oldest of the changes.
        age: ChangeAge,
    },
}

impl<P: Payload> Frame<P> {
    /// Returns the age of its oldest change, if it has changes whose age is known.
    #[must_use]
    pub fn age(&self) -> Option<ChangeAge> {
        match self {
            Self::SnapshotBegin { .. } | Self::SnapshotEnd { .. } => None,
            Self::SnapshotChunk { age, .. } => *age,
            Self::Delta { age, .. } => Some(*age),
        }
    }

    /// Returns the number of entries, or pieces of entries, that it carries.
    #[must_use]
    pub fn entries(&self) -> usize {
        match self {
            Self::SnapshotBegin { .. } | Self::SnapshotEnd { .. } => 0,
            Self::SnapshotChunk { pieces, .. } => pieces.len(),
            Self::Delta { changes, .. } => changes.len(),
        }
    }
}

/// An entry of a frame that could not be parsed. The other entries of the frame are not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable<P: Payload = Services> {
    /// The key, if that could be parsed.
    pub key: Option<P::Key>,
    /// The parse error.
    pub reason: String,
    /// Whether it is a piece, and another piece of the entry follows.
    pub more: bool,
}

/// An entry, or a piece of one that does not fit in a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece<P: Payload = Services> {
    /// The entry's key.
    pub key: P::Key,
    /// The header; set in the first piece only.
    pub header: Option<Arc<P::Header>>,
    /// Parts of the entry.
    pub parts: Vec<P::Part>,
    /// Whether another piece of this entry follows.
    pub more: bool,
}

/// A change of one entry, or a piece of one that does not fit in a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum PieceChange<P: Payload = Services> {
    /// Replaces the entry.
    Replace(Piece<P>),
    /// Changes the entry that is held.
    Update {
        /// The entry's key.
        key: P::Key,
        /// The new header; `None` if it is unchanged.
        header: Option<Arc<P::Header>>,
        /// Parts that are set or gone.
        parts: Vec<P::PartChange>,
        /// Whether another piece of this update follows.
        more: bool,
    },
    /// Removes the entry.
    Remove(P::Key),
}

/// When the agent last heard from the source about one kind of object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freshness {
    /// The kind, such as "services" or "endpointslices".
    pub kind: String,
    /// Time since then; `None` if the source was never heard.
    pub age: Option<Duration>,
}

/// A window: how much may be sent before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// Number of entries.
    pub changes: u32,
    /// Number of bytes, as the sender estimates them.
    pub bytes: u64,
}

/// The writer does not take an entry, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject<P: Payload = Services> {
    /// The entry's key; `None` if a whole message could not be parsed.
    pub key: Option<P::Key>,
    /// The reason, for programs.
    pub reason: P::Reason,
    /// Whether the writer tries again without a new state of the entry.
    pub retryable: bool,
    /// The reason, for people.
    pub message: String,
}

/// Why a stream ends on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GoodbyeReason {
    /// The process shuts down and is expected to come back.
    Shutdown,
    /// A newer stream of the same backend replaced this one.
    Superseded,
    /// The certificate names no backend, or not the one that Hello names.
    UnknownBackend,
    /// The source is not the one that this backend name belongs to.
    Incarnation,
    /// The two ends have no protocol version in common.
    Protocol,
    /// The other end broke a rule of the protocol.
    ProtocolError,
    /// This writer is not the leader.
    NotLeader,
    /// No message came within the heartbeat timeout.
    Timeout,
    /// The certificate has expired or is no longer accepted.
    Certificate,
}

/// Ends a stream on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodbye {
    /// The reason, for programs.
    pub reason: GoodbyeReason,
    /// The reason, for people.
    pub message: String,
    /// How long the agent waits before it dials again; `None` leaves that to its back-off.
    pub retry_after: Option<Duration>,
}
