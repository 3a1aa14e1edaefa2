//! What changed.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use gimbal_kuryr_model::Text;
use gimbal_model::{Protocol, SourceKey};

use crate::address_set::AddressSet;
use crate::carried::carried;
use crate::compile::compile;
use crate::finding::{FindingSubject, IsolationFinding};
use crate::group::{CarriedGroup, GroupName, GroupRule, RuleRemote, SecurityGroup};
use crate::known::within;
use crate::pod::KnownPod;
use crate::service::{ListenerClients, sources};
use crate::{PolicyIndex, ProxiedService};

/// What changed since the last drain, each part in the order of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IsolationChanges {
    /// Groups with other rules; `None` for one that is not needed any more, and that no Pod of these changes carries.
    pub groups: Vec<(GroupName, Option<Arc<SecurityGroup>>)>,
    /// Pods whose ports carry other groups, which all exist; `None` for a Pod that has no port of its own any more.
    pub pods: Vec<(SourceKey, Option<Arc<[CarriedGroup]>>)>,
    /// Services whose listeners let other clients in; `None` for one that is gone.
    pub clients: Vec<(SourceKey, Option<Arc<ListenerClients>>)>,
    /// Objects with other findings; without one, they are settled.
    pub findings: Vec<(FindingSubject, Vec<IsolationFinding>)>,
    /// How many policies were compiled.
    pub compiled: usize,
}

type GroupChanges = BTreeMap<GroupName, Option<Arc<SecurityGroup>>>;

impl PolicyIndex {
    /// Returns what changed since the last call, and nothing until the index [is complete](Self::is_complete).
    pub fn drain(&mut self) -> IsolationChanges {
        if !self.is_complete() {
            return IsolationChanges::default();
        }
        let mut dirty = mem::take(&mut self.dirty);
        let mut groups = GroupChanges::new();
        self.open_groups(&mut groups);
        for key in &dirty.policies {
            if self.compile(key, &mut groups) {
                dirty.members.insert(key.clone());
            }
        }
        dirty.nodes.iter().for_each(|name| self.base_group(name, &mut groups));
        dirty.services.iter().for_each(|key| self.service_groups(key, &mut groups));
        let pods = dirty.pods.iter().filter_map(|key| self.regrouped(key)).collect();
        dirty.services.extend(self.shown.users(&dirty.members));
        let clients = dirty.services.iter().filter_map(|key| self.listeners(key)).collect();
        // What compiling found is among it.
        dirty.findings.extend(mem::take(&mut self.dirty.findings));
        let findings = dirty.findings.into_iter().map(|subject| {
            let found = self.findings.get(&subject).cloned().unwrap_or_default();
            (subject, found)
        });
        let findings = findings.collect();
        IsolationChanges {
            groups: groups.into_iter().collect(),
            pods,
            clients,
            findings,
            compiled: dirty.policies.len(),
        }
    }

    /// Returns whether it has other rules.
    fn compile(&mut self, key: &SourceKey, changes: &mut GroupChanges) -> bool {
        let before = self.shown.of_policy(key);
        let Some(policy) = self.known.policies.get(key) else {
            return self.replace(before, BTreeMap::new(), changes);
        };
        let compiled = compile(key, policy, &self.known);
        self.find(FindingSubject::Policy(key.clone()), compiled.findings);
        self.replace(before, compiled.groups, changes)
    }

    fn open_groups(&mut self, changes: &mut GroupChanges) {
        if !self.shown.groups.contains_key(&GroupName::OpenIn) {
            let open = [(GroupName::OpenIn, SecurityGroup::open_in()), (GroupName::OpenOut, SecurityGroup::open_out())];
            self.replace(Vec::new(), open.into(), changes);
        }
    }

    /// A node that has Pods has a group, also before its addresses are known.
    fn base_group(&mut self, name: &Text, changes: &mut GroupChanges) {
        let node = GroupName::Base(name.clone());
        let addresses = self.known.nodes.get(name);
        let is_needed = addresses.is_some() || self.known.pods_on.contains_key(name);
        let group = is_needed.then(|| SecurityGroup::base(&addresses.cloned().unwrap_or_default()));
        self.replace(vec![node.clone()], group.map(|group| (node, group)).into_iter().collect(), changes);
    }

    fn service_groups(&mut self, key: &SourceKey, changes: &mut GroupChanges) {
        let mut groups = BTreeMap::new();
        if let Some(service) = self.known.services.get(key) {
            let targets: BTreeSet<_> =
                self.pods_behind(key, service).iter().map(|(_, pod)| service.targets(pod)).collect();
            for targets in targets.into_iter().filter(|targets| !targets.is_empty()) {
                let group = service.group(&targets);
                groups.insert(GroupName::Service(key.clone(), targets), group);
            }
        }
        self.replace(self.shown.of_service(key), groups, changes);
    }

    fn replace(
        &mut self,
        before: Vec<GroupName>,
        now: BTreeMap<GroupName, SecurityGroup>,
        changes: &mut GroupChanges,
    ) -> bool {
        let mut is_changed = false;
        for name in before.into_iter().filter(|name| !now.contains_key(name)) {
            if self.shown.groups.remove(&name).is_some() {
                is_changed = true;
                changes.insert(name, None);
            }
        }
        for (name, group) in now {
            if self.shown.groups.get(&name).is_none_or(|shown| **shown != group) {
                is_changed = true;
                let group = Arc::new(group);
                self.shown.groups.insert(name.clone(), Arc::clone(&group));
                changes.insert(name, Some(group));
            }
        }
        is_changed
    }

    fn regrouped(&mut self, key: &SourceKey) -> Option<(SourceKey, Option<Arc<[CarriedGroup]>>)> {
        let Some(pod) = self.known.pods.get(key) else {
            return self.shown.pods.remove(key).map(|_| (key.clone(), None));
        };
        let carried: Arc<[CarriedGroup]> = carried(key, pod, &self.known, &self.given).into_iter().collect();
        if self.shown.pods.get(key) == Some(&carried) {
            return None;
        }
        self.shown.pods.insert(key.clone(), Arc::clone(&carried));
        Some((key.clone(), Some(carried)))
    }

    fn listeners(&mut self, key: &SourceKey) -> Option<(SourceKey, Option<Arc<ListenerClients>>)> {
        let Some(service) = self.known.services.get(key) else {
            self.shown.set_uses(key, BTreeSet::new());
            return self.shown.clients.remove(key).map(|_| (key.clone(), None));
        };
        let pods = self.pods_behind(key, service);
        let mut uses = BTreeSet::new();
        for (pod, _) in &pods {
            for (policy, rules) in self.ingress_of(pod).into_iter().flatten() {
                uses.insert(policy.clone());
                uses.extend(rules.iter().filter_map(|rule| match &rule.remote {
                    RuleRemote::Group(group) => Some(group.clone()),
                    RuleRemote::Anyone | RuleRemote::Range(_) => None,
                }));
            }
        }
        let may_reach = |pod: &SourceKey, _: &KnownPod, protocol: Protocol, port| match self.ingress_of(pod) {
            None => AddressSet::everyone(),
            Some(groups) => sources(groups.into_iter().flat_map(|(_, rules)| rules), &self.known, protocol, port),
        };
        let clients = Arc::new(service.listeners(&pods, may_reach));
        self.shown.set_uses(key, uses);
        if self.shown.clients.get(key) == Some(&clients) {
            return None;
        }
        self.shown.clients.insert(key.clone(), Arc::clone(&clients));
        Some((key.clone(), Some(clients)))
    }

    fn pods_behind(&self, key: &SourceKey, service: &ProxiedService) -> Vec<(&SourceKey, &KnownPod)> {
        let pods = within(&self.known.pods, &key.namespace).filter(|(_, pod)| service.selects(pod));
        pods.map(|(key, pod)| (key, &**pod)).collect()
    }

    /// What policies let reach a Pod; `None` if that is up to no policy.
    fn ingress_of(&self, pod: &SourceKey) -> Option<Vec<(&SourceKey, &[GroupRule])>> {
        let mut rules = Vec::new();
        for carried in self.shown.pods.get(pod).iter().flat_map(|groups| groups.iter()) {
            match carried {
                CarriedGroup::Given(_) | CarriedGroup::Ours(GroupName::OpenIn) => return None,
                CarriedGroup::Ours(name @ (GroupName::Policy(policy) | GroupName::NamedPorts(policy, _))) => {
                    rules.extend(self.shown.groups.get(name).map(|group| (policy, group.ingress.as_slice())));
                }
                CarriedGroup::Ours(GroupName::Base(_) | GroupName::OpenOut | GroupName::Service(..)) => {}
            }
        }
        Some(rules)
    }
}
