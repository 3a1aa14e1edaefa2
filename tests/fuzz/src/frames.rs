//! Frames of a compromised agent, sent to the writer's end of the stream.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, Freshness, Goodbye, GoodbyeReason, Hello, MAX_FRAME,
    Need, Outcome, PROTOCOL, Scope, Summary, Welcome, WriterEnd, WriterLimits, WriterMessage, WriterOutput,
};
use gimbal_wire::{agent_message, encoded_len, pb};
use prost::Message as _;

use crate::cut::{cut, join};

pub(crate) const BACKEND: &str = "node02";

pub(crate) fn run(data: &[u8]) {
    let start = Instant::now();
    let credit = Credit { changes: 64, bytes: 1 << 22 };
    let mut end = WriterEnd::new(WriterLimits { credit, heartbeat_timeout: Duration::from_secs(15) });
    // Half of the inputs begin with a valid Hello, so that more than its parser is reached.
    let mut generation = u64::from(data.first().is_some_and(|byte| byte % 2 == 0));
    if generation == 1 {
        end.open(&hello(), BACKEND, generation, start);
    }
    for (step, message) in cut(data.get(1..).unwrap_or_default()).enumerate() {
        let now = start + Duration::from_millis(step as u64 * 10);
        // As the codec does: what cannot be decoded is an empty message.
        let outputs = match agent_message(pb::SyncRequest::decode(message).unwrap_or_default()) {
            AgentMessage::Hello(hello) => {
                generation += 1;
                end.open(&hello, BACKEND, generation, now)
            }
            other => {
                survives_the_wire(&other);
                end.receive(other, now)
            }
        };
        settle(&mut end, outputs);
        for answer in end.take_messages() {
            assert!(encoded_len(&pb::SyncResponse::from(answer)) <= MAX_FRAME, "an answer that no frame holds");
        }
        assert_eq!(end.tree().count(), end.services().count() as u64, "the digests count what is not held");
    }
}

/// Reports every write as made by the API server.
fn settle(end: &mut WriterEnd, outputs: Vec<WriterOutput>) {
    for output in outputs {
        if let WriterOutput::Changed(key) | WriterOutput::Removed(key) = output {
            end.settle(&key, Outcome::Applied);
            if end.service(&key).is_none() {
                end.forget_removed(&key);
            }
        }
    }
}

/// Checks that a message that was completely decoded is the same after encoding and decoding.
fn survives_the_wire(message: &AgentMessage) {
    let whole = match message {
        AgentMessage::Unreadable { .. } => false,
        AgentMessage::Data(data) => match &data.frame {
            gimbal_session::Frame::Delta { changes, .. } => changes.iter().all(Result::is_ok),
            gimbal_session::Frame::SnapshotChunk { pieces, .. } => pieces.iter().all(Result::is_ok),
            _ => true,
        },
        _ => true,
    };
    if whole {
        let bytes = pb::SyncRequest::from(message.clone()).encode_to_vec();
        let again = agent_message(pb::SyncRequest::decode(&*bytes).unwrap_or_default());
        assert_eq!(*message, again, "a message changes on its way");
    }
}

pub(crate) fn hello() -> Hello {
    Hello {
        protocol: (PROTOCOL, PROTOCOL),
        capabilities: Default::default(),
        backend: BACKEND.into(),
        agent_instance: "1".into(),
        source_incarnation: "source".into(),
        // Without, data would be against the rules.
        held: Some(Summary::default()),
        agent_version: String::new(),
    }
}

/// Returns the messages of an honest agent in two streams: a snapshot, changes, and all the small messages.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages: Vec<Vec<u8>> =
        conversation().into_iter().map(|message| pb::SyncRequest::from(message).encode_to_vec()).collect();
    let with_first = |first: u8, data: Vec<u8>| [vec![first], data].concat();
    let each = messages.iter().map(|message| with_first(0, join([message.clone()])));
    each.chain([with_first(1, join(messages.clone()))]).collect()
}

pub(crate) fn conversation() -> Vec<AgentMessage> {
    let now = Instant::now();
    let config = AgentConfig { backend: BACKEND.into(), instance: "1".into(), version: "1".into() };
    let mut agent = AgentEnd::new(config);
    agent.set_incarnation("source".into());
    for (namespace, name) in [("team-a", "nginx"), ("team-a", "redis"), ("team-b", "nginx")] {
        agent.set(SourceKey::new(namespace, name), Some(service(3)), now);
    }
    agent.set_freshness(vec![Freshness { kind: "services".into(), age: Some(Duration::from_secs(1)) }]);
    agent.source_complete();
    agent.connected(now);
    let mut said: Vec<AgentMessage> = agent.next(now).into_iter().collect();
    let verdict = agent.receive(WriterMessage::Welcome(welcome()), now);
    assert_eq!(verdict, AgentVerdict::Continue);
    said.extend(std::iter::from_fn(|| agent.next(now)));
    agent.set(SourceKey::new("team-a", "nginx"), Some(service(4)), now);
    agent.set(SourceKey::new("team-b", "nginx"), None, now);
    agent.scope_unknown(Scope::Namespaces(vec!["team-c".into()]), "forbidden".into());
    said.extend(std::iter::from_fn(|| agent.next(now + Duration::from_secs(20))));
    said.push(AgentMessage::Goodbye(Goodbye {
        reason: GoodbyeReason::Shutdown,
        message: "the end".into(),
        retry_after: None,
    }));
    said
}

pub(crate) fn welcome() -> Welcome {
    Welcome {
        protocol: PROTOCOL,
        generation: 1,
        need: Need::All,
        credit: Credit { changes: 64, bytes: 1 << 22 },
        backend: BACKEND.into(),
        heartbeat_timeout: Duration::from_secs(15),
        capabilities: vec!["trace".into()].into(),
    }
}

pub(crate) fn service(hosts: u8) -> Arc<Service> {
    let header = Header {
        labels: [("app".into(), "web".into())].into(),
        annotations: [("note".into(), "é".into())].into(),
        ports: vec![ServicePort {
            name: "http".into(),
            port: 80,
            protocol: Protocol::Tcp,
            app_protocol: Some("http".into()),
            target_port: None,
        }],
    };
    let set = PortSet::new(vec![EndpointPort {
        name: "http".into(),
        port: Some(8080),
        protocol: Protocol::Tcp,
        app_protocol: None,
    }]);
    let endpoints = (1..=hosts).map(|host| (set.clone(), Endpoint::ready(IpAddr::from([10, 0, 0, host]))));
    Arc::new(Service::new(Arc::new(header), endpoints))
}
