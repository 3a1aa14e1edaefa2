//! Reports as statuses of routers and Ingresses.

use gimbal_kubernetes_objects::Ingress;
use gimbal_kuryr_crd::KuryrL7RouterStatus;
use gimbal_kuryr_model::{
    CertificateHash, LoadBalancerReport, Phase, ReportedCertificate, ReportedCondition, ReportedPolicy, ReportedRoutes,
    RouteDifference, RouteState,
};
use gimbal_kuryr_translate::{
    Finding, MOST_WITH_STATUS, NotStreamed, RouterStatusInput, encoded_len, ingress_status, router_status,
};

use super::common::{Cluster, one_rule};
use crate::status::objects;

fn report(phase: Phase, policies: u32) -> LoadBalancerReport {
    let policy = |position: u32| ReportedPolicy {
        id: format!("policy-{position}").as_str().into(),
        listener: "listener".into(),
        position,
        name: "team/web".into(),
    };
    let mut objects = objects(2);
    objects.policies = (1..=policies).map(policy).collect();
    objects.routes = Some(ReportedRoutes { generation: 3, differences: Vec::new() });
    LoadBalancerReport {
        owner: "router-uid".into(),
        generation: 3,
        phase,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects,
        last_error: None,
        missing: None,
    }
}

fn of(
    previous: Option<&KuryrL7RouterStatus>,
    report: Option<&LoadBalancerReport>,
    findings: &[Finding],
    object_len: usize,
) -> KuryrL7RouterStatus {
    let now = "2026-01-02T00:00:00Z";
    let not_streamed = None;
    router_status(&RouterStatusInput {
        previous,
        generation: 3,
        routes: 2,
        object_len,
        report,
        not_streamed,
        findings,
        now,
    })
}

fn condition<'a>(status: &'a KuryrL7RouterStatus, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let found = status.balancer.conditions.iter().find(|one| &*one.type_ == kind)?;
    Some((&*found.status, &*found.reason, &*found.message))
}

#[test]
fn the_status_shows_what_exists() {
    let status = of(None, Some(&report(Phase::Ready, 2)), &[], 1_000);
    assert_eq!(condition(&status, "Ready"), Some(("True", "Ready", "")));
    assert_eq!((status.route_count, status.policies.len(), status.balancer.members.len()), (Some(2), 2, 2));
    let policy = &status.policies[1];
    assert_eq!(
        (&*policy.id, &*policy.listener_id, policy.position, &*policy.name),
        ("policy-2", "listener", 2, "team/web")
    );
    assert_eq!(status.balancer.service_pub_ip_info.as_ref().map(|info| &*info.ip_addr), Some("172.24.4.9"));
    assert_eq!(of(Some(&status), Some(&report(Phase::Ready, 2)), &[], 1_000), status, "nothing to write");
    // A writer that has not looked yet knows less than the status does.
    let waiting = LoadBalancerReport { objects: Default::default(), ..report(Phase::Waiting, 0) };
    let kept = of(Some(&status), Some(&waiting), &[], 1_000);
    assert_eq!((&kept.policies, &kept.balancer.loadbalancer), (&status.policies, &status.balancer.loadbalancer));
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<KuryrL7RouterStatus>(&text).unwrap(), status, "{text}");
}

/// A writer that was started anew, and does not find the key manager, knows none.
#[test]
fn secrets_are_named_for_as_long_as_a_listener_may_refer_to_them() {
    let certificates = |count: u8, protocol: &str| {
        let mut report = report(Phase::Blocked, 1);
        report.objects.listeners[0].protocol = protocol.into();
        let of = |one: u8| {
            let hash = CertificateHash::from_bytes([one; 32]);
            ReportedCertificate { reference: format!("https://keys.example.com/{one}").into(), hash }
        };
        report.objects.certificates = (1..=count).map(of).collect();
        report
    };
    let two = of(None, Some(&certificates(2, "TERMINATED_HTTPS")), &[], 1_000);
    assert_eq!(two.secrets.len(), 2);
    let unseen = of(Some(&two), Some(&certificates(0, "TERMINATED_HTTPS")), &[], 1_000);
    assert_eq!(unseen.secrets, two.secrets);
    let one = of(Some(&two), Some(&certificates(1, "TERMINATED_HTTPS")), &[], 1_000);
    assert_eq!(one.secrets, two.secrets[..1]);
    assert_eq!(of(Some(&two), Some(&certificates(0, "HTTP")), &[], 1_000).secrets, []);
}

#[test]
fn what_was_left_out_of_an_ingress_is_said_of_its_router() {
    let made = Cluster::with([
        one_rule("a", "www.example.com", &["/a* s1:80"]),
        one_rule("b", "www.example.com", &["/a* s1:80"]),
    ])
    .shared();
    let status = of(None, Some(&report(Phase::Ready, 1)), &made.findings, 1_000);
    assert_eq!(condition(&status, "Ready").map(|(is, ..)| is), Some("True"), "it serves what it can");
    let (is, reason, message) = condition(&status, "Conflict").unwrap();
    assert_eq!((is, reason), ("True", "RouteTaken"));
    assert!(message.starts_with("Ingress team/b: path \"/a\" of host \"www.example.com\" is left out: Ingress team/a"));
    assert_eq!(condition(&status, "Unsupported").map(|(is, reason, _)| (is, reason)), Some(("True", "NoService")));
    let waits = router_status(&RouterStatusInput {
        previous: None,
        generation: 3,
        routes: 0,
        object_len: 10,
        report: None,
        not_streamed: Some(&NotStreamed::WaitingForWriter),
        findings: &[],
        now: "2026-01-02T00:00:00Z",
    });
    assert_eq!(condition(&waits, "Ready").map(|(is, reason, _)| (is, reason)), Some(("False", "WaitingForWriter")));
}

#[test]
fn policies_and_members_leave_room_for_each_other() {
    let mut large = report(Phase::Ready, 20_000);
    large.objects.members = objects(2_000).members;
    large.objects.member_count = 2_000;
    let object_len = 900_000;
    let status = of(None, Some(&large), &[], object_len);
    assert!(object_len + encoded_len(&status) <= MOST_WITH_STATUS, "{}", encoded_len(&status));
    assert!(status.policies.len() > 500 && status.balancer.members.len() > 500);
    assert_eq!(status.balancer.members_truncated, Some(true));
}

fn shown(address: Option<&str>) -> Ingress {
    let mut object = one_rule("web", "www.example.com", &["* s1:80"]);
    let ip = |address: &str| gimbal_kubernetes_objects::LoadBalancerIngress {
        ip: Some(address.into()),
        ..Default::default()
    };
    object.status.load_balancer.ingress = address.into_iter().map(ip).collect();
    object
}

fn addresses(object: &Ingress, generation: i64, report: Option<&LoadBalancerReport>) -> Vec<String> {
    let status = ingress_status(object, Some(generation), report);
    let all = status.ingress.iter();
    all.map(|one| {
        assert!(one.ip_mode.is_none() && one.hostname.is_none() && one.ports.is_empty(), "{one:?}");
        one.ip.as_deref().unwrap().to_owned()
    })
    .collect()
}

#[test]
fn an_ingress_has_the_address_of_its_router_when_that_serves() {
    let (new, old) = (shown(None), shown(Some("192.0.2.1")));
    for (phase, of_new, of_old) in [
        (Phase::Ready, Some("172.24.4.9"), Some("172.24.4.9")),
        (Phase::Degraded, Some("172.24.4.9"), Some("172.24.4.9")),
        (Phase::Making, None, Some("192.0.2.1")),
        (Phase::Waiting, None, Some("192.0.2.1")),
        (Phase::Blocked, None, Some("192.0.2.1")),
        (Phase::Held, None, Some("192.0.2.1")),
        (Phase::Removing, None, None),
        (Phase::Gone, None, None),
    ] {
        let mut report = report(phase, 1);
        // Nothing is certain of its routes but where everything is as it is wanted.
        report.objects.routes.take_if(|_| !matches!(phase, Phase::Ready | Phase::Degraded));
        for (object, expected) in [(&new, of_new), (&old, of_old)] {
            assert_eq!(addresses(object, 3, Some(&report)), Vec::from_iter(expected), "{phase:?}");
        }
    }
    // Not before the router serves what the Ingress is in.
    let earlier = report(Phase::Ready, 1);
    assert_eq!(addresses(&new, 4, Some(&earlier)), Vec::<String>::new());
    assert_eq!(addresses(&old, 4, Some(&earlier)), ["192.0.2.1"], "what it had before serves it");
    let mut inside = report(Phase::Ready, 1);
    inside.objects.floating_ip = None;
    assert_eq!(addresses(&new, 3, Some(&inside)), ["10.96.0.10"]);
    assert_eq!((addresses(&new, 3, None), addresses(&old, 3, None)), (vec![], vec!["192.0.2.1".to_owned()]));
    let mut going = old;
    going.metadata.meta.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert_eq!(addresses(&going, 3, Some(&report(Phase::Ready, 1))), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_routes_is_said_by_name_and_leaves_the_others_their_address() {
    let mut blocked = report(Phase::Blocked, 1);
    let why = ReportedCondition { kind: "QuotaExceeded".into(), reason: "Quota".into(), message: "no room".into() };
    let differs = |route: &str, state| RouteDifference { route: route.into(), state, why: Some(why.clone()) };
    for (name, state, of_web) in [
        ("team/other", RouteState::Missing, Some("172.24.4.9")),
        ("team/web", RouteState::Missing, None),
        ("team/web", RouteState::Partial, Some("172.24.4.9")),
        ("team/web", RouteState::Left, Some("172.24.4.9")),
        ("", RouteState::Missing, None),
    ] {
        let differences = vec![differs(name, state)];
        blocked.objects.routes = Some(ReportedRoutes { generation: 3, differences });
        assert_eq!(addresses(&shown(None), 3, Some(&blocked)), Vec::from_iter(of_web), "{name} {state:?}");
        assert_eq!(addresses(&shown(None), 4, Some(&blocked)), Vec::<String>::new(), "its routes are not there yet");
    }
    let differences = vec![differs("team/a", RouteState::Missing), differs("team/b", RouteState::Partial)];
    blocked.objects.routes = Some(ReportedRoutes { generation: 3, differences });
    let status = of(None, Some(&blocked), &[], 1_000);
    let message = "team/a: no room; team/b: no room";
    assert_eq!(condition(&status, "QuotaExceeded"), Some(("True", "Quota", message)));
}
