//! Both ends of the stream between an agent and the writer, as state machines without I/O.
//!
//! [`AgentEnd`] holds what the source offers and says, frame by frame, what the writer must hear. [`WriterEnd`] holds
//! what one backend said and tells what has to be reconciled. Time comes in as a parameter; messages are plain values
//! (`gimbal-wire` turns them into protobuf). docs/protocol.md gives each rule and the failure it prevents.

mod agent;
mod key;
mod ledger;
mod message;
mod namespaces;
mod payload;
mod service;
mod size;
mod split;
mod unknown;
mod window;
mod writer;

pub use agent::{AgentConfig, AgentEnd, AgentVerdict, HEARTBEAT, ReceivedReport, StreamState};
pub use message::{
    AgentMessage, Change, Credit, Data, Frame, Freshness, Goodbye, GoodbyeReason, Hello, Need, Piece, PieceChange,
    Reject, Scope, Summary, Unreadable, Welcome, WriterMessage,
};
pub use payload::{Content, Entry, Key, Never, Payload, Reason};
pub use service::{LastGroups, RejectReason, Services, service_len};
pub use size::estimated_len;
pub use unknown::UnknownScopes;
pub use writer::{Outcome, WriterEnd, WriterLimits, WriterOutput};

/// The protocol version of this build, and the only one so far.
pub const PROTOCOL: u32 = 1;
/// Largest encoded frame, in bytes.
pub const MAX_FRAME: usize = 1 << 20;
