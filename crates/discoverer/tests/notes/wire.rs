//! The wire form of notes. Both ends are in this process, so only a number of each message travels.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use gimbal_discoverer::OfferedPayload;
use gimbal_model::{BackendName, SourceKey};
use gimbal_session::{AgentMessage, Entry as _, WriterMessage};
use gimbal_transport::pb;
use gimbal_wire::{WireError, WirePayload};

use crate::payload::{Note, NoteKey, Notes, Refusal};

/// The messages on their way, with the number of the latest.
type OnTheWay = (u64, HashMap<u64, Box<dyn Any + Send>>);

static ON_THE_WAY: LazyLock<Mutex<OnTheWay>> = LazyLock::new(Mutex::default);

/// The number of a message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Number {
    #[prost(uint64, tag = "1")]
    number: u64,
}

fn send(message: impl Any + Send) -> Number {
    let (last, messages) = &mut *ON_THE_WAY.lock().unwrap();
    *last += 1;
    messages.insert(*last, Box::new(message));
    Number { number: *last }
}

fn receive<T: 'static>(number: &Number) -> T {
    let message = ON_THE_WAY.lock().unwrap().1.remove(&number.number).unwrap();
    *message.downcast().unwrap()
}

impl WirePayload for Notes {
    type Request = Number;
    type Response = Number;

    const SERVICE: &'static str = "gimbal.notes.v1.NotesService";

    fn encode_agent(message: AgentMessage<Self>) -> Number {
        send(message)
    }

    fn parse_agent(request: Number) -> AgentMessage<Self> {
        receive(&request)
    }

    fn encode_writer(message: WriterMessage<Self>) -> Number {
        send(message)
    }

    fn parse_writer(response: Number) -> Result<WriterMessage<Self>, WireError> {
        Ok(receive(&response))
    }
}

impl OfferedPayload for Notes {
    const ENTRY: &'static str = "note";

    fn shown_key(key: &NoteKey) -> SourceKey {
        SourceKey::new(key.namespace.clone(), format!("{}-{}", key.kind, key.name))
    }

    fn key_shown_as(name: &SourceKey) -> Option<NoteKey> {
        let (kind, note) = name.name.split_once('-')?;
        Some(NoteKey { namespace: name.namespace.clone(), name: note.into(), kind: kind.parse().ok()? })
    }

    fn target(_: &BackendName, key: &NoteKey) -> pb::ServiceKey {
        pb::ServiceKey { namespace: key.namespace.to_string(), name: key.name.to_string() }
    }

    fn describe(note: &Note, status: &mut pb::ServiceStatus) {
        status.ready_endpoints = note.part_count() as u64;
    }

    fn reason_name(reason: Refusal) -> &'static str {
        match reason {
            Refusal::Invalid => "Invalid",
            Refusal::TooLarge => "TooLarge",
        }
    }

    fn shown_reason(reason: Refusal) -> pb::RejectReason {
        match reason {
            Refusal::Invalid => pb::RejectReason::Invalid,
            Refusal::TooLarge => pb::RejectReason::TooLarge,
        }
    }
}
