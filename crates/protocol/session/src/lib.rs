//! Both ends of the stream between an agent and the writer, as state machines without I/O.
//!
//! [`AgentEnd`] holds the entries that the source offers and produces the frames that bring the writer up to date.
//! [`WriterEnd`] holds the entries of one backend and reports which of them have to be reconciled. Both are generic
//! over a [`Payload`], which defaults to [`Services`]. Callers pass the time; messages are plain values that
//! `gimbal-wire` turns into protobuf. docs/protocol.md lists the rules, each with the failure that it prevents.

mod agent;
mod key;
mod ledger;
mod message;
mod namespaces;
mod payload;
mod progress;
mod service;
mod since;
mod size;
mod split;
mod trace;
mod unknown;
mod waiting;
mod window;
mod writer;

pub use agent::{AgentConfig, AgentEnd, AgentVerdict, HEARTBEAT, ReceivedReport, StreamState};
pub use message::{
    AgentMessage, Credit, Data, EntryChange, Frame, Freshness, Goodbye, GoodbyeReason, Hello, Need, Piece, PieceChange,
    Reject, Scope, Summary, Unreadable, Welcome, WriterMessage,
};
pub use payload::{Content, Entry, KeptEntry, Key, Never, Payload, Reason, StoredReport};
pub use progress::{CarriedBy, EntryProgress};
pub use service::{LastGroups, RejectReason, Services, service_len};
pub use since::{ChangeAge, ChangeSince};
pub use size::estimated_len;
pub use trace::TraceContext;
pub use unknown::UnknownScopes;
pub use writer::{Outcome, ReportError, TooLarge, WriterEnd, WriterLimits, WriterOutput};

/// The only protocol version that this build speaks.
pub const PROTOCOL: u32 = 1;
/// Largest encoded frame, in bytes.
pub const MAX_FRAME: usize = 1 << 20;
