//! Which groups the port of a Pod carries.

use std::collections::BTreeSet;

use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use crate::compile::numbers_of;
use crate::group::{CarriedGroup, GroupName};
use crate::known::ClusterObjects;
use crate::pod::KnownPod;

/// Returns the groups of a Pod's port, in order.
///
/// Neutron lets a packet through if any rule of any group does. So a direction is closed by leaving out the group that opens it, and
/// what a policy says of one direction never opens the other.
pub(crate) fn carried(
    key: &SourceKey,
    pod: &KnownPod,
    known: &ClusterObjects,
    given: &[Text],
) -> BTreeSet<CarriedGroup> {
    // A namespace that is not known yet may be isolated.
    let is_isolated = known.namespaces.get(&key.namespace).is_none_or(|namespace| namespace.is_isolated);
    let (mut closed_in, mut closed_out, mut is_selected) = (is_isolated, false, is_isolated);
    let mut ours = BTreeSet::from([GroupName::Base(pod.node.clone())]);
    for (policy, rules) in known.selecting(key, pod) {
        is_selected = true;
        closed_in |= rules.ingress.is_some();
        closed_out |= rules.egress.is_some();
        ours.insert(GroupName::Policy(policy.clone()));
        let numbers = numbers_of(rules, pod);
        if !numbers.is_empty() {
            ours.insert(GroupName::NamedPorts(policy.clone(), numbers));
        }
    }
    let given = if is_selected { &[] } else { given };
    if given.is_empty() {
        ours.extend((!closed_in).then_some(GroupName::OpenIn));
        ours.extend((!closed_out).then_some(GroupName::OpenOut));
    }
    if !ours.contains(&GroupName::OpenIn) {
        ours.extend(services(key, pod, known));
    }
    ours.into_iter().map(CarriedGroup::Ours).chain(given.iter().cloned().map(CarriedGroup::Given)).collect()
}

/// The groups that let load balancers reach a Pod.
fn services(key: &SourceKey, pod: &KnownPod, known: &ClusterObjects) -> Vec<GroupName> {
    let mut groups = Vec::new();
    for (service, proxied) in known.in_front(key, pod) {
        let targets = proxied.targets(pod);
        if !targets.is_empty() {
            groups.push(GroupName::Service(service.clone(), targets));
        }
    }
    groups
}
