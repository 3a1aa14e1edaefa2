//! What a change of one object may change.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use crate::finding::{FindingList, FindingSubject};
use crate::known::within;
use crate::pod::{KnownNamespace, KnownPod};
use crate::policy::{KnownPolicy, PolicyPeer};
use crate::selector::Selector;
use crate::{PolicyIndex, ProxiedService};

impl PolicyIndex {
    pub(crate) fn set_pod(&mut self, key: SourceKey, pod: Option<Arc<KnownPod>>) {
        let now = pod.clone();
        let before = match pod {
            Some(pod) => self.known.pods.insert(key.clone(), pod),
            None => self.known.pods.remove(&key),
        };
        if before == now {
            return;
        }
        for pod in [&before, &now].into_iter().flatten() {
            let selecting = self.known.selecting(&key, pod);
            for (policy, known) in selecting {
                self.dirty.members.insert(policy.clone());
                if !known.own_names().is_empty() {
                    self.dirty.policies.insert(policy.clone());
                }
            }
            self.dirty.services.extend(self.known.in_front(&key, pod).map(|(service, _)| service.clone()));
            self.dirty.nodes.insert(pod.node.clone());
        }
        let around = self.known.looking_around.iter().filter(|policy| policy.namespace != key.namespace);
        let around = around.filter_map(|policy| self.known.policies.get_key_value(policy));
        for (policy, known) in within(&self.known.policies, &key.namespace).chain(around) {
            let was = before.as_deref().map(|pod| self.known.seen(policy, known, &key, pod));
            let is = now.as_deref().map(|pod| self.known.seen(policy, known, &key, pod));
            if was.unwrap_or_default() != is.unwrap_or_default() {
                self.dirty.policies.insert(policy.clone());
            }
        }
        self.known.count_on_nodes(before.as_deref(), now.as_deref());
        self.dirty.pods.insert(key);
    }

    pub(crate) fn set_namespace(&mut self, name: Text, namespace: Option<KnownNamespace>) {
        let now = namespace.clone();
        let before = match namespace {
            Some(namespace) => self.known.namespaces.insert(name.clone(), namespace),
            None => self.known.namespaces.remove(&name),
        };
        if before == now {
            return;
        }
        let isolation = |known: &Option<KnownNamespace>| known.as_ref().map(|known| known.is_isolated);
        if isolation(&before) != isolation(&now) {
            let pods: Vec<_> = within(&self.known.pods, &name).map(|(key, _)| key.clone()).collect();
            pods.into_iter().for_each(|key| self.regroup(key));
        }
        let is_selected = |selector: &Selector, known: &Option<KnownNamespace>| {
            known.as_ref().is_some_and(|known| selector.matches(&known.labels))
        };
        for policy in &self.known.looking_around {
            let Some(known) = self.known.policies.get(policy) else { continue };
            let mut selectors = known.peers().filter_map(|peer| match peer {
                PolicyPeer::Pods { namespaces, .. } => namespaces.as_ref(),
                PolicyPeer::Addresses(_) => None,
            });
            if selectors.any(|selector| is_selected(selector, &before) != is_selected(selector, &now)) {
                self.dirty.policies.insert(policy.clone());
            }
        }
    }

    pub(crate) fn set_policy(&mut self, key: SourceKey, policy: Option<Arc<KnownPolicy>>) {
        let now = policy.clone();
        let before = match policy {
            Some(policy) => self.known.policies.insert(key.clone(), policy),
            None => self.known.policies.remove(&key),
        };
        if before == now {
            return;
        }
        if now.is_none() {
            self.find(FindingSubject::Policy(key.clone()), FindingList::default());
        }
        if now.as_ref().is_some_and(|policy| policy.looks_around()) {
            self.known.looking_around.insert(key.clone());
        } else {
            self.known.looking_around.remove(&key);
        }
        let (left, joined) = (selector(before.as_ref()), selector(now.as_ref()));
        if left != joined {
            self.change_groups(&key, left, joined);
        }
        let mut pods: BTreeSet<SourceKey> = BTreeSet::new();
        for policy in [&before, &now].into_iter().flatten() {
            pods.extend(self.known.selected(&key, &policy.selector).map(|(pod, _)| pod.clone()));
        }
        pods.into_iter().for_each(|pod| self.regroup(pod));
        self.dirty.members.insert(key.clone());
        self.dirty.policies.insert(key);
    }

    pub(crate) fn set_node(&mut self, name: Text, addresses: Option<BTreeSet<IpAddr>>) {
        let now = addresses.clone();
        let before = match addresses {
            Some(addresses) => self.known.nodes.insert(name.clone(), addresses),
            None => self.known.nodes.remove(&name),
        };
        if before != now {
            self.dirty.nodes.insert(name);
        }
    }

    pub(crate) fn set_service(&mut self, key: SourceKey, service: Option<Arc<ProxiedService>>) {
        let now = service.clone();
        let before = match service {
            Some(service) => self.known.services.insert(key.clone(), service),
            None => self.known.services.remove(&key),
        };
        if before == now {
            return;
        }
        for service in [&before, &now].into_iter().flatten() {
            let pods = within(&self.known.pods, &key.namespace).filter(|(_, pod)| service.selects(pod));
            self.dirty.pods.extend(pods.map(|(pod, _)| pod.clone()));
        }
        self.dirty.services.insert(key);
    }

    /// Takes note that a policy has other members. Policies that name the same Pods refer to one of the policies that select them, so
    /// they may refer to another one now.
    fn change_groups(&mut self, key: &SourceKey, left: Option<&Selector>, joined: Option<&Selector>) {
        for selector in left.into_iter().chain(joined) {
            let of = (key.namespace.clone(), selector.clone());
            let policies = self.known.by_selector.entry(of.clone()).or_default();
            if Some(selector) == joined {
                policies.insert(key.clone());
            } else {
                policies.remove(key);
            }
            if policies.is_empty() {
                self.known.by_selector.remove(&of);
            }
            let around = self.known.looking_around.iter().filter(|policy| policy.namespace != key.namespace);
            let around = around.filter_map(|policy| self.known.policies.get_key_value(policy));
            for (policy, known) in within(&self.known.policies, &key.namespace).chain(around) {
                let is_named = |peer: &PolicyPeer| matches!(peer, PolicyPeer::Pods { pods, .. } if pods == selector);
                if known.peers().any(is_named) {
                    self.dirty.policies.insert(policy.clone());
                }
            }
        }
    }

    /// Takes note that a Pod may have other groups, so that others may reach it.
    fn regroup(&mut self, key: SourceKey) {
        if let Some(pod) = self.known.pods.get(&key) {
            self.dirty.services.extend(self.known.in_front(&key, pod).map(|(service, _)| service.clone()));
        }
        self.dirty.pods.insert(key);
    }
}

/// What the members of a policy are selected by. That of a selector that was not read in full is not known.
fn selector(policy: Option<&Arc<KnownPolicy>>) -> Option<&Selector> {
    policy.filter(|policy| policy.selector_is_whole).map(|policy| &policy.selector)
}
