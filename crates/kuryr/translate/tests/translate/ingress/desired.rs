//! Routers as they are streamed.

use gimbal_kuryr_crd::{KlrPool, KlrRoute, KuryrL7Router, KuryrL7RouterSpec, KuryrL7RouterStatus};
use gimbal_kuryr_model::{
    Algorithm, ClientRanges, DesiredKind, HostMatch, ListenerKind, MemberMode, MonitorKind, PathMatch, PoolId, Route,
    RouteTarget,
};
use gimbal_kuryr_translate::{
    Chosen, NotStreamed, RouterInput, Streamed, desired_router, router_owner_alone, translate_router,
};
use gimbal_model::{Protocol, SourceKey};
use serde_json::{Value, json};

use super::common::{Cluster, facts, findings, one_rule, service, shared, slice};
use crate::common::node;

fn object(spec: KuryrL7RouterSpec) -> KuryrL7Router {
    let mut object = KuryrL7Router { spec, ..KuryrL7Router::default() };
    let meta = &mut object.metadata.meta;
    (meta.namespace, meta.name) = ("gimbal-system".into(), "kuryr-l7-router".into());
    meta.uid = "router-uid".into();
    object.metadata.generation = 3;
    object
}

pub fn streamed(cluster: &Cluster) -> Streamed {
    desired_router(&object(cluster.shared().spec), &cluster.facts, None).unwrap()
}

/// The routes in order, each as `host path -> pool`, and the default.
fn routes(streamed: &Streamed) -> Vec<String> {
    let routing = streamed.wanted.header.routing.as_ref().unwrap();
    let route = |Route { listener, host, path, to, name }: &Route| {
        assert_eq!((listener.protocol, listener.port), (Protocol::Tcp, 80));
        let host = match host {
            HostMatch::Any => "*".to_owned(),
            HostMatch::Exact(host) => host.to_string(),
            HostMatch::Wildcard(base) => format!("*.{base}"),
        };
        let path = match path {
            PathMatch::Any => "*".to_owned(),
            PathMatch::Exact(path) => path.to_string(),
            PathMatch::Prefix(path) => format!("{path}*"),
        };
        let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = to;
        format!("{host} {path} -> {to} ({name})")
    };
    routing.routes.iter().map(route).chain(routing.default.iter().map(|pool| format!("default -> {pool}"))).collect()
}

fn pools(streamed: &Streamed) -> Vec<String> {
    let routing = streamed.wanted.header.routing.as_ref().unwrap();
    let members = |id: &std::sync::Arc<str>| streamed.wanted.members.of(&PoolId::Service(id.clone())).len();
    routing.pools.iter().map(|pool| format!("{} {} {}", pool.id, pool.name, members(&pool.id))).collect()
}

fn cluster() -> Cluster {
    Cluster::with([
        one_rule("web", "www.example.com", &["/a* s1:80", "/a s1:81", "/b* later:80", "/c* later:http"]),
        one_rule("wild", "*.example.com", &["* s1:80"]),
        one_rule("any", "", &["* s2:80", "/x* s2:80"]),
    ])
    .and_services([service("s1", &["http:80", "admin:81"]), service("s2", &["http:80"])])
    .and_slices([
        slice("a", "s1", &["http:80", "admin:81"], &["10.1.0.4", "10.1.0.5"]),
        slice("b", "s1", &["http:80"], &["10.1.0.5", "10.1.0.6"]),
        slice("c", "s2", &["http:80"], &["10.1.0.7"]),
    ])
}

#[test]
fn a_router_is_a_load_balancer_whose_listener_has_routes() {
    let streamed = streamed(&cluster());
    let header = &streamed.wanted.header;
    assert_eq!((&*header.owner, header.known, streamed.wanted.generation), ("router-uid", false, 3));
    assert_eq!((&*header.placement.project, header.placement.provider.as_deref()), ("project", Some("amphora")));
    assert_eq!((header.vip.subnet.as_deref(), header.vip.address), (Some("services"), None));
    assert!(header.vip.from_outside, "its port outlives it");
    assert_eq!((header.vip.security_groups.len(), &header.clients), (1, &ClientRanges::Everyone));
    let floating = header.floating.as_ref().unwrap();
    assert_eq!((floating.network.as_deref(), floating.address), (Some("public-net"), "172.24.4.13".parse().ok()));
    let [listener] = &*header.listeners else { panic!() };
    assert_eq!((listener.id.port, listener.kind), (80, ListenerKind::Http));
    assert_eq!(
        (header.monitor.is_some(), header.shared_group.is_some(), header.tls_containers.len()),
        (false, false, 0)
    );
    assert_eq!(
        routes(&streamed),
        [
            "www.example.com /a -> team/s1/81 (team/web)",
            "www.example.com /a* -> team/s1/80 (team/web)",
            "www.example.com /b* -> team/later/80 (team/web)",
            "www.example.com /c* -> gimbal-system/_/503 (team/web)",
            "www.example.com * -> team/s2/80 (team/web)",
            "*.example.com * -> team/s1/80 (team/wild)",
            "* /x* -> team/s2/80 (team/any)",
            "default -> team/s2/80",
        ]
    );
    // Each address and port once; the one that answers with 503 has no members.
    assert_eq!(
        pools(&streamed),
        [
            "gimbal-system/_/503 503 0",
            "team/later/80 team_later 0",
            "team/s1/80 team_s1_80 3",
            "team/s1/81 team_s1_81 2",
            "team/s2/80 team_s2 1",
        ]
    );
    let member = &streamed.wanted.members.as_slice()[0];
    assert_eq!((member.id.port, member.name.as_deref()), (8080, Some("team/s1-10.1.0.4:8080")));
    assert_eq!(streamed.findings, []);
    assert_eq!(streamed.wanted.contradiction(DesiredKind::L7Router), None);
    super::golden::same_as_file("router-streamed", &format!("{:#?}\n", streamed.wanted));
}

#[test]
fn an_empty_router_is_there_before_its_first_ingress() {
    let streamed = streamed(&Cluster::new());
    assert_eq!((routes(&streamed), pools(&streamed)), (vec![], vec![]));
    assert_eq!(streamed.wanted.header.listeners.len(), 1);
    assert_eq!(streamed.wanted.contradiction(DesiredKind::L7Router), None);
}

#[test]
fn what_the_api_server_gives_back_is_streamed_alike() {
    let made = object(cluster().shared().spec);
    let stored: KuryrL7Router = serde_json::from_str(&serde_json::to_string(&made).unwrap()).unwrap();
    assert_eq!(stored, made);
    assert_eq!(desired_router(&stored, &facts(), None), desired_router(&made, &facts(), None));
}

#[test]
fn defaults_of_the_cluster_are_applied() {
    let mut cluster = cluster();
    cluster.facts.members = MemberMode::Node;
    cluster.facts.defaults.algorithm = Some(Algorithm::LeastConnections);
    (cluster.facts.defaults.timeout_client_data, cluster.facts.defaults.timeout_member_data) = (5, 6);
    cluster.facts.external.as_mut().unwrap().subnet = Some("public".into());
    cluster.facts.l7_router_ip = None;
    cluster.nodes.apply(&node("node-1", "192.168.0.1"));
    let streamed = streamed(&cluster);
    let header = &streamed.wanted.header;
    assert_eq!((header.timeouts.client_data, header.timeouts.member_data), (Some(5), Some(6)));
    assert_eq!(header.balancing.algorithm, Some(Algorithm::LeastConnections));
    assert_eq!(header.balancing.members, MemberMode::Node);
    assert_eq!(header.monitor.as_ref().map(|monitor| monitor.kind), Some(MonitorKind::Connect));
    let floating = header.floating.as_ref().unwrap();
    assert_eq!((floating.subnet.as_deref(), floating.address, floating.keep), (Some("public"), None, false));
}

#[test]
fn without_an_external_network_there_is_no_floating_ip() {
    let mut cluster = cluster();
    cluster.facts.external = None;
    let made = cluster.shared();
    assert_eq!((made.spec.l7_router_ip.as_deref(), made.spec.floating_network_id.as_deref()), (None, None));
    assert!(findings(&made).last().unwrap().starts_with("Unsupported/NoExternalNetwork"));
    assert_eq!(streamed(&cluster).wanted.header.floating, None);
}

#[test]
fn a_setting_takes_no_address_away() {
    let mut cluster = cluster();
    let before = Chosen::of_spec(&Default::default());
    let made = |cluster: &Cluster, chosen: &Chosen| {
        translate_router(&RouterInput { chosen: Some(chosen), ..cluster.input(&shared()) })
    };
    let chosen = Chosen::of_router_spec(&cluster.shared().spec).made_in(Some("services".into()));
    assert_eq!(made(&cluster, &chosen), cluster.shared());
    assert_eq!(made(&cluster, &before), cluster.shared());
    let spec = cluster.shared().spec;
    cluster.facts.external = None;
    cluster.facts.l7_router_ip = None;
    cluster.facts.subnets.remove("services");
    cluster.facts.service_subnets = vec!["services6".into()];
    let kept = made(&cluster, &chosen);
    assert_eq!(
        (&kept.spec.floating_network_id, &kept.spec.l7_router_ip, &kept.spec.subnet_id),
        (&spec.floating_network_id, &spec.l7_router_ip, &spec.subnet_id)
    );
    let said: Vec<_> = kept.findings.iter().filter(|one| one.is_of_setting()).map(|one| one.condition()).collect();
    assert_eq!(said, ["Held", "Held"]);
}

#[test]
fn without_facts_it_waits_for_the_writer() {
    let cluster = cluster();
    let made = translate_router(&RouterInput { facts: None, ..cluster.input(&shared()) });
    assert_eq!((made.spec.routes.len(), made.spec.project_id.as_deref()), (cluster.shared().spec.routes.len(), None));
    assert_eq!(desired_router(&object(made.spec), &cluster.facts, None), Err(NotStreamed::WaitingForWriter));
    let mut no_subnet = cluster.shared().spec;
    no_subnet.subnet_id = None;
    assert_eq!(desired_router(&object(no_subnet), &cluster.facts, None), Err(NotStreamed::WaitingForWriter));
}

/// What somebody wrote into the object.
fn edited(change: impl FnOnce(&mut Value)) -> Result<Streamed, NotStreamed> {
    let mut spec = serde_json::to_value(cluster().shared().spec).unwrap();
    change(&mut spec);
    desired_router(&object(serde_json::from_value(spec).unwrap()), &facts(), None)
}

#[test]
fn whatever_is_written_into_the_object_is_no_panic() {
    let first = |change: Value| {
        edited(|spec| {
            spec["routes"] = json!([change]);
        })
        .map(|streamed| routes(&streamed)[0].clone())
    };
    for (route, expected) in [
        (json!({}), "* * -> gimbal-system/_/503 (/)"),
        (json!({"host": "*.a", "path": "/"}), "*.a * -> gimbal-system/_/503 (*.a/)"),
        (json!({"host": "", "path": ""}), "* * -> gimbal-system/_/503 (/)"),
        (json!({"path": "/a//", "service": "team/s1", "port": 80}), "* /a* -> team/s1/80 (/a//)"),
        (json!({"path": "/a/", "pathType": "Exact", "ingress": "a\nb"}), "* /a/ -> gimbal-system/_/503 (ab)"),
        (json!({"redirect": "https://www.example.com"}), "* * -> https://www.example.com (/)"),
    ] {
        assert_eq!(first(route.clone()).as_deref(), Ok(expected), "{route}");
    }
    let invalid = |result: Result<Streamed, NotStreamed>| match result {
        Err(NotStreamed::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    for (route, field) in [
        (json!({"service": "team/s1", "port": 9}), "pool of a route"),
        (json!({"service": "team/s1"}), "pool of a route"),
        (json!({"host": "a\nb"}), "host of a route"),
        (json!({"redirect": "a\nb"}), "redirection of a route"),
    ] {
        let made = edited(|spec| spec["routes"] = json!([route]));
        assert_eq!(invalid(made), field);
    }
    assert_eq!(invalid(edited(|spec| spec["defaultPool"] = json!("absent"))), "default pool");
    assert_eq!(invalid(edited(|spec| spec["pools"][0]["port"] = json!(70_000))), "pool of a route");
    assert_eq!(
        invalid(edited(|spec| {
            spec["routes"] = json!([]);
            spec["pools"] = json!([{"name": "a", "service": "a b", "port": 1}]);
            spec["defaultPool"] = json!("a");
        })),
        "ID of a pool"
    );
    let odd = edited(|spec| spec["l7_router_ip"] = json!("somewhere")).unwrap();
    assert_eq!(odd.findings[0].reason(), "InvalidAddress");
    assert_eq!(odd.wanted.header.floating.as_ref().unwrap().address, None);
    // A pool twice: its members are those of both.
    let twice = edited(|spec| {
        let pool = spec["pools"][0].clone();
        spec["pools"].as_array_mut().unwrap().push(pool);
    });
    assert_eq!(twice.unwrap().wanted.contradiction(DesiredKind::L7Router), None);
}

#[test]
fn what_fits_in_no_frame_is_not_streamed() {
    let mut spec = cluster().shared().spec;
    let host: std::sync::Arc<str> = "a".repeat(200).into();
    spec.routes = vec![KlrRoute { host: Some(host), ..KlrRoute::default() }; 10_000];
    spec.pools.push(KlrPool { name: "a".into(), service: "a/b".into(), port: 1, ..KlrPool::default() });
    let error = desired_router(&object(spec), &facts(), None).unwrap_err();
    assert_eq!((error.reason(), error.condition()), ("TooLarge", Some("TooLarge")));
    assert!(error.to_string().starts_with("its 10000 routes to 5 pools take "), "{error}");
}

#[test]
fn a_wiped_status_asks_for_a_look() {
    let mut made = object(cluster().shared().spec);
    let known = |made: &KuryrL7Router| desired_router(made, &facts(), None).unwrap().wanted.header.known;
    assert!(!known(&made));
    let status = json!({"loadbalancer": {
        "id": "1", "ip": "10.96.0.10", "name": "n", "port_id": "2", "project_id": "p", "provider": "amphora",
        "security_groups": [], "subnet_id": "s",
    }, "memberCount": 0, "routeCount": 4});
    made.status = Some(serde_json::from_value(status).unwrap());
    assert!(known(&made));
    made.status.as_mut().unwrap().balancer.member_count = Some(3);
    assert!(!known(&made), "its members were removed");
    made.status = Some(KuryrL7RouterStatus { route_count: Some(4), ..KuryrL7RouterStatus::default() });
    assert!(!known(&made));
}

#[test]
fn an_owner_alone_names_it_and_wants_nothing() {
    let alone = router_owner_alone(Some(&object(cluster().shared().spec)), &"router-uid".into());
    assert_eq!((&*alone.header.owner, alone.generation, alone.members.as_slice().len()), ("router-uid", 3, 0));
    assert_eq!((alone.header.vip.subnet.as_deref(), &*alone.header.placement.project), (None, ""));
    assert_eq!(alone.contradiction(DesiredKind::L7Router), None);
    assert_eq!(router_owner_alone(None, &"u".into()).generation, 0);
}

#[test]
fn another_router_lets_the_cloud_choose_its_address() {
    let mut own = one_rule("own", "www.example.com", &["* s1:80"]);
    own.metadata.meta.annotations.insert("kuryr.openstack.org/l7-router".into(), "own".into());
    let cluster = Cluster::with([own]);
    let spec = cluster.router(&SourceKey::new("team", "own")).spec;
    let streamed = desired_router(&object(spec), &cluster.facts, None).unwrap();
    let floating = streamed.wanted.header.floating.as_ref().unwrap();
    assert_eq!((floating.network.as_deref(), floating.address), (Some("public-net"), None));
}
