//! NetworkPolicies as they are compiled: what could not be read is left out, and opens nothing.

use std::collections::BTreeSet;

use gimbal_kubernetes_objects::NetworkPolicy;
use gimbal_kuryr_model::Text;
use gimbal_model::{Protocol, SourceKey};

use crate::address_set::AddressSet;
use crate::finding::{FindingList, PolicyProblem};
use crate::read_rules::{read_egress, read_ingress};
use crate::selector::{ReadSelector, Selector};

/// A NetworkPolicy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownPolicy {
    /// The Pods that it isolates.
    pub(crate) selector: Selector,
    /// Whether the selector was read in full. Otherwise the policy isolates more Pods than it may be meant to, and opens nothing.
    pub(crate) selector_is_whole: bool,
    /// What it opens to its Pods; unset: it does not isolate them in this direction.
    pub(crate) ingress: Option<Vec<PolicyRule>>,
    /// The same of what they may reach.
    pub(crate) egress: Option<Vec<PolicyRule>>,
    /// What could not be read.
    pub(crate) findings: FindingList,
}

/// One rule: any of the ports, from or to any of the peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PolicyRule {
    /// Unset: everything.
    pub(crate) ports: Option<Vec<PolicyPort>>,
    /// Unset: everyone.
    pub(crate) peers: Option<Vec<PolicyPeer>>,
}

/// Some ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyPort {
    /// From the first to the last.
    Numbers(Protocol, u16, u16),
    /// The ports of containers that have this name.
    Named {
        name: Text,
        protocol: Protocol,
        /// Where it is written.
        field: String,
    },
}

/// Some peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyPeer {
    /// Whoever has one of these addresses.
    Addresses(AddressSet),
    /// Pods.
    Pods {
        /// Their namespaces; unset: that of the policy.
        namespaces: Option<Selector>,
        pods: Selector,
    },
}

impl KnownPolicy {
    pub(crate) fn read(policy: &NetworkPolicy) -> Self {
        let mut findings = FindingList::default();
        let spec = &policy.spec;
        let ReadSelector { selector, is_whole } =
            ReadSelector::read(&spec.pod_selector, "spec.podSelector", &mut findings);
        let (ingress, egress) = directions(policy, &mut findings);
        let mut ingress = ingress.rules(|| read_ingress(&spec.ingress, &mut findings));
        let mut egress = egress.rules(|| read_egress(&spec.egress, &mut findings));
        if !is_whole {
            [&mut ingress, &mut egress].into_iter().flatten().for_each(Vec::clear);
        }
        Self { selector, selector_is_whole: is_whole, ingress, egress, findings }
    }

    /// The names of container ports that its ingress rules have, which each of its Pods may have another number for.
    pub(crate) fn own_names(&self) -> BTreeSet<(&Text, Protocol)> {
        let rules = self.ingress.iter().flatten();
        let ports = rules.flat_map(|rule| rule.ports.iter().flatten());
        ports
            .filter_map(|port| match port {
                PolicyPort::Named { name, protocol, .. } => Some((name, *protocol)),
                PolicyPort::Numbers(..) => None,
            })
            .collect()
    }

    /// The peers of all rules.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &PolicyPeer> {
        self.ingress.iter().chain(&self.egress).flatten().flat_map(|rule| rule.peers.iter().flatten())
    }

    /// Whether Pods outside of its namespace may be in its rules.
    pub(crate) fn looks_around(&self) -> bool {
        let elsewhere = |peer: &PolicyPeer| matches!(peer, PolicyPeer::Pods { namespaces: Some(_), .. });
        self.peers().any(elsewhere) || self.egress.iter().flatten().any(PolicyRule::has_names)
    }
}

impl PolicyRule {
    pub(crate) fn has_names(&self) -> bool {
        self.ports.iter().flatten().any(|port| matches!(port, PolicyPort::Named { .. }))
    }
}

/// What a policy is about in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Nothing.
    Open,
    /// It may be meant: a type that cannot be read may be this one.
    Closed,
    /// Its rules.
    Rules,
}

impl Scope {
    fn rules(self, read: impl FnOnce() -> Vec<PolicyRule>) -> Option<Vec<PolicyRule>> {
        match self {
            Self::Open => None,
            Self::Closed => Some(Vec::new()),
            Self::Rules => Some(read()),
        }
    }
}

fn directions(policy: &NetworkPolicy, findings: &mut FindingList) -> (Scope, Scope) {
    let spec = &policy.spec;
    if spec.policy_types.is_empty() {
        let egress = if spec.egress.is_empty() { Scope::Open } else { Scope::Rules };
        return (Scope::Rules, egress);
    }
    let is_known = |kind: &Text| ["Ingress", "Egress"].contains(&&**kind);
    for (at, kind) in spec.policy_types.iter().enumerate().filter(|(_, kind)| !is_known(kind)) {
        findings.add(format!("spec.policyTypes[{at}]"), PolicyProblem::PolicyType(kind.clone()));
    }
    let otherwise = if spec.policy_types.iter().all(is_known) { Scope::Open } else { Scope::Closed };
    let scope = |direction| {
        let is_named = spec.policy_types.iter().any(|kind| &**kind == direction);
        if is_named { Scope::Rules } else { otherwise }
    };
    (scope("Ingress"), scope("Egress"))
}

/// The key of a policy.
pub(crate) fn key_of(policy: &NetworkPolicy) -> SourceKey {
    SourceKey { namespace: policy.metadata.namespace.clone(), name: policy.metadata.name.clone() }
}
