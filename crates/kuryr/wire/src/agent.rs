//! The agent's messages.

use std::time::Duration;

use gimbal_session::{AgentMessage, ChangeAge, Data, Frame, TraceContext};
use gimbal_wire::Interner;
use gimbal_wire::control::{
    encode_credit, encode_goodbye, encode_heartbeat, encode_hello, encode_scope_unknown, encode_snapshot_begin,
    encode_snapshot_end, parse_credit, parse_goodbye, parse_heartbeat, parse_hello, parse_scope_unknown,
    parse_snapshot_begin, parse_snapshot_end,
};
use gimbal_wire::parse::{self, Parsed, WireError, millis, prose};
use prost::bytes::Bytes;

use crate::pb::data::Frame as PbFrame;
use crate::pb::sync_request::Message;
use crate::{Kuryr, certificate, encode, entry, pb};

/// `AgentMessage::Unreadable`, `AgentMessage::ScopeUnknownAhead` and unreadable entries are never sent, so they are omitted.
pub(crate) fn encode(message: AgentMessage<Kuryr>) -> pb::SyncRequest {
    let message = match message {
        AgentMessage::Hello(hello) => Message::Hello(encode_hello(hello)),
        AgentMessage::Data(data) => Message::Data(encode_data(data)),
        AgentMessage::Heartbeat { sources, backlog, clock_ms } => {
            Message::Heartbeat(encode_heartbeat(&sources, backlog, clock_ms))
        }
        AgentMessage::ScopeUnknown { scope, reason } => Message::ScopeUnknown(encode_scope_unknown(&scope, reason)),
        AgentMessage::ReportCredit(credit) => Message::ReportCredit(encode_credit(credit)),
        AgentMessage::ReportAck(seq) => Message::ReportAck(pb::ReportAck { seq }),
        AgentMessage::ReportsDone(seqs) => Message::ReportsDone(pb::ReportsDone { seqs }),
        AgentMessage::ReportUnreadable { seq, reason } => {
            Message::ReportUnreadable(pb::ReportUnreadable { seq, reason })
        }
        AgentMessage::Content { hash, content } => Message::Content(pb::Content {
            hash: certificate::encode_hash(hash),
            certificate: content.as_ref().map(certificate::encode_content),
        }),
        AgentMessage::Goodbye(goodbye) => Message::Goodbye(encode_goodbye(goodbye)),
        AgentMessage::Unreadable { .. } | AgentMessage::ScopeUnknownAhead { .. } => {
            return pb::SyncRequest { message: None };
        }
    };
    pb::SyncRequest { message: Some(message) }
}

pub(crate) fn parse(request: pb::SyncRequest) -> Parsed<AgentMessage<Kuryr>> {
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
        Message::ReportCredit(credit) => AgentMessage::ReportCredit(parse_credit(credit)),
        Message::ReportAck(pb::ReportAck { seq }) => AgentMessage::ReportAck(seq),
        Message::ReportsDone(pb::ReportsDone { seqs }) => AgentMessage::ReportsDone(seqs),
        Message::ReportUnreadable(pb::ReportUnreadable { seq, reason }) => {
            AgentMessage::ReportUnreadable { seq, reason: prose(reason) }
        }
        Message::Content(pb::Content { hash, certificate }) => AgentMessage::Content {
            hash: certificate::parse_hash(&hash)?,
            content: certificate.as_ref().map(certificate::parse_content),
        },
        Message::Goodbye(goodbye) => AgentMessage::Goodbye(parse_goodbye(goodbye)?),
    })
}

fn encode_data(data: Data<Kuryr>) -> pb::Data {
    let Data { seq, frame, trace } = data;
    let frame = match frame {
        Frame::SnapshotBegin { scope } => PbFrame::SnapshotBegin(encode_snapshot_begin(&scope)),
        Frame::SnapshotChunk { pieces, digest, .. } => PbFrame::SnapshotChunk(pb::SnapshotChunk {
            entries: pieces.into_iter().flatten().map(encode::piece).collect(),
            digest: digest.map(|digest| Bytes::copy_from_slice(&digest.to_bytes())),
        }),
        Frame::SnapshotEnd { summary } => PbFrame::SnapshotEnd(encode_snapshot_end(summary)),
        Frame::Delta { changes, age } => PbFrame::Delta(pb::Delta {
            changes: changes.into_iter().flatten().map(encode::change).collect(),
            oldest_age_ms: millis(age.waited, u32::MAX),
        }),
    };
    pb::Data { seq, frame: Some(frame), traceparent: trace.map(|trace| trace.to_string()) }
}

fn parse_data(data: pb::Data) -> Parsed<Data<Kuryr>> {
    let mut intern = Interner::default();
    let pb::Data { seq, frame, traceparent } = data;
    let frame = match frame.ok_or(WireError::Missing("content of a data frame"))? {
        PbFrame::SnapshotBegin(begin) => Frame::SnapshotBegin { scope: parse_snapshot_begin(begin)? },
        PbFrame::SnapshotChunk(pb::SnapshotChunk { entries, digest }) => Frame::SnapshotChunk {
            pieces: entries.into_iter().map(|piece| entry::piece(piece, &mut intern)).collect(),
            digest: digest.map(|digest| parse::digest(&digest)).transpose()?,
            age: None,
        },
        PbFrame::SnapshotEnd(end) => Frame::SnapshotEnd { summary: parse_snapshot_end(end)? },
        PbFrame::Delta(pb::Delta { changes, oldest_age_ms }) => Frame::Delta {
            changes: changes.into_iter().map(|change| entry::change(change, &mut intern)).collect(),
            age: ChangeAge { waited: Duration::from_millis(oldest_age_ms.into()), caused: None },
        },
    };
    // What cannot be read is not sampled: nothing that is made depends on it.
    let trace = traceparent.as_deref().and_then(TraceContext::parse);
    Ok(Data { seq, frame, trace })
}
