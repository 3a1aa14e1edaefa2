//! Messages of a compromised writer, sent to the agent's end of the stream.

use std::time::{Duration, Instant};

use gimbal_model::SourceKey;
use gimbal_session::{
    AgentConfig, AgentEnd, AgentVerdict, Goodbye, GoodbyeReason, MAX_FRAME, Reject, RejectReason, WriterMessage,
};
use gimbal_wire::{encoded_len, pb, writer_message};
use prost::Message as _;

use crate::cut::{cut, join};
use crate::frames::{service, welcome};

/// More messages than an agent with three Services sends in response to one answer.
const MOST: usize = 1000;

pub(crate) fn run(data: &[u8]) {
    let start = Instant::now();
    let config = AgentConfig { backend: "node02".into(), instance: "1".into(), version: "1".into() };
    let mut agent = AgentEnd::new(config);
    agent.set_incarnation("source".into());
    for (namespace, name) in [("team-a", "nginx"), ("team-a", "redis"), ("team-b", "nginx")] {
        agent.set(SourceKey::new(namespace, name), Some(service(3)), start);
    }
    agent.source_complete();
    agent.connected(start);
    for (step, message) in cut(data).enumerate() {
        let now = start + Duration::from_secs(step as u64);
        say(&mut agent, now);
        let Ok(message) = writer_message(pb::SyncResponse::decode(message).unwrap_or_default()) else { continue };
        if !matches!(agent.receive(message, now), AgentVerdict::Continue) {
            agent.disconnected();
            agent.connected(now);
        }
        agent.set(SourceKey::new("team-a", "nginx"), Some(service(1 + step.to_le_bytes()[0] % 8)), now);
    }
    assert_eq!(agent.services().count(), 3, "an answer changed what the source has");
}

fn say(agent: &mut AgentEnd, now: Instant) {
    let said = std::iter::from_fn(|| agent.next(now)).take(MOST).map(|message| {
        assert!(encoded_len(&pb::SyncRequest::from(message)) <= MAX_FRAME, "a message that no frame holds");
    });
    assert!(said.count() < MOST, "the agent talks without end");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let key = SourceKey::new("team-a", "nginx");
    let reject = Reject {
        key: Some(key.clone()),
        reason: RejectReason::NameConflict,
        retryable: true,
        message: "the name is taken".into(),
    };
    let goodbye = Goodbye {
        reason: GoodbyeReason::Superseded,
        message: "a newer stream took over".into(),
        retry_after: Some(Duration::from_secs(30)),
    };
    let messages = [
        WriterMessage::Welcome(welcome()),
        WriterMessage::Ack(5),
        WriterMessage::Reject(reject),
        WriterMessage::Resolved(key),
        WriterMessage::Goodbye(goodbye),
    ];
    let messages: Vec<Vec<u8>> =
        messages.into_iter().map(|message| pb::SyncResponse::from(message).encode_to_vec()).collect();
    let each = messages.iter().map(|message| join([messages[0].clone(), message.clone()]));
    each.chain([join(messages.clone())]).collect()
}
