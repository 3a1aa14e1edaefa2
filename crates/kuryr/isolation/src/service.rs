//! Services whose load balancer hides its clients from the Pods behind it.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::{ClientRanges, Text};
use gimbal_model::{Family, Protocol, SourceKey, TargetPort};
use ipnet::IpNet;

use crate::address_set::{AddressSet, everyone_of};
use crate::group::{GroupRule, RuleRemote, SecurityGroup};
use crate::known::ClusterObjects;
use crate::pod::KnownPod;
use crate::selector::Selector;

/// A Service whose load balancer connects to Pods by its own address, as amphorae do. Policies cannot tell its clients apart at the
/// Pods, so its listeners do, and the Pods let the load balancer in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxiedService {
    /// Labels of its Pods; empty: none, for whoever is behind it is not chosen by labels.
    pub selector: BTreeMap<Text, Text>,
    /// Its ports.
    pub ports: Vec<ProxiedPort>,
    /// Who may connect apart from what policies say.
    pub clients: ClientRanges,
    /// The subnets from which its load balancer connects.
    pub subnets: Vec<IpNet>,
}

/// A port of such a Service, and the listener for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxiedPort {
    /// The port of the listener.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// The port of the Pods.
    pub target: TargetPort,
}

/// Who may connect to each listener, by port and protocol.
pub type ListenerClients = BTreeMap<(u16, Protocol), ClientRanges>;

impl ProxiedService {
    pub(crate) fn selects(&self, pod: &KnownPod) -> bool {
        !self.selector.is_empty() && Selector::of_labels(&self.selector).matches(&pod.labels)
    }

    /// The ports of a Pod that its load balancer connects to.
    pub(crate) fn targets(&self, pod: &KnownPod) -> BTreeSet<(Protocol, u16)> {
        self.ports.iter().flat_map(|port| port.targets(pod).into_iter().map(|number| (port.protocol, number))).collect()
    }

    /// The group that lets the load balancer reach these ports.
    pub(crate) fn group(&self, targets: &BTreeSet<(Protocol, u16)>) -> SecurityGroup {
        let subnets: AddressSet = self.subnets.iter().copied().collect();
        let mut ingress = Vec::new();
        for range in subnets.ranges() {
            let rule = GroupRule::everything(Family::of(range.addr()), RuleRemote::Range(range));
            let to = |(protocol, port): &(Protocol, u16)| GroupRule {
                protocol: Some(*protocol),
                ports: Some((*port, *port)),
                ..rule.clone()
            };
            ingress.extend(targets.iter().map(to));
        }
        SecurityGroup { ingress, egress: Vec::new() }
    }

    /// Whom each listener lets in: those whom the Service, and the policies of every Pod that the listener may lead to, let in.
    pub(crate) fn listeners<'a>(
        &self,
        pods: &[(&'a SourceKey, &'a KnownPod)],
        may_reach: impl Fn(&'a SourceKey, &'a KnownPod, Protocol, u16) -> AddressSet,
    ) -> ListenerClients {
        let of = |port: &ProxiedPort| {
            let mut clients = match &self.clients {
                ClientRanges::Everyone => AddressSet::everyone(),
                ClientRanges::Only(ranges) => ranges.iter().copied().collect(),
                ClientRanges::NoOne => AddressSet::default(),
            };
            for (key, pod) in pods {
                for number in port.targets(pod) {
                    clients = clients.intersect(&may_reach(key, pod, port.protocol, number));
                }
            }
            ((port.port, port.protocol), client_ranges(&clients))
        };
        self.ports.iter().map(of).collect()
    }
}

impl ProxiedPort {
    fn targets(&self, pod: &KnownPod) -> Vec<u16> {
        match &self.target {
            TargetPort::Number(number) => vec![*number],
            TargetPort::Name(name) => pod.numbers(name, self.protocol).collect(),
        }
    }
}

fn client_ranges(clients: &AddressSet) -> ClientRanges {
    let ranges = clients.ranges();
    if ranges == [everyone_of(Family::V4), everyone_of(Family::V6)] {
        ClientRanges::Everyone
    } else if ranges.is_empty() {
        ClientRanges::NoOne
    } else {
        ClientRanges::Only(ranges.into())
    }
}

/// The addresses that these rules let reach a port. Members of groups are those whom the policies select now.
pub(crate) fn sources<'a>(
    rules: impl Iterator<Item = &'a GroupRule>,
    known: &ClusterObjects,
    protocol: Protocol,
    port: u16,
) -> AddressSet {
    let mut ranges = Vec::new();
    for rule in rules.filter(|rule| rule.is_about(protocol, port)) {
        match &rule.remote {
            RuleRemote::Anyone => ranges.push(everyone_of(rule.family)),
            RuleRemote::Range(range) => ranges.push(*range),
            RuleRemote::Group(group) => {
                let Some(policy) = known.policies.get(group) else { continue };
                let members = known.selected(group, &policy.selector).flat_map(|(_, pod)| &pod.addresses);
                ranges.extend(members.filter(|one| Family::of(**one) == rule.family).map(|one| IpNet::from(*one)));
            }
        }
    }
    ranges.into_iter().collect()
}
