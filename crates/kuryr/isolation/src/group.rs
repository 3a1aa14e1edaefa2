//! Security groups, as they are wanted in Neutron.

use std::collections::BTreeSet;
use std::net::IpAddr;

use gimbal_kuryr_model::Text;
use gimbal_model::{Family, Protocol, SourceKey};
use ipnet::IpNet;

use crate::NamedPort;

/// A group has at most this many rules in each direction.
pub const MOST_RULES: usize = 500;

/// Which group it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupName {
    /// Lets everyone in.
    OpenIn,
    /// Lets everything out.
    OpenOut,
    /// Lets a node in, so that kubelet's probes reach its Pods.
    Base(Text),
    /// What a NetworkPolicy opens to all of its Pods. Its Pods are its members.
    Policy(SourceKey),
    /// What a NetworkPolicy opens by the names of ports to those Pods that have these numbers for them.
    NamedPorts(SourceKey, BTreeSet<NamedPort>),
    /// Lets the load balancer of a Service reach these ports of its Pods.
    Service(SourceKey, BTreeSet<(Protocol, u16)>),
}

/// A group that a Pod's port carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CarriedGroup {
    /// One of ours.
    Ours(GroupName),
    /// One that somebody else made, by its ID.
    Given(Text),
}

/// A group: what its rules do not allow is dropped, unless another group of the port allows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecurityGroup {
    /// Who may reach the port.
    pub ingress: Vec<GroupRule>,
    /// Whom the port may reach.
    pub egress: Vec<GroupRule>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRule {
    /// The family of the packets, Neutron's ethertype.
    pub family: Family,
    /// Their protocol; unset: any.
    pub protocol: Option<Protocol>,
    /// The first and the last port; unset: any.
    pub ports: Option<(u16, u16)>,
    /// Who is at the other end.
    pub remote: RuleRemote,
    /// The Pods that the range of the remote was made for. Those of a group are its members, and change without the rule.
    pub affected_pods: Vec<AffectedPod>,
}

/// Who is at the other end of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleRemote {
    /// Everyone of the rule's family.
    Anyone,
    /// The members of the group of a NetworkPolicy, by the name of both.
    Group(SourceKey),
    /// Addresses.
    Range(IpNet),
}

/// A Pod at the other end of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffectedPod {
    /// Its address.
    pub address: IpAddr,
    /// Its namespace.
    pub namespace: Text,
}

impl GroupRule {
    pub(crate) fn everything(family: Family, remote: RuleRemote) -> Self {
        Self { family, protocol: None, ports: None, remote, affected_pods: Vec::new() }
    }

    /// Whether it is about this port.
    pub(crate) fn is_about(&self, protocol: Protocol, port: u16) -> bool {
        self.protocol.is_none_or(|of| of == protocol)
            && self.ports.is_none_or(|(first, last)| (first..=last).contains(&port))
    }
}

impl SecurityGroup {
    /// The group that lets everyone in.
    pub(crate) fn open_in() -> Self {
        Self { ingress: anyone(), egress: Vec::new() }
    }

    /// The group that lets everything out.
    pub(crate) fn open_out() -> Self {
        Self { ingress: Vec::new(), egress: anyone() }
    }

    /// The group that lets a node in.
    pub(crate) fn base(node: &BTreeSet<IpAddr>) -> Self {
        let rule =
            |address: &IpAddr| GroupRule::everything(Family::of(*address), RuleRemote::Range(IpNet::from(*address)));
        Self { ingress: node.iter().map(rule).collect(), egress: Vec::new() }
    }
}

fn anyone() -> Vec<GroupRule> {
    [Family::V4, Family::V6].map(|family| GroupRule::everything(family, RuleRemote::Anyone)).into()
}
