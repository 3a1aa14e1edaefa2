//! What of a router is wanted as before, where something else of it is wanted.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredEntry, DesiredLoadBalancer, LoadBalancerHeader, PoolId, Routing};

use crate::memory::PlanPart;
use crate::routing::fold::fold;

/// The parts of a router whose own wish has not changed. What is known of them holds on: endpoints change all the time, and none
/// of that makes a policy valid that is not.
pub(crate) struct SameParts(BTreeSet<PlanPart>);

impl SameParts {
    /// Returns them; `None` for what is no router, or is wanted elsewhere: nothing of that is the same.
    pub(crate) fn of(before: &DesiredEntry, now: &DesiredEntry) -> Option<Self> {
        let (DesiredEntry::LoadBalancer(before), DesiredEntry::LoadBalancer(now)) = (before, now) else { return None };
        let (old, new) = (&*before.header, &*now.header);
        if old.placement != new.placement || old.listeners != new.listeners {
            return None;
        }
        let (from, to) = (old.routing.as_deref()?, new.routing.as_deref()?);
        let policies = |header: &LoadBalancerHeader, routing: &Routing| -> Vec<_> {
            let all = header.listeners.iter().flat_map(|one| fold(routing, one.id).policies);
            all.map(|policy| (policy.identity(), policy.to)).collect()
        };
        let former: BTreeSet<_> = policies(old, from).into_iter().collect();
        let same = policies(new, to).into_iter().filter(|policy| former.contains(policy));
        let mut parts: BTreeSet<PlanPart> = same.map(|(identity, _)| PlanPart::Policy(identity)).collect();
        let has = |hash| from.certificates.iter().any(|one| one.hash == hash);
        // Whatever keeps a router from being rebuilt has little to do with its routes.
        parts.insert(PlanPart::Successor);
        parts.extend(to.certificates.iter().map(|one| one.hash).filter(|hash| has(*hash)).map(PlanPart::Certificate));
        let are_balanced_so = old.balancing == new.balancing && old.monitor == new.monitor;
        for pool in to.pools.iter().filter(|pool| are_balanced_so && from.pool(&pool.id) == Some(*pool)) {
            let id = PoolId::Service(pool.id.clone());
            parts.extend([PlanPart::of_pool(&id), PlanPart::Monitor(id.clone())]);
            if has_same_members(before, now, &id) {
                parts.insert(PlanPart::NewMembers(id));
            }
        }
        Some(Self(parts))
    }

    pub(crate) fn has(&self, part: &PlanPart) -> bool {
        // Whatever is removed is wanted in neither of them, and no wish changes what the key manager shows.
        matches!(part, PlanPart::Removal(_) | PlanPart::Secrets) || self.0.contains(part)
    }
}

fn has_same_members(before: &DesiredLoadBalancer, now: &DesiredLoadBalancer, id: &PoolId) -> bool {
    before.members.of(id) == now.members.of(id)
}
