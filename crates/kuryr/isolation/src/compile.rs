//! From a policy to its groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kuryr_model::Text;
use gimbal_model::{Protocol, SourceKey};

use crate::finding::{FindingList, PolicyProblem};
use crate::group::{GroupName, GroupRule, MOST_RULES, SecurityGroup};
use crate::known::{ClusterObjects, within};
use crate::open_ports::PortRange;
use crate::openings::Openings;
use crate::pod::{KnownPod, NamedPort};
use crate::policy::{KnownPolicy, PolicyPeer, PolicyPort, PolicyRule};
use crate::selector::Selector;

/// The groups of a policy.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) groups: BTreeMap<GroupName, SecurityGroup>,
    pub(crate) findings: FindingList,
}

/// The numbers that a Pod has for the names in the ingress rules of a policy.
pub(crate) fn numbers_of(policy: &KnownPolicy, pod: &KnownPod) -> BTreeSet<NamedPort> {
    let names = policy.own_names();
    let is_named = |port: &&NamedPort| names.contains(&(&port.name, port.protocol));
    pod.ports.iter().filter(is_named).cloned().collect()
}

/// Compiles a policy.
///
/// Its own Pods may have other numbers for the same name. So what it opens to them by name is in groups beside the one that all of them
/// carry, and no Pod has a port open that only another one calls so.
pub(crate) fn compile(key: &SourceKey, policy: &KnownPolicy, known: &ClusterObjects) -> Compiled {
    let mut compiler = Compiler { key, known, findings: policy.findings.clone() };
    let ingress = policy.ingress.as_deref().unwrap_or_default();
    let mut groups = BTreeMap::new();
    let main = SecurityGroup {
        ingress: compiler.rules("spec.ingress", ingress, |compiler, openings, rule| compiler.numbers(openings, rule)),
        egress: compiler.rules("spec.egress", policy.egress.as_deref().unwrap_or_default(), Compiler::egress),
    };
    groups.insert(GroupName::Policy(key.clone()), main);
    if !policy.own_names().is_empty() {
        let pods: Vec<_> = known.selected(key, &policy.selector).map(|(_, pod)| pod).collect();
        compiler.find_names(ingress, &pods);
        let different: BTreeSet<_> = pods.iter().map(|pod| numbers_of(policy, pod)).collect();
        for numbers in different.into_iter().filter(|numbers| !numbers.is_empty()) {
            let ingress = compiler.rules("spec.ingress", ingress, |compiler, openings, rule| {
                compiler.own_names(openings, rule, &numbers);
            });
            let group = SecurityGroup { ingress, egress: Vec::new() };
            groups.insert(GroupName::NamedPorts(key.clone(), numbers), group);
        }
    }
    Compiled { groups, findings: compiler.findings }
}

struct Compiler<'a> {
    key: &'a SourceKey,
    known: &'a ClusterObjects,
    findings: FindingList,
}

impl Compiler<'_> {
    fn rules(
        &mut self,
        field: &str,
        rules: &[PolicyRule],
        mut open: impl FnMut(&mut Self, &mut Openings, &PolicyRule),
    ) -> Vec<GroupRule> {
        let mut openings = Openings::default();
        rules.iter().for_each(|rule| open(self, &mut openings, rule));
        let mut rules = openings.rules();
        if rules.len() > MOST_RULES {
            self.findings.add(field.to_owned(), PolicyProblem::TooManyRules(rules.len()));
            rules.truncate(MOST_RULES);
        }
        rules
    }

    /// Opens what a rule has by number.
    fn numbers(&self, openings: &mut Openings, rule: &PolicyRule) {
        match &rule.ports {
            None => self.peers(openings, rule, PortRange::Everything),
            Some(ports) => {
                for port in ports {
                    if let PolicyPort::Numbers(protocol, first, last) = port {
                        self.peers(openings, rule, PortRange::Ports(*protocol, *first, *last));
                    }
                }
            }
        }
    }

    /// Opens what a rule for ingress has by name, to Pods that have these numbers.
    fn own_names(&self, openings: &mut Openings, rule: &PolicyRule, numbers: &BTreeSet<NamedPort>) {
        for (name, protocol, _) in names(rule) {
            for port in numbers.iter().filter(|port| port.name == *name && port.protocol == protocol) {
                self.peers(openings, rule, PortRange::Ports(protocol, port.port, port.port));
            }
        }
    }

    /// Opens what a rule for egress has. The Pods that are led to have the names, so each is opened by its own numbers.
    fn egress(&mut self, openings: &mut Openings, rule: &PolicyRule) {
        self.numbers(openings, rule);
        if !rule.has_names() {
            return;
        }
        let has = |key: &SourceKey, pod: &KnownPod| match &rule.peers {
            None => true,
            Some(peers) => peers.iter().any(|peer| self.known.has(self.key, peer, key, pod)),
        };
        let pods: Vec<_> = self.known.pods.iter().filter(|(key, pod)| has(key, pod)).collect();
        let mut missing = Vec::new();
        for (name, protocol, field) in names(rule) {
            let mut is_missing = !pods.is_empty();
            for (key, pod) in &pods {
                for port in pod.numbers(name, protocol) {
                    is_missing = false;
                    let ports = PortRange::Ports(protocol, port, port);
                    self.addresses(openings, rule, key, pod, ports);
                }
            }
            if is_missing {
                missing.push((field.to_owned(), PolicyProblem::NoSuchPort { name: name.clone(), protocol }));
            }
        }
        missing.into_iter().for_each(|(field, problem)| self.findings.add(field, problem));
    }

    /// Opens ports to those addresses of a Pod that the peers have.
    fn addresses(&self, openings: &mut Openings, rule: &PolicyRule, key: &SourceKey, pod: &KnownPod, ports: PortRange) {
        for address in &pod.addresses {
            let has = |peer: &PolicyPeer| match peer {
                PolicyPeer::Addresses(set) => set.contains(*address),
                PolicyPeer::Pods { .. } => self.known.has(self.key, peer, key, pod),
            };
            if rule.peers.as_ref().is_none_or(|peers| peers.iter().any(has)) {
                openings.pod(*address, &key.namespace, ports);
            }
        }
    }

    fn peers(&self, openings: &mut Openings, rule: &PolicyRule, ports: PortRange) {
        let Some(peers) = &rule.peers else { return openings.everyone(ports) };
        for peer in peers {
            match peer {
                PolicyPeer::Addresses(set) => set.ranges().into_iter().for_each(|range| openings.range(range, ports)),
                PolicyPeer::Pods { namespaces, pods } => {
                    for namespace in self.known.namespaces_of(self.key, namespaces.as_ref()) {
                        self.pods(openings, &namespace, pods, ports);
                    }
                }
            }
        }
    }

    fn pods(&self, openings: &mut Openings, namespace: &Text, pods: &Selector, ports: PortRange) {
        if let Some(group) = self.known.group_of(self.key, namespace, pods) {
            return openings.group(group, ports);
        }
        let selected = within(&self.known.pods, namespace).filter(|(_, pod)| pods.matches(&pod.labels));
        for (_, pod) in selected {
            pod.addresses.iter().for_each(|address| openings.pod(*address, namespace, ports));
        }
    }

    /// Finds names that none of the Pods has.
    fn find_names(&mut self, rules: &[PolicyRule], pods: &[&Arc<KnownPod>]) {
        for (name, protocol, field) in rules.iter().flat_map(names) {
            if !pods.is_empty() && !pods.iter().any(|pod| pod.numbers(name, protocol).next().is_some()) {
                let problem = PolicyProblem::NoSuchPort { name: name.clone(), protocol };
                self.findings.add(field.to_owned(), problem);
            }
        }
    }
}

/// The names of ports in a rule, each with its protocol and its place.
fn names(rule: &PolicyRule) -> impl Iterator<Item = (&Text, Protocol, &str)> {
    rule.ports.iter().flatten().filter_map(|port| match port {
        PolicyPort::Named { name, protocol, field } => Some((name, *protocol, field.as_str())),
        PolicyPort::Numbers(..) => None,
    })
}
