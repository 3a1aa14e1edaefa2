//! Objects and facts for the tests.

use std::sync::Arc;

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Node};
use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{ApiVersion, ClassDefaults, CloudFacts, ExternalNetwork, MemberMode, SubnetFacts};
use gimbal_kuryr_translate::{
    ControllerSettings, Input, Joined, Nodes, SlicePart, Streamed, Translated, desired, translate,
};
use serde_json::{Value, json};

pub fn service(spec: Value, annotations: Value) -> BalancedService {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "team", "uid": "6d0e7f4e", "annotations": annotations},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web", "nodePort": 30080}],
        },
    });
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

pub fn slice(name: &str, endpoints: Value) -> BalancedSlice {
    let address_type = if endpoints.to_string().contains("::") { "IPv6" } else { "IPv4" };
    let object = json!({
        "metadata": {"name": name, "namespace": "team", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": address_type, "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    serde_json::from_value(object).unwrap()
}

pub fn pod(address: &str, name: &str) -> Value {
    json!({
        "addresses": [address], "conditions": {"ready": true}, "nodeName": "node-1",
        "targetRef": {"kind": "Pod", "namespace": "team", "name": name, "uid": "u", "resourceVersion": "7"},
    })
}

pub fn node(name: &str, address: &str) -> Node {
    let addresses = json!([{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]);
    serde_json::from_value(json!({"metadata": {"name": name}, "status": {"addresses": addresses}})).unwrap()
}

pub fn facts() -> CloudFacts {
    let subnet = |network: &str, cidr: &str, name: &str| SubnetFacts {
        network: network.into(),
        cidr: cidr.parse().unwrap(),
        name: name.into(),
        tags: [format!("is-{name}").as_str().into()].into(),
        mtu: 1450,
    };
    CloudFacts {
        api_version: ApiVersion { major: 2, minor: 27 },
        provider: Some("amphora".into()),
        project: "project".into(),
        allowed_projects: ["other-project".into()].into(),
        subnets: [
            ("services".into(), subnet("services-net", "10.96.0.0/16", "services")),
            ("services6".into(), subnet("services-net", "fd00:96::/64", "services6")),
            ("pods".into(), subnet("pods-net", "10.1.0.0/16", "pods")),
            ("public".into(), subnet("public-net", "172.24.4.0/24", "public")),
            ("public2".into(), subnet("public-net", "172.24.5.0/24", "public2")),
        ]
        .into(),
        service_subnets: vec!["services".into(), "services6".into()],
        pod_subnets: vec!["pods".into()],
        security_groups: vec!["group".into()],
        external: Some(ExternalNetwork {
            network: "public-net".into(),
            subnet: None,
            allowed: ["partner-net".into()].into(),
            user_addresses: true,
        }),
        classes: [(
            "fast".into(),
            ClassDefaults { flavor: Some("large".into()), provider: Some("ovn".into()), ..ClassDefaults::default() },
        )]
        .into(),
        ..CloudFacts::default()
    }
}

pub fn node_facts() -> CloudFacts {
    CloudFacts { members: MemberMode::Node, ..facts() }
}

pub fn joined(service: BalancedService, slices: Vec<BalancedSlice>) -> Joined {
    let slices = slices.into_iter().filter_map(SlicePart::of).map(Arc::new).collect();
    Joined { service: Arc::new(service), slices }
}

pub fn translated(joined: &Joined, nodes: &Nodes, facts: Option<&CloudFacts>) -> Translated {
    let settings = ControllerSettings::default();
    translate(&Input { joined, nodes, facts, settings: &settings, exists: false, chosen: None }).unwrap()
}

/// The spec of a Service without endpoints.
pub fn spec_of(spec: Value, annotations: Value) -> Translated {
    translated(&joined(service(spec, annotations), Vec::new()), &Nodes::default(), Some(&facts()))
}

pub fn object(spec: KuryrLoadBalancerSpec) -> KuryrLoadBalancer {
    let mut object = KuryrLoadBalancer { spec, ..KuryrLoadBalancer::default() };
    object.metadata.meta.uid = "klb-uid".into();
    object.metadata.generation = 3;
    object
}

pub fn desired_of(spec: KuryrLoadBalancerSpec) -> Streamed {
    desired(&object(spec), &facts()).unwrap()
}
