//! What a router is made of, on the real services: lost answers, two writers, and a quota.

use std::sync::Arc;

use gimbal_kuryr_model::{
    CertificateHash, CertificateWish, DesiredLoadBalancer, DesiredMember, DesiredMembers, HostMatch, ListenerId,
    ListenerKind, ListenerWish, LoadBalancerReport, MemberId, PathMatch, Phase, PoolId, Route, RouteTarget, RoutedPool,
    Routing,
};
use gimbal_model::Protocol;
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Reply, Service};
use serde_json::{Value, json};

use super::controller::{Controller, MADE, wanted, with};
use super::stage::{PROD1, Stage};
use super::tls::issued;
use super::trouble::{Kind, expect_lost, lose};

pub const ROUTER: &str = "router";
/// Services, and the address of the one member of each.
const SERVICES: [(&str, &str); 3] = [("one", "10.0.0.1"), ("three", "10.0.0.3"), ("two", "10.0.0.2")];

/// A host, the prefix of a path if there is one, and the Service that answers.
pub type Led<'a> = (&'a str, &'a str, &'a str);

/// The calls by which a router is made.
const MAKING: [Kind; 2] = [(Service::Octavia, "POST", "/loadbalancers$"), (Service::Barbican, "POST", "/secrets$")];
/// Those by which routes are added and changed, and a certificate is renewed.
const CHANGING: [Kind; 7] = [
    (Service::Octavia, "POST", "/pools$"),
    (Service::Octavia, "PUT", "/members$"),
    (Service::Octavia, "POST", "/l7policies$"),
    (Service::Octavia, "POST", "/l7policies/[^/]+/rules$"),
    (Service::Octavia, "PUT", "/l7policies/[^/]+$"),
    (Service::Octavia, "PUT", "/listeners/[^/]+$"),
    (Service::Barbican, "DELETE", "/secrets/[^/]+$"),
];
/// Those by which routes go, and HTTPS.
const TAKING: [Kind; 4] = [
    (Service::Octavia, "DELETE", "/l7policies/[^/]+$"),
    (Service::Octavia, "DELETE", "/pools/[^/]+$"),
    (Service::Octavia, "DELETE", "/listeners/[^/]+$"),
    (Service::Barbican, "DELETE", "/secrets/[^/]+$"),
];
/// All of them.
pub const KINDS: [&[Kind]; 3] = [&MAKING, &CHANGING, &TAKING];

/// A router that is wanted by an owner in a generation: these routes over HTTP, and with certificates over HTTPS, too.
pub fn routed(
    stage: &Stage,
    (owner, generation): (&str, i64),
    routes: &[Led<'_>],
    certificates: &[(&str, CertificateHash)],
) -> DesiredLoadBalancer {
    let id = |port: u16| ListenerId::new(Protocol::Tcp, port);
    let pool = |service: &str| format!("shop/{service}/80").into();
    let ports: &[u16] = if certificates.is_empty() { &[80] } else { &[80, 443] };
    let route = |(port, (host, path, service)): (u16, &Led<'_>)| Route {
        listener: id(port),
        host: HostMatch::Exact((*host).into()),
        path: if path.is_empty() { PathMatch::Any } else { PathMatch::Prefix((*path).into()) },
        to: RouteTarget::Pool(pool(service)),
        name: format!("shop/{host}").into(),
    };
    let is_led_to = |service: &str| routes.iter().any(|(_, _, to)| *to == service);
    let services = || SERVICES.iter().filter(|(service, _)| is_led_to(service));
    let routing = Routing {
        pools: services().map(|(name, _)| RoutedPool { id: pool(name), name: format!("shop_{name}").into() }).collect(),
        default: None,
        routes: ports.iter().flat_map(|port| routes.iter().map(move |led| (*port, led))).map(route).collect(),
        certificates: certificates
            .iter()
            .map(|(secret, hash)| CertificateWish { secret: format!("shop/{secret}").into(), hash: *hash })
            .collect(),
    };
    let listener = |port: &u16| ListenerWish {
        id: id(*port),
        kind: if *port == 443 { ListenerKind::TerminatedHttps } else { ListenerKind::Http },
        name: None,
    };
    let plain = with(wanted(owner, generation, &stage.subnet, &[], &[]), |header| {
        header.listeners = ports.iter().map(listener).collect();
        header.routing = Some(Box::new(routing));
    });
    let member = |(service, address): &(&str, &str)| DesiredMember {
        id: MemberId { pool: PoolId::Service(pool(service)), address: address.parse().unwrap(), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    };
    let members = DesiredMembers::new(services().map(member).collect());
    DesiredLoadBalancer { header: Arc::clone(&plain.header), members, ..plain }
}

fn owner(number: u32) -> String {
    format!("dddddddd-0000-4000-8000-{number:012}")
}

/// Starts the members of all Services.
pub async fn serve_members(stage: &Stage) {
    let plane = stage.cloud.data_plane().unwrap();
    for (service, address) in SERVICES {
        plane.member(address, 8080, service).await.unwrap();
    }
}

/// Waits until requests are answered like this, over HTTP.
pub async fn expect_answers(stage: &Stage, controller: &Controller, expected: &[Led<'_>]) {
    let plane = stage.cloud.data_plane().unwrap();
    let report = controller.report(ROUTER).unwrap();
    let address = report.objects.load_balancer.unwrap().address.to_string();
    for (host, path, service) in expected {
        let path = if path.is_empty() { "/" } else { path };
        let what = format!("{host}{path} is answered by {service}");
        let wait = eventually(&what, MADE, async || {
            let Reply { status, body, .. } =
                plane.request(&address, 80, Some(host), path).await.map_err(|error| error.to_string())?;
            let is_it = if status == 200 { body.starts_with(service) } else { status.to_string() == **service };
            if is_it { Ok(()) } else { Err(format!("{status} {body}")) }
        });
        wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
    }
}

/// The policies of all listeners in a form that does not depend on IDs, in the order in which they are tried.
pub async fn shape(stage: &Stage) -> Vec<String> {
    let (pools, mut shape) = (stage.rows("pools", "").await, Vec::new());
    let mut listeners = stage.rows("listeners", "").await;
    listeners.sort_by_key(|one| one["protocol_port"].as_u64());
    for listener in &listeners {
        let of = format!("listener_id={}", listener["id"].as_str().unwrap());
        let mut policies = stage.rows("l7policies", &of).await;
        policies.sort_by_key(|one| one["position"].as_u64());
        for policy in &policies {
            let path = format!("l7policies/{}/rules", policy["id"].as_str().unwrap());
            let found = stage.cloud.octavia().get(&format!("/{path}")).await.unwrap_or_default();
            let rules = found["rules"].as_array().into_iter().flatten();
            let mut rules: Vec<String> =
                rules.map(|rule| format!("{} {} {}", rule["type"], rule["compare_type"], rule["value"])).collect();
            rules.sort();
            let pool = pools.iter().find(|pool| pool["id"] == policy["redirect_pool_id"]);
            shape.push(format!(
                "{} {} {} up={} {} -> {} {rules:?}",
                listener["protocol_port"],
                policy["position"],
                policy["name"],
                policy["admin_state_up"],
                policy["action"],
                pool.map_or(&Value::Null, |pool| &pool["name"]),
            ));
        }
    }
    shape
}

pub async fn expect_shape(stage: &Stage, expected: &[String]) {
    let wait = eventually("the policies are as they are to be", MADE, async || {
        let found = shape(stage).await;
        if found == expected { Ok(()) } else { Err(format!("{found:#?} and not {expected:#?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
}

pub async fn expect_rest(stage: &Stage) {
    let marks = stage.marks();
    stage.expect_looks(2).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "nothing is left to do");
}

/// Changes whose answers are lost, one of each kind, are looked up, and not made twice.
pub async fn lost_answers(stage: &Stage) {
    let (controller, owner) = (stage.controller(PROD1), owner(1));
    let (a, b) = (issued(stage, &controller, "a.test", 1), issued(stage, &controller, "a.test", 2));
    let lost = lose(stage, &MAKING).await;
    let routes = [("a.test", "", "one"), ("b.test", "/x", "two")];
    controller.want(ROUTER, routed(stage, (&owner, 1), &routes, &[("a", a.hash)]));
    let id = controller.expect_ready(ROUTER, 1).await;
    expect_lost(stage, lost).await;
    expect_answers(stage, &controller, &routes).await;
    assert_eq!((stage.balancers("").await.len(), stage.secrets().await.len()), (1, 1), "no twin");

    let lost = lose(stage, &CHANGING).await;
    let routes = [("a.test", "", "two"), ("b.test", "/x", "two"), ("c.test", "/y", "three")];
    controller.want(ROUTER, routed(stage, (&owner, 2), &routes, &[("a", b.hash)]));
    assert_eq!(controller.expect_ready(ROUTER, 2).await, id);
    expect_rest(stage).await;
    expect_lost(stage, lost).await;
    expect_answers(stage, &controller, &routes).await;
    // Three policies of each listener, and no twin.
    let (policies, pools) = (shape(stage).await, stage.rows("pools", "").await.len());
    assert_eq!((policies.len(), pools, stage.secrets().await.len()), (6, 2, 1), "{policies:#?}");

    let lost = lose(stage, &TAKING).await;
    let routes = [("a.test", "", "two")];
    controller.want(ROUTER, routed(stage, (&owner, 3), &routes, &[]));
    assert_eq!(controller.expect_ready(ROUTER, 3).await, id);
    expect_rest(stage).await;
    expect_lost(stage, lost).await;
    expect_answers(stage, &controller, &[("a.test", "", "two"), ("c.test", "/y", "503")]).await;
    let (policies, pools) = (shape(stage).await, stage.rows("pools", "").await.len());
    assert_eq!((policies.len(), pools, stage.secrets().await.len()), (1, 1, 0), "{policies:#?}");

    let lost = lose(stage, &[(Service::Octavia, "DELETE", "/loadbalancers/[^/]+$")]).await;
    controller.remove(ROUTER, &owner).await;
    expect_lost(stage, lost).await;
    assert!(stage.balancers("").await.is_empty());
}

/// Two writers are asked for one router at once, as for a moment when its controller moves: there is one in the end, with each route and
/// the certificate once, and whoever is left has nothing to do.
pub async fn two_writers_with_one_router(stage: &Stage) {
    let (controller, owner) = (stage.controller(PROD1), owner(4));
    let other = stage.another_writer().await;
    let next = stage.controller_to(other.port, PROD1);
    let certificate = issued(stage, &controller, "a.test", 4);
    next.has_certificate(&certificate.chain, &certificate.key);
    let first = [("a.test", "", "one"), ("b.test", "/x", "two")];
    for one in [&controller, &next] {
        one.want(ROUTER, routed(stage, (&owner, 1), &first, &[("a", certificate.hash)]));
    }
    let wait = eventually("both have the same router", MADE, async || {
        let of = |one: &Controller| one.report(ROUTER).filter(|it| it.phase == Phase::Ready)?.objects.load_balancer;
        match (of(&controller), of(&next), stage.balancers("").await.len()) {
            (Some(one), Some(other), 1) if one == other => Ok(one.id.to_string()),
            other => Err(format!("{other:?}")),
        }
    });
    let id = wait.await.unwrap();
    expect_answers(stage, &next, &first).await;

    let routes = [("a.test", "", "three"), ("b.test", "/x", "two"), ("c.test", "", "one")];
    for one in [&controller, &next] {
        one.want(ROUTER, routed(stage, (&owner, 2), &routes, &[("a", certificate.hash)]));
    }
    drop(controller);
    assert_eq!(next.expect_ready(ROUTER, 2).await, id);
    expect_answers(stage, &next, &routes).await;
    let at_rest = eventually("whoever looks finds nothing to do", MADE, async || {
        let marks = stage.marks();
        // The first writer may look, too.
        stage.expect_looks(6).await;
        let changes = stage.changes_since(marks);
        if changes.is_empty() { Ok(()) } else { Err(format!("{changes:?}")) }
    });
    at_rest.await.unwrap_or_else(|error| panic!("{error:#}\n{}", other.process.log_tail()));
    let (policies, pools) = (shape(stage).await, stage.rows("pools", "").await.len());
    assert_eq!((policies.len(), pools, stage.secrets().await.len()), (2 * routes.len(), 3, 1), "{policies:#?}");
    next.remove(ROUTER, &owner).await;
    assert_eq!((stage.balancers("").await.len(), stage.secrets().await), (0, Vec::new()));
}

/// A route that the quota has no room for waits, and those that serve go on. Room comes by a higher quota: Octavia does not give
/// back the policies that went with their listener, as those of the steps before did, so that one removal is not enough.
pub async fn a_quota_is_reached_and_raised(stage: &Stage) {
    let (controller, owner) = (stage.controller(PROD1), owner(3));
    let routes = [("a.test", "", "one"), ("b.test", "", "two"), ("c.test", "", "three")];
    controller.want(ROUTER, routed(stage, (&owner, 1), &routes[..2], &[]));
    controller.expect_ready(ROUTER, 1).await;
    let before = shape(stage).await;
    let quota = |most: i32| json!({"l7policy": most});
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(2)).await.unwrap();
    controller.want(ROUTER, routed(stage, (&owner, 2), &routes, &[]));
    let over = |report: &LoadBalancerReport| {
        report.phase == Phase::Blocked && report.conditions.iter().any(|one| &*one.kind == "QuotaExceeded")
    };
    controller.expect(ROUTER, "over quota", over).await;
    expect_shape(stage, &before).await;
    expect_answers(stage, &controller, &routes[..2]).await;
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(-1)).await.unwrap();
    controller.expect_ready(ROUTER, 2).await;
    expect_answers(stage, &controller, &routes).await;
    controller.remove(ROUTER, &owner).await;
}
