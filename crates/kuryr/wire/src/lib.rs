//! The load balancers that a cluster wants, as the payload of a session: [`Kuryr`], and its wire form
//! `proto/gimbal/kuryr/v1`.
//!
//! ```text
//!   controller: AgentEnd<Kuryr>  -- SyncRequest  --> WriterEnd<Kuryr>: writer
//!                                <-- SyncResponse --
//! ```
//!
//! Received messages are parsed here, once, as in `gimbal-wire`: a value that breaks a promise of
//! `gimbal-kuryr-model` gets no further, an unreadable entry of a frame does not affect the others, and an unreadable
//! report does not end the stream.

mod agent;
mod certificate;
mod check;
mod encode;
mod entry;
mod facts;
mod header;
#[cfg(feature = "offered")]
mod offered;
mod packed;
mod packed_entry;
mod packed_report;
mod payload;
mod reason;
mod report;
mod routing;
mod size;
mod values;
mod writer;

pub use encode::shown_entry;
pub use packed::MessageForm;
pub use packed_entry::PackedEntry;
pub use packed_report::PackedReport;
pub use payload::{DesiredHeader, Kuryr, LastPools};
pub use reason::KuryrReason;

/// The generated code. Fields are documented in the proto files.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/gimbal.kuryr.v1.rs"));
}

/// The descriptors of `gimbal.kuryr.v1` and of what it imports, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
