//! The writer's messages, and the wire form as a whole.

use gimbal_session::{AgentMessage, Reject, WriterMessage};
use gimbal_wire::control::{
    encode_credit, encode_goodbye, encode_resync, encode_welcome, parse_credit, parse_goodbye, parse_resync,
    parse_welcome,
};
use gimbal_wire::parse::{Parsed, WireError, prose};
use gimbal_wire::{Interner, WirePayload};

use crate::pb::sync_response::Message;
use crate::values::Numbered;
use crate::{Kuryr, KuryrReason, agent, certificate, check, facts, pb, report};

impl WirePayload for Kuryr {
    type Request = pb::SyncRequest;
    type Response = pb::SyncResponse;

    const SERVICE: &'static str = "gimbal.kuryr.v1.DesiredState";

    fn encode_agent(message: AgentMessage<Self>) -> pb::SyncRequest {
        agent::encode(message)
    }

    fn parse_agent(request: pb::SyncRequest) -> AgentMessage<Self> {
        agent::parse(request).unwrap_or_else(|error| AgentMessage::Unreadable { reason: error.to_string() })
    }

    fn encode_writer(message: WriterMessage<Self>) -> pb::SyncResponse {
        encode(message)
    }

    fn parse_writer(response: pb::SyncResponse) -> Result<WriterMessage<Self>, WireError> {
        parse(response)
    }
}

/// `WriterMessage::Unreadable` is never sent, so it is omitted.
fn encode(message: WriterMessage<Kuryr>) -> pb::SyncResponse {
    let message = match message {
        WriterMessage::Welcome(welcome) => Message::Welcome(encode_welcome(welcome)),
        WriterMessage::Ack(seq) => Message::Ack(gimbal_wire::pb::Ack { seq }),
        WriterMessage::Reject(Reject { key, reason, retryable, message }) => Message::Reject(pb::Reject {
            key: key.as_ref().map(Into::into),
            reason: reason.number(),
            retryable,
            message,
        }),
        WriterMessage::Resolved(key) => Message::Resolved(pb::Resolved { key: Some((&key).into()) }),
        WriterMessage::Credit(credit) => Message::Credit(encode_credit(credit)),
        WriterMessage::Resync { need, reason } => Message::Resync(encode_resync(need, reason)),
        WriterMessage::Report { seq, key, report } => {
            let load_balancer = Some(report::encode(&report));
            Message::Report(pb::Report { seq, key: Some((&key).into()), load_balancer })
        }
        WriterMessage::Facts(facts) => Message::Facts(facts::encode(&facts)),
        WriterMessage::ContentRequest(hash) => {
            Message::ContentRequest(pb::ContentRequest { hash: certificate::encode_hash(hash) })
        }
        WriterMessage::Goodbye(goodbye) => Message::Goodbye(encode_goodbye(goodbye)),
        WriterMessage::Unreadable { .. } => return pb::SyncResponse { message: None },
    };
    pb::SyncResponse { message: Some(message) }
}

fn parse(response: pb::SyncResponse) -> Parsed<WriterMessage<Kuryr>> {
    let mut intern = Interner::default();
    let pb::SyncResponse { message } = response;
    Ok(match message.ok_or(WireError::Empty)? {
        Message::Welcome(welcome) => WriterMessage::Welcome(parse_welcome(welcome)?),
        Message::Ack(gimbal_wire::pb::Ack { seq }) => WriterMessage::Ack(seq),
        Message::Reject(pb::Reject { key, reason, retryable, message }) => WriterMessage::Reject(Reject {
            key: key.map(|key| check::key(Some(key), &mut intern)).transpose()?,
            reason: KuryrReason::from_number(reason)?,
            retryable,
            message: prose(message),
        }),
        Message::Resolved(pb::Resolved { key }) => WriterMessage::Resolved(check::key(key, &mut intern)?),
        Message::Credit(credit) => WriterMessage::Credit(parse_credit(credit)),
        Message::Resync(resync) => {
            let (need, reason) = parse_resync(resync)?;
            WriterMessage::Resync { need, reason }
        }
        // The agent goes on without a report or facts that it cannot read, and says so.
        Message::Report(report) => {
            let seq = report.seq;
            report::parse(report, &mut intern).unwrap_or_else(|error| unreadable(Some(seq), &error))
        }
        Message::Facts(facts) => match facts::parse(facts, &mut intern) {
            Ok(facts) => WriterMessage::Facts(facts),
            Err(error) => unreadable(None, &error),
        },
        Message::ContentRequest(pb::ContentRequest { hash }) => {
            WriterMessage::ContentRequest(certificate::parse_hash(&hash)?)
        }
        Message::Goodbye(goodbye) => WriterMessage::Goodbye(parse_goodbye(goodbye)?),
    })
}

fn unreadable(report: Option<u64>, error: &WireError) -> WriterMessage<Kuryr> {
    WriterMessage::Unreadable { report, reason: error.to_string() }
}
