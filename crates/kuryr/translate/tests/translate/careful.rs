//! What was not understood opens no door, and what is not served is said.

use gimbal_kuryr_crd::KuryrLoadBalancerSpec;
use gimbal_kuryr_model::{
    ClassDefaults, ClientRanges, CloudFacts, ExternalNetwork, LoadBalancerDefaults, LoadBalancerReport,
    MemberAddressing, VipMode,
};
use gimbal_kuryr_translate::{Chosen, ControllerSettings, Input, Nodes, Streamed, Translated, desired, translate};
use serde_json::{Value, json};

use crate::common::{desired_of, facts, joined, node, node_facts, object, pod, service, slice, spec_of, translated};

fn with_facts(spec: Value, annotations: Value, facts: &CloudFacts) -> Translated {
    translated(&joined(service(spec, annotations), Vec::new()), &Nodes::default(), Some(facts))
}

fn messages(translated: &Translated) -> Vec<String> {
    translated.findings.iter().map(ToString::to_string).collect()
}

fn internal(value: &str) -> Value {
    json!({ "service.beta.kubernetes.io/openstack-internal-load-balancer": value })
}

fn streamed(spec: KuryrLoadBalancerSpec, facts: &CloudFacts) -> Streamed {
    desired(&object(spec), facts).unwrap()
}

#[test]
fn an_internal_load_balancer_has_no_floating_ip() {
    for spec in [
        json!({}),
        json!({"loadBalancerIP": "172.24.4.9"}),
        json!({"externalIPs": ["172.24.5.7"]}),
        json!({"externalIPs": ["172.24.5.7"], "type": "ClusterIP"}),
    ] {
        let translated = spec_of(spec.clone(), internal("true"));
        assert_eq!((&translated.spec.lb_ip, &translated.spec.floating_network_id), (&None, &None), "{spec}");
        assert_eq!(desired_of(translated.spec).wanted.header.floating, None, "{spec}");
    }
    // Nor one whose spec somebody has written by hand.
    let mut by_hand = spec_of(json!({"loadBalancerIP": "172.24.4.9"}), json!({})).spec;
    assert!(desired_of(by_hand.clone()).wanted.header.floating.is_some());
    by_hand.internal = Some(true);
    assert_eq!(desired_of(by_hand).wanted.header.floating, None);
}

#[test]
fn the_address_of_an_internal_load_balancer_is_that_of_its_vip() {
    let asked = json!({"loadBalancerIP": "10.96.7.7"});
    let translated = spec_of(asked.clone(), internal("true"));
    assert_eq!(translated.spec.ip.as_deref(), Some("10.96.0.10"));
    let expected =
        "loadBalancerIP \"10.96.7.7\" is left out: the load balancer is internal, and its address is the cluster IP";
    assert_eq!(messages(&translated), [expected]);
    // As with cloud-provider-openstack.
    let allocated = CloudFacts { vip: VipMode::Allocate, ..facts() };
    let translated = with_facts(asked, internal("true"), &allocated);
    assert_eq!((translated.spec.ip.as_deref(), messages(&translated)), (Some("10.96.7.7"), Vec::new()));
}

#[test]
fn what_may_mean_internal_is_not_public() {
    for value in ["yes", "True", "", "0"] {
        let translated = spec_of(json!({}), internal(value));
        assert_eq!((translated.spec.internal, &translated.spec.floating_network_id), (Some(true), &None), "{value}");
        let name = "service.beta.kubernetes.io/openstack-internal-load-balancer";
        let expected = format!("annotation {name}={value:?} is taken for \"true\": it is neither true nor false");
        assert_eq!(messages(&translated), [expected]);
    }
    assert!(spec_of(json!({}), internal("false")).spec.floating_network_id.is_some());
}

#[test]
fn the_second_cluster_ip_is_an_address_of_the_load_balancer() {
    let dual = |second: &str| json!({"ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.96.0.10", second]});
    let of = |second: &str, facts: &CloudFacts| {
        let translated = with_facts(dual(second), json!({}), facts);
        let spec = serde_json::to_value(&translated.spec).unwrap();
        let header = streamed(translated.spec.clone(), facts).wanted.header;
        let addresses: Vec<_> = header.vip.additional_addresses.iter().map(ToString::to_string).collect();
        (spec["additional_ips"].clone(), spec["additional_vip_subnet_ids"].clone(), addresses, messages(&translated))
    };
    let expected = (json!(["fd00:96::a"]), json!(["services6"]), vec!["fd00:96::a".to_owned()], vec![]);
    assert_eq!(of("FD00:96::A", &facts()), expected);
    // The subnet that holds it, not the first of its family.
    let mut two = facts();
    let other =
        gimbal_kuryr_model::SubnetFacts { cidr: "fd00:97::/64".parse().unwrap(), ..two.subnets["services6"].clone() };
    two.subnets.insert("other6".into(), other);
    two.service_subnets.insert(1, "other6".into());
    assert_eq!(of("fd00:96::a", &two), expected);
    // None does.
    let (ips, subnets, addresses, said) = of("fd00:98::a", &facts());
    assert_eq!((ips, subnets, addresses), (Value::Null, Value::Null, vec![]));
    assert_eq!(said, ["the Service has no address of its second family: no subnet of Services holds its cluster IP"]);
    // Where Neutron chooses, it chooses both.
    let allocated = CloudFacts { vip: VipMode::Allocate, ..facts() };
    assert_eq!(of("fd00:96::a", &allocated), (Value::Null, json!(["services6"]), vec![], vec![]));
}

#[test]
fn names_of_members_are_cut() {
    let mut long = pod("10.1.0.4", &"x".repeat(253));
    long["targetRef"]["namespace"] = json!("n".repeat(63));
    let slices = vec![slice("a", json!([long]))];
    let spec = translated(&joined(service(json!({}), json!({})), slices), &Nodes::default(), Some(&facts())).spec;
    let members = desired_of(spec).wanted.members;
    assert_eq!(members.as_slice()[0].name.as_deref().unwrap().len(), 255);
}

/// The API server takes any text there, and the writer would not read the entry.
#[test]
fn names_of_members_are_cleaned() {
    let mut odd = pod("10.1.0.4", "a\u{7}b\n");
    odd["targetRef"]["namespace"] = json!("te\u{0}am");
    let slices = vec![slice("a", json!([odd]))];
    let spec = translated(&joined(service(json!({}), json!({})), slices), &Nodes::default(), Some(&facts())).spec;
    let members = desired_of(spec).wanted.members;
    assert_eq!(members.as_slice()[0].name.as_deref(), Some("team/ab:8080"));
}

#[test]
fn what_the_configuration_does_not_have_any_more_stays_as_it_was_chosen() {
    let of = |spec: Value, annotations: Value, facts: &CloudFacts, before: Option<&KuryrLoadBalancerSpec>| {
        let chosen = before.map(|spec| Chosen::of_spec(spec).made_in(spec.subnet_id.clone()));
        let joined = joined(service(spec, annotations), Vec::new());
        let (settings, chosen) = (ControllerSettings::default(), chosen.as_ref());
        let nodes = Nodes::default();
        translate(&Input {
            joined: &joined,
            nodes: &nodes,
            facts: Some(facts),
            settings: &settings,
            exists: true,
            chosen,
        })
        .unwrap()
    };
    let reduced = CloudFacts {
        classes: Default::default(),
        allowed_projects: Default::default(),
        external: facts().external.map(|external| ExternalNetwork { allowed: Default::default(), ..external }),
        ..facts()
    };
    let closed = CloudFacts { external: None, ..facts() };
    let unasked = CloudFacts {
        external: facts().external.map(|external| ExternalNetwork { user_addresses: false, ..external }),
        ..facts()
    };
    let mut moved = CloudFacts { service_subnets: vec!["newer".into()], ..facts() };
    let subnet = moved.subnets.remove("services").unwrap();
    moved.subnets.insert("newer".into(), subnet);
    // Neutron has left it out of a list, or its network is not one of the configuration any more.
    let mut unlisted = facts();
    unlisted.subnets.remove("public2");
    for (spec, annotations, later, said) in [
        (json!({}), json!({"loadbalancer.openstack.org/class": "fast"}), &reduced, "there is no such class"),
        (json!({}), json!({"openstack.org/kuryr-project": "other-project"}), &reduced, "this cluster may not use it"),
        (
            json!({}),
            json!({"loadbalancer.openstack.org/floating-network-id": "partner-net"}),
            &reduced,
            "this cluster may not use it",
        ),
        (json!({}), json!({}), &closed, "its floating IP stays"),
        (json!({"loadBalancerIP": "172.24.4.9"}), json!({}), &closed, "its floating IP stays"),
        (json!({"type": "ClusterIP", "externalIPs": ["172.24.5.7"]}), json!({}), &closed, "its floating IP stays"),
        (json!({"loadBalancerIP": "172.24.4.9"}), json!({}), &unasked, "its floating IP 172.24.4.9 stays"),
        (
            json!({"type": "ClusterIP", "externalIPs": ["172.24.5.7"]}),
            json!({}),
            &unasked,
            "its floating IP 172.24.5.7 stays",
        ),
        (
            json!({"type": "ClusterIP", "externalIPs": ["172.24.5.7"]}),
            json!({}),
            &unlisted,
            "its floating IP 172.24.5.7 stays",
        ),
        (
            json!({"type": "ClusterIP", "externalIPs": ["172.24.5.7", "172.24.4.9"]}),
            json!({}),
            &unlisted,
            "its floating IP 172.24.5.7 stays",
        ),
        (json!({}), json!({}), &moved, "its subnet services stays"),
    ] {
        let first = of(spec.clone(), annotations.clone(), &facts(), None);
        assert_eq!(messages(&first), Vec::<String>::new());
        let later = of(spec, annotations, later, Some(&first.spec));
        assert_eq!(later.spec, first.spec, "{said}");
        let [finding] = later.findings.as_slice() else { panic!("{:?}", later.findings) };
        assert!(finding.to_string().contains(said), "{finding}");
        assert_eq!((finding.condition(), finding.reason()), ("Held", "Setting"));
        // What is streamed tells as much.
        let header = desired_of(first.spec.clone()).wanted.header;
        assert_eq!(Chosen::of_header(&header), Chosen::of_spec(&first.spec));
    }
    // Another address was not chosen before, and another default is applied.
    let asks = |ip: &str| json!({"loadBalancerIP": ip});
    let first = of(asks("172.24.4.9"), json!({}), &facts(), None).spec;
    let other = of(asks("172.24.4.8"), json!({}), &unasked, Some(&first));
    assert_eq!((&other.spec.lb_ip, other.findings[0].reason()), (&None, "FloatingAddressNotAllowed"));
    let mut both = moved.clone();
    both.subnets.insert("services".into(), facts().subnets["services"].clone());
    assert_eq!(of(json!({}), json!({}), &both, Some(&first)).spec.subnet_id.as_deref(), Some("newer"));
    // Where nothing else was chosen, it is a mistake like any other.
    let plain = of(json!({}), json!({}), &facts(), None).spec;
    let typo = of(json!({}), json!({"loadbalancer.openstack.org/class": "fsat"}), &facts(), Some(&plain));
    assert_eq!((typo.findings[0].condition(), &typo.spec), ("Unsupported", &plain));
}

/// Octavia would replace the load balancer, or let its address go, for a slip of the pen.
#[test]
fn an_annotation_that_cannot_be_read_any_more_takes_nothing_away() {
    let of = |annotations: Value, chosen: Option<&Chosen>| {
        let joined = joined(service(json!({}), annotations), Vec::new());
        let (settings, nodes, facts) = (ControllerSettings::default(), Nodes::default(), facts());
        let facts = Some(&facts);
        translate(&Input { joined: &joined, nodes: &nodes, facts, settings: &settings, exists: true, chosen }).unwrap()
    };
    let of_cpo = |name: &str| format!("loadbalancer.openstack.org/{name}");
    for (name, value) in [
        ("openstack.org/kuryr-project".to_owned(), "other-project"),
        ("openstack.org/kuryr-shared-group".to_owned(), "team/web"),
        (of_cpo("floating-network-id"), "partner-net"),
        (of_cpo("subnet-id"), "pods"),
        (of_cpo("member-subnet-id"), "pods"),
        (of_cpo("network-id"), "services-net"),
        (of_cpo("port-id"), "a-port"),
        (of_cpo("flavor-id"), "large"),
        (of_cpo("availability-zone"), "az1"),
        (of_cpo("class"), "fast"),
        (of_cpo("proxy-protocol"), "v2"),
        (of_cpo("x-forwarded-for"), "true"),
    ] {
        let first = of(json!({ &name: value }), None);
        assert_eq!(messages(&first), Vec::<String>::new(), "{name}");
        let header = desired(&object(first.spec.clone()), &facts()).map(|streamed| streamed.wanted.header);
        let of_header = header.ok().map(|header| Chosen::of_header(&header));
        for unreadable in ["", "a\u{7}/b"] {
            let later = of(json!({ &name: unreadable }), Some(&Chosen::of_spec(&first.spec)));
            assert_eq!(later.spec, first.spec, "{name}={unreadable:?}");
            let [finding] = later.findings.as_slice() else { panic!("{name}: {:?}", later.findings) };
            assert!(
                finding.to_string().ends_with("; what was chosen for this load balancer before stays"),
                "{finding}"
            );
            assert_eq!((finding.condition(), finding.reason()), ("Held", "Setting"), "{name}");
            // What is streamed tells as much, but for the subnet of members.
            if let Some(chosen) = of_header.as_ref().filter(|_| !name.ends_with("/member-subnet-id")) {
                assert_eq!(of(json!({ &name: unreadable }), Some(chosen)).spec, first.spec, "{name}");
            }
        }
        // Where nothing else was chosen, it is a mistake like any other.
        let plain = of(json!({}), None).spec;
        let later = of(json!({ name: "" }), Some(&Chosen::of_spec(&plain)));
        assert_eq!((later.findings[0].condition(), later.spec), ("Unsupported", plain));
    }
}

/// The KuryrLoadBalancer was edited, and the class of the Service is gone.
#[test]
fn what_is_streamed_tells_which_subnet_was_chosen_for_members() {
    let class = ClassDefaults { member_subnet: Some("members".into()), ..ClassDefaults::default() };
    let with_class = CloudFacts { classes: [("fast".into(), class)].into(), ..facts() };
    let slices = || vec![slice("a", json!([pod("10.1.0.4", "x"), pod("10.1.0.5", "y")]))];
    let of = |annotations: Value, facts: &CloudFacts, chosen: Option<&Chosen>| {
        let joined = joined(service(json!({}), annotations), slices());
        let (settings, nodes) = (ControllerSettings::default(), Nodes::default());
        let input =
            Input { joined: &joined, nodes: &nodes, facts: Some(facts), settings: &settings, exists: true, chosen };
        translate(&input).unwrap().spec
    };
    let annotations = || json!({"loadbalancer.openstack.org/class": "fast"});
    for addressing in [MemberAddressing::L2, MemberAddressing::L3] {
        let defaults = LoadBalancerDefaults { addressing, ..LoadBalancerDefaults::default() };
        let with_class = CloudFacts { defaults, ..with_class.clone() };
        let without = CloudFacts { classes: Default::default(), ..with_class.clone() };
        let first = of(annotations(), &with_class, None);
        assert_eq!(first.member_subnet_id.as_deref(), Some("members"));
        let wanted = streamed(first.clone(), &with_class).wanted;
        let chosen = Chosen::of_header(&wanted.header).with_members(&wanted.members, &without);
        assert_eq!(of(annotations(), &without, Some(&chosen)), first, "{addressing:?}");
        // Where none was chosen, members are where the cloud says.
        let plain = of(json!({}), &with_class, None);
        let wanted = streamed(plain.clone(), &with_class).wanted;
        let chosen = Chosen::of_header(&wanted.header).with_members(&wanted.members, &without);
        assert_eq!(of(annotations(), &without, Some(&chosen)), plain, "{addressing:?}");
    }
}

#[test]
fn ranges_that_say_nothing_let_no_one_in() {
    let of = |ranges: &str| {
        let annotations = json!({"service.beta.kubernetes.io/load-balancer-source-ranges": ranges});
        let translated = spec_of(json!({}), annotations);
        (desired_of(translated.spec.clone()).wanted.header.clients.clone(), messages(&translated).len())
    };
    for ranges in [",", " ", " , ,", "?"] {
        assert_eq!(of(ranges), (ClientRanges::NoOne, 1), "{ranges:?}");
    }
    assert_eq!(of(""), (ClientRanges::Everyone, 0));
    assert_eq!(of("10.0.0.0/8,"), (ClientRanges::Only(["10.0.0.0/8".parse().unwrap()].into()), 0));
    // In the spec as well.
    let blank = spec_of(json!({"loadBalancerSourceRanges": [" "]}), json!({})).spec;
    assert_eq!(desired_of(blank).wanted.header.clients, ClientRanges::NoOne);
}

#[test]
fn a_floating_ip_that_cannot_be_had_is_missed() {
    let closed = CloudFacts { external: None, ..facts() };
    let mut spec = spec_of(json!({}), json!({})).spec;
    spec.floating_network_id = None;
    let said = |facts: &CloudFacts| {
        let found = streamed(spec.clone(), facts);
        let messages: Vec<_> = found.findings.iter().map(ToString::to_string).collect();
        (found.wanted.header.floating.is_some(), messages)
    };
    let missing = "there is no floating IP: the cloud has no external network for this cluster";
    assert_eq!(said(&closed), (false, vec![missing.to_owned()]));
    // One that somebody made without a Service gets it from the cluster's network.
    assert_eq!(said(&facts()), (true, vec![]));
}

#[test]
fn a_port_without_a_node_port_has_no_members_on_nodes() {
    let mut nodes = Nodes::default();
    nodes.apply(&node("a", "10.0.0.1"));
    let ports = json!([{"name": "http", "port": 80}, {"name": "admin", "port": 81, "nodePort": 30081}]);
    let service = service(json!({"type": "ClusterIP", "ports": ports}), json!({}));
    let found = translated(&joined(service.clone(), Vec::new()), &nodes, Some(&node_facts()));
    assert_eq!(messages(&found), ["port http (80/TCP) has no members: members are nodes, and it has no node port"]);
    assert_eq!((found.findings[0].reason(), found.findings[0].event()), ("NoNodePort", "KuryrSkipListener"));
    let pods = translated(&joined(service, Vec::new()), &nodes, Some(&facts()));
    assert_eq!(messages(&pods), Vec::<String>::new());
}

#[test]
fn nodes_do_not_pass_by_a_load_balancer_that_ends_tls() {
    let mode = |annotations: Value, port: Value| {
        let service = service(json!({ "ports": [port] }), annotations.clone());
        let spec = spec_of(json!({"ports": service.spec.ports}), annotations).spec;
        let report = LoadBalancerReport {
            owner: "6d0e7f4e".into(),
            generation: 1,
            phase: gimbal_kuryr_model::Phase::Ready,
            conditions: Vec::new(),
            refused_ports: Vec::new(),
            objects: crate::status::objects(0),
            last_error: None,
            missing: None,
        };
        let shown = gimbal_kuryr_translate::service_status(&service, &spec, None, Some(&report), &[]).load_balancer;
        shown.ingress[0].ip_mode.clone().unwrap().to_string()
    };
    let tls = json!({"loadbalancer.openstack.org/default-tls-container-ref": "https://barbican/v1/containers/1"});
    let proxy = json!({"loadbalancer.openstack.org/proxy-protocol": "v2"});
    let port = |protocol: &str, app: &str| json!({"name": "p", "port": 443, "protocol": protocol, "appProtocol": app});
    assert_eq!(mode(json!({}), port("TCP", "https")), "VIP");
    assert_eq!(mode(proxy, port("TCP", "https")), "Proxy");
    assert_eq!(mode(tls.clone(), port("TCP", "https")), "Proxy");
    // No listener of it ends TLS.
    assert_eq!(mode(tls.clone(), port("TCP", "http")), "VIP");
    assert_eq!(mode(tls, port("UDP", "")), "VIP");
}

#[test]
fn a_floating_ip_is_kept_if_the_service_says_so() {
    let keep = |value: &str| {
        let translated = spec_of(json!({}), json!({"loadbalancer.openstack.org/keep-floatingip": value}));
        desired_of(translated.spec).wanted.header.floating.as_ref().unwrap().keep
    };
    assert_eq!([keep("true"), keep("false")], [true, false]);
    // An address that is let go is lost for good.
    assert_eq!(["True", "yes", ""].map(keep), [true, true, true]);
    let said = messages(&spec_of(json!({}), json!({"loadbalancer.openstack.org/keep-floatingip": "True"})));
    let expected = "annotation loadbalancer.openstack.org/keep-floatingip=\"True\" is taken for \"true\": it is neither true nor false";
    assert_eq!(said, [expected]);
}
