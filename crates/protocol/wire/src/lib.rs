//! The wire form of session messages: generated code, and conversions to and from the parsed messages of
//! `gimbal-session`. Each payload is a [`WirePayload`]; that of Services is `proto/gimbal/discovery/v1`.
//!
//! Received messages are parsed here, once. No value that violates a rule of the protocol gets past this crate. An
//! unreadable message of an agent is still passed on, as [`AgentMessage::Unreadable`], and an unreadable entry of a
//! frame does not affect the other entries: one bad object stops nothing else.
//!
//! [`AgentMessage::Unreadable`]: gimbal_session::AgentMessage::Unreadable

#[cfg(feature = "services")]
mod codec;
pub mod control;
mod intern;
pub mod parse;
mod payload;
mod service;
mod values;

#[cfg(feature = "services")]
pub use codec::TolerantCodec;
pub use intern::Interner;
pub use parse::{WireError, asked_address, source_key, target_key};
pub use payload::WirePayload;
pub use service::{agent_message, writer_message};

/// The generated code. Fields are documented in the proto files.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/gimbal.discovery.v1.rs"));
}

/// The descriptors of `gimbal.discovery.v1`, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Returns the encoded size of a message in bytes, before compression. The sender keeps it within
/// `gimbal_session::MAX_FRAME`.
#[must_use]
pub fn encoded_len(message: &impl prost::Message) -> usize {
    message.encoded_len()
}
