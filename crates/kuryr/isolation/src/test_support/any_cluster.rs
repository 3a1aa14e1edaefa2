//! Clusters in which everything that a policy can say meets somebody that it is about.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{
    ContainerPort, IntOrString, IpBlock, LabelSelector, LabelSelectorRequirement, Meta, Namespace, NetworkPolicy,
    NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec, Node,
    NodeAddress, NodeStatus, Pod, PodContainer, PodIp, PodSpec, PodStatus,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Names of namespaces.
pub const NAMESPACES: [&str; 3] = ["x", "y", "z"];
/// Names of Pods, in each namespace.
pub const PODS: [&str; 3] = ["a", "b", "c"];
/// Names of nodes.
pub const NODES: [&str; 2] = ["n", "m"];
/// Ports that policies and packets are about.
pub const PORTS: [u16; 4] = [80, 81, 82, 8080];
/// Addresses outside of the cluster.
pub const OUTSIDE: [&str; 3] = ["203.0.113.7", "198.51.100.1", "2001:db8::1"];

const RANGES: [(&str, &[&str]); 9] = [
    ("10.0.0.0/8", &[]),
    ("10.0.0.0/8", &["10.1.0.0/16", "10.2.0.1/32"]),
    ("10.0.0.1/31", &[]),
    ("10.0.0.9/24", &["10.0.0.2/31"]),
    ("0.0.0.0/0", &["10.0.0.0/9"]),
    ("0.0.0.0/0", &[]),
    ("203.0.113.0/24", &["203.0.113.0/29"]),
    ("fd00::/16", &["fd00::1:0/112"]),
    ("::/0", &[]),
];

/// Which labels objects have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelsOf {
    /// Some, or none.
    Any,
    /// Each key that expressions compare the value of. Programs disagree about what `NotIn` means without it.
    All,
}

fn text(text: &str) -> Arc<str> {
    text.into()
}

fn meta(namespace: &str, name: &str, labels: BTreeMap<Arc<str>, Arc<str>>) -> Meta {
    Meta { name: text(name), namespace: text(namespace), labels, ..Meta::default() }
}

fn any_labels(kind: LabelsOf) -> impl Strategy<Value = BTreeMap<Arc<str>, Arc<str>>> {
    let value = || match kind {
        LabelsOf::Any => of(select(vec!["1", "2", "3"])).boxed(),
        LabelsOf::All => select(vec!["1", "2", "3"]).prop_map(Some).boxed(),
    };
    (value(), value(), any::<bool>()).prop_map(|(app, tier, has_extra)| {
        let pairs = [("app", app), ("tier", tier), ("extra", has_extra.then_some("1"))];
        pairs.into_iter().filter_map(|(key, value)| Some((text(key), text(value?)))).collect()
    })
}

/// Any namespace of this name.
pub fn any_namespace(name: &'static str, labels: LabelsOf) -> impl Strategy<Value = Namespace> {
    any_labels(labels).prop_map(move |labels| Namespace { metadata: meta("", name, labels) })
}

/// Any Pod of the namespace and the name with these numbers, which has one address of each family, or only one of IPv4.
pub fn any_pod(namespace: usize, name: usize, labels: LabelsOf) -> impl Strategy<Value = Pod> {
    let ports =
        subsequence(vec![("http", 80, "TCP"), ("admin", 81, "TCP"), ("dns", 82, "UDP"), ("web", 8080, "TCP")], 0..=4);
    let renamed = any::<bool>();
    (any_labels(labels), ports, renamed, select(NODES.to_vec()), any::<bool>()).prop_map(
        move |(labels, ports, renamed, node, is_dual)| {
            let port = |(name, number, protocol): (&str, i32, &str)| ContainerPort {
                // The same name for another number.
                name: Some(text(if renamed && name == "web" { "http" } else { name })),
                container_port: number,
                protocol: Some(text(protocol)),
            };
            let mut ports: Vec<_> = ports.into_iter().map(port).collect();
            if renamed {
                ports.retain(|port| port.container_port != 80);
            }
            let v4 = format!("10.{namespace}.0.{}", name + 1);
            let v6 = format!("fd00::{namespace}:{}", name + 1);
            let ips = std::iter::once(v4).chain(is_dual.then_some(v6)).map(|ip| PodIp { ip: ip.into() });
            Pod {
                metadata: meta(NAMESPACES[namespace], PODS[name], labels),
                spec: PodSpec {
                    node_name: Some(text(node)),
                    containers: vec![PodContainer { ports, restart_policy: None }],
                    ..PodSpec::default()
                },
                status: PodStatus { phase: Some(text("Running")), pod_ip: None, pod_ips: ips.collect() },
            }
        },
    )
}

/// The addresses of a node.
#[must_use]
pub fn node_addresses(name: &str) -> [IpAddr; 2] {
    let number = if name == NODES[0] { 1 } else { 2 };
    [IpAddr::from([192, 168, 0, number]), IpAddr::from([0xfd01, 0, 0, 0, 0, 0, 0, u16::from(number)])]
}

/// A node.
#[must_use]
pub fn node(name: &str) -> Node {
    let address = |address: IpAddr| NodeAddress { type_: text("InternalIP"), address: address.to_string().into() };
    let addresses = node_addresses(name).map(address).into();
    Node { metadata: meta("", name, BTreeMap::new()), status: NodeStatus { addresses }, ..Node::default() }
}

fn any_selector() -> impl Strategy<Value = LabelSelector> {
    let labels = || prop_oneof![3 => Just(None), 1 => select(vec!["1", "2"]).prop_map(Some)];
    let expression =
        (select(vec!["app", "tier"]), select(vec!["In", "NotIn"]), subsequence(vec!["1", "2", "3"], 1..=2));
    let expression = prop_oneof![
        2 => expression.prop_map(|(key, operator, values)| (key, operator, values)),
        1 => select(vec!["Exists", "DoesNotExist"]).prop_map(|operator| ("extra", operator, Vec::new())),
    ];
    (labels(), labels(), of(expression)).prop_map(|(app, tier, expression)| {
        let labels = [("app", app), ("tier", tier)];
        let expression = expression.map(|(key, operator, values)| LabelSelectorRequirement {
            key: text(key),
            operator: text(operator),
            values: values.into_iter().map(text).collect(),
        });
        LabelSelector {
            match_labels: labels.into_iter().filter_map(|(key, value)| Some((text(key), text(value?)))).collect(),
            match_expressions: expression.into_iter().collect(),
        }
    })
}

fn any_peer() -> impl Strategy<Value = NetworkPolicyPeer> {
    let range = select(RANGES.to_vec()).prop_map(|(cidr, except)| IpBlock {
        cidr: text(cidr),
        except: except.iter().map(|except| text(except)).collect(),
    });
    let none = NetworkPolicyPeer::default;
    prop_oneof![
        range.prop_map(move |range| NetworkPolicyPeer { ip_block: Some(range), ..none() }),
        any_selector().prop_map(move |pods| NetworkPolicyPeer { pod_selector: Some(pods), ..none() }),
        (any_selector(), of(any_selector())).prop_map(move |(namespaces, pods)| NetworkPolicyPeer {
            namespace_selector: Some(namespaces),
            pod_selector: pods,
            ..none()
        }),
    ]
}

fn any_port() -> impl Strategy<Value = NetworkPolicyPort> {
    let protocol = || of(select(vec!["TCP", "UDP", "SCTP"])).prop_map(|protocol| protocol.map(text));
    let port = |protocol, port, end_port| NetworkPolicyPort { protocol, port, end_port };
    prop_oneof![
        1 => protocol().prop_map(move |protocol| port(protocol, None, None)),
        3 => (protocol(), select(PORTS.to_vec()))
            .prop_map(move |(protocol, number)| port(protocol, Some(IntOrString::Int(number.into())), None)),
        2 => (protocol(), select(PORTS.to_vec()), 0..3_i32).prop_map(move |(protocol, first, more)| {
            port(protocol, Some(IntOrString::Int(first.into())), Some(i32::from(first) + more))
        }),
        2 => (protocol(), select(vec!["http", "admin", "dns"]))
            .prop_map(move |(protocol, name)| port(protocol, Some(IntOrString::String(text(name))), None)),
    ]
}

/// Any policy of this namespace and name.
pub fn any_policy(namespace: &'static str, name: &'static str) -> impl Strategy<Value = NetworkPolicy> {
    let rule = || (vec(any_port(), 0..3), vec(any_peer(), 0..3));
    let types = select(vec![&[][..], &["Ingress"], &["Egress"], &["Egress", "Ingress"]]);
    (any_selector(), types, vec(rule(), 0..3), vec(rule(), 0..3)).prop_map(
        move |(pod_selector, types, ingress, egress)| NetworkPolicy {
            metadata: meta(namespace, name, BTreeMap::new()),
            spec: NetworkPolicySpec {
                pod_selector,
                policy_types: types.iter().map(|direction| text(direction)).collect(),
                ingress: ingress.into_iter().map(|(ports, from)| NetworkPolicyIngressRule { ports, from }).collect(),
                egress: egress.into_iter().map(|(ports, to)| NetworkPolicyEgressRule { ports, to }).collect(),
            },
        },
    )
}
