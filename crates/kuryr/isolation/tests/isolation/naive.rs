//! The NetworkPolicy API, read word by word and without a thought for cost. Nothing of the crate is used for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{
    IntOrString, IpBlock, LabelSelector, Namespace, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, Pod,
};
use gimbal_kuryr_isolation::test_support::{Packet, node_addresses};
use gimbal_model::SourceKey;

type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// The objects of a cluster.
#[derive(Default)]
pub struct Cluster {
    pub pods: BTreeMap<SourceKey, Pod>,
    pub namespaces: BTreeMap<Arc<str>, Namespace>,
    pub policies: BTreeMap<SourceKey, NetworkPolicy>,
    pub nodes: BTreeSet<Arc<str>>,
}

impl Cluster {
    /// Whether a packet arrives.
    pub fn allows(&self, packet: &Packet) -> bool {
        let (source, destination) = (self.pod(packet.source), self.pod(packet.destination));
        if source.is_some() && source == destination {
            return true;
        }
        let may_leave = source.is_none_or(|pod| self.may_leave(pod, packet, destination));
        may_leave && destination.is_none_or(|pod| self.may_enter(pod, packet, source))
    }

    pub fn addresses(pod: &Pod) -> Vec<IpAddr> {
        pod.status.pod_ips.iter().map(|one| one.ip.parse().unwrap()).collect()
    }

    fn pod(&self, address: IpAddr) -> Option<&Pod> {
        self.pods.values().find(|pod| Self::addresses(pod).contains(&address))
    }

    fn selecting<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a NetworkPolicy> {
        self.policies.values().filter(|policy| {
            policy.metadata.namespace == pod.metadata.namespace
                && selects(&policy.spec.pod_selector, &pod.metadata.labels)
        })
    }

    fn may_enter(&self, pod: &Pod, packet: &Packet, source: Option<&Pod>) -> bool {
        let node = pod.spec.node_name.clone().unwrap();
        if self.nodes.contains(&node) && node_addresses(&node).contains(&packet.source) {
            return true;
        }
        let is_about = |policy: &&NetworkPolicy| {
            let types = &policy.spec.policy_types;
            types.is_empty() || types.iter().any(|one| &**one == "Ingress")
        };
        let isolating: Vec<_> = self.selecting(pod).filter(is_about).collect();
        let namespace = self.namespaces.get(&pod.metadata.namespace);
        let is_open = namespace.is_some_and(|namespace| namespace.metadata.annotations.is_empty());
        let allows = |policy: &&NetworkPolicy| {
            policy.spec.ingress.iter().any(|rule| {
                self.has_port(&rule.ports, packet, Some(pod))
                    && self.has_peer(policy, &rule.from, packet.source, source)
            })
        };
        isolating.is_empty() && is_open || isolating.iter().any(allows)
    }

    fn may_leave(&self, pod: &Pod, packet: &Packet, destination: Option<&Pod>) -> bool {
        let is_about = |policy: &&NetworkPolicy| {
            let types = &policy.spec.policy_types;
            types.is_empty() && !policy.spec.egress.is_empty() || types.iter().any(|one| &**one == "Egress")
        };
        let isolating: Vec<_> = self.selecting(pod).filter(is_about).collect();
        let allows = |policy: &&NetworkPolicy| {
            policy.spec.egress.iter().any(|rule| {
                self.has_port(&rule.ports, packet, destination)
                    && self.has_peer(policy, &rule.to, packet.destination, destination)
            })
        };
        isolating.is_empty() || isolating.iter().any(allows)
    }

    #[allow(clippy::unused_self)] // As its neighbours.
    fn has_port(&self, ports: &[NetworkPolicyPort], packet: &Packet, destination: Option<&Pod>) -> bool {
        let Some(protocol) = packet.protocol else { return ports.is_empty() };
        let is_it = |port: &NetworkPolicyPort| {
            let is_protocol = port.protocol.as_deref().unwrap_or("TCP") == protocol.as_str();
            let is_port = match &port.port {
                None => true,
                Some(IntOrString::Int(first)) => {
                    (*first..=port.end_port.unwrap_or(*first)).contains(&i32::from(packet.port))
                }
                Some(IntOrString::String(name)) => destination.is_some_and(|pod| {
                    pod.spec.containers.iter().flat_map(|container| &container.ports).any(|port| {
                        port.name.as_ref() == Some(name)
                            && port.protocol.as_deref() == Some(protocol.as_str())
                            && port.container_port == i32::from(packet.port)
                    })
                }),
            };
            is_protocol && is_port
        };
        ports.is_empty() || ports.iter().any(is_it)
    }

    fn has_peer(
        &self,
        policy: &NetworkPolicy,
        peers: &[NetworkPolicyPeer],
        address: IpAddr,
        pod: Option<&Pod>,
    ) -> bool {
        let is_it = |peer: &NetworkPolicyPeer| match (&peer.ip_block, pod) {
            (Some(block), _) => is_in_block(block, address),
            (None, None) => false,
            (None, Some(pod)) => {
                let is_namespace = match &peer.namespace_selector {
                    None => policy.metadata.namespace == pod.metadata.namespace,
                    Some(selector) => self
                        .namespaces
                        .get(&pod.metadata.namespace)
                        .is_some_and(|namespace| selects(selector, &namespace.metadata.labels)),
                };
                is_namespace && peer.pod_selector.as_ref().is_none_or(|pods| selects(pods, &pod.metadata.labels))
            }
        };
        peers.is_empty() || peers.iter().any(is_it)
    }
}

fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|expression| {
            let value = labels.get(&expression.key);
            let is_listed = value.is_some_and(|value| expression.values.contains(value));
            match &*expression.operator {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                other => panic!("{other}"),
            }
        })
}

fn is_in_block(block: &IpBlock, address: IpAddr) -> bool {
    is_in(&block.cidr, address) && !block.except.iter().any(|except| is_in(except, address))
}

fn is_in(range: &str, address: IpAddr) -> bool {
    let (first, length) = range.split_once('/').unwrap();
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
        IpAddr::V6(address) => (address.to_bits(), false),
    };
    let ((first, is_v4), (address, address_is_v4)) = (bits(first.parse().unwrap()), bits(address));
    let left_out = 128 - length.parse::<u32>().unwrap();
    is_v4 == address_is_v4 && first.checked_shr(left_out) == address.checked_shr(left_out)
}
