//! Frames of a compromised controller, sent to the writer's end of a stream of load balancers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{
    Algorithm, Balancing, ClientRanges, DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, DesiredMember,
    DesiredMembers, FloatingWish, HealthMonitor, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader,
    LoadBalancerPlacement, LoadBalancerReport, MemberId, MemberMode, MonitorKind, Phase, ReportedObjects, Timeouts,
    VipWish,
};
use gimbal_kuryr_wire::{Kuryr, pb};
use gimbal_model::{Digest, Family, Protocol};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, Entry, Frame, MAX_FRAME, Outcome, WriterEnd,
    WriterLimits, WriterMessage, WriterOutput, estimated_len,
};
use gimbal_wire::{WirePayload, encoded_len};
use prost::Message as _;

use crate::cut::{cut, join};
use crate::frames::{BACKEND, hello, welcome};

pub(crate) fn run(data: &[u8]) {
    let start = Instant::now();
    let credit = Credit { changes: 64, bytes: 1 << 22 };
    let mut end = WriterEnd::<Kuryr>::new(WriterLimits { credit, heartbeat_timeout: Duration::from_secs(10) });
    // Half of the inputs begin with a valid Hello, so that more than its parser is reached.
    let mut generation = u64::from(data.first().is_some_and(|byte| byte % 2 == 0));
    if generation == 1 {
        end.open(&hello(), BACKEND, generation, start);
    }
    for (step, message) in cut(data.get(1..).unwrap_or_default()).enumerate() {
        let now = start + Duration::from_millis(step as u64 * 10);
        // As the codec does: what cannot be decoded is an empty message.
        let outputs = match Kuryr::parse_agent(pb::SyncRequest::decode(message).unwrap_or_default()) {
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
            assert!(encoded_len(&Kuryr::encode_writer(answer)) <= MAX_FRAME, "an answer that no frame holds");
        }
        let digests = end.entries().map(|(key, entry)| Entry::<Kuryr>::digest(&**entry, key));
        let sum = digests.fold(Digest::default(), |sum, digest| sum + digest);
        assert_eq!((end.tree().count(), end.tree().root()), (end.entries().count() as u64, sum), "digests differ");
        end.entries().for_each(|(_, entry)| keeps_its_promises(entry));
    }
}

/// Reports of every change that everything is made.
fn settle(end: &mut WriterEnd<Kuryr>, outputs: Vec<WriterOutput<Kuryr>>) {
    for output in outputs {
        if let WriterOutput::Changed(key) | WriterOutput::Removed(key) = output {
            if let Some(owner) = end.entry(&key).map(|entry| entry.owner().clone()) {
                // One that is too large is not taken, which the writer would log.
                end.report(key.clone(), report(owner, Phase::Ready)).ok();
            }
            end.settle(&key, Outcome::Applied);
            if end.entry(&key).is_none() {
                end.forget_removed(&key);
            }
        }
    }
}

/// Checks what the types say in words only.
fn keeps_its_promises(entry: &DesiredEntry) {
    assert!(!entry.owner().is_empty() && !entry.owner().contains('/'), "an owner that is no UID");
    let DesiredEntry::LoadBalancer(wanted) = entry else { return };
    let mut sorted = (*wanted.header).clone();
    sorted.sort();
    assert_eq!(sorted, *wanted.header, "a header that is not sorted");
    let ids = wanted.header.vip.subnet.iter().chain(&wanted.header.adopt);
    assert!(ids.into_iter().all(|id| !id.contains(['/', '?', '#', '%'])), "an ID that is a path");
}

/// Checks that a frame that was completely decoded is the same after encoding and decoding, and not larger than
/// estimated.
fn survives_the_wire(message: &AgentMessage<Kuryr>) {
    let AgentMessage::Data(data) = message else { return };
    let whole = match &data.frame {
        Frame::Delta { changes, .. } => changes.iter().all(Result::is_ok),
        Frame::SnapshotChunk { pieces, .. } => pieces.iter().all(Result::is_ok),
        _ => true,
    };
    if whole {
        let encoded = Kuryr::encode_agent(message.clone());
        assert!(encoded_len(&encoded) <= estimated_len(data), "a frame that is larger than estimated");
        let bytes = encoded.encode_to_vec();
        let again = Kuryr::parse_agent(pb::SyncRequest::decode(&*bytes).unwrap_or_default());
        assert_eq!(*message, again, "a message changes on its way");
    }
}

pub(crate) fn report(owner: gimbal_kuryr_model::Text, phase: Phase) -> LoadBalancerReport {
    LoadBalancerReport {
        owner,
        generation: 1,
        phase,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: ReportedObjects::default(),
        last_error: None,
        missing: None,
    }
}

/// Returns the messages of an honest controller: each by itself, and all in one stream.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages: Vec<Vec<u8>> =
        conversation().into_iter().map(|message| Kuryr::encode_agent(message).encode_to_vec()).collect();
    let with_first = |first: u8, data: Vec<u8>| [vec![first], data].concat();
    let each = messages.iter().map(|message| with_first(0, join([message.clone()])));
    each.chain([with_first(1, join(messages.clone()))]).collect()
}

pub(crate) fn controller(now: Instant) -> AgentEnd<Kuryr> {
    let config = AgentConfig { backend: BACKEND.into(), instance: "1".into(), version: "1".into() };
    let mut agent = AgentEnd::new(config);
    agent.set_incarnation("source".into());
    agent.grant_reports(Credit { changes: 8, bytes: 1 << 20 });
    for (namespace, name) in [("team-a", "nginx"), ("team-a", "redis"), ("team-b", "nginx")] {
        agent.set(key(namespace, name), Some(wanted(3).into()), now);
    }
    agent.source_complete();
    agent.connected(now);
    agent
}

fn conversation() -> Vec<AgentMessage<Kuryr>> {
    let now = Instant::now();
    let mut agent = controller(now);
    let mut said: Vec<_> = agent.next(now).into_iter().collect();
    let verdict = agent.receive(WriterMessage::Welcome(welcome()), now);
    assert_eq!(verdict, AgentVerdict::Continue);
    said.extend(std::iter::from_fn(|| agent.next(now)));
    agent.set(key("team-a", "nginx"), Some(wanted(4).into()), now);
    agent.set(key("team-a", "redis"), Some(DesiredEntry::Deleting { owner: "uid".into() }.into()), now);
    agent.set(key("team-b", "nginx"), None, now);
    said.extend(std::iter::from_fn(|| agent.next(now + Duration::from_secs(20))));
    let rest = [
        AgentMessage::ReportAck(1),
        AgentMessage::ReportsDone(vec![1, 2]),
        AgentMessage::ReportUnreadable { seq: 3, reason: "phase is 99".into() },
    ];
    said.extend(rest);
    said
}

pub(crate) fn key(namespace: &str, name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, namespace, name)
}

pub(crate) fn wanted(hosts: u8) -> Arc<DesiredEntry> {
    let id = ListenerId { protocol: Protocol::Tcp, port: 80 };
    let dns = ListenerId { protocol: Protocol::Udp, port: 53 };
    let listener = |id, kind| ListenerWish { id, kind, name: Some("http".into()) };
    let header = LoadBalancerHeader {
        owner: "uid".into(),
        known: true,
        placement: LoadBalancerPlacement { project: "8f0c".into(), ..Default::default() },
        vip: VipWish {
            subnet: Some("2b1e".into()),
            address: Some(IpAddr::from([10, 96, 0, 7])),
            security_groups: ["a".into(), "b".into()].into(),
            ..Default::default()
        },
        floating: Some(Box::new(FloatingWish { network: Some("ext".into()), ..Default::default() })),
        listeners: [listener(id, ListenerKind::Http), listener(dns, ListenerKind::Plain)].into(),
        clients: ClientRanges::Only(
            ["10.0.0.0/8", "11.0.0.0/8"].into_iter().filter_map(|one| one.parse().ok()).collect(),
        ),
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: Some(Algorithm::SourceIp),
            affinity_seconds: Some(5),
            proxy: None,
        },
        timeouts: Timeouts { connection_limit: Some(-1), ..Timeouts::default() },
        monitor: Some(Box::new(HealthMonitor {
            kind: MonitorKind::Http,
            port: Some(1),
            delay: 1,
            timeout: 1,
            rise: 1,
            fall: 1,
            path: Some("/".into()),
            codes: None,
        })),
        tls_containers: ["https://barbican/1".into()].into(),
        shared_group: None,
        adopt: Some("cafe".into()),
        routing: None,
    };
    let members = (1..=hosts).flat_map(|host| {
        [id, dns].map(|listener| DesiredMember {
            id: MemberId { pool: listener.into(), address: IpAddr::from([10, 0, 0, host]), port: 8080 },
            weight: 1,
            name: Some("é".into()),
            subnet: (host % 2 == 0).then(|| "5ab".into()),
        })
    });
    let members = DesiredMembers::new(members.collect());
    Arc::new(DesiredEntry::LoadBalancer(DesiredLoadBalancer { generation: 1, header: Arc::new(header), members }))
}
