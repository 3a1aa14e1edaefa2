//! Routing: its digest, its size, its order, and what contradicts itself.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::sync::Arc;

use gimbal_kuryr_model::{
    Balancing, CertificateHash, CertificateWish, ClientRanges, DesiredEntry, DesiredKey, DesiredKind,
    DesiredLoadBalancer, DesiredMember, DesiredMembers, HostMatch, ListenerId, ListenerKind, ListenerWish,
    LoadBalancerHeader, LoadBalancerPlacement, MemberId, MemberMode, PathMatch, PoolId, Route, RouteTarget, RoutedPool,
    Routing, SharedGroup, Timeouts, VipWish,
};
use gimbal_model::{Family, Protocol};

fn key() -> DesiredKey {
    DesiredKey::new(DesiredKind::L7Router, "gimbal", "router")
}

fn tcp(port: u16) -> ListenerId {
    ListenerId::new(Protocol::Tcp, port)
}

fn pool(id: &str) -> RoutedPool {
    RoutedPool { id: id.into(), name: "team_web".into() }
}

fn route(port: u16, host: HostMatch, path: PathMatch, to: RouteTarget) -> Route {
    Route { listener: tcp(port), host, path, to, name: "team/front".into() }
}

fn to_web() -> RouteTarget {
    RouteTarget::Pool("team/web/80".into())
}

fn routing() -> Routing {
    Routing {
        pools: [pool("team/api/8080"), pool("team/web/80")].into(),
        default: Some("team/web/80".into()),
        routes: [
            route(80, HostMatch::Exact("example.com".into()), PathMatch::Prefix("/a".into()), to_web()),
            route(80, HostMatch::Any, PathMatch::Exact("/b".into()), RouteTarget::Redirect("https://b".into())),
        ]
        .into(),
        certificates: [certificate("team/web", 1)].into(),
    }
}

fn certificate(secret: &str, hash: u8) -> CertificateWish {
    CertificateWish { secret: secret.into(), hash: CertificateHash::from_bytes([hash; 32]) }
}

fn header(routing: Option<Routing>) -> LoadBalancerHeader {
    LoadBalancerHeader {
        owner: "owner".into(),
        known: true,
        placement: LoadBalancerPlacement::default(),
        vip: VipWish { subnet: Some("subnet".into()), ..VipWish::default() },
        floating: None,
        listeners: [ListenerWish { id: tcp(80), kind: ListenerKind::Http, name: None }].into(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: Box::default(),
        shared_group: None,
        adopt: None,
        routing: routing.map(Box::new),
    }
}

fn member(pool: PoolId, last: u8) -> DesiredMember {
    let id = MemberId { pool, address: [10, 1, 0, last].into(), port: 8080 };
    DesiredMember { id, weight: 1, name: Some(format!("team/10.1.0.{last}:8080").into()), subnet: None }
}

fn wanted(header: LoadBalancerHeader, members: Vec<DesiredMember>) -> DesiredLoadBalancer {
    DesiredLoadBalancer { generation: 1, header: Arc::new(header), members: DesiredMembers::new(members) }
}

fn digest(routing: Option<Routing>) -> gimbal_model::Digest {
    DesiredEntry::LoadBalancer(wanted(header(routing), Vec::new())).digest(&key())
}

/// Wire and stored digests depend on it.
#[test]
fn golden() {
    let members = vec![member(PoolId::service("team", "web", 80), 4), member(PoolId::service("team", "api", 8080), 4)];
    let plain = || Some(Routing { certificates: Box::default(), ..routing() });
    let entry = DesiredEntry::LoadBalancer(wanted(header(plain()), members));
    assert_eq!(entry.digest(&key()).to_string(), "b578fa72ff99612f58fcfe39a4467cf4");
    assert_eq!(digest(plain()).to_string(), "f21fef3a4d8c5ef4a97602b439410f39");
    assert_eq!(digest(Some(routing())).to_string(), "dc13b3c43c2e641a858e5346b849bc80");
}

/// Each of these changes one field.
#[test]
fn every_field_counts() {
    type Edit = fn(&mut Routing);
    let edits: [Edit; 24] = [
        |_| (),
        |r| *r = Routing::default(),
        |r| r.pools = [pool("team/web/80")].into(),
        |r| r.pools[0].id = "team/apj/8080".into(),
        |r| r.pools[0].name = "v".into(),
        |r| r.default = None,
        |r| r.default = Some("team/api/8080".into()),
        |r| r.routes = Box::default(),
        |r| r.routes.swap(0, 1),
        |r| r.routes[0].listener = tcp(81),
        |r| r.routes[0].host = HostMatch::Any,
        |r| r.routes[0].host = HostMatch::Exact("example.org".into()),
        |r| r.routes[0].host = HostMatch::Wildcard("example.com".into()),
        |r| r.routes[0].path = PathMatch::Any,
        |r| r.routes[0].path = PathMatch::Exact("/a".into()),
        |r| r.routes[0].path = PathMatch::Prefix("/b".into()),
        |r| r.routes[0].to = RouteTarget::Pool("team/api/8080".into()),
        |r| r.routes[0].to = RouteTarget::Redirect("team/web/80".into()),
        |r| r.routes[0].name = "v".into(),
        |r| r.routes[1].to = RouteTarget::Redirect("https://c".into()),
        |r| r.certificates = Box::default(),
        |r| r.certificates = [certificate("team/web", 1), certificate("team/web", 2)].into(),
        |r| r.certificates[0].secret = "team/other".into(),
        |r| r.certificates[0] = certificate("team/web", 2),
    ];
    let mut digests = vec![digest(None)];
    for edit in edits {
        let mut changed = routing();
        edit(&mut changed);
        digests.push(digest(Some(changed)));
    }
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count, "two different values have one digest");
}

#[test]
fn lists_are_sorted_and_the_routes_of_a_listener_keep_their_order() {
    let mut header = header(Some(Routing {
        pools: [pool("team/web/80"), pool("team/api/8080"), RoutedPool { name: "other".into(), ..pool("team/web/80") }]
            .into(),
        default: None,
        routes: [443, 80, 443, 80]
            .into_iter()
            .zip(["/d", "/b", "/c", "/a"])
            .map(|(port, path)| route(port, HostMatch::Any, PathMatch::Prefix(path.into()), to_web()))
            .collect(),
        certificates: Box::default(),
    }));
    header.sort();
    let routing = header.routing.unwrap();
    assert_eq!(*routing.pools, [pool("team/api/8080"), pool("team/web/80")], "the first of two stays");
    assert_eq!((routing.pool("team/web/80"), routing.pool("team/web/8")), (Some(&pool("team/web/80")), None));
    let paths = |port| -> Vec<_> { routing.routes_of(tcp(port)).iter().map(|route| route.path.clone()).collect() };
    assert_eq!(paths(80), ["/b", "/a"].map(|path| PathMatch::Prefix(path.into())));
    assert_eq!(paths(443), ["/d", "/c"].map(|path| PathMatch::Prefix(path.into())));
    assert_eq!(paths(8080), []);
}

#[test]
fn what_contradicts_itself_is_named() {
    let web = PoolId::service("team", "web", 80);
    let lost = PoolId::service("team", "lost", 80);
    let edit = |edit: fn(&mut LoadBalancerHeader)| {
        let mut header = header(Some(routing()));
        edit(&mut header);
        header
    };
    let shared = |h: &mut LoadBalancerHeader| {
        h.shared_group = Some(Box::new(SharedGroup { name: "team/group".into(), created: None }));
    };
    let cases = [
        (DesiredKind::L7Router, edit(|_| ()), &web, None),
        (DesiredKind::LoadBalancer, header(None), &PoolId::Listener(tcp(80)), None),
        (DesiredKind::Port, header(None), &PoolId::Listener(tcp(80)), None),
        (DesiredKind::L7Router, header(None), &web, Some("a router has no routing")),
        (DesiredKind::LoadBalancer, edit(|_| ()), &web, Some("a load balancer of a Service has routing")),
        (DesiredKind::L7Router, edit(shared), &web, Some("a router is shared")),
        (
            DesiredKind::L7Router,
            edit(|_| ()),
            &lost,
            Some("there are members of the pool team/lost/80, which is not among the pools"),
        ),
        (
            DesiredKind::LoadBalancer,
            header(None),
            &web,
            Some("there are members of the pool team/web/80, which is not among the pools"),
        ),
        (
            DesiredKind::L7Router,
            edit(|h| h.routing.as_mut().unwrap().default = Some("team/lost/80".into())),
            &web,
            Some("requests are led by default to the pool team/lost/80, which is not among the pools"),
        ),
        (
            DesiredKind::L7Router,
            edit(|h| h.routing.as_mut().unwrap().routes[0].to = RouteTarget::Pool("team/lost/80".into())),
            &web,
            Some("a route of team/front leads to the pool team/lost/80, which is not among the pools"),
        ),
        (
            DesiredKind::L7Router,
            edit(|h| h.listeners = Box::default()),
            &web,
            Some("a route of team/front belongs to the listener TCP:80, which is not among the listeners"),
        ),
    ];
    for (kind, header, pool, expected) in cases {
        let wanted = wanted(header, vec![member(pool.clone(), 4)]);
        assert_eq!(wanted.contradiction(kind).as_deref(), expected);
    }
}

#[test]
fn what_is_said_of_memory_is_what_is_allocated() {
    let build = || {
        let pools = [PoolId::service("team", "api", 8080), PoolId::service("team", "web", 80)];
        let members = pools.iter().flat_map(|pool| (4..24).map(|last| member(pool.clone(), last))).collect();
        Box::new(DesiredEntry::LoadBalancer(wanted(header(Some(routing())), members)))
    };
    let mut built = None;
    let measured = allocation_counter::measure(|| built = Some(build())).bytes_current;
    let memory = built.unwrap().memory() as i64;
    assert!((measured - memory).abs() <= measured / 20, "{memory} bytes are said, and {measured} were allocated");
}
