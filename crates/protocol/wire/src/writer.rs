//! What the writer says, and the farewell that both ends have.

use std::time::Duration;

use gimbal_session::{Credit, Goodbye, GoodbyeReason, Need, Reject, RejectReason, Welcome, WriterMessage};

use crate::parse::{self, Parsed, WireError, invalid, millis, prose, source_key};
use crate::pb;
use crate::pb::need::Need as PbNeed;
use crate::pb::sync_response::Message;

impl From<WriterMessage> for pb::SyncResponse {
    fn from(message: WriterMessage) -> Self {
        let message = match message {
            WriterMessage::Welcome(welcome) => Message::Welcome(encode_welcome(welcome)),
            WriterMessage::Ack(seq) => Message::Ack(pb::Ack { seq }),
            WriterMessage::Reject(reject) => Message::Reject(pb::Reject {
                key: reject.key.as_ref().map(Into::into),
                reason: pb::RejectReason::from(reject.reason).into(),
                retryable: reject.retryable,
                message: reject.message,
            }),
            WriterMessage::Resolved(key) => Message::Resolved(pb::Resolved { key: Some((&key).into()) }),
            WriterMessage::Credit(credit) => Message::Credit(encode_credit(credit)),
            WriterMessage::Resync { need, reason } => {
                Message::Resync(pb::Resync { need: Some(encode_need(need)), reason })
            }
            WriterMessage::Goodbye(goodbye) => Message::Goodbye(encode_goodbye(goodbye)),
        };
        Self { message: Some(message) }
    }
}

/// Reads what a writer sent.
///
/// # Errors
/// When it breaks a rule of the protocol, or is of a kind that this version does not know.
pub fn writer_message(response: pb::SyncResponse) -> Result<WriterMessage, WireError> {
    Ok(match response.message.ok_or(WireError::Empty)? {
        Message::Welcome(welcome) => WriterMessage::Welcome(parse_welcome(welcome)?),
        Message::Ack(ack) => WriterMessage::Ack(ack.seq),
        Message::Reject(reject) => WriterMessage::Reject(Reject {
            key: reject.key.map(source_key).transpose()?,
            reason: reject_reason(reject.reason)?,
            retryable: reject.retryable,
            message: prose(reject.message),
        }),
        Message::Resolved(resolved) => {
            WriterMessage::Resolved(source_key(resolved.key.ok_or(WireError::Missing("key"))?)?)
        }
        Message::Credit(credit) => WriterMessage::Credit(parse_credit(credit)),
        Message::Resync(resync) => {
            WriterMessage::Resync { need: parse_need(resync.need)?, reason: prose(resync.reason) }
        }
        Message::Goodbye(goodbye) => WriterMessage::Goodbye(parse_goodbye(goodbye)?),
    })
}

fn encode_welcome(welcome: Welcome) -> pb::Welcome {
    pb::Welcome {
        protocol: welcome.protocol,
        generation: welcome.generation,
        need: Some(encode_need(welcome.need)),
        credit: Some(encode_credit(welcome.credit)),
        backend: welcome.backend,
        heartbeat_timeout_ms: millis(welcome.heartbeat_timeout, u32::MAX),
    }
}

fn parse_welcome(welcome: pb::Welcome) -> Parsed<Welcome> {
    Ok(Welcome {
        protocol: welcome.protocol,
        generation: welcome.generation,
        need: parse_need(welcome.need)?,
        credit: parse_credit(welcome.credit.ok_or(WireError::Missing("credit"))?),
        backend: welcome.backend,
        heartbeat_timeout: Duration::from_millis(welcome.heartbeat_timeout_ms.into()),
    })
}

fn encode_credit(credit: Credit) -> pb::Credit {
    pb::Credit { changes: credit.changes, bytes: credit.bytes }
}

fn parse_credit(credit: pb::Credit) -> Credit {
    Credit { changes: credit.changes, bytes: credit.bytes }
}

fn encode_need(need: Need) -> pb::Need {
    let need = match need {
        Need::Nothing => PbNeed::Nothing(pb::need::Nothing {}),
        Need::Namespaces(held) => {
            let held = held.into_iter().map(|(namespace, summary)| pb::NamespaceSummary {
                namespace: namespace.to_string(),
                summary: Some(summary.into()),
            });
            PbNeed::Namespaces(pb::need::Namespaces { held: held.collect() })
        }
        Need::All => PbNeed::All(pb::need::All {}),
    };
    pb::Need { need: Some(need) }
}

fn parse_need(need: Option<pb::Need>) -> Parsed<Need> {
    match need.and_then(|need| need.need).ok_or(WireError::Missing("need"))? {
        PbNeed::Nothing(_) => Ok(Need::Nothing),
        PbNeed::All(_) => Ok(Need::All),
        PbNeed::Namespaces(namespaces) => {
            let held = namespaces.held.into_iter().map(|held| {
                parse::name("namespace", &held.namespace)?;
                let summary = held.summary.ok_or(WireError::Missing("summary"))?;
                Ok((held.namespace.into(), parse::summary(&summary)?))
            });
            held.collect::<Parsed<_>>().map(Need::Namespaces)
        }
    }
}

fn reject_reason(value: i32) -> Parsed<RejectReason> {
    use pb::RejectReason as Pb;
    match Pb::try_from(value) {
        Ok(Pb::NameConflict) => Ok(RejectReason::NameConflict),
        Ok(Pb::NamespaceMissing) => Ok(RejectReason::NamespaceMissing),
        Ok(Pb::NamespaceForbidden) => Ok(RejectReason::NamespaceForbidden),
        Ok(Pb::AddressRefused) => Ok(RejectReason::AddressRefused),
        Ok(Pb::Invalid) => Ok(RejectReason::Invalid),
        Ok(Pb::Unsupported) => Ok(RejectReason::Unsupported),
        Ok(Pb::TooLarge) => Ok(RejectReason::TooLarge),
        Ok(Pb::Quota) => Ok(RejectReason::Quota),
        Ok(Pb::ApiError) => Ok(RejectReason::ApiError),
        Ok(Pb::Held) => Ok(RejectReason::Held),
        Ok(Pb::Quarantined) => Ok(RejectReason::Quarantined),
        Ok(Pb::Unspecified) | Err(_) => invalid("reason", format!("is {value}, which this version does not know")),
    }
}

pub(crate) fn encode_goodbye(goodbye: Goodbye) -> pb::Goodbye {
    let reason = match goodbye.reason {
        GoodbyeReason::Shutdown => pb::GoodbyeReason::Shutdown,
        GoodbyeReason::Superseded => pb::GoodbyeReason::Superseded,
        GoodbyeReason::UnknownBackend => pb::GoodbyeReason::UnknownBackend,
        GoodbyeReason::Incarnation => pb::GoodbyeReason::Incarnation,
        GoodbyeReason::Protocol => pb::GoodbyeReason::Protocol,
        GoodbyeReason::ProtocolError => pb::GoodbyeReason::ProtocolError,
        GoodbyeReason::NotLeader => pb::GoodbyeReason::NotLeader,
        GoodbyeReason::Timeout => pb::GoodbyeReason::Timeout,
        GoodbyeReason::Certificate => pb::GoodbyeReason::Certificate,
    };
    pb::Goodbye {
        reason: reason.into(),
        message: goodbye.message,
        // 0 means "as you like", so "at once" is the shortest time there is.
        retry_after_ms: goodbye.retry_after.map_or(0, |after| millis(after, u32::MAX).max(1)),
    }
}

pub(crate) fn parse_goodbye(goodbye: pb::Goodbye) -> Parsed<Goodbye> {
    use pb::GoodbyeReason as Pb;
    let reason = match Pb::try_from(goodbye.reason) {
        Ok(Pb::Shutdown) => GoodbyeReason::Shutdown,
        Ok(Pb::Superseded) => GoodbyeReason::Superseded,
        Ok(Pb::UnknownBackend) => GoodbyeReason::UnknownBackend,
        Ok(Pb::Incarnation) => GoodbyeReason::Incarnation,
        Ok(Pb::Protocol) => GoodbyeReason::Protocol,
        Ok(Pb::ProtocolError) => GoodbyeReason::ProtocolError,
        Ok(Pb::NotLeader) => GoodbyeReason::NotLeader,
        Ok(Pb::Timeout) => GoodbyeReason::Timeout,
        Ok(Pb::Certificate) => GoodbyeReason::Certificate,
        Ok(Pb::Unspecified) | Err(_) => {
            return invalid("reason", format!("is {}, which this version does not know", goodbye.reason));
        }
    };
    let retry_after = (goodbye.retry_after_ms > 0).then(|| Duration::from_millis(goodbye.retry_after_ms.into()));
    Ok(Goodbye { reason, message: prose(goodbye.message), retry_after })
}
