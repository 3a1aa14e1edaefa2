//! What the last drain left: the next one returns what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::SourceKey;

use crate::group::{CarriedGroup, GroupName, SecurityGroup};
use crate::service::ListenerClients;

/// Everything that was returned by drains and still holds.
#[derive(Debug, Default)]
pub(crate) struct ShownGroups {
    pub(crate) groups: BTreeMap<GroupName, Arc<SecurityGroup>>,
    pub(crate) pods: BTreeMap<SourceKey, Arc<[CarriedGroup]>>,
    pub(crate) clients: BTreeMap<SourceKey, Arc<ListenerClients>>,
    /// The policies that the clients of each Service depend on.
    uses: BTreeMap<SourceKey, BTreeSet<SourceKey>>,
    /// The Services whose clients depend on each policy.
    used_by: BTreeMap<SourceKey, BTreeSet<SourceKey>>,
}

impl ShownGroups {
    /// The groups of a policy.
    pub(crate) fn of_policy(&self, policy: &SourceKey) -> Vec<GroupName> {
        let first = GroupName::NamedPorts(policy.clone(), BTreeSet::new());
        let is_its = |name: &&GroupName| matches!(name, GroupName::NamedPorts(of, _) if of == policy);
        let named = self.groups.range(first..).map(|(name, _)| name).take_while(is_its).cloned();
        std::iter::once(GroupName::Policy(policy.clone())).chain(named).collect()
    }

    /// The groups of a Service.
    pub(crate) fn of_service(&self, service: &SourceKey) -> Vec<GroupName> {
        let first = GroupName::Service(service.clone(), BTreeSet::new());
        let is_its = |name: &&GroupName| matches!(name, GroupName::Service(of, _) if of == service);
        self.groups.range(first..).map(|(name, _)| name).take_while(is_its).cloned().collect()
    }

    /// The Services whose clients depend on one of these policies.
    pub(crate) fn users(&self, policies: &BTreeSet<SourceKey>) -> BTreeSet<SourceKey> {
        policies.iter().filter_map(|policy| self.used_by.get(policy)).flatten().cloned().collect()
    }

    /// Takes note of the policies that the clients of a Service depend on.
    pub(crate) fn set_uses(&mut self, service: &SourceKey, policies: BTreeSet<SourceKey>) {
        for policy in self.uses.remove(service).unwrap_or_default() {
            if let Some(services) = self.used_by.get_mut(&policy) {
                services.remove(service);
                if services.is_empty() {
                    self.used_by.remove(&policy);
                }
            }
        }
        for policy in &policies {
            self.used_by.entry(policy.clone()).or_default().insert(service.clone());
        }
        if !policies.is_empty() {
            self.uses.insert(service.clone(), policies);
        }
    }
}
