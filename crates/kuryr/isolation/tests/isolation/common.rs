//! A cluster and the cloud that it wants.

use std::net::IpAddr;

use gimbal_kubernetes_objects::{Namespace, NetworkPolicy, Node, Pod};
use gimbal_kuryr_isolation::test_support::{FilteringCloud, Packet};
use gimbal_kuryr_isolation::{CarriedGroup, GroupName, GroupRule, IsolationChanges, PolicyIndex, RuleRemote};
use gimbal_model::{Protocol, SourceKey};
use serde_json::{Value, json};

pub fn pod(namespace: &str, name: &str, labels: &Value, ip: &str, ports: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": "node-1", "containers": [{"ports": ports}]},
        "status": {"phase": "Running", "podIPs": [{"ip": ip}]},
    }))
    .unwrap()
}

pub fn namespace(name: &str, labels: &Value, annotations: &Value) -> Namespace {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}})).unwrap()
}

pub fn policy(namespace: &str, name: &str, spec: &Value) -> NetworkPolicy {
    serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})).unwrap()
}

pub fn node(name: &str, addresses: &[&str]) -> Node {
    let addresses: Vec<_> = addresses.iter().map(|address| json!({"type": "InternalIP", "address": address})).collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "status": {"addresses": addresses}})).unwrap()
}

pub fn key(text: &str) -> SourceKey {
    SourceKey::from_annotation(text).unwrap()
}

pub fn tcp(source: &str, destination: &str, port: u16) -> Packet {
    packet(source, destination, Some(Protocol::Tcp), port)
}

pub fn packet(source: &str, destination: &str, protocol: Option<Protocol>, port: u16) -> Packet {
    Packet { source: source.parse().unwrap(), destination: destination.parse().unwrap(), protocol, port }
}

/// Completes the lists of an index that has seen nothing.
pub fn complete(index: &mut PolicyIndex) {
    index.end_pods();
    index.end_namespaces();
    index.end_policies();
    index.end_nodes();
}

/// An index, and the cloud after every change so far.
pub struct Scene {
    pub index: PolicyIndex,
    pub cloud: FilteringCloud,
}

impl Scene {
    /// Namespaces `shop`, `bank` (`team=money`) and `edge`, and a node.
    pub fn new() -> Self {
        let mut index = PolicyIndex::default();
        complete(&mut index);
        for (name, labels) in [("shop", json!({})), ("bank", json!({"team": "money"})), ("edge", json!({}))] {
            index.apply_namespace(&namespace(name, &labels, &json!({})));
        }
        index.apply_node(&node("node-1", &["192.168.0.1", "fd01::1"]));
        Self { index, cloud: FilteringCloud::default() }
    }

    /// With `shop/web` (10.0.0.1, http is 80), `shop/api` (10.0.0.2, http is 8080), `bank/vault` (10.1.0.1) and `edge/proxy`
    /// (10.2.0.1), each with its name as the label `app`.
    pub fn with_pods() -> Self {
        let mut scene = Self::new();
        for (namespace, name, ip, port) in [
            ("shop", "web", "10.0.0.1", 80),
            ("shop", "api", "10.0.0.2", 8080),
            ("bank", "vault", "10.1.0.1", 443),
            ("edge", "proxy", "10.2.0.1", 443),
        ] {
            let called = if namespace == "shop" { "http" } else { "https" };
            scene.pod(namespace, name, ip, &json!([{"name": called, "containerPort": port}]));
        }
        scene
    }

    pub fn pod(&mut self, namespace: &str, name: &str, ip: &str, ports: &Value) {
        self.index.apply_pod(&pod(namespace, name, &json!({"app": name}), ip, ports));
        self.cloud.addresses.insert(SourceKey::new(namespace, name), vec![ip.parse::<IpAddr>().unwrap()]);
    }

    pub fn policy(&mut self, name: &str, spec: &Value) {
        let (namespace, name) = name.split_once('/').unwrap();
        self.index.apply_policy(&policy(namespace, name, spec));
    }

    pub fn drain(&mut self) -> IsolationChanges {
        let changes = self.index.drain();
        self.cloud.apply(&changes);
        assert_eq!(self.cloud.missing(), None);
        changes
    }

    pub fn lets(&mut self, packet: &Packet) -> bool {
        self.drain();
        self.cloud.lets_through(packet)
    }

    /// The ingress rules of a policy's group, as texts.
    pub fn ingress(&mut self, policy: &str) -> Vec<String> {
        self.drain();
        self.cloud.groups[&GroupName::Policy(key(policy))].ingress.iter().map(shown).collect()
    }

    /// The egress rules of a policy's group, as texts.
    pub fn egress(&mut self, policy: &str) -> Vec<String> {
        self.drain();
        self.cloud.groups[&GroupName::Policy(key(policy))].egress.iter().map(shown).collect()
    }

    /// The groups of a Pod.
    pub fn carried(&mut self, pod: &str) -> Vec<CarriedGroup> {
        self.drain();
        self.cloud.ports[&key(pod)].to_vec()
    }

    /// What is found now, all of it.
    pub fn findings(&mut self) -> Vec<String> {
        self.drain().findings.iter().flat_map(|(_, findings)| findings.iter().map(ToString::to_string)).collect()
    }
}

/// A rule in few words, for example `TCP 80-90 10.0.0.0/8`.
pub fn shown(rule: &GroupRule) -> String {
    let ports = match (rule.protocol, rule.ports) {
        (None, _) => "any".to_owned(),
        (Some(protocol), None) => protocol.as_str().to_owned(),
        (Some(protocol), Some((first, last))) if first == last => format!("{} {first}", protocol.as_str()),
        (Some(protocol), Some((first, last))) => format!("{} {first}-{last}", protocol.as_str()),
    };
    let remote = match &rule.remote {
        RuleRemote::Anyone => rule.family.as_str().to_owned(),
        RuleRemote::Group(group) => format!("{} {group}", rule.family.as_str()),
        RuleRemote::Range(range) => range.to_string(),
    };
    format!("{ports} {remote}")
}

/// The same as groups of ours, by a short name.
pub fn names(groups: &[CarriedGroup]) -> Vec<String> {
    let name = |group: &CarriedGroup| match group {
        CarriedGroup::Given(id) => format!("given {id}"),
        CarriedGroup::Ours(GroupName::OpenIn) => "open-in".to_owned(),
        CarriedGroup::Ours(GroupName::OpenOut) => "open-out".to_owned(),
        CarriedGroup::Ours(GroupName::Base(node)) => format!("base {node}"),
        CarriedGroup::Ours(GroupName::Policy(policy)) => format!("policy {policy}"),
        CarriedGroup::Ours(GroupName::NamedPorts(policy, ports)) => {
            let ports: Vec<_> = ports.iter().map(|port| format!("{}={}", port.name, port.port)).collect();
            format!("named {policy} {}", ports.join(","))
        }
        CarriedGroup::Ours(GroupName::Service(service, ports)) => {
            let ports: Vec<_> = ports.iter().map(|(_, port)| port.to_string()).collect();
            format!("service {service} {}", ports.join(","))
        }
    };
    groups.iter().map(name).collect()
}
