//! The agent's messages about Services.

use std::time::Duration;

use gimbal_session::{AgentMessage, Data, Frame};

use super::encode;
use super::entry;
use crate::control::{encode_goodbye, encode_hello, parse_goodbye, parse_hello, parse_sources};
use crate::intern::Interner;
use crate::parse::{self, Parsed, WireError, millis, prose};
use crate::pb;
use crate::pb::data::Frame as PbFrame;
use crate::pb::sync_request::Message;

impl From<AgentMessage> for pb::SyncRequest {
    /// Converts a message to its wire form. `AgentMessage::Unreadable` and unreadable entries are never sent, so they
    /// are omitted.
    fn from(message: AgentMessage) -> Self {
        let message = match message {
            AgentMessage::Hello(hello) => Some(Message::Hello(encode_hello(hello))),
            AgentMessage::Data(data) => Some(Message::Data(encode_data(data))),
            AgentMessage::Heartbeat { sources, backlog } => {
                Some(Message::Heartbeat(pb::Heartbeat { sources: sources.iter().map(Into::into).collect(), backlog }))
            }
            AgentMessage::ScopeUnknown { scope, reason } => {
                Some(Message::ScopeUnknown(pb::ScopeUnknown { scope: Some((&scope).into()), reason }))
            }
            AgentMessage::Goodbye(goodbye) => Some(Message::Goodbye(encode_goodbye(goodbye))),
            // The writer reports nothing about Services, so an agent never grants or acknowledges reports.
            AgentMessage::ReportCredit(_) | AgentMessage::ReportAck(_) | AgentMessage::Unreadable { .. } => None,
        };
        Self { message }
    }
}

/// Parses an agent's message. A message that violates a rule as a whole becomes [`AgentMessage::Unreadable`]; an entry
/// of a frame that does becomes an `Err` among the others.
#[must_use]
pub fn agent_message(request: pb::SyncRequest) -> AgentMessage {
    parse(request).unwrap_or_else(|error| AgentMessage::Unreadable { reason: error.to_string() })
}

fn parse(request: pb::SyncRequest) -> Parsed<AgentMessage> {
    Ok(match request.message.ok_or(WireError::Empty)? {
        Message::Hello(hello) => AgentMessage::Hello(parse_hello(hello)?),
        Message::Data(data) => AgentMessage::Data(parse_data(data)?),
        Message::Heartbeat(heartbeat) => {
            AgentMessage::Heartbeat { sources: parse_sources(heartbeat.sources)?, backlog: heartbeat.backlog }
        }
        Message::ScopeUnknown(unknown) => {
            AgentMessage::ScopeUnknown { scope: parse::scope(unknown.scope)?, reason: prose(unknown.reason) }
        }
        Message::Goodbye(goodbye) => AgentMessage::Goodbye(parse_goodbye(goodbye)?),
    })
}

fn encode_data(data: Data) -> pb::Data {
    let frame = match data.frame {
        Frame::SnapshotBegin { scope } => PbFrame::SnapshotBegin(pb::SnapshotBegin { scope: Some((&scope).into()) }),
        Frame::SnapshotChunk { pieces, digest } => PbFrame::SnapshotChunk(pb::SnapshotChunk {
            services: pieces.into_iter().flatten().map(encode::piece).collect(),
            digest: digest.map(|digest| digest.to_bytes().to_vec()),
        }),
        Frame::SnapshotEnd { summary } => PbFrame::SnapshotEnd(pb::SnapshotEnd { summary: Some(summary.into()) }),
        Frame::Delta { changes, oldest_age } => PbFrame::Delta(pb::Delta {
            changes: changes.into_iter().flatten().map(encode::change).collect(),
            oldest_age_ms: millis(oldest_age, u32::MAX),
        }),
    };
    pb::Data { seq: data.seq, frame: Some(frame) }
}

fn parse_data(data: pb::Data) -> Parsed<Data> {
    let mut intern = Interner::default();
    let frame = match data.frame.ok_or(WireError::Missing("content of a data frame"))? {
        PbFrame::SnapshotBegin(begin) => Frame::SnapshotBegin { scope: parse::scope(begin.scope)? },
        PbFrame::SnapshotChunk(chunk) => Frame::SnapshotChunk {
            pieces: chunk.services.into_iter().map(|piece| entry::piece(piece, &mut intern)).collect(),
            digest: chunk.digest.map(|digest| parse::digest(&digest)).transpose()?,
        },
        PbFrame::SnapshotEnd(end) => {
            let summary = end.summary.ok_or(WireError::Missing("summary"))?;
            Frame::SnapshotEnd { summary: parse::summary(&summary)? }
        }
        PbFrame::Delta(delta) => Frame::Delta {
            changes: delta.changes.into_iter().map(|change| entry::change(change, &mut intern)).collect(),
            oldest_age: Duration::from_millis(delta.oldest_age_ms.into()),
        },
    };
    Ok(Data { seq: data.seq, frame })
}
