//! Services as specs.

use gimbal_kuryr_crd::{KlbIpFamily, KlbMemberMode, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{ApiVersion, ClassDefaults, CloudFacts, ExternalNetwork, VipMode};
use gimbal_kuryr_translate::{NodeChange, Nodes, Translated};
use serde_json::{Value, json};

use crate::common::{facts, joined, node, node_facts, pod, service, slice, spec_of, translated};

fn with_facts(spec: Value, annotations: Value, facts: Option<&CloudFacts>) -> Translated {
    translated(&joined(service(spec, annotations), Vec::new()), &Nodes::default(), facts)
}

fn messages(translated: &Translated) -> Vec<String> {
    translated.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn before_the_writer_has_spoken_there_is_no_place_for_it() {
    let KuryrLoadBalancerSpec { ip, project_id, subnet_id, provider, ports, service_uid, .. } =
        with_facts(json!({}), json!({}), None).spec;
    assert_eq!((ip.as_deref(), project_id, subnet_id, provider), (Some("10.96.0.10"), None, None, None));
    assert_eq!((ports.len(), service_uid.as_deref()), (1, Some("6d0e7f4e")));
}

#[test]
fn the_address_is_the_cluster_ip_unless_the_cloud_chooses() {
    assert_eq!(spec_of(json!({"clusterIP": "010.096.0.1"}), json!({})).spec.ip.as_deref(), Some("10.96.0.1"));
    let allocate = CloudFacts { vip: VipMode::Allocate, ..facts() };
    let spec = with_facts(json!({}), json!({}), Some(&allocate)).spec;
    assert_eq!((spec.ip, spec.subnet_id.as_deref()), (None, Some("services")));
}

#[test]
fn a_target_is_a_text() {
    let ports = json!([
        {"name": "a", "port": 80, "targetPort": 8080},
        {"name": "b", "port": 81, "targetPort": "named", "protocol": "UDP"},
        {"name": "c", "port": 82},
    ]);
    let spec = spec_of(json!({ "ports": ports }), json!({})).spec;
    let targets: Vec<_> = spec.ports.iter().map(|port| (&*port.target_port, &*port.protocol)).collect();
    assert_eq!(targets, [("8080", "TCP"), ("named", "UDP"), ("82", "TCP")]);
}

#[test]
fn a_floating_ip_is_wanted_from_outside_or_by_address() {
    let internal = json!({"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"});
    let external = json!({"externalIPs": ["203.0.113.1", "172.24.5.7"], "type": "ClusterIP"});
    for (spec, annotations, address, network) in [
        (json!({}), json!({}), None, Some("public-net")),
        (json!({"type": "ClusterIP"}), json!({}), None, None),
        (json!({}), internal, None, None),
        (json!({"loadBalancerIP": "172.24.4.9"}), json!({}), Some("172.24.4.9"), Some("public-net")),
        (json!({"loadBalancerIP": "172.24.4.9", "type": "ClusterIP"}), json!({}), None, None),
        // The first that is an address of the external network.
        (external, json!({}), Some("172.24.5.7"), Some("public-net")),
        (
            json!({}),
            json!({"loadbalancer.openstack.org/floating-network-id": "partner-net"}),
            None,
            Some("partner-net"),
        ),
    ] {
        let translated = spec_of(spec.clone(), annotations);
        let found = (translated.spec.lb_ip.as_deref(), translated.spec.floating_network_id.as_deref());
        assert_eq!((found, messages(&translated)), ((address, network), Vec::new()), "{spec}");
    }
}

#[test]
fn what_the_cloud_does_not_let_us_have_is_said_and_left_out() {
    let stranger = json!({
        "openstack.org/kuryr-project": "of-someone-else",
        "loadbalancer.openstack.org/class": "slow",
        "loadbalancer.openstack.org/floating-network-id": "of-someone-else",
        "loadbalancer.openstack.org/floating-subnet": "nowhere*",
    });
    let translated = spec_of(json!({"loadBalancerIP": "somewhere"}), stranger);
    let expected = [
        "loadBalancerIP \"somewhere\" is left out: it is not an address",
        "annotation loadbalancer.openstack.org/class=\"slow\" is left out: there is no such class",
        "annotation openstack.org/kuryr-project=\"of-someone-else\" is left out: this cluster may not use it",
        "annotation loadbalancer.openstack.org/floating-network-id=\"of-someone-else\" is left out: this cluster may not use it",
        "annotation loadbalancer.openstack.org/floating-subnet=\"nowhere*\" is left out: no subnet of the external network is known by it",
    ];
    assert_eq!(messages(&translated), expected);
    let spec = translated.spec;
    let found = (spec.project_id.as_deref(), spec.floating_network_id.as_deref(), spec.floating_subnet_id);
    assert_eq!(found, (Some("project"), Some("public-net"), None));

    let closed = CloudFacts { external: None, ..facts() };
    let translated = with_facts(json!({}), json!({}), Some(&closed));
    assert_eq!(messages(&translated), ["there is no floating IP: the cloud has no external network for this cluster"]);
    let external = ExternalNetwork { user_addresses: false, ..facts().external.unwrap() };
    let any = CloudFacts { external: Some(external), ..facts() };
    let translated = with_facts(json!({"loadBalancerIP": "172.24.4.9"}), json!({}), Some(&any));
    assert_eq!((translated.spec.lb_ip, translated.findings.len()), (None, 1));
    assert_eq!(translated.spec.floating_network_id.as_deref(), Some("public-net"));
}

#[test]
fn annotations_classes_and_defaults_choose_in_this_order() {
    let class = json!({"loadbalancer.openstack.org/class": "fast"});
    let spec = spec_of(json!({}), class).spec;
    assert_eq!((spec.flavor_id.as_deref(), spec.provider.as_deref()), (Some("large"), Some("ovn")));
    let both = json!({"loadbalancer.openstack.org/class": "fast", "loadbalancer.openstack.org/flavor-id": "small"});
    assert_eq!(spec_of(json!({}), both).spec.flavor_id.as_deref(), Some("small"));
    assert_eq!(spec_of(json!({}), json!({})).spec.provider.as_deref(), Some("amphora"));
    let project = json!({"openstack.org/kuryr-project": "other-project"});
    assert_eq!(spec_of(json!({}), project).spec.project_id.as_deref(), Some("other-project"));
    for (name, value) in [
        ("floating-subnet", "*c2"),
        ("floating-subnet-tags", "is-public2"),
        // One of several is enough, unless all are asked for.
        ("floating-subnet-tags", "of-no-subnet, is-public2"),
        ("floating-subnet-tags", "& is-public2"),
        ("floating-subnet-id", "public2"),
    ] {
        let spec = spec_of(json!({}), json!({format!("loadbalancer.openstack.org/{name}"): value})).spec;
        assert_eq!(spec.floating_subnet_id.as_deref(), Some("public2"), "{name}={value}");
    }
    for annotations in [
        json!({"loadbalancer.openstack.org/floating-subnet-tags": "&is-public2,of-no-subnet"}),
        json!({
            "loadbalancer.openstack.org/floating-subnet": "*c2",
            "loadbalancer.openstack.org/floating-subnet-tags": "is-public",
        }),
    ] {
        let translated = spec_of(json!({}), annotations);
        assert_eq!((translated.spec.floating_subnet_id, translated.findings.len()), (None, 1));
    }
    let mut with_defaults = facts();
    with_defaults.defaults.timeout_client_data = 7;
    let timeout = |annotations| with_facts(json!({}), annotations, Some(&with_defaults)).spec.timeout_client_data;
    assert_eq!(timeout(json!({})), Some(7));
    assert_eq!(timeout(json!({"openstack.org/kuryr-timeout-client-data": "9"})), Some(9));
    // 0 is what Octavia is configured for, as if nothing was said.
    assert_eq!(timeout(json!({"openstack.org/kuryr-timeout-client-data": "0"})), None);
}

/// As with cloud-provider-openstack.
#[test]
fn where_the_floating_ip_comes_from_the_class_says_before_the_service() {
    let of = |class: ClassDefaults, others: Value| {
        let facts = CloudFacts { classes: [("fast".into(), class)].into(), ..facts() };
        let mut annotations = others;
        annotations["loadbalancer.openstack.org/class"] = json!("fast");
        let translated = with_facts(json!({}), annotations, Some(&facts));
        assert_eq!(messages(&translated), Vec::<String>::new());
        let spec = translated.spec;
        [spec.floating_network_id, spec.floating_subnet_id, spec.subnet_id].map(|id| id.map(|id| id.to_string()))
    };
    let some = |ids: [&str; 3]| ids.map(|id| Some(id.to_owned()));
    let asked = || {
        json!({
            "loadbalancer.openstack.org/floating-network-id": "partner-net",
            "loadbalancer.openstack.org/floating-subnet-id": "of-the-service",
            "loadbalancer.openstack.org/subnet-id": "pods",
        })
    };
    let subnet = Some("services".into());
    let class = ClassDefaults { subnet, ..ClassDefaults::default() };
    assert_eq!(of(class.clone(), asked()), some(["partner-net", "of-the-service", "pods"]));
    let (network, by_id) = (Some("public-net".into()), Some("public2".into()));
    let class = ClassDefaults { floating_network: network, ..class };
    assert_eq!(of(class.clone(), asked()), some(["public-net", "of-the-service", "pods"]));
    let with_id = ClassDefaults { floating_subnet: by_id, ..class.clone() };
    assert_eq!(of(with_id, asked()), some(["public-net", "public2", "pods"]));
    for tags in [["of-no-subnet", "is-public2"].as_slice(), &["&is-public2"]] {
        let floating_subnet_tags = tags.iter().map(|tag| (*tag).into()).collect();
        let by_tags = ClassDefaults { floating_subnet_tags, ..class.clone() };
        assert_eq!(of(by_tags, asked()), some(["public-net", "public2", "pods"]), "{tags:?}");
    }
}

#[test]
fn ranges_that_cannot_be_read_do_not_open_the_door() {
    let ranges = |ranges: Value| {
        let translated = spec_of(json!({ "loadBalancerSourceRanges": ranges }), json!({}));
        (translated.spec.source_ranges, translated.findings.len())
    };
    let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).into()).collect::<Vec<_>>());
    assert_eq!(ranges(json!([])), (None, 0));
    assert_eq!(ranges(json!(["10.2.3.4/8", " 10.0.0.0/8", "10.0.0.0/9"])), (texts(&["10.0.0.0/8", "10.0.0.0/9"]), 0));
    assert_eq!(ranges(json!(["all"])), (texts(&[]), 1));
    let older = |ranges: &str, spec: Value| {
        spec_of(spec, json!({"service.beta.kubernetes.io/load-balancer-source-ranges": ranges})).spec.source_ranges
    };
    assert_eq!(older("10.0.0.0/9, 10.0.0.0/8,", json!({})), texts(&["10.0.0.0/8", "10.0.0.0/9"]));
    assert_eq!((older("?", json!({})), older(" ", json!({}))), (texts(&[]), texts(&[])));
    assert_eq!(older("?", json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]})), texts(&["10.0.0.0/8"]));
    let inside = spec_of(json!({"type": "ClusterIP", "loadBalancerSourceRanges": ["10.0.0.0/8"]}), json!({}));
    assert_eq!(inside.spec.source_ranges, None);
}

#[test]
fn the_second_family_is_a_further_address() {
    let dual = json!({"ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.96.0.10", "fd00:96::a"]});
    let translated = spec_of(dual.clone(), json!({}));
    assert_eq!(translated.spec.ip_families, [KlbIpFamily::IPv4, KlbIpFamily::IPv6]);
    assert_eq!(translated.spec.additional_vip_subnet_ids, ["services6".into()]);
    let old = CloudFacts { api_version: ApiVersion { major: 2, minor: 25 }, ..facts() };
    let translated = with_facts(dual, json!({}), Some(&old));
    assert_eq!((translated.spec.additional_vip_subnet_ids.len(), translated.findings.len()), (0, 1));
    let six = spec_of(json!({"ipFamilies": ["IPv6"], "clusterIP": "FD00:96::a"}), json!({})).spec;
    assert_eq!((six.ip.as_deref(), six.subnet_id.as_deref()), (Some("fd00:96::a"), Some("services6")));
}

#[test]
fn slices_are_kept_in_canonical_form() {
    let odd = json!([
        {"addresses": ["10.1.000.4"], "conditions": {}},
        {"addresses": ["not an address"]},
        {"addresses": ["10.1.0.5"], "conditions": {"ready": false, "serving": true, "terminating": true}},
    ]);
    let slices = vec![slice("a", odd), slice("b", json!([])), slice("c", json!([pod("fd00::1", "six")]))];
    let spec = translated(&joined(service(json!({}), json!({})), slices), &Nodes::default(), Some(&facts())).spec;
    let endpoints = json!([
        {"addresses": ["10.1.0.4"], "conditions": {"ready": true}},
        {"addresses": ["10.1.0.5"], "conditions": {"ready": false, "serving": true, "terminating": true}},
    ]);
    let expected = json!([{"endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]);
    assert_eq!(serde_json::to_value(&spec.endpoint_slices).unwrap(), expected);
}

#[test]
fn nodes_are_members_where_the_cloud_says_so() {
    let mut nodes = Nodes::default();
    assert_eq!(nodes.apply(&node("b", "10.0.0.2")), NodeChange::Members);
    assert_eq!(nodes.apply(&node("a", "10.0.0.1")), NodeChange::Members);
    assert_eq!(nodes.apply(&node("a", "10.0.0.1")), NodeChange::Nothing);
    let mut labelled = node("a", "10.0.0.1");
    labelled.metadata.labels.insert("another".into(), "one".into());
    assert_eq!(nodes.apply(&labelled), NodeChange::Labels);
    let mut excluded = node("c", "10.0.0.3");
    excluded.metadata.labels.insert("node.kubernetes.io/exclude-from-external-load-balancers".into(), "".into());
    let mut going = node("d", "10.0.0.4");
    going.spec.taints =
        serde_json::from_value(json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])).unwrap();
    let mut labelled = node("e", "10.0.0.5");
    labelled.metadata.labels.insert("zone".into(), "1".into());
    [excluded, going, labelled, node("f", "fd00::6")]
        .iter()
        .for_each(|node| assert_eq!(nodes.apply(node), NodeChange::Members));

    let of = |annotations: Value, spec: Value| {
        let joined = joined(service(spec, annotations), vec![slice("a", json!([pod("10.1.0.4", "a")]))]);
        translated(&joined, &nodes, Some(&node_facts())).spec
    };
    let names = |spec: &KuryrLoadBalancerSpec| {
        let endpoints = spec.endpoint_slices.iter().flat_map(|slice| &slice.endpoints);
        endpoints.map(|one| one.node_name.clone().unwrap().to_string()).collect::<Vec<_>>()
    };
    let spec = of(json!({}), json!({}));
    assert_eq!((spec.member_mode, names(&spec)), (Some(KlbMemberMode::Node), vec!["a".into(), "b".into(), "e".into()]));
    assert_eq!(spec.endpoint_slices[0].ports[0].port, Some(30080));
    let monitor = spec.health_monitor.unwrap();
    assert_eq!((monitor.type_, monitor.delay), (None, Some(5)));
    for selector in ["zone=1", "zone"] {
        let selected = of(json!({"loadbalancer.openstack.org/node-selector": selector}), json!({}));
        assert_eq!(names(&selected), ["e"], "{selector}");
    }
    assert!(nodes.clone().delete("a") && !nodes.clone().delete("z"));
}

#[test]
fn the_local_policy_is_never_without_its_monitor() {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000});
    let off = json!({"loadbalancer.openstack.org/enable-health-monitor": "false"});
    let of = |spec: Value, annotations: Value, facts: &CloudFacts| {
        with_facts(spec, annotations, Some(facts)).spec.health_monitor
    };
    let monitor = of(local.clone(), off.clone(), &node_facts()).unwrap();
    assert_eq!((monitor.type_.as_deref(), monitor.url_path.as_deref()), (Some("HTTP"), Some("/healthz")));
    assert_eq!(of(json!({}), off, &node_facts()), None);
    // Pods answer for themselves.
    assert_eq!(of(local, json!({}), &facts()), None);
    let on = json!({"loadbalancer.openstack.org/enable-health-monitor": "true", "loadbalancer.openstack.org/health-monitor-delay": "9"});
    assert_eq!(of(json!({}), on, &facts()).unwrap().delay, Some(9));
}

#[test]
fn affinity_has_a_time() {
    let of = |spec: Value| spec_of(spec, json!({})).spec.session_affinity_timeout;
    assert_eq!(of(json!({})), None);
    assert_eq!(of(json!({"sessionAffinity": "None"})), None);
    assert_eq!(of(json!({"sessionAffinity": "ClientIP"})), Some(10_800));
    let config = json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}});
    assert_eq!(of(config), Some(60));
}
