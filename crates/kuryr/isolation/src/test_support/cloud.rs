//! Decides about packets by the groups that ports carry: one that no rule of any group allows is dropped, and the answer to one
//! that was let through is let through.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::{Family, Protocol, SourceKey};

use crate::{CarriedGroup, GroupName, GroupRule, IsolationChanges, RuleRemote, SecurityGroup};

/// The first packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub destination: IpAddr,
    /// Its protocol; `None` for one without ports, as ICMP.
    pub protocol: Option<Protocol>,
    /// The port that it goes to.
    pub port: u16,
}

/// Groups, and the ports of Pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilteringCloud {
    /// The groups.
    pub groups: BTreeMap<GroupName, Arc<SecurityGroup>>,
    /// The groups of each Pod's port.
    pub ports: BTreeMap<SourceKey, Arc<[CarriedGroup]>>,
    /// The addresses of each Pod's port.
    pub addresses: BTreeMap<SourceKey, Vec<IpAddr>>,
}

impl FilteringCloud {
    /// Carries changes out.
    pub fn apply(&mut self, changes: &IsolationChanges) {
        set(&mut self.groups, &changes.groups);
        set(&mut self.ports, &changes.pods);
    }

    /// Returns a group that is referred to, and does not exist.
    #[must_use]
    pub fn missing(&self) -> Option<GroupName> {
        let carried = self.ports.values().flat_map(|groups| groups.iter()).filter_map(|group| match group {
            CarriedGroup::Ours(name) => Some(name.clone()),
            CarriedGroup::Given(_) => None,
        });
        let rules = self.groups.values().flat_map(|group| group.ingress.iter().chain(&group.egress));
        let remote = rules.filter_map(|rule| match &rule.remote {
            RuleRemote::Group(policy) => Some(GroupName::Policy(policy.clone())),
            RuleRemote::Anyone | RuleRemote::Range(_) => None,
        });
        carried.chain(remote).find(|name| !self.groups.contains_key(name))
    }

    /// Whether a packet arrives. Addresses that no Pod has are outside, where nothing is filtered.
    #[must_use]
    pub fn lets_through(&self, packet: &Packet) -> bool {
        let (source, destination) = (self.pod(packet.source), self.pod(packet.destination));
        let sends = |pod| self.allows(pod, |group| &group.egress, packet, packet.destination);
        let receives = |pod| self.allows(pod, |group| &group.ingress, packet, packet.source);
        // What a Pod sends to itself does not pass its port.
        source.is_some() && source == destination || source.is_none_or(sends) && destination.is_none_or(receives)
    }

    fn pod(&self, address: IpAddr) -> Option<&SourceKey> {
        self.addresses.iter().find(|(_, addresses)| addresses.contains(&address)).map(|(pod, _)| pod)
    }

    fn allows(
        &self,
        pod: &SourceKey,
        direction: impl Fn(&SecurityGroup) -> &[GroupRule],
        packet: &Packet,
        other: IpAddr,
    ) -> bool {
        let groups = self.groups_of(pod).filter_map(|name| self.groups.get(name));
        groups.flat_map(|group| direction(group)).any(|rule| self.is_allowed_by(rule, packet, other))
    }

    fn is_allowed_by(&self, rule: &GroupRule, packet: &Packet, other: IpAddr) -> bool {
        let is_other = match &rule.remote {
            RuleRemote::Anyone => true,
            RuleRemote::Range(range) => range.contains(&other),
            RuleRemote::Group(policy) => {
                let group = GroupName::Policy(policy.clone());
                self.pod(other).is_some_and(|pod| self.groups_of(pod).any(|name| *name == group))
            }
        };
        let is_protocol = rule.protocol.is_none_or(|protocol| packet.protocol == Some(protocol));
        let is_port = rule.ports.is_none_or(|(first, last)| (first..=last).contains(&packet.port));
        rule.family == Family::of(other) && is_other && is_protocol && is_port
    }

    fn groups_of(&self, pod: &SourceKey) -> impl Iterator<Item = &GroupName> {
        self.ports.get(pod).into_iter().flat_map(|groups| groups.iter()).filter_map(|group| match group {
            CarriedGroup::Ours(name) => Some(name),
            CarriedGroup::Given(_) => None,
        })
    }
}

fn set<K: Ord + Clone, V: Clone>(all: &mut BTreeMap<K, V>, changes: &[(K, Option<V>)]) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(all.insert(key.clone(), value.clone())),
            None => drop(all.remove(key)),
        }
    }
}
