//! What arrives, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kubernetes_join::ListProgress;
use gimbal_kubernetes_objects::{Namespace, NetworkPolicy, Node, Pod};
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use crate::finding::{FindingList, FindingSubject, IsolationFinding};
use crate::known::ClusterObjects;
use crate::pod::{KnownNamespace, KnownPod, addresses_of};
use crate::policy::KnownPolicy;
use crate::shown::ShownGroups;
use crate::{ProxiedService, pod, policy};

/// The policies of a cluster with everything that they are about. Objects may arrive in any order and more than once; the outcome
/// depends only on the last state of each.
#[derive(Debug, Default)]
pub struct PolicyIndex {
    pub(crate) known: ClusterObjects,
    /// The groups of Pods that no policy selects, made by somebody else. If there are none, everything is open to them.
    pub(crate) given: Vec<Text>,
    pub(crate) dirty: Dirty,
    pub(crate) shown: ShownGroups,
    /// Objects with findings.
    pub(crate) findings: BTreeMap<FindingSubject, Vec<IsolationFinding>>,
    pods: ListProgress<SourceKey>,
    namespaces: ListProgress<Text>,
    policies: ListProgress<SourceKey>,
    nodes: ListProgress<Text>,
}

/// What may have changed since the last drain.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Policies with other rules.
    pub(crate) policies: BTreeSet<SourceKey>,
    /// Policies with other members.
    pub(crate) members: BTreeSet<SourceKey>,
    /// Pods with other groups.
    pub(crate) pods: BTreeSet<SourceKey>,
    /// Nodes with other addresses.
    pub(crate) nodes: BTreeSet<Text>,
    /// Services with other Pods, or other clients.
    pub(crate) services: BTreeSet<SourceKey>,
    /// Objects with other findings.
    pub(crate) findings: BTreeSet<FindingSubject>,
}

impl PolicyIndex {
    /// Adds a Pod or replaces it. Its addresses are those of its status; before it has some, the caller may fill in those of its
    /// port in Neutron, so that its peers let it in before it starts.
    pub fn apply_pod(&mut self, pod: &Pod) {
        let key = pod::key_of(pod);
        self.pods.saw(&key);
        self.set_pod(key, KnownPod::of(pod).map(Arc::new));
    }

    /// Removes a Pod.
    pub fn delete_pod(&mut self, namespace: &str, name: &str) {
        self.set_pod(SourceKey::new(namespace, name), None);
    }

    /// Adds a namespace or replaces it.
    pub fn apply_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.clone();
        self.namespaces.saw(&name);
        let (known, findings) = KnownNamespace::read(namespace);
        self.find(FindingSubject::Namespace(name.clone()), findings);
        self.set_namespace(name, Some(known));
    }

    /// Removes a namespace.
    pub fn delete_namespace(&mut self, name: &str) {
        self.find(FindingSubject::Namespace(name.into()), FindingList::default());
        self.set_namespace(name.into(), None);
    }

    /// Adds a policy or replaces it.
    pub fn apply_policy(&mut self, policy: &NetworkPolicy) {
        let key = policy::key_of(policy);
        self.policies.saw(&key);
        self.set_policy(key, Some(Arc::new(KnownPolicy::read(policy))));
    }

    /// Removes a policy.
    pub fn delete_policy(&mut self, namespace: &str, name: &str) {
        self.set_policy(SourceKey::new(namespace, name), None);
    }

    /// Adds a node or replaces it.
    pub fn apply_node(&mut self, node: &Node) {
        let name = node.metadata.name.clone();
        self.nodes.saw(&name);
        self.set_node(name, Some(addresses_of(node)));
    }

    /// Removes a node.
    pub fn delete_node(&mut self, name: &str) {
        self.set_node(name.into(), None);
    }

    /// Adds a Service whose load balancer hides its clients, or replaces it.
    pub fn apply_service(&mut self, key: SourceKey, service: ProxiedService) {
        self.set_service(key, Some(Arc::new(service)));
    }

    /// Removes a Service, or one whose load balancer does not hide its clients any more.
    pub fn delete_service(&mut self, namespace: &str, name: &str) {
        self.set_service(SourceKey::new(namespace, name), None);
    }

    /// Sets the groups of Pods that no policy selects, by their IDs.
    pub fn set_pod_groups(&mut self, groups: Vec<Text>) {
        if self.given != groups {
            self.given = groups;
            self.dirty.pods.extend(self.known.pods.keys().cloned());
            self.dirty.services.extend(self.known.services.keys().cloned());
        }
    }

    /// Begins a list of Pods. Apply its objects as any others. To start over after a failure, call this again.
    pub fn begin_pods(&mut self) {
        self.pods.begin();
    }

    /// Ends a complete list: removes the Pods that were not applied since [`begin_pods`](Self::begin_pods).
    pub fn end_pods(&mut self) {
        let listed = self.pods.end();
        gone(&self.known.pods, &listed).into_iter().for_each(|key| self.set_pod(key, None));
    }

    /// Begins a list of namespaces.
    pub fn begin_namespaces(&mut self) {
        self.namespaces.begin();
    }

    /// Ends a complete list of namespaces.
    pub fn end_namespaces(&mut self) {
        let listed = self.namespaces.end();
        gone(&self.known.namespaces, &listed).iter().for_each(|name| self.delete_namespace(name));
    }

    /// Begins a list of policies.
    pub fn begin_policies(&mut self) {
        self.policies.begin();
    }

    /// Ends a complete list of policies.
    pub fn end_policies(&mut self) {
        let listed = self.policies.end();
        gone(&self.known.policies, &listed).into_iter().for_each(|key| self.set_policy(key, None));
    }

    /// Begins a list of nodes.
    pub fn begin_nodes(&mut self) {
        self.nodes.begin();
    }

    /// Ends a complete list of nodes.
    pub fn end_nodes(&mut self) {
        let listed = self.nodes.end();
        gone(&self.known.nodes, &listed).into_iter().for_each(|name| self.set_node(name, None));
    }

    /// Whether everything but Services has been listed completely at least once. Until then nothing is drained: a policy that is not
    /// known yet would isolate nothing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let lists = [&self.pods, &self.policies].map(ListProgress::is_complete);
        let names = [&self.namespaces, &self.nodes].map(ListProgress::is_complete);
        lists.into_iter().chain(names).all(|is_complete| is_complete)
    }

    pub(crate) fn find(&mut self, subject: FindingSubject, findings: FindingList) {
        let findings = findings.of(&subject);
        let before = self.findings.get(&subject).map(Vec::as_slice).unwrap_or_default();
        if before != findings {
            self.dirty.findings.insert(subject.clone());
            if findings.is_empty() {
                self.findings.remove(&subject);
            } else {
                self.findings.insert(subject, findings);
            }
        }
    }
}

fn gone<K: Ord + Clone, V>(known: &BTreeMap<K, V>, listed: &BTreeSet<K>) -> Vec<K> {
    known.keys().filter(|key| !listed.contains(*key)).cloned().collect()
}
