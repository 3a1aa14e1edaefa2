//! Reports as statuses.

use gimbal_kubernetes_objects::BalancedService;
use gimbal_kuryr_crd::{KuryrLoadBalancerSpec, KuryrLoadBalancerStatus};
use gimbal_kuryr_model::{
    FloatingAllocation, ListenerId, LoadBalancerReport, Phase, PortRefusal, ReportedCondition, ReportedFloatingIp,
    ReportedListener, ReportedLoadBalancer, ReportedMember, ReportedObjects, ReportedPool,
};
use gimbal_kuryr_translate::{
    Finding, MOST_MEMBERS, MOST_WITH_STATUS, NotStreamed, RangeProblem, StatusInput, encoded_len, service_status,
    status,
};
use gimbal_model::Protocol;
use serde_json::json;

use crate::common::{service, spec_of};

pub fn objects(members: usize) -> ReportedObjects {
    let member = |n: usize| ReportedMember {
        id: format!("member-{n}").into(),
        pool: "pool".into(),
        name: format!("team/web-{n}:8080").into(),
        address: format!("10.1.{}.{}", n / 250, n % 250).parse().unwrap(),
        port: 8080,
        subnet: "pods".into(),
    };
    ReportedObjects {
        load_balancer: Some(ReportedLoadBalancer {
            id: "lb".into(),
            name: "team/web".into(),
            address: "10.96.0.10".parse().unwrap(),
            port: "port".into(),
            subnet: "services".into(),
            project: "project".into(),
            provider: "amphora".into(),
            security_groups: vec!["group".into()],
        }),
        listeners: vec![ReportedListener {
            id: "listener".into(),
            name: "team/web:TCP:80".into(),
            protocol: "TCP".into(),
            port: 80,
            timeout_client_data: Some(50_000),
            timeout_member_data: None,
        }],
        pools: vec![ReportedPool {
            id: "pool".into(),
            listener: "listener".into(),
            name: "team/web:TCP:80".into(),
            protocol: "TCP".into(),
        }],
        members: (0..members).map(member).collect(),
        member_count: u32::try_from(members).unwrap(),
        floating_ip: Some(ReportedFloatingIp {
            id: "fip".into(),
            address: "172.24.4.9".parse().unwrap(),
            allocation: FloatingAllocation::User,
        }),
        policies: Vec::new(),
        routes: None,
        certificates: Vec::new(),
    }
}

fn report(phase: Phase) -> LoadBalancerReport {
    LoadBalancerReport {
        owner: "6d0e7f4e".into(),
        generation: 3,
        phase,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: objects(2),
        last_error: None,
        missing: None,
    }
}

fn of(
    previous: Option<&KuryrLoadBalancerStatus>,
    report: Option<&LoadBalancerReport>,
    now: &str,
) -> KuryrLoadBalancerStatus {
    let (not_streamed, findings) = (None, &[] as &[Finding]);
    status(&StatusInput { previous, generation: 3, object_len: 1_000, report, not_streamed, findings, now })
}

fn conditions(status: &KuryrLoadBalancerStatus) -> Vec<String> {
    let one = status.conditions.iter();
    one.map(|one| format!("{}={} {} {} {}", one.type_, one.status, one.reason, one.last_transition_time, one.message))
        .collect()
}

#[test]
fn what_exists_is_listed_as_kuryr_did() {
    let status = of(None, Some(&report(Phase::Ready)), "T1");
    assert_eq!(conditions(&status), ["Ready=True Ready T1 ", "Synced=True Applied T1 "]);
    let mut value = serde_json::to_value(&status).unwrap();
    value.as_object_mut().unwrap().remove("conditions");
    let member = |n: usize| {
        json!({
            "id": format!("member-{n}"), "ip": format!("10.1.0.{n}"), "name": format!("team/web-{n}:8080"), "pool_id": "pool",
            "port": 8080, "project_id": "project", "subnet_id": "pods",
        })
    };
    let expected = json!({
        "loadbalancer": {
            "id": "lb", "ip": "10.96.0.10", "name": "team/web", "port_id": "port", "project_id": "project",
            "provider": "amphora", "security_groups": ["group"], "subnet_id": "services",
        },
        "listeners": [{
            "id": "listener", "loadbalancer_id": "lb", "name": "team/web:TCP:80", "port": 80, "project_id": "project",
            "protocol": "TCP", "timeout_client_data": 50_000,
        }],
        "pools": [{
            "id": "pool", "listener_id": "listener", "loadbalancer_id": "lb", "name": "team/web:TCP:80",
            "project_id": "project", "protocol": "TCP",
        }],
        "members": [member(0), member(1)],
        "service_pub_ip_info": {"ip_id": "fip", "ip_addr": "172.24.4.9", "alloc_method": "user"},
        "observedGeneration": 3, "memberCount": 2, "membersTruncated": false,
    });
    assert_eq!(value, expected);
}

#[test]
fn the_same_report_again_is_the_same_status() {
    let mut first = of(None, Some(&report(Phase::Degraded)), "T1");
    first.others.insert("of_kuryr".into(), json!(1));
    assert_eq!(of(Some(&first), Some(&report(Phase::Degraded)), "T2"), first);
    let later = of(Some(&first), Some(&report(Phase::Ready)), "T3");
    let expected = ["Ready=True Ready T3 ", "Synced=True Applied T1 ", "Degraded=False Passed T3 "];
    assert_eq!(conditions(&later), expected);
    assert_eq!(later.others, first.others);
}

#[test]
fn a_writer_that_has_not_looked_yet_wipes_nothing() {
    let first = of(None, Some(&report(Phase::Ready)), "T1");
    let blind = LoadBalancerReport { objects: ReportedObjects::default(), ..report(Phase::Waiting) };
    assert_eq!(of(Some(&first), Some(&blind), "T2").loadbalancer, first.loadbalancer);
    let gone = LoadBalancerReport { objects: ReportedObjects::default(), ..report(Phase::Making) };
    assert_eq!(of(Some(&first), Some(&gone), "T2").loadbalancer, None);
}

#[test]
fn conditions_of_every_source_are_joined() {
    let mut report = report(Phase::Blocked);
    let quota = ReportedCondition { kind: "QuotaExceeded".into(), reason: "Quota".into(), message: "listeners".into() };
    let unknown = ReportedCondition { kind: "Unheard".into(), reason: "Of".into(), message: "".into() };
    report.conditions = vec![quota, unknown];
    report.last_error = Some("Quota has been met for resources: Listener".into());
    let listener = ListenerId::new(Protocol::Udp, 53);
    report.refused_ports =
        vec![PortRefusal { listener, reason: "NoUdp".into(), message: "the provider has no UDP".into() }];
    let found = Finding::SecondFamily("there is no subnet");
    let input = StatusInput {
        previous: None,
        generation: 3,
        object_len: 0,
        report: Some(&report),
        not_streamed: None,
        findings: &[found],
        now: "T1",
    };
    let expected = [
        "Ready=False Blocked T1 listeners",
        "Synced=False Pending T1 ",
        "QuotaExceeded=True Quota T1 listeners",
        "Unsupported=True SecondFamily T1 the Service has no address of its second family: there is no subnet; port 53/UDP: the provider has no UDP",
    ];
    assert_eq!(conditions(&status(&input)), expected);
}

/// To compare all of them with each other takes minutes.
#[test]
fn of_very_many_findings_those_are_told_that_fit() {
    let problem = RangeProblem::Unreadable;
    let found = |n: u32| Finding::SourceRange { value: n.to_string().as_str().into(), problem };
    let findings: Vec<_> = (0..200_000).map(found).collect();
    let shown = status(&StatusInput {
        previous: None,
        generation: 3,
        object_len: 1_000,
        report: None,
        not_streamed: None,
        findings: &findings,
        now: "",
    });
    let message = &*shown.conditions.iter().find(|one| &*one.type_ == "Unsupported").unwrap().message;
    let all: Vec<_> = findings.iter().take(100).map(ToString::to_string).collect();
    assert_eq!(message, &all.join("; ")[..4_096]);
}

#[test]
fn before_the_writer_and_without_it() {
    assert_eq!(
        conditions(&of(None, None, "T1"))[0],
        "Ready=False WaitingForWriter T1 the writer has not said anything yet"
    );
    let error = NotStreamed::VipUnreadable("web".into());
    let input = StatusInput {
        previous: None,
        generation: 3,
        object_len: 0,
        report: None,
        not_streamed: Some(&error),
        findings: &[],
        now: "T1",
    };
    let expected = [
        "Ready=False InvalidAddress T1 its address \"web\" cannot be read",
        "Synced=False Pending T1 ",
        "Conflict=True InvalidAddress T1 its address \"web\" cannot be read",
    ];
    assert_eq!(conditions(&status(&input)), expected);
    // A report about an earlier generation is no news of this one.
    let late = LoadBalancerReport { generation: 2, ..report(Phase::Ready) };
    assert_eq!(conditions(&of(None, Some(&late), "T1")), ["Ready=False Waiting T1 ", "Synced=False Pending T1 "]);
}

#[test]
fn the_list_of_members_is_bounded() {
    let many = LoadBalancerReport { objects: objects(5_000), ..report(Phase::Ready) };
    let status = of(None, Some(&many), "T1");
    assert_eq!(
        (status.members.len(), status.member_count, status.members_truncated),
        (MOST_MEMBERS, Some(5_000), Some(true))
    );
    let (not_streamed, findings) = (None, &[] as &[Finding]);
    let object_len = 1_000_000;
    let input =
        StatusInput { previous: None, generation: 3, object_len, report: Some(&many), not_streamed, findings, now: "" };
    let status = gimbal_kuryr_translate::status(&input);
    assert!(object_len + encoded_len(&status) <= MOST_WITH_STATUS);
    assert!(status.members.len() > 500 && status.members.len() < MOST_MEMBERS, "{}", status.members.len());
}

fn outcome(service: &BalancedService, report: Option<&LoadBalancerReport>, findings: &[Finding]) -> serde_json::Value {
    let spec = KuryrLoadBalancerSpec::default();
    serde_json::to_value(service_status(service, &spec, None, report, findings).load_balancer).unwrap()
}

#[test]
fn a_service_shows_its_address_while_it_is_served() {
    let mut web = service(json!({}), json!({}));
    let ready = outcome(&web, Some(&report(Phase::Ready)), &[]);
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(ready, json!({"ingress": [{"ip": "172.24.4.9", "ipMode": "VIP", "ports": ports}]}));
    for phase in [Phase::Waiting, Phase::Making, Phase::Held] {
        assert_eq!(outcome(&web, Some(&report(phase)), &[]), json!({}), "{phase:?}");
    }
    web.status.load_balancer = serde_json::from_value(ready.clone()).unwrap();
    for phase in [Phase::Waiting, Phase::Making, Phase::Blocked, Phase::Held, Phase::Ready, Phase::Degraded] {
        assert_eq!(outcome(&web, Some(&report(phase)), &[]), ready, "{phase:?}");
    }
    assert_eq!(outcome(&web, None, &[]), ready);
    for phase in [Phase::Removing, Phase::Gone] {
        assert_eq!(outcome(&web, Some(&report(phase)), &[]), json!({}), "{phase:?}");
    }
    let mut without = report(Phase::Ready);
    without.objects.floating_ip = None;
    assert_eq!(outcome(&web, Some(&without), &[])["ingress"][0]["ip"], "10.96.0.10");
    let mut going = web.clone();
    going.metadata.meta.deletion_timestamp = Some("T".into());
    assert_eq!(outcome(&going, Some(&report(Phase::Ready)), &[]), json!({}));
    web.spec.type_ = Some("ClusterIP".into());
    assert_eq!(outcome(&web, Some(&report(Phase::Ready)), &[]), json!({}));
}

/// While a load balancer in ERROR is made again there may be none.
#[test]
fn a_service_that_does_not_serve_keeps_its_address_and_gets_none() {
    let mut web = service(json!({}), json!({}));
    let ready = outcome(&web, Some(&report(Phase::Ready)), &[]);
    for before in [json!({}), ready] {
        web.status.load_balancer = serde_json::from_value(before.clone()).unwrap();
        for objects in [objects(0), ReportedObjects::default()] {
            let mut down = LoadBalancerReport { objects, ..report(Phase::Degraded) };
            let (kind, reason) = ("Degraded".into(), ReportedCondition::NOT_SERVING.into());
            down.conditions = vec![ReportedCondition { kind, reason, message: "".into() }];
            assert_eq!(outcome(&web, Some(&down), &[]), before, "{down:?}");
        }
    }
}

/// What is in the way of one port, or of nothing that clients need, is not in the way of the others.
#[test]
fn a_service_shows_its_address_though_one_of_its_ports_is_refused() {
    let web = service(json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443}]}), json!({}));
    let mut blocked = report(Phase::Blocked);
    let listener = ListenerId::new(Protocol::Tcp, 443);
    blocked.refused_ports = vec![PortRefusal { listener, reason: "Quota".into(), message: "Listener".into() }];
    let status = json!({"ingress": [{"ip": "172.24.4.9", "ipMode": "VIP", "ports": [
        {"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP", "error": "kuryr.openstack.org/Quota"},
    ]}]});
    assert_eq!(outcome(&web, Some(&blocked), &[]), status);
    let mut spec = KuryrLoadBalancerSpec { floating_network_id: Some("outside".into()), ..Default::default() };
    let of = |spec: &KuryrLoadBalancerSpec, report: &LoadBalancerReport| {
        let status = service_status(&web, spec, None, Some(report), &[]).load_balancer;
        status.ingress.first().and_then(|one| one.ip.as_deref().map(str::to_owned))
    };
    assert_eq!(of(&spec, &blocked).as_deref(), Some("172.24.4.9"));
    // It is to be reached at its floating IP alone.
    blocked.objects.floating_ip = None;
    assert_eq!(of(&spec, &blocked), None);
    spec.floating_network_id = None;
    assert_eq!(of(&spec, &blocked).as_deref(), Some("10.96.0.10"));
    // No port was made.
    blocked.objects.listeners.clear();
    assert_eq!(of(&spec, &blocked), None);
    blocked.objects.load_balancer = None;
    assert_eq!(of(&spec, &blocked), None);
}

#[test]
fn a_service_of_which_no_port_is_served_shows_no_address() {
    let mut web = service(json!({}), json!({}));
    for before in [json!({}), outcome(&web, Some(&report(Phase::Ready)), &[])] {
        web.status.load_balancer = serde_json::from_value(before).unwrap();
        for phase in [Phase::Ready, Phase::Degraded, Phase::Blocked] {
            let mut without = report(phase);
            without.objects.listeners.clear();
            assert_eq!(outcome(&web, Some(&without), &[]), json!({}), "{phase:?}");
        }
    }
    // While its load balancer cannot be made again, it is not known which address it will have.
    let mut blocked = report(Phase::Blocked);
    (blocked.objects.load_balancer, blocked.objects.listeners) = (None, Vec::new());
    assert_eq!(outcome(&web, Some(&blocked), &[])["ingress"][0]["ip"], "172.24.4.9");
}

/// What stays PENDING_CREATE is degraded after a while, and its VIP is known from the beginning.
#[test]
fn a_service_whose_load_balancer_was_never_ready_shows_no_address() {
    let mut web = service(json!({}), json!({}));
    let spec = KuryrLoadBalancerSpec { floating_network_id: Some("outside".into()), ..Default::default() };
    let of = |web: &BalancedService, report: &LoadBalancerReport| {
        let status = service_status(web, &spec, None, Some(report), &[]).load_balancer;
        status.ingress.first().and_then(|one| one.ip.as_deref().map(str::to_owned))
    };
    let mut degraded = report(Phase::Degraded);
    assert_eq!(of(&web, &degraded), None);
    let ready = report(Phase::Ready);
    assert_eq!(of(&web, &ready).as_deref(), Some("172.24.4.9"));
    // One that was ready keeps its address, and shows no VIP in the place of a floating IP.
    web.status.load_balancer = service_status(&web, &spec, None, Some(&ready), &[]).load_balancer;
    assert_eq!(of(&web, &degraded).as_deref(), Some("172.24.4.9"));
    degraded.objects.floating_ip = None;
    assert_eq!(of(&web, &degraded).as_deref(), Some("172.24.4.9"));
    degraded.objects.load_balancer = None;
    assert_eq!(of(&web, &degraded).as_deref(), Some("172.24.4.9"));
}

#[test]
fn a_proxy_is_not_gone_past_and_a_name_has_no_mode() {
    let web = service(json!({}), json!({}));
    let spec = spec_of(json!({}), json!({"loadbalancer.openstack.org/proxy-protocol": "v2"})).spec;
    let of = |hostname| service_status(&web, &spec, hostname, Some(&report(Phase::Ready)), &[]).load_balancer.ingress;
    assert_eq!(of(None)[0].ip_mode.as_deref(), Some("Proxy"));
    let named = &of(Some(&"web.example.com".into()))[0];
    assert_eq!(
        (named.ip.as_ref(), named.ip_mode.as_ref(), named.hostname.as_deref()),
        (None, None, Some("web.example.com"))
    );
}

#[test]
fn a_port_that_is_not_served_says_why() {
    let ports =
        json!([{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}, {"name": "c", "port": 80}]);
    let web = service(json!({"ports": ports}), json!({}));
    let listener = ListenerId::new(Protocol::Udp, 53);
    let mut report = report(Phase::Ready);
    report.refused_ports = vec![PortRefusal { listener, reason: "no such thing!".into(), message: "".into() }];
    let duplicate = Finding::Port {
        name: "c".into(),
        port: 80,
        protocol: "TCP".into(),
        problem: gimbal_kuryr_translate::PortProblem::Duplicate,
    };
    let outcome = service_status(&web, &KuryrLoadBalancerSpec::default(), None, Some(&report), &[duplicate]);
    let errors: Vec<_> = outcome.load_balancer.ingress[0].ports.iter().map(|port| port.error.as_deref()).collect();
    assert_eq!(errors, [None, Some("kuryr.openstack.org/Unsupported"), Some("kuryr.openstack.org/DuplicatePort")]);
    let expected = "53/UDP: kuryr.openstack.org/Unsupported; 80/TCP: kuryr.openstack.org/DuplicatePort";
    assert_eq!(outcome.ports_error.as_deref(), Some(expected));
}
