//! The writer's messages about Services.

use gimbal_session::{Reject, RejectReason, WriterMessage};

use crate::control::{
    encode_credit, encode_goodbye, encode_resync, encode_welcome, parse_credit, parse_goodbye, parse_resync,
    parse_welcome,
};
use crate::parse::{Parsed, WireError, invalid, prose, source_key};
use crate::pb;
use crate::pb::sync_response::Message;

impl From<WriterMessage> for pb::SyncResponse {
    /// Converts a message to its wire form. `WriterMessage::Unreadable` is never sent, so it is omitted.
    fn from(message: WriterMessage) -> Self {
        let message = match message {
            WriterMessage::Welcome(welcome) => Some(Message::Welcome(encode_welcome(welcome))),
            WriterMessage::Ack(seq) => Some(Message::Ack(pb::Ack { seq })),
            WriterMessage::Reject(reject) => Some(Message::Reject(encode_reject(reject))),
            WriterMessage::Resolved(key) => Some(Message::Resolved(pb::Resolved { key: Some((&key).into()) })),
            WriterMessage::Credit(credit) => Some(Message::Credit(encode_credit(credit))),
            WriterMessage::Resync { need, reason } => Some(Message::Resync(encode_resync(need, reason))),
            WriterMessage::Goodbye(goodbye) => Some(Message::Goodbye(encode_goodbye(goodbye))),
            WriterMessage::Unreadable { .. } => None,
        };
        Self { message }
    }
}

fn encode_reject(reject: Reject) -> pb::Reject {
    let Reject { key, reason, retryable, message } = reject;
    pb::Reject { key: key.as_ref().map(Into::into), reason: pb::RejectReason::from(reason).into(), retryable, message }
}

/// Parses a writer's message.
///
/// # Errors
/// Returns an error when the message violates a rule of the protocol, or its kind is not known in this version.
pub fn writer_message(response: pb::SyncResponse) -> Result<WriterMessage, WireError> {
    let pb::SyncResponse { message } = response;
    Ok(match message.ok_or(WireError::Empty)? {
        Message::Welcome(welcome) => WriterMessage::Welcome(parse_welcome(welcome)?),
        Message::Ack(pb::Ack { seq }) => WriterMessage::Ack(seq),
        Message::Reject(pb::Reject { key, reason, retryable, message }) => WriterMessage::Reject(Reject {
            key: key.map(source_key).transpose()?,
            reason: reject_reason(reason)?,
            retryable,
            message: prose(message),
        }),
        Message::Resolved(pb::Resolved { key }) => {
            WriterMessage::Resolved(source_key(key.ok_or(WireError::Missing("key"))?)?)
        }
        Message::Credit(credit) => WriterMessage::Credit(parse_credit(credit)),
        Message::Resync(resync) => {
            let (need, reason) = parse_resync(resync)?;
            WriterMessage::Resync { need, reason }
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
        // A Service is rejected for a reason that says what is not allowed.
        Ok(Pb::Unspecified | Pb::NotAllowed) | Err(_) => {
            invalid("reason", format!("is {value}, which this version does not know"))
        }
    }
}
