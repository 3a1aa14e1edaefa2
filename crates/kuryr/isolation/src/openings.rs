//! What one direction of a group opens, in as few rules as are found.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gimbal_kuryr_model::Text;
use gimbal_model::{Family, SourceKey};
use ipnet::IpNet;

use crate::address_set::{AddressSet, everyone_of, family_of};
use crate::group::{AffectedPod, GroupRule, RuleRemote};
use crate::open_ports::{EVERY_PORT, OpenPorts, PortRange};

/// Who is at the other end. Everyone is the range of all addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Remote {
    Group(SourceKey, Family),
    Range(IpNet),
}

/// The ports that are open to each remote.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    by_remote: BTreeMap<Remote, OpenPorts>,
    /// The Pods among the addresses, with their namespaces.
    pods: BTreeMap<IpAddr, Text>,
}

impl Openings {
    /// Opens ports to a range of addresses.
    pub(crate) fn range(&mut self, range: IpNet, ports: PortRange) {
        self.by_remote.entry(Remote::Range(range)).or_default().open(ports);
    }

    /// Opens ports to everyone.
    pub(crate) fn everyone(&mut self, ports: PortRange) {
        self.range(everyone_of(Family::V4), ports);
        self.range(everyone_of(Family::V6), ports);
    }

    /// Opens ports to the members of a group.
    pub(crate) fn group(&mut self, group: &SourceKey, ports: PortRange) {
        for family in [Family::V4, Family::V6] {
            self.by_remote.entry(Remote::Group(group.clone(), family)).or_default().open(ports);
        }
    }

    /// Opens ports to an address of a Pod.
    pub(crate) fn pod(&mut self, address: IpAddr, namespace: &Text, ports: PortRange) {
        self.range(IpNet::from(address), ports);
        self.pods.insert(address, namespace.clone());
    }

    /// Returns the rules, each once, none of which another one contains: the widest first, in the same order each time.
    pub(crate) fn rules(mut self) -> Vec<GroupRule> {
        // Each round leaves fewer rules than the one before, or is the last: ranges that became one may have ports that touch, and
        // ports that became one may have ranges that touch.
        let mut count = usize::MAX;
        while self.count() < count {
            count = self.count();
            self.drop_contained();
            self.join_ranges();
        }
        let mut rules: Vec<GroupRule> = self
            .by_remote
            .iter()
            .flat_map(|(remote, ports)| ports.ranges().map(move |range| (remote, range)))
            .map(|(remote, range)| self.rule(remote, range))
            .collect();
        rules.sort_by(|one, other| order(one).cmp(&order(other)));
        rules
    }

    fn count(&self) -> usize {
        self.by_remote.values().map(|ports| ports.ranges().count()).sum()
    }

    /// Drops what is open to a wider range already.
    fn drop_contained(&mut self) {
        let is_contained = |remote: &Remote, ports: PortRange| {
            let opens =
                |range: IpNet| self.by_remote.get(&Remote::Range(range)).is_some_and(|open| open.contains(ports));
            match remote {
                Remote::Group(_, family) => opens(everyone_of(*family)),
                Remote::Range(range) => std::iter::successors(range.supernet(), IpNet::supernet).any(opens),
            }
        };
        let mut left: BTreeMap<Remote, OpenPorts> = BTreeMap::new();
        for (remote, open) in &self.by_remote {
            for ports in open.ranges().filter(|ports| !is_contained(remote, *ports)) {
                left.entry(remote.clone()).or_default().open(ports);
            }
        }
        self.by_remote = left;
    }

    /// Joins ranges that have the same ports.
    fn join_ranges(&mut self) {
        let mut ranges: BTreeMap<PortRange, Vec<IpNet>> = BTreeMap::new();
        for (remote, open) in &self.by_remote {
            if let Remote::Range(range) = remote {
                open.ranges().for_each(|ports| ranges.entry(ports).or_default().push(*range));
            }
        }
        self.by_remote.retain(|remote, _| matches!(remote, Remote::Group(..)));
        for (ports, ranges) in ranges {
            for range in ranges.into_iter().collect::<AddressSet>().ranges() {
                self.range(range, ports);
            }
        }
    }

    fn rule(&self, remote: &Remote, ports: PortRange) -> GroupRule {
        let (protocol, ports) = match ports {
            PortRange::Everything => (None, None),
            PortRange::Ports(protocol, first, last) => {
                (Some(protocol), Some((first, last)).filter(|ports| *ports != EVERY_PORT))
            }
        };
        let (family, remote, affected_pods) = match remote {
            Remote::Group(group, family) => (*family, RuleRemote::Group(group.clone()), Vec::new()),
            Remote::Range(range) if range.prefix_len() == 0 => (family_of(*range), RuleRemote::Anyone, Vec::new()),
            Remote::Range(range) => {
                let pods = self.pods.range(range.network()..=range.broadcast());
                let affected = pods.map(|(address, namespace)| (*address, namespace.clone()));
                let affected = affected.map(|(address, namespace)| AffectedPod { address, namespace });
                (family_of(*range), RuleRemote::Range(*range), affected.collect())
            }
        };
        GroupRule { family, protocol, ports, remote, affected_pods }
    }
}

/// The widest first: everyone, groups, and ranges by the length of their prefix.
fn order(rule: &GroupRule) -> impl Ord + '_ {
    let length = match &rule.remote {
        RuleRemote::Anyone | RuleRemote::Group(_) => 0,
        RuleRemote::Range(range) => range.prefix_len(),
    };
    let kind = match &rule.remote {
        RuleRemote::Anyone => 0,
        RuleRemote::Group(_) => 1,
        RuleRemote::Range(_) => 2,
    };
    (kind, length, rule.family, &rule.remote, rule.protocol, rule.ports)
}
