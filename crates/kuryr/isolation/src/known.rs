//! The objects of a cluster, and which of them belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use crate::ProxiedService;
use crate::pod::{KnownNamespace, KnownPod, NamedPort};
use crate::policy::{KnownPolicy, PolicyPeer, PolicyRule};
use crate::selector::Selector;

/// Everything that is known.
#[derive(Debug, Default)]
pub(crate) struct ClusterObjects {
    pub(crate) pods: BTreeMap<SourceKey, Arc<KnownPod>>,
    pub(crate) namespaces: BTreeMap<Text, KnownNamespace>,
    pub(crate) policies: BTreeMap<SourceKey, Arc<KnownPolicy>>,
    pub(crate) nodes: BTreeMap<Text, BTreeSet<IpAddr>>,
    pub(crate) services: BTreeMap<SourceKey, Arc<ProxiedService>>,
    /// How many Pods each node has.
    pub(crate) pods_on: BTreeMap<Text, usize>,
    /// Policies in whose rules there may be Pods of other namespaces.
    pub(crate) looking_around: BTreeSet<SourceKey>,
    /// The policies that select the Pods of a namespace by a selector.
    pub(crate) by_selector: BTreeMap<(Text, Selector), BTreeSet<SourceKey>>,
}

/// What a policy has of a Pod in one of its rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SeenPod<'a> {
    /// The number of the peer among all peers of the policy.
    peer: usize,
    addresses: &'a [IpAddr],
    /// The names of its ports, if the rule has names.
    ports: Option<&'a BTreeSet<NamedPort>>,
}

/// The entries of one namespace.
pub(crate) fn within<'a, V>(
    map: &'a BTreeMap<SourceKey, V>,
    namespace: &Text,
) -> impl Iterator<Item = (&'a SourceKey, &'a V)> + use<'a, V> {
    let namespace = namespace.clone();
    map.range(SourceKey::new(namespace.clone(), "")..).take_while(move |(key, _)| key.namespace == namespace)
}

impl ClusterObjects {
    /// Takes note of where a Pod was and is.
    pub(crate) fn count_on_nodes(&mut self, before: Option<&KnownPod>, now: Option<&KnownPod>) {
        if let Some(pod) = now {
            *self.pods_on.entry(pod.node.clone()).or_default() += 1;
        }
        if let Some(pod) = before
            && let Some(count) = self.pods_on.get_mut(&pod.node)
        {
            *count -= 1;
            if *count == 0 {
                self.pods_on.remove(&pod.node);
            }
        }
    }

    /// The Pods that a policy isolates.
    pub(crate) fn selected<'a>(
        &'a self,
        policy: &SourceKey,
        selector: &'a Selector,
    ) -> impl Iterator<Item = (&'a SourceKey, &'a Arc<KnownPod>)> + use<'a> {
        within(&self.pods, &policy.namespace).filter(move |(_, pod)| selector.matches(&pod.labels))
    }

    /// The policies that isolate a Pod.
    pub(crate) fn selecting<'a>(
        &'a self,
        key: &SourceKey,
        pod: &'a KnownPod,
    ) -> impl Iterator<Item = (&'a SourceKey, &'a Arc<KnownPolicy>)> + use<'a> {
        within(&self.policies, &key.namespace).filter(move |(_, policy)| policy.selector.matches(&pod.labels))
    }

    /// The Services in front of a Pod.
    pub(crate) fn in_front<'a>(
        &'a self,
        key: &SourceKey,
        pod: &'a KnownPod,
    ) -> impl Iterator<Item = (&'a SourceKey, &'a Arc<ProxiedService>)> + use<'a> {
        within(&self.services, &key.namespace).filter(move |(_, service)| service.selects(pod))
    }

    /// The namespaces of a peer that have Pods. One that is not known has no labels to be selected by, not even by an empty selector.
    pub(crate) fn namespaces_of(&self, policy: &SourceKey, namespaces: Option<&Selector>) -> Vec<Text> {
        match namespaces {
            None => vec![policy.namespace.clone()],
            Some(selector) => {
                let selected = self.namespaces.iter().filter(|(_, namespace)| selector.matches(&namespace.labels));
                selected.map(|(name, _)| name.clone()).collect()
            }
        }
    }

    /// The policy that has the Pods of this selector as its members: this one itself, or the first of all. Their addresses need not
    /// be written down then.
    pub(crate) fn group_of(&self, policy: &SourceKey, namespace: &Text, pods: &Selector) -> Option<&SourceKey> {
        let group = self.by_selector.get(&(namespace.clone(), pods.clone()))?;
        group.get(policy).or_else(|| group.first())
    }

    /// Whether the peers of a policy have a Pod, however they name it.
    pub(crate) fn has(&self, policy: &SourceKey, peer: &PolicyPeer, key: &SourceKey, pod: &KnownPod) -> bool {
        match peer {
            PolicyPeer::Addresses(set) => pod.addresses.iter().any(|address| set.contains(*address)),
            PolicyPeer::Pods { namespaces: None, pods } => {
                policy.namespace == key.namespace && pods.matches(&pod.labels)
            }
            PolicyPeer::Pods { namespaces: Some(namespaces), pods } => {
                let namespace = self.namespaces.get(&key.namespace);
                namespace.is_some_and(|namespace| namespaces.matches(&namespace.labels)) && pods.matches(&pod.labels)
            }
        }
    }

    /// What the rules of a policy are made from of a Pod. Where its members' addresses need not be written down, it is nothing.
    pub(crate) fn seen<'a>(
        &self,
        policy: &SourceKey,
        known: &KnownPolicy,
        key: &SourceKey,
        pod: &'a KnownPod,
    ) -> Vec<SeenPod<'a>> {
        let ingress = known.ingress.iter().flatten().map(|rule| (rule, false));
        let egress = known.egress.iter().flatten().map(|rule| (rule, rule.has_names()));
        let mut seen = Vec::new();
        let mut peer = 0;
        for (rule, by_name) in ingress.chain(egress) {
            for one in peers(rule) {
                peer += 1;
                let is_there = match one {
                    None => by_name,
                    Some(PolicyPeer::Addresses(_)) if !by_name => false,
                    Some(one) => self.has(policy, one, key, pod) && (by_name || !self.is_member(policy, one, key)),
                };
                if is_there {
                    seen.push(SeenPod { peer, addresses: &pod.addresses, ports: by_name.then_some(&pod.ports) });
                }
            }
        }
        seen
    }

    fn is_member(&self, policy: &SourceKey, peer: &PolicyPeer, key: &SourceKey) -> bool {
        match peer {
            PolicyPeer::Addresses(_) => false,
            PolicyPeer::Pods { pods, .. } => self.group_of(policy, &key.namespace, pods).is_some(),
        }
    }
}

/// The peers of a rule; `None` stands for everyone.
fn peers(rule: &PolicyRule) -> impl Iterator<Item = Option<&PolicyPeer>> {
    let everyone = rule.peers.is_none().then_some(None);
    everyone.into_iter().chain(rule.peers.iter().flatten().map(Some))
}
