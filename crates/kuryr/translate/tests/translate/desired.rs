//! Specs as what is streamed.

use gimbal_kuryr_crd::{KlbSlice, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{
    ApiVersion, ClientRanges, CloudFacts, FloatingWish, ListenerId, ListenerKind, LoadBalancerDefaults,
    MemberAddressing, MonitorKind, ProxyVersion, VipMode,
};
use gimbal_kuryr_translate::{Nodes, NotStreamed, StatusKnowledge, Streamed, desired, owner_alone, status_knowledge};
use gimbal_model::Protocol;
use serde_json::{Value, json};

use crate::common::{desired_of, facts, joined, node, node_facts, object, pod, service, spec_of, translated};

fn spec(changes: Value) -> KuryrLoadBalancerSpec {
    let spec = spec_of(json!({}), json!({})).spec;
    let mut value = serde_json::to_value(&spec).unwrap();
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
    }
    value.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    serde_json::from_value(value).unwrap()
}

fn messages(desired: &Streamed) -> Vec<String> {
    desired.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn it_waits_until_it_knows_where() {
    let of = |changes| desired(&object(spec(changes)), &facts()).map(|desired| desired.wanted.header.vip.clone());
    assert_eq!(of(json!({"project_id": null})), Err(NotStreamed::WaitingForWriter));
    assert_eq!(of(json!({"subnet_id": null})), Err(NotStreamed::WaitingForWriter));
    for lacking in ["project_id", "subnet_id"] {
        let error = of(json!({"service_uid": null, lacking: null})).unwrap_err();
        assert_eq!((error.reason(), error.condition()), ("NotPlaced", Some("Unsupported")), "no one fills it in");
    }
    assert!(of(json!({"subnet_id": null, "vip_network_id": "n"})).is_ok());
    let error = of(json!({"ip": "10.97.0.1"})).unwrap_err();
    assert_eq!(error.to_string(), "its address 10.97.0.1 is not in subnet services (10.96.0.0/16)");
    assert_eq!((error.reason(), error.condition()), ("VipOutsideSubnet", Some("Conflict")));
    assert_eq!(of(json!({"ip": "web"})), Err(NotStreamed::VipUnreadable("web".into())));
    // A subnet that the writer has not described is its own business.
    assert!(of(json!({"ip": "10.97.0.1", "subnet_id": "unknown"})).is_ok());
    assert_eq!(of(json!({"ip": null})).unwrap().address, None);
}

#[test]
fn an_address_of_services_is_for_services() {
    let facts = CloudFacts { vip: VipMode::ClusterIp, ..facts() };
    let address = |changes: &Value, facts: &CloudFacts| {
        let streamed = desired(&object(spec(changes.clone())), facts).unwrap();
        let vip = &streamed.wanted.header.vip;
        (vip.address.map(|ip| ip.to_string()), vip.additional_addresses.len(), messages(&streamed))
    };
    let of_no_service = json!({"service_uid": null, "ip": "10.96.0.77"});
    let said = "ip 10.96.0.77 is left out: Services have addresses of that subnet as cluster IPs, and this belongs to no Service";
    let left_out = (None, 0, vec![said.to_owned()]);
    assert_eq!(address(&of_no_service, &facts), left_out);
    // Octavia takes the subnet that has the address.
    let by_network = json!({"service_uid": null, "ip": "10.96.0.77", "subnet_id": null, "vip_network_id": "n"});
    assert_eq!(address(&by_network, &facts), left_out);
    let additional = json!({"service_uid": null, "ip": null, "additional_ips": ["10.96.0.77"]});
    assert_eq!(
        address(&additional, &facts),
        (None, 0, vec![format!("additional_{}", said.replacen("ip ", "ips ", 1))])
    );
    let taken = |ip: &str| (Some(ip.to_owned()), 0, Vec::<String>::new());
    assert_eq!(address(&json!({"ip": "10.96.0.77"}), &facts), taken("10.96.0.77"), "of a Service");
    let elsewhere = json!({"service_uid": null, "ip": "10.99.0.1", "subnet_id": "another"});
    assert_eq!(address(&elsewhere, &facts), taken("10.99.0.1"));
    let mut unread = facts.clone();
    unread.subnets.remove("services");
    assert_eq!(address(&of_no_service, &unread), left_out, "the subnet could not be read");
    let allocate = CloudFacts { vip: VipMode::Allocate, ..facts };
    assert_eq!(address(&of_no_service, &allocate), taken("10.96.0.77"), "no subnet has cluster IPs");
}

#[test]
fn what_the_writer_would_not_read_is_not_sent() {
    let of = |changes| desired(&object(spec(changes)), &facts());
    for (changes, said) in [
        (json!({"subnet_id": "a/b"}), "its subnet of the VIP \"a/b\" is not one that OpenStack has"),
        (json!({"project_id": "../admin"}), "its project \"../admin\" is not one that OpenStack has"),
        (json!({"provider": "a\nb"}), "its provider \"a\\nb\" is not one that OpenStack has"),
        (
            json!({"tls_container_refs": ["x\u{7}"]}),
            "its container of a certificate \"x\\u{7}\" is not one that OpenStack has",
        ),
        (json!({"shared_group": "a\nb"}), "its shared group \"/a\\nb\" is not one that OpenStack has"),
    ] {
        let error = of(changes).unwrap_err();
        assert_eq!(error.to_string(), said);
        assert_eq!((error.reason(), error.condition()), ("Invalid", Some("Unsupported")));
    }
    // What is no UID names no Service.
    assert_eq!(&*of(json!({"service_uid": "a/b"})).unwrap().wanted.header.owner, "klb-uid");
    let ports = json!([{"name": "a\u{7}b", "port": 80, "protocol": "TCP", "targetPort": "1"}]);
    assert_eq!(of(json!({"ports": ports})).unwrap().wanted.header.listeners[0].name.as_deref(), Some("ab"));
    // Its owner can be named all the same.
    let bad = object(spec(json!({"subnet_id": "a/b", "shared_group": "a\nb"})));
    let alone = owner_alone(Some(&bad), &"6d0e7f4e".into());
    assert_eq!((&*alone.header.owner, alone.bad_text(), &alone.header.shared_group), ("6d0e7f4e", None, &None));
    let shared = owner_alone(Some(&object(spec(json!({"shared_group": "web"})))), &"6d0e7f4e".into());
    assert_eq!(shared.header.shared_group.as_deref().map(|group| &*group.name), Some("/web"));
}

#[test]
fn the_owner_is_the_service_else_the_object_itself() {
    assert_eq!(&*desired_of(spec(json!({}))).wanted.header.owner, "6d0e7f4e");
    assert_eq!(&*desired_of(spec(json!({"service_uid": null}))).wanted.header.owner, "klb-uid");
    assert_eq!(desired_of(spec(json!({}))).wanted.generation, 3);
}

#[test]
fn each_number_and_protocol_is_one_listener() {
    let port = |name: &str, port: i64, protocol: &str| json!({"name": name, "port": port, "protocol": protocol, "targetPort": "1"});
    let ports = json!([
        port("z", 80, "TCP"),
        port("a", 80, "TCP"),
        port("b", 53, "TCP"),
        port("c", 53, "UDP"),
        port("d", 0, "TCP"),
        port("e", 70_000, "TCP"),
        port("f", 81, "ICMP"),
        port("g", 82, "SCTP"),
    ]);
    let found = desired_of(spec(json!({"ports": ports})));
    let listeners: Vec<_> =
        found.wanted.header.listeners.iter().map(|one| (one.name.as_deref().unwrap(), one.id)).collect();
    let id = ListenerId::new;
    let expected = [
        ("b", id(Protocol::Tcp, 53)),
        ("a", id(Protocol::Tcp, 80)),
        ("c", id(Protocol::Udp, 53)),
        ("g", id(Protocol::Sctp, 82)),
    ];
    assert_eq!(listeners, expected);
    let expected = [
        "port d (0/TCP) is left out: its number is not between 1 and 65535",
        "port e (70000/TCP) is left out: its number is not between 1 and 65535",
        "port f (81/ICMP) is left out: its protocol is not TCP, UDP or SCTP",
        "port z (80/TCP) is left out: another port has its number and protocol",
    ];
    assert_eq!(messages(&found), expected);
    assert_eq!((found.findings[3].condition(), found.findings[3].event()), ("Conflict", "KuryrSkipListener"));

    let old = CloudFacts { api_version: ApiVersion { major: 2, minor: 12 }, ..facts() };
    let ports = json!([port("b", 53, "TCP"), port("c", 53, "UDP"), port("g", 82, "SCTP")]);
    let found = desired(&object(spec(json!({"ports": ports}))), &old).unwrap();
    assert_eq!(found.wanted.header.listeners.len(), 1);
    assert_eq!(found.findings.iter().map(|one| one.reason()).collect::<Vec<_>>(), ["SharedNumber", "NoSctp"]);
}

#[test]
fn tls_and_headers_are_for_tcp() {
    let ports = json!([
        {"name": "a", "port": 443, "protocol": "TCP", "targetPort": "1"},
        {"name": "b", "port": 80, "protocol": "TCP", "targetPort": "1", "app_protocol": "http"},
        {"name": "c", "port": 443, "protocol": "UDP", "targetPort": "1"},
    ]);
    let kinds = |changes: Value| {
        let header = desired_of(spec(changes)).wanted.header;
        header.listeners.iter().map(|one| one.kind).collect::<Vec<_>>()
    };
    use ListenerKind::{Http, Plain, TerminatedHttps};
    // In the order of numbers, TCP first.
    assert_eq!(kinds(json!({"ports": ports})), [Plain, Plain, Plain]);
    assert_eq!(kinds(json!({"ports": ports, "x_forwarded_for": true})), [Http, Http, Plain]);
    assert_eq!(kinds(json!({"ports": ports, "tls_container_refs": ["r"]})), [Plain, TerminatedHttps, Plain]);
    let both = json!({"ports": ports, "tls_container_refs": ["r"], "x_forwarded_for": true});
    assert_eq!(kinds(both), [Http, TerminatedHttps, Plain]);
}

#[test]
fn ranges_of_no_use_let_no_one_in() {
    let of = |changes: Value| {
        let found = desired_of(spec(changes));
        (found.wanted.header.clients.clone(), found.findings.len())
    };
    let only = |range: &str| ClientRanges::Only([range.parse().unwrap()].into());
    assert_eq!(of(json!({})), (ClientRanges::Everyone, 0));
    assert_eq!(of(json!({"source_ranges": []})), (ClientRanges::NoOne, 0));
    assert_eq!(of(json!({"source_ranges": ["10.0.0.1/8"]})), (only("10.0.0.0/8"), 0));
    assert_eq!(of(json!({"source_ranges": ["fd00::/8"]})), (ClientRanges::NoOne, 1));
    assert_eq!(of(json!({"source_ranges": ["?"]})), (ClientRanges::NoOne, 1));
    assert_eq!(of(json!({"source_ranges": ["fd00::/8"], "additional_vip_subnet_ids": ["s"]})), (only("fd00::/8"), 0));
}

#[test]
fn a_floating_ip_by_type_or_by_address() {
    let of = |changes: Value| desired_of(spec(changes)).wanted.header.floating.as_deref().cloned();
    let any = FloatingWish { network: Some("public-net".into()), ..FloatingWish::default() };
    assert_eq!(of(json!({})), Some(any.clone()));
    assert_eq!(of(json!({"internal": true})), None);
    assert_eq!(of(json!({"type": "ClusterIP"})), None);
    let address = "172.24.4.9".parse().ok();
    assert_eq!(of(json!({"type": "ClusterIP", "lb_ip": "172.24.4.9"})), Some(FloatingWish { address, ..any.clone() }));
    assert_eq!(of(json!({"keep_floating_ip": true})), Some(FloatingWish { keep: true, ..any }));
    assert_eq!(of(json!({"type": "ClusterIP", "lb_ip": "?"})), None);
}

#[test]
fn numbers_that_cannot_be_meant_are_unset() {
    let changes = json!({
        "timeout_client_data": 0, "timeout_member_data": -5, "timeout_member_connect": 5, "connection_limit": -1,
        "session_affinity_timeout": 99_999_999_999_i64, "proxy_protocol": "v2",
    });
    let header = desired_of(spec(changes)).wanted.header;
    let timeouts = header.timeouts;
    assert_eq!((timeouts.client_data, timeouts.member_data, timeouts.member_connect), (None, None, Some(5)));
    assert_eq!((timeouts.connection_limit, header.balancing.affinity_seconds), (Some(-1), None));
    assert_eq!(header.balancing.proxy, Some(ProxyVersion::V2));
}

/// The members of a spec with one port, as `address:port=weight name`.
fn members(slices: Value, facts: &CloudFacts, changes: Value) -> Vec<String> {
    let mut spec = spec(changes);
    spec.endpoint_slices = serde_json::from_value::<Vec<std::sync::Arc<KlbSlice>>>(slices).unwrap();
    let wanted = desired(&object(spec), facts).unwrap().wanted;
    let shown = wanted.members.as_slice().iter().map(|one| {
        let subnet = one.subnet.as_deref().map(|subnet| format!(" in {subnet}")).unwrap_or_default();
        format!("{}:{}={} {}{subnet}", one.id.address, one.id.port, one.weight, one.name.as_deref().unwrap_or("-"))
    });
    shown.collect()
}

#[test]
fn members_by_condition_port_and_family() {
    let endpoint = |address: &str, conditions: Value| json!({"addresses": [address], "conditions": conditions});
    let slices = json!([
        {
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "other", "port": 1, "protocol": "TCP"}],
            "endpoints": [
                endpoint("10.1.0.1", json!({})),
                endpoint("10.1.0.2", json!({"ready": true})),
                endpoint("10.1.0.3", json!({"ready": false})),
                endpoint("10.1.0.4", json!({"ready": false, "serving": true, "terminating": true})),
                endpoint("10.1.0.5", json!({"ready": false, "serving": false, "terminating": true})),
                endpoint("fd00::1", json!({})),
                endpoint("nowhere", json!({})),
                endpoint("10.1.0.6", json!({"ready": false, "serving": true, "terminating": true})),
            ],
        },
        // The same address once more, in a better condition; and another number behind the same name.
        {"ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": [endpoint("10.1.0.6", json!({}))]},
        {"ports": [{"name": "http", "port": 9090, "protocol": "TCP"}], "endpoints": [endpoint("10.1.0.1", json!({}))]},
        {"ports": [{"name": "http", "port": 8080, "protocol": "UDP"}], "endpoints": [endpoint("10.1.0.7", json!({}))]},
        {"ports": [{"name": "http", "port": 0, "protocol": "TCP"}], "endpoints": [endpoint("10.1.0.8", json!({}))]},
    ]);
    let expected =
        ["10.1.0.1:8080=1 -", "10.1.0.1:9090=1 -", "10.1.0.2:8080=1 -", "10.1.0.4:8080=0 -", "10.1.0.6:8080=1 -"];
    assert_eq!(members(slices.clone(), &facts(), json!({})), expected);
    assert_eq!(members(slices, &facts(), json!({"ip_families": ["IPv6"]})), ["fd00::1:8080=1 -"]);
}

#[test]
fn members_have_names_and_subnets() {
    let slices = json!([{"ports": [{"name": "http", "port": 8080}], "endpoints": [pod("10.1.0.4", "web-1")]}]);
    let of = |facts: &CloudFacts, changes| members(slices.clone(), facts, changes);
    assert_eq!(of(&facts(), json!({})), ["10.1.0.4:8080=1 team/web-1:8080"]);
    let defaults = LoadBalancerDefaults { addressing: MemberAddressing::L2, ..LoadBalancerDefaults::default() };
    let l2 = CloudFacts { defaults, ..facts() };
    assert_eq!(of(&l2, json!({})), ["10.1.0.4:8080=1 team/web-1:8080 in pods"]);
    assert_eq!(of(&facts(), json!({"member_subnet_id": "m"})), ["10.1.0.4:8080=1 team/web-1:8080 in m"]);
}

#[test]
fn nodes_are_members_by_their_node_port() {
    let mut nodes = Nodes::default();
    nodes.apply(&node("a", "10.0.0.1"));
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000});
    let spec = translated(&joined(service(local, json!({})), Vec::new()), &nodes, Some(&node_facts())).spec;
    let wanted = desired(&object(spec), &node_facts()).unwrap().wanted;
    let member = &wanted.members.as_slice()[0];
    assert_eq!((member.id.port, member.name.as_deref()), (30080, Some("a")));
    let monitor = wanted.header.monitor.as_ref().unwrap();
    assert_eq!(
        (monitor.kind, monitor.port, monitor.path.as_deref()),
        (MonitorKind::Http, Some(31000), Some("/healthz"))
    );
}

/// Objects that Kuryr wrote have neither names of ports nor conditions, if the Service has one port.
#[test]
fn an_object_of_kuryr_is_understood() {
    let text = include_str!("../../../crd/tests/kuryr/objects/unit-test.json");
    let kuryr = serde_json::from_str(text).unwrap();
    let found = desired(&kuryr, &facts()).unwrap();
    let header = &found.wanted.header;
    assert_eq!((&*header.owner, header.known), ("584fe3ea-04dd-43f7-be2f-713e861694ec", true));
    assert_eq!((header.listeners.len(), &*header.placement.project), (1, "1023456789120"));
    let member = &found.wanted.members.as_slice()[0];
    assert_eq!((member.id.port, member.name.as_deref()), (2, Some("default/test-f87976f9c-thjbk:2")));
}

#[test]
fn a_status_that_was_wiped_is_not_believed() {
    use StatusKnowledge::{Known, MembersRemoved, NoLoadBalancer, Wiped};
    let balancer = json!({
        "id": "1", "ip": "2", "name": "3", "port_id": "4", "project_id": "5", "provider": "6", "security_groups": [],
        "subnet_id": "7",
    });
    let member =
        json!({"id": "1", "ip": "2", "name": "3", "pool_id": "4", "port": 5, "project_id": "6", "subnet_id": "7"});
    let with = |more: Value| {
        let mut status = json!({"loadbalancer": balancer});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        status
    };
    let slices = json!([{"endpoints": [{"addresses": ["10.1.0.4"]}]}]);
    for (status, slices, expected) in [
        (Value::Null, json!([]), Wiped),
        (json!({}), json!([]), Wiped),
        (json!({"members": []}), json!([]), Wiped),
        (json!({"memberCount": 1}), json!([]), NoLoadBalancer),
        (with(json!({})), json!([]), Known),
        // Kuryr did not count: with endpoints, there must have been members.
        (with(json!({})), slices.clone(), MembersRemoved),
        (with(json!({"members": [member]})), slices.clone(), Known),
        (with(json!({"members": [member], "memberCount": 1})), slices.clone(), Known),
        (with(json!({"memberCount": 0})), slices.clone(), Known),
        (with(json!({"memberCount": 1})), slices.clone(), MembersRemoved),
        (with(json!({"members": [member], "memberCount": 2})), slices.clone(), MembersRemoved),
        (with(json!({"members": [member], "memberCount": 5000, "membersTruncated": true})), slices.clone(), Known),
        (with(json!({"memberCount": 5000, "membersTruncated": true})), slices, MembersRemoved),
    ] {
        let object = serde_json::from_value(json!({"spec": {"endpointSlices": slices}, "status": status})).unwrap();
        assert_eq!(status_knowledge(&object), expected, "{status}");
        assert_eq!(expected.needs_discovery(), expected != Known);
    }
    let mut object = object(spec(json!({})));
    assert!(!desired(&object, &facts()).unwrap().wanted.header.known);
    object.status = serde_json::from_value(with(json!({"memberCount": 0}))).unwrap();
    assert!(desired(&object, &facts()).unwrap().wanted.header.known);
}
