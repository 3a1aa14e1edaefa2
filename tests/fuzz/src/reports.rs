//! Messages of a compromised writer, sent to the controller's end of a stream of load balancers.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{
    CloudFacts, ExternalNetwork, FloatingAllocation, ListenerId, LoadBalancerReport, Phase, PortRefusal,
    ReportedCondition, ReportedFloatingIp, ReportedListener, ReportedLoadBalancer, ReportedMember, ReportedMissing,
    ReportedObjects, ReportedPolicy, ReportedPool, ReportedRoutes, RouteDifference, RouteState, SubnetFacts,
};
use gimbal_kuryr_wire::{Kuryr, KuryrReason, pb};
use gimbal_model::Protocol;
use gimbal_session::{AgentEnd, AgentVerdict, Key as _, MAX_FRAME, Payload as _, Reject, WriterMessage};
use gimbal_wire::{WirePayload, encoded_len};
use prost::Message as _;

use crate::cut::{cut, join};
use crate::desired::{controller, key, report, wanted};
use crate::frames::welcome;

/// More messages than a controller with three load balancers sends in response to one answer.
const MOST: usize = 1000;
/// What a session adds to the size of a report: a frame's overhead, and a key's.
const OVERHEAD: usize = 128 + 40;

pub(crate) fn run(data: &[u8]) {
    let start = Instant::now();
    let mut agent = controller(start);
    for (step, message) in cut(data).enumerate() {
        let now = start + Duration::from_secs(step as u64);
        say(&mut agent, now);
        let Ok(message) = Kuryr::parse_writer(pb::SyncResponse::decode(message).unwrap_or_default()) else { continue };
        survives_the_wire(&message);
        if !matches!(agent.receive(message, now), AgentVerdict::Continue) {
            agent.disconnected();
            agent.connected(now);
        }
        while let Some(received) = agent.take_report() {
            agent.report_done(&received);
        }
        agent.set(key("team-a", "nginx"), Some(wanted(1 + step.to_le_bytes()[0] % 8).into()), now);
    }
    assert_eq!(agent.entries().count(), 3, "an answer changed what the source has");
}

fn say(agent: &mut AgentEnd<Kuryr>, now: Instant) {
    let said = std::iter::from_fn(|| agent.next(now)).take(MOST).map(|message| {
        assert!(encoded_len(&Kuryr::encode_agent(message)) <= MAX_FRAME, "a message that no frame holds");
    });
    assert!(said.count() < MOST, "the controller talks without end");
}

/// Checks that what was decoded is the same after encoding and decoding, and not larger than estimated.
fn survives_the_wire(message: &WriterMessage<Kuryr>) {
    if matches!(message, WriterMessage::Unreadable { .. }) {
        return;
    }
    let encoded = Kuryr::encode_writer(message.clone());
    let estimated = match message {
        WriterMessage::Report { key, report, .. } => OVERHEAD + key.text_len() + Kuryr::report_len(report),
        WriterMessage::Facts(facts) => Kuryr::facts_len(facts),
        _ => usize::MAX,
    };
    assert!(encoded_len(&encoded) <= estimated, "a message that is larger than estimated");
    let again = Kuryr::parse_writer(pb::SyncResponse::decode(&*encoded.encode_to_vec()).unwrap_or_default());
    assert_eq!(Ok(message), again.as_ref(), "a message changes on its way");
}

fn objects() -> ReportedObjects {
    let address = IpAddr::from([10, 96, 0, 7]);
    ReportedObjects {
        load_balancer: Some(ReportedLoadBalancer {
            id: "lb".into(),
            name: "team-a/nginx".into(),
            address,
            port: "port".into(),
            subnet: "2b1e".into(),
            project: "8f0c".into(),
            provider: "amphora".into(),
            security_groups: vec!["sg".into()],
        }),
        listeners: vec![ReportedListener {
            id: "listener".into(),
            name: "team-a/nginx:TCP:80".into(),
            protocol: "TCP".into(),
            port: 80,
            timeout_client_data: Some(1),
            timeout_member_data: None,
        }],
        pools: vec![ReportedPool {
            id: "pool".into(),
            listener: "listener".into(),
            name: "é".into(),
            protocol: "TCP".into(),
        }],
        members: vec![ReportedMember {
            id: "member".into(),
            pool: "pool".into(),
            name: "pod".into(),
            address,
            port: 8080,
            subnet: "2b1e".into(),
        }],
        member_count: 1,
        floating_ip: Some(ReportedFloatingIp { id: "fip".into(), address, allocation: FloatingAllocation::Pool }),
        policies: vec![ReportedPolicy {
            id: "policy".into(),
            listener: "listener".into(),
            position: 1,
            name: "team-a/nginx".into(),
        }],
        routes: Some(ReportedRoutes {
            generation: 3,
            differences: vec![RouteDifference {
                route: "team-a/nginx".into(),
                state: RouteState::Missing,
                why: Some(ReportedCondition {
                    kind: "QuotaExceeded".into(),
                    reason: "Quota".into(),
                    message: "no more".into(),
                }),
            }],
        }),
        certificates: Vec::new(),
    }
}

fn facts() -> CloudFacts {
    let cidr = "10.0.0.0/8".parse().ok();
    let subnet = cidr.map(|cidr| SubnetFacts {
        network: "net".into(),
        cidr,
        name: "services".into(),
        tags: ["a".into()].into(),
        mtu: 1450,
    });
    CloudFacts {
        project: "8f0c".into(),
        providers: [("amphora".into(), Default::default())].into(),
        subnets: subnet.map(|subnet| ("2b1e".into(), subnet)).into_iter().collect(),
        external: Some(ExternalNetwork { network: "ext".into(), ..Default::default() }),
        classes: [("gold".into(), Default::default())].into(),
        l7_router_ip: Some(IpAddr::from([172, 24, 4, 13])),
        ..CloudFacts::default()
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let reject = Reject {
        key: Some(key("team-a", "nginx")),
        reason: KuryrReason::ProjectNotAllowed,
        retryable: false,
        message: "project 8f0d".into(),
    };
    let condition =
        ReportedCondition { kind: "QuotaExceeded".into(), reason: "Quota".into(), message: "no more".into() };
    let refusal = PortRefusal {
        listener: ListenerId { protocol: Protocol::Sctp, port: 9 },
        reason: "Unsupported".into(),
        message: "SCTP".into(),
    };
    let missing = ReportedMissing {
        load_balancers: vec!["l0".into()],
        listeners: vec!["i0".into()],
        pools: vec!["p0".into()],
        members: vec!["m0".into()],
    };
    let rich = LoadBalancerReport {
        conditions: vec![condition],
        refused_ports: vec![refusal],
        objects: objects(),
        last_error: Some("409".into()),
        missing: Some(Box::new(missing)),
        ..report("uid".into(), Phase::Degraded)
    };
    let messages = [
        WriterMessage::Welcome(welcome()),
        WriterMessage::Facts(facts()),
        WriterMessage::Report { seq: 1, key: key("team-a", "nginx"), report: rich },
        WriterMessage::Report { seq: 2, key: key("team-b", "nginx"), report: report("uid".into(), Phase::Gone) },
        WriterMessage::Reject(reject),
        WriterMessage::Resolved(key("team-a", "nginx")),
        WriterMessage::Ack(5),
    ];
    let messages: Vec<Vec<u8>> =
        messages.into_iter().map(|message| Kuryr::encode_writer(message).encode_to_vec()).collect();
    let each = messages.iter().map(|message| join([messages[0].clone(), message.clone()]));
    each.chain([join(messages.clone())]).collect()
}
