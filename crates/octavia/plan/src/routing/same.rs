//! What of a load balancer is wanted as before, where something else of it is wanted.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredEntry, DesiredLoadBalancer, LoadBalancerHeader, PoolId, Routing};

use crate::memory::PlanPart;
use crate::routing::fold::fold;

/// The parts whose own wish has not changed. What is known of them holds on: endpoints change all the time, and none of that makes
/// a policy valid that is not, or a port one that the provider can serve.
pub(crate) enum SameParts {
    /// Of a router: these.
    Of(BTreeSet<PlanPart>),
    /// Of the load balancer of a Service: nothing but members is wanted otherwise.
    ButMembers,
}

impl SameParts {
    /// Returns them; `None` for what is wanted elsewhere, or as something else: nothing of that is the same.
    pub(crate) fn of(before: &DesiredEntry, now: &DesiredEntry) -> Option<Self> {
        let (DesiredEntry::LoadBalancer(before), DesiredEntry::LoadBalancer(now)) = (before, now) else { return None };
        let (old, new) = (&*before.header, &*now.header);
        if old.placement != new.placement || old.listeners != new.listeners {
            return None;
        }
        if old.routing.is_none() && old == new {
            return Some(Self::ButMembers);
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
        Some(Self::Of(parts))
    }

    pub(crate) fn has(&self, part: &PlanPart) -> bool {
        // Whatever is removed is wanted in neither of them, and no wish changes what the key manager shows.
        let is_elsewhere = matches!(part, PlanPart::Removal(_) | PlanPart::Secrets);
        is_elsewhere
            || match self {
                Self::Of(parts) => parts.contains(part),
                // What is sent about the others may have members in it.
                Self::ButMembers => matches!(
                    part,
                    PlanPart::FloatingIp
                        | PlanPart::Groups
                        | PlanPart::Tags
                        | PlanPart::Ranges(_)
                        | PlanPart::Monitor(_)
                        | PlanPart::Closing(_)
                ),
            }
    }

    /// Whether the provider is asked for no port otherwise than before.
    pub(crate) fn has_same_ports(&self) -> bool {
        matches!(self, Self::ButMembers)
    }
}

fn has_same_members(before: &DesiredLoadBalancer, now: &DesiredLoadBalancer, id: &PoolId) -> bool {
    before.members.of(id) == now.members.of(id)
}
