//! Pods, namespaces and nodes, as far as isolation depends on them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use gimbal_kubernetes_objects::{Namespace, Node, Pod};
use gimbal_kuryr_model::Text;
use gimbal_model::{Protocol, SourceKey};
use serde::Deserialize;

use crate::finding::{FindingList, PolicyProblem};

/// Says of a namespace whether its Pods are isolated.
const ISOLATION: &str = "net.beta.kubernetes.io/network-policy";

/// The name that a container's port has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPort {
    /// The name.
    pub name: Text,
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub port: u16,
}

/// A Pod that has a port in Neutron.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownPod {
    pub(crate) node: Text,
    pub(crate) labels: BTreeMap<Text, Text>,
    /// One of each family at most; none until it has some.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ports: BTreeSet<NamedPort>,
}

impl KnownPod {
    /// Returns a Pod, or `None` if it has no port of its own: it is not scheduled, is finished, or shares the network of its node.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let is_finished = pod.status.phase.as_deref().is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase));
        if is_finished || pod.spec.host_network == Some(true) {
            return None;
        }
        let texts = pod.status.pod_ips.iter().map(|one| &one.ip).chain(&pod.status.pod_ip);
        let mut addresses: Vec<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Some(Self {
            node: pod.spec.node_name.clone().filter(|node| !node.is_empty())?,
            labels: pod.metadata.labels.clone(),
            addresses,
            ports: named_ports(pod),
        })
    }

    /// The numbers that it has for a name.
    pub(crate) fn numbers<'a>(&'a self, name: &'a str, protocol: Protocol) -> impl Iterator<Item = u16> + 'a {
        let is_it = move |port: &&NamedPort| &*port.name == name && port.protocol == protocol;
        self.ports.iter().filter(is_it).map(|port| port.port)
    }
}

/// The ports of all containers that run as long as the Pod does. Two containers may give one name to two ports.
fn named_ports(pod: &Pod) -> BTreeSet<NamedPort> {
    let beside = pod.spec.init_containers.iter().filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = pod.spec.containers.iter().chain(beside).flat_map(|container| &container.ports);
    ports
        .filter_map(|port| {
            let protocol = port.protocol.as_deref().map_or(Some(Protocol::Tcp), Protocol::parse)?;
            let number = u16::try_from(port.container_port).ok()?;
            Some(NamedPort { name: port.name.clone()?, protocol, port: number })
        })
        .collect()
}

/// The key of a Pod.
pub(crate) fn key_of(pod: &Pod) -> SourceKey {
    SourceKey { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() }
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownNamespace {
    pub(crate) labels: BTreeMap<Text, Text>,
    /// Whether its Pods are reached by those alone whom a policy lets in.
    pub(crate) is_isolated: bool,
}

#[derive(Deserialize)]
struct Annotation {
    ingress: Option<AnnotatedIngress>,
}

#[derive(Deserialize)]
struct AnnotatedIngress {
    isolation: Option<String>,
}

impl KnownNamespace {
    pub(crate) fn read(namespace: &Namespace) -> (Self, FindingList) {
        let meta = &namespace.metadata;
        let mut findings = FindingList::default();
        let is_isolated = meta.annotations.get(ISOLATION).is_some_and(|text| {
            let read: Result<Annotation, _> = serde_json::from_str(text);
            let isolation = read.map(|annotation| annotation.ingress.and_then(|ingress| ingress.isolation));
            match isolation {
                Ok(None) => false,
                Ok(Some(kind)) if kind == "DefaultDeny" => true,
                _ => {
                    let field = format!("metadata.annotations[{ISOLATION}]");
                    findings.add(field, PolicyProblem::Isolation(cut(text)));
                    true
                }
            }
        });
        (Self { labels: meta.labels.clone(), is_isolated }, findings)
    }
}

/// The addresses that a node may probe its Pods from.
pub(crate) fn addresses_of(node: &Node) -> BTreeSet<IpAddr> {
    let kinds = ["InternalIP", "ExternalIP"];
    let addresses = node.status.addresses.iter().filter(|one| kinds.contains(&&*one.type_));
    addresses.filter_map(|one| one.address.parse().ok()).collect()
}

/// The beginning of a text of any length.
fn cut(text: &str) -> Text {
    const MOST: usize = 64;
    text.chars().take(MOST).collect::<String>().into()
}
