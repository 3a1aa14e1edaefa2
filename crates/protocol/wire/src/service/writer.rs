//! The writer's messages about Services.

use gimbal_session::{Reject, RejectReason, WriterMessage};

use crate::control::{
    encode_credit, encode_goodbye, encode_need, encode_welcome, parse_credit, parse_goodbye, parse_need, parse_welcome,
};
use crate::parse::{Parsed, WireError, invalid, prose, source_key};
use crate::pb;
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

/// Parses a writer's message.
///
/// # Errors
/// Returns an error when the message violates a rule of the protocol, or its kind is not known in this version.
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
