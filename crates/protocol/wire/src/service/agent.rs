//! The agent's messages about Services.

use std::time::Duration;

use gimbal_session::{AgentMessage, ChangeAge, Data, Frame, TraceContext};

use super::encode;
use super::entry;
use crate::control::{
    encode_goodbye, encode_heartbeat, encode_hello, encode_scope_unknown, encode_snapshot_begin, encode_snapshot_end,
    parse_goodbye, parse_heartbeat, parse_hello, parse_scope_unknown, parse_snapshot_begin, parse_snapshot_end,
};
use crate::intern::Interner;
use crate::parse::{self, Parsed, WireError, millis};
use crate::pb;
use crate::pb::data::Frame as PbFrame;
use crate::pb::sync_request::Message;

impl From<AgentMessage> for pb::SyncRequest {
    /// Converts a message to its wire form. `AgentMessage::Unreadable`, `AgentMessage::ScopeUnknownAhead` and unreadable
    /// entries are never sent, so they are omitted.
    fn from(message: AgentMessage) -> Self {
        let message = match message {
            AgentMessage::Hello(hello) => Some(Message::Hello(encode_hello(hello))),
            AgentMessage::Data(data) => Some(Message::Data(encode_data(data))),
            AgentMessage::Heartbeat { sources, backlog, clock_ms } => {
                Some(Message::Heartbeat(encode_heartbeat(&sources, backlog, clock_ms)))
            }
            AgentMessage::ScopeUnknown { scope, reason } => {
                Some(Message::ScopeUnknown(encode_scope_unknown(&scope, reason)))
            }
            AgentMessage::Goodbye(goodbye) => Some(Message::Goodbye(encode_goodbye(goodbye))),
            // The writer reports nothing about Services, so an agent never grants or acknowledges reports.
            AgentMessage::ReportCredit(_)
            | AgentMessage::ReportAck(_)
            | AgentMessage::ReportsDone(_)
            | AgentMessage::ReportUnreadable { .. }
            | AgentMessage::ScopeUnknownAhead { .. }
            | AgentMessage::Unreadable { .. } => None,
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
    let pb::SyncRequest { message } = request;
    Ok(match message.ok_or(WireError::Empty)? {
        Message::Hello(hello) => AgentMessage::Hello(parse_hello(hello)?),
        Message::Data(data) => AgentMessage::Data(parse_data(data)?),
        Message::Heartbeat(heartbeat) => {
            let (sources, backlog, clock_ms) = parse_heartbeat(heartbeat)?;
            AgentMessage::Heartbeat { sources, backlog, clock_ms }
        }
        Message::ScopeUnknown(unknown) => {
            let (scope, reason) = parse_scope_unknown(unknown)?;
            AgentMessage::ScopeUnknown { scope, reason }
        }
        Message::Goodbye(goodbye) => AgentMessage::Goodbye(parse_goodbye(goodbye)?),
    })
}

fn encode_data(data: Data) -> pb::Data {
    let Data { seq, frame, trace } = data;
    let frame = match frame {
        Frame::SnapshotBegin { scope } => PbFrame::SnapshotBegin(encode_snapshot_begin(&scope)),
        Frame::SnapshotChunk { pieces, digest, age } => PbFrame::SnapshotChunk(pb::SnapshotChunk {
            services: pieces.into_iter().flatten().map(encode::piece).collect(),
            digest: digest.map(|digest| digest.to_bytes().to_vec()),
            oldest_age_ms: age.map(|age| millis(age.waited, u32::MAX)),
            source_delay_ms: age.and_then(|age| age.caused).map(|caused| millis(caused, u32::MAX)),
        }),
        Frame::SnapshotEnd { summary } => PbFrame::SnapshotEnd(encode_snapshot_end(summary)),
        Frame::Delta { changes, age } => PbFrame::Delta(pb::Delta {
            changes: changes.into_iter().flatten().map(encode::change).collect(),
            oldest_age_ms: millis(age.waited, u32::MAX),
            source_delay_ms: age.caused.map(|caused| millis(caused, u32::MAX)),
        }),
    };
    pb::Data { seq, frame: Some(frame), traceparent: trace.map(|trace| trace.to_string()) }
}

fn parse_data(data: pb::Data) -> Parsed<Data> {
    let mut intern = Interner::default();
    let pb::Data { seq, frame, traceparent } = data;
    let frame = match frame.ok_or(WireError::Missing("content of a data frame"))? {
        PbFrame::SnapshotBegin(begin) => Frame::SnapshotBegin { scope: parse_snapshot_begin(begin)? },
        PbFrame::SnapshotChunk(chunk) => Frame::SnapshotChunk {
            pieces: chunk.services.into_iter().map(|piece| entry::piece(piece, &mut intern)).collect(),
            digest: chunk.digest.map(|digest| parse::digest(&digest)).transpose()?,
            age: chunk.oldest_age_ms.map(|waited| age(waited, chunk.source_delay_ms)),
        },
        PbFrame::SnapshotEnd(end) => Frame::SnapshotEnd { summary: parse_snapshot_end(end)? },
        PbFrame::Delta(pb::Delta { changes, oldest_age_ms, source_delay_ms }) => Frame::Delta {
            changes: changes.into_iter().map(|change| entry::change(change, &mut intern)).collect(),
            age: age(oldest_age_ms, source_delay_ms),
        },
    };
    // One that cannot be read counts as unset: it says nothing about the changes.
    let trace = traceparent.as_deref().and_then(TraceContext::parse);
    Ok(Data { seq, frame, trace })
}

fn age(waited_ms: u32, caused_ms: Option<u32>) -> ChangeAge {
    let time = |millis: u32| Duration::from_millis(millis.into());
    ChangeAge { waited: time(waited_ms), caused: caused_ms.map(time) }
}
