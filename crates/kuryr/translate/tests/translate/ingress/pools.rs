//! What routes lead to.

use gimbal_kubernetes_objects::BalancedService;
use gimbal_kuryr_model::MemberMode;
use serde_json::json;

use super::common::{Cluster, addresses, backend, findings, ingress, one_rule, routes, service, slice};
use crate::common::node;

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.shared().spec.pools.iter().map(|pool| pool.name.to_string()).collect()
}

#[test]
fn a_pool_has_the_port_in_its_name_when_several_of_its_service_are_routed() {
    let services = || [service("s1", &["http:80", "admin:81"]), service("s2", &["http:80"])];
    let one = Cluster::with([one_rule("web", "a.example.com", &["/a* s1:80", "/b* s2:80", "/c* s1:http"])]);
    assert_eq!(names(&one.and_services(services())), ["team_s1", "team_s2"]);
    let two = Cluster::with([one_rule("web", "a.example.com", &["/a* s1:80", "/b* s2:80", "/c* s1:admin"])]);
    let two = two.and_services(services());
    assert_eq!(names(&two), ["team_s1_80", "team_s1_81", "team_s2"]);
    let pools = two.shared().spec.pools;
    assert_eq!((&*pools[1].service, pools[1].port), ("team/s1", 81));
}

#[test]
fn ports_are_those_of_the_service() {
    let services = || {
        let mut udp = service("udp", &["dns:53"]);
        udp.spec.ports[0].protocol = Some("UDP".into());
        let mut external = service("external", &["http:80"]);
        external.spec.type_ = Some("ExternalName".into());
        [service("s1", &["http:80"]), udp, external]
    };
    for (to, route, said) in [
        ("s1:80", "team/s1:80", None),
        ("s1:http", "team/s1:80", None),
        ("s1:81", "team/s1:81", Some("Unsupported/NoPort: Ingress team/web: Service team/s1 has no TCP port 81")),
        ("s1:admin", "503", Some("Unsupported/NoPort: Ingress team/web: Service team/s1 has no TCP port admin")),
        ("udp:53", "team/udp:53", Some("Unsupported/NoPort: Ingress team/web: Service team/udp has no TCP port 53")),
        ("udp:dns", "503", Some("Unsupported/NoPort: Ingress team/web: Service team/udp has no TCP port dns")),
        // There is no Service yet: its number is known, and its pool is made; a name says nothing before.
        ("later:80", "team/later:80", Some("Unsupported/NoService: Ingress team/web: there is no Service team/later")),
        ("later:http", "503", Some("Unsupported/NoService: Ingress team/web: there is no Service team/later")),
        ("external:80", "team/external:80", Some("Unsupported/ExternalName: Ingress team/web: Service team/external")),
        (
            "s1:0",
            "503",
            Some("Unsupported/NoBackend: Ingress team/web: path \"/a\" of host \"a.example.com\" is answered"),
        ),
        (
            ":80",
            "503",
            Some("Unsupported/NoBackend: Ingress team/web: path \"/a\" of host \"a.example.com\" is answered"),
        ),
    ] {
        let cluster =
            Cluster::with([one_rule("web", "a.example.com", &[&format!("/a* {to}")])]).and_services(services());
        // Of when it was none.
        let cluster = cluster.and_slices([slice("a", "external", &["http:80"], &["10.1.0.5"])]);
        let made = cluster.shared();
        assert!(
            !made.spec.pools.iter().any(|pool| &*pool.service == "team/external" && !pool.endpoint_slices.is_empty())
        );
        assert_eq!(routes(&made.spec), [format!("a.example.com /a* -> {route}")], "{to}");
        assert_eq!(made.spec.pools.len(), usize::from(route != "503"), "{to}");
        let found = findings(&made);
        assert_eq!(found.len(), usize::from(said.is_some()), "{found:?}");
        assert!(said.is_none_or(|said| found[0].starts_with(said)), "{found:?}");
    }
}

#[test]
fn a_path_that_leads_nowhere_does_not_fall_to_another() {
    let paths = |first: &str| [format!("/a* {first}"), "* s1:80".to_owned()];
    let [nowhere, rest] = paths("later:http");
    let made = Cluster::with([one_rule("web", "a.example.com", &[&nowhere, &rest])]).shared();
    assert_eq!(routes(&made.spec), ["a.example.com /a* -> 503", "a.example.com * -> team/s1:80"]);
}

#[test]
fn a_service_that_is_not_there_is_told_of_once() {
    let rules = ["/a* later:80", "/b* later:80", "/c* later:81", "/d* other:80"];
    let made = Cluster::with([one_rule("web", "a.example.com", &rules)]).shared();
    let said: Vec<_> =
        findings(&made).iter().map(|said| said.split_once("there is no Service ").unwrap().1.to_owned()).collect();
    assert_eq!(
        said,
        ["team/later: what leads there is answered with 503", "team/other: what leads there is answered with 503"]
    );
    assert_eq!(made.spec.pools.len(), 3);
}

#[test]
fn members_are_the_endpoints_that_serve_by_the_name_of_the_port() {
    let ports = ["http:80", "admin:81"];
    let mut going = slice("b", "s1", &ports, &["10.1.0.6", "10.1.0.7"]);
    going.endpoints[0].conditions = serde_json::from_value(json!({"ready": false})).unwrap();
    going.endpoints[1].conditions =
        serde_json::from_value(json!({"ready": false, "serving": true, "terminating": true})).unwrap();
    let mut named = slice("c", "s1", &["http:80"], &["10.1.0.8"]);
    named.ports[0].port = Some(3_000);
    let mut every_port = slice("d", "s1", &["http:80"], &["10.1.0.9"]);
    every_port.ports[0].port = None;
    let mut udp = slice("e", "s1", &["http:80"], &["10.1.0.10"]);
    udp.ports[0].protocol = Some("UDP".into());
    let cluster = Cluster::with([one_rule("web", "a.example.com", &["/a* s1:80", "/b* s1:admin"])])
        .and_services([service("s1", &ports)])
        .and_slices([
            slice("a", "s1", &ports, &["10.1.0.4", "10.1.0.5"]),
            going,
            named,
            every_port,
            udp,
            slice("f", "s1", &["http:80"], &["fd00::4"]),
            slice("g", "s2", &["http:80"], &["10.1.0.11"]),
        ]);
    let spec = cluster.shared().spec;
    let members = |pool: &str| addresses(&spec, pool).unwrap();
    assert_eq!(
        members("team_s1_80"),
        ["10.1.0.4:8080", "10.1.0.5:8080", "10.1.0.7:8080", "10.1.0.8:3000", "10.1.0.9:8080"]
    );
    assert_eq!(members("team_s1_81"), ["10.1.0.4:8081", "10.1.0.5:8081", "10.1.0.7:8081"]);
    assert!(spec.pools.iter().flat_map(|pool| &pool.endpoint_slices).all(|slice| slice.ports.len() == 1));
}

#[test]
fn members_are_of_the_family_of_the_vip() {
    let mut cluster = Cluster::with([one_rule("web", "a.example.com", &["/a* s1:80"])])
        .and_services([service("s1", &["http:80"])])
        .and_slices([slice("a", "s1", &["http:80"], &["10.1.0.4"]), slice("b", "s1", &["http:80"], &["fd00::4"])]);
    cluster.facts.service_subnets = vec!["services6".into()];
    assert_eq!(addresses(&cluster.shared().spec, "team_s1"), Some(vec!["fd00::4:8080".into()]));
}

#[test]
fn nodes_are_members_where_the_cloud_says_so() {
    let with_node_port = |name: &str, port: Option<i32>| -> BalancedService {
        let mut object = service(name, &["http:80"]);
        object.spec.ports[0].node_port = port;
        object
    };
    let mut cluster = Cluster::with([
        one_rule("web", "a.example.com", &["/a* s1:80", "/b* s2:80"]),
        ingress("rest", json!({"defaultBackend": backend("s3:80")})),
    ])
    .and_services([with_node_port("s1", Some(30_080)), with_node_port("s2", None), with_node_port("s3", Some(0))])
    .and_slices([slice("a", "s1", &["http:80"], &["10.1.0.4"])]);
    cluster.facts.members = MemberMode::Node;
    cluster.nodes.apply(&node("node-1", "192.168.0.1"));
    cluster.nodes.apply(&node("node-2", "192.168.0.2"));
    let made = cluster.shared();
    assert_eq!(addresses(&made.spec, "team_s1"), Some(vec!["192.168.0.1:30080".into(), "192.168.0.2:30080".into()]));
    assert_eq!(addresses(&made.spec, "team_s2"), Some(vec![]));
    assert_eq!(
        findings(&made),
        [
            "Unsupported/NoNodePort: Ingress team/web: port 80 of Service team/s2 has no members: members are nodes, and it \
             has no node port",
            "Unsupported/NoNodePort: Ingress team/rest: port 80 of Service team/s3 has no members: members are nodes, and it \
             has no node port",
        ]
    );
}
