//! Nodes as members.

use std::collections::BTreeMap;

use gimbal_kubernetes_objects::Node;
use gimbal_kuryr_crd::names::labels;
use gimbal_kuryr_crd::{KlbEndpoint, KlbEndpointConditions, KlbPort, KlbSlice, KlbSlicePort, KlbTarget};
use gimbal_kuryr_model::Text;
use gimbal_model::Family;

use crate::NodeSelector;
use crate::address::{address, canonical};

/// The cluster autoscaler is about to remove the node.
const GOING: &str = "ToBeDeletedByClusterAutoscaler";

/// The nodes of a cluster, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nodes(BTreeMap<Text, Member>);

/// What may change when a node was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeChange {
    /// Nothing.
    Nothing,
    /// The members of Services that select nodes by their labels.
    Labels,
    /// The members of every Service.
    Members,
}

/// What is kept of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    v4: Option<Text>,
    v6: Option<Text>,
    labels: BTreeMap<Text, Text>,
    excluded: bool,
}

impl Nodes {
    /// Adds a node or replaces it, and returns what may change by that: heartbeats change nothing.
    pub fn apply(&mut self, node: &Node) -> NodeChange {
        let member = Member {
            v4: internal_address(node, Family::V4),
            v6: internal_address(node, Family::V6),
            labels: node.metadata.labels.clone(),
            excluded: node.metadata.labels.contains_key(labels::EXCLUDE_NODE)
                || node.spec.taints.iter().any(|taint| &*taint.key == GOING),
        };
        let before = self.0.get(&node.metadata.name);
        let change = match before {
            Some(before) if *before == member => return NodeChange::Nothing,
            Some(Member { v4, v6, labels: _, excluded })
                if (v4, v6, excluded) == (&member.v4, &member.v6, &member.excluded) =>
            {
                NodeChange::Labels
            }
            _ => NodeChange::Members,
        };
        self.0.insert(node.metadata.name.clone(), member);
        change
    }

    /// Removes a node. Returns whether it was there.
    pub fn delete(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Removes the nodes that are not in a complete list.
    pub fn retain(&mut self, is_listed: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_listed(name));
    }

    /// Returns the nodes as the endpoints of a Service's node ports, in the order of their names.
    pub(crate) fn slice(&self, family: Family, selector: Option<&NodeSelector>, ports: &[KlbPort]) -> KlbSlice {
        let wanted = |member: &&Member| !member.excluded && selector.is_none_or(|selector| member.has(selector));
        let endpoint = |(name, address): (&Text, Text)| KlbEndpoint {
            addresses: vec![address],
            conditions: KlbEndpointConditions { ready: Some(true), ..KlbEndpointConditions::default() },
            node_name: Some(name.clone()),
            target_ref: Some(KlbTarget { kind: Some("Node".into()), name: Some(name.clone()), ..KlbTarget::default() }),
            ..KlbEndpoint::default()
        };
        let members = self.0.iter().filter(|(_, member)| wanted(member));
        let endpoints = members.filter_map(|(name, member)| Some((name, member.address(family)?.clone())));
        let ports = ports.iter().filter(|port| port.node_port.is_some()).map(|port| KlbSlicePort {
            name: port.name.clone(),
            port: port.node_port,
            protocol: Some(port.protocol.clone()),
        });
        KlbSlice { endpoints: endpoints.map(endpoint).collect(), ports: ports.collect() }
    }
}

impl Member {
    fn address(&self, family: Family) -> Option<&Text> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    fn has(&self, selector: &NodeSelector) -> bool {
        selector.iter().all(|(key, value)| {
            self.labels.get(key).is_some_and(|label| value.as_ref().is_none_or(|value| value == label))
        })
    }
}

/// The first internal address of a family, else the first external one.
fn internal_address(node: &Node, family: Family) -> Option<Text> {
    ["InternalIP", "ExternalIP"].iter().find_map(|kind| {
        let of_kind = node.status.addresses.iter().filter(|one| &*one.type_ == *kind);
        let mut of_family = of_kind.filter(|one| address(&one.address).is_some_and(|ip| Family::of(ip) == family));
        of_family.next().and_then(|one| canonical(&one.address))
    })
}
