//! The wire form of what a session says: generated code, and the way between it and the parsed messages of
//! `gimbal-session`. Each payload is a [`WirePayload`]; that of Services is `proto/gimbal/discovery/v1`.
//!
//! Whatever comes in is parsed here, once; what lies behind this crate holds no value that breaks a rule of the
//! protocol. An agent's message that cannot be read is a message too ([`AgentMessage::Unreadable`]), and a bad entry of
//! a frame leaves the others of the frame alone: one bad object stops nothing else.
//!
//! [`AgentMessage::Unreadable`]: gimbal_session::AgentMessage::Unreadable

mod codec;
mod control;

mod intern;
mod parse;
mod payload;
mod service;
mod values;

pub use codec::TolerantCodec;
pub use parse::{WireError, source_key, target_key};
pub use payload::WirePayload;
pub use service::{agent_message, writer_message};

/// The generated code. Fields are documented in the proto files.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/messages/gimbal.discovery.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/discovery/gimbal.discovery.v1.rs"));
}

/// All of `gimbal.discovery.v1`, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Bytes of a message as it travels, before compression. Keeping it within `gimbal_session::MAX_FRAME` is the sender's duty.
#[must_use]
pub fn encoded_len(message: &impl prost::Message) -> usize {
    message.encoded_len()
}
