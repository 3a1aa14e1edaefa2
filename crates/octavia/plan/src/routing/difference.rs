//! Which routes are not in Octavia as they are wanted, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::{
    CloudFacts, DesiredEntry, ListenerId, ListenerWish, PoolId, RouteState, RouteTarget, RoutedPool, Routing, Text,
};

use crate::actor::Actor;
use crate::certificates::namespace_of;
use crate::children::listener_at;
use crate::mark::{KEEP, service_of, tag_of_pool};
use crate::memory::PlanPart;
use crate::routing::content::{content, wanted_content};
use crate::routing::fold::{FoldedRoutes, WantedPolicy};
use crate::routing::router::NO_POLICIES;
use crate::seen::{Provisioning, SeenBalancer};
use crate::seen_policy::SeenPolicy;
use crate::step::Block;

/// Routes of one name that are not as they are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteGap {
    /// Their name; one that ends with `/`: those that begin with it; empty: that of any other.
    pub name: Text,
    /// What is not as it is wanted.
    pub state: RouteState,
    /// Why; unset: they are to come, or to go.
    pub why: Option<RouteObstacle>,
}

/// Why a route is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteObstacle {
    /// No policy can express it; the reason in words.
    Inexpressible(String),
    /// What it needs is left alone while the rest goes on.
    Blocked(Block),
}

/// Routes of one name.
#[derive(Default)]
struct OfName {
    served: usize,
    missing: usize,
    why: Option<RouteObstacle>,
}

impl Actor {
    /// Returns which routes of a router are not as they are wanted; `None` if that is not certain, for a change of them is in
    /// progress, or may be, and for what is no router.
    #[must_use]
    pub fn route_gaps(&self, facts: &CloudFacts, now: Duration) -> Option<Vec<RouteGap>> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        let routing = wanted.header.routing.as_deref()?;
        let memory = &self.memory;
        let is_clear = memory.looked && memory.next_look().is_none() && memory.recheck().is_none();
        // What a change has made of one that went to ERROR, a look has to show.
        let is_settled = |one: &SeenBalancer| match one.provisioning {
            Provisioning::Active => true,
            Provisioning::Error => !memory.changed,
            _ => false,
        };
        if !is_clear || !self.seen.balancers.iter().all(is_settled) {
            return None;
        }
        let target = self.target(wanted, facts, now);
        let folded: Vec<FoldedRoutes> = wanted.header.listeners.iter().map(|one| target.folded(one.id)).collect();
        let mut gaps = self.left_routes(&target.routes_for_now(routing), &folded);
        let folded = wanted.header.listeners.iter().map(|one: &ListenerWish| one.id).zip(folded);
        gaps.extend(self.missing_routes(folded, target.abilities.provider.l7, now));
        Some(gaps)
    }

    /// Returns the names of what is there and not wanted.
    fn left_routes(&self, routing: &Routing, folded: &[FoldedRoutes]) -> Vec<RouteGap> {
        let wanted: BTreeMap<String, &WantedPolicy> =
            folded.iter().flat_map(|one| &one.policies).map(|policy| (wanted_content(policy), policy)).collect();
        let mut names: BTreeSet<Text> = BTreeSet::new();
        for balancer in &self.seen.balancers {
            let is_wanted = |seen: &SeenPolicy| {
                let policy = wanted.get(&content(&seen.action, &seen.rules));
                policy.is_some_and(|policy| leads_there(balancer, seen, policy))
            };
            for listener in balancer.listeners.iter().filter(|one| self.mark.is_on(&one.tags)) {
                let default = listener.default_pool.as_deref();
                let is_default = |id: &Text| leads_to(balancer, default, id);
                if default.is_some() && !routing.default.as_ref().is_some_and(is_default) {
                    names.insert(left_default(balancer, default));
                }
                let ours = listener.policies.iter().filter(|one| self.mark.is_on(&one.tags));
                // One that somebody keeps stays, whatever becomes of its owner.
                let surplus = ours.filter(|one| !one.tags.iter().any(|tag| tag == KEEP) && !is_wanted(one));
                surplus.for_each(|one| names.extend(self.names_of(one)));
            }
        }
        names.into_iter().map(|name| RouteGap { name, state: RouteState::Left, why: None }).collect()
    }

    /// Returns the names of what is wanted and not there.
    fn missing_routes(
        &self,
        folded: impl Iterator<Item = (ListenerId, FoldedRoutes)>,
        l7: bool,
        now: Duration,
    ) -> Vec<RouteGap> {
        let mut names: BTreeMap<Text, OfName> = BTreeMap::new();
        let balancer = self.balancer();
        let mut up: BTreeMap<String, Vec<&SeenPolicy>> = BTreeMap::new();
        let listeners = balancer.into_iter().flat_map(|one| &one.listeners);
        for seen in listeners.flat_map(|one| &one.policies).filter(|one| one.admin_state_up && !one.is_broken()) {
            up.entry(content(&seen.action, &seen.rules)).or_default().push(seen);
        }
        let is_served = |policy: &WantedPolicy| {
            let same = up.get(&wanted_content(policy)).map(Vec::as_slice).unwrap_or_default();
            balancer.is_some_and(|one| same.iter().any(|seen| leads_there(one, seen, policy)))
        };
        for (listener, FoldedRoutes { policies, refused }) in folded {
            for one in refused {
                let of = names.entry(one.name).or_default();
                of.missing += 1;
                of.why.get_or_insert(RouteObstacle::Inexpressible(one.words));
            }
            for policy in policies {
                let served = is_served(&policy);
                let why = if served { None } else { self.obstacle(listener, &policy, l7, now) };
                // What is closed there serves no client.
                let is_closed = matches!(&policy.to, RouteTarget::Pool(id) if RoutedPool::is_empty_id(id));
                for name in policy.names {
                    let of = names.entry(name).or_default();
                    of.served += usize::from(served && !is_closed);
                    of.missing += usize::from(!served);
                    of.why = of.why.take().or_else(|| why.clone());
                }
            }
        }
        let gap = |(name, OfName { served, missing, why }): (Text, OfName)| {
            let state = if served == 0 { RouteState::Missing } else { RouteState::Partial };
            (missing > 0).then_some(RouteGap { name, state, why })
        };
        names.into_iter().filter_map(gap).collect()
    }

    fn obstacle(&self, listener: ListenerId, policy: &WantedPolicy, l7: bool, now: Duration) -> Option<RouteObstacle> {
        if !l7 {
            return Some(RouteObstacle::Inexpressible(NO_POLICIES.to_owned()));
        }
        let pool = match &policy.to {
            RouteTarget::Pool(id) => Some(PoolId::Service(id.clone())),
            RouteTarget::Redirect(_) => None,
        };
        let of_pool = pool.iter().flat_map(|id| [PlanPart::of_pool(id), PlanPart::NewMembers(id.clone())]);
        let mut parts = std::iter::once(PlanPart::Policy(policy.identity())).chain(of_pool).chain([PlanPart::Balancer]);
        let block = parts.find_map(|part| self.memory.block_of(&part, now).cloned());
        let is_there = self.balancer().is_some_and(|one| listener_at(one, listener).is_some());
        let of_listener = || if is_there { None } else { self.listener_block(listener, now) };
        block.or_else(of_listener).map(RouteObstacle::Blocked)
    }
}

impl Actor {
    /// Returns what is in the way of a listener that is not there.
    fn listener_block(&self, listener: ListenerId, now: Duration) -> Option<Block> {
        let is_it = |part: &PlanPart| match part {
            PlanPart::Port(Some(id)) => *id == listener,
            PlanPart::Certificate(_) | PlanPart::Secrets => self.lacks_certificate(listener),
            _ => false,
        };
        self.memory.blocked(now).find(|(part, _)| is_it(part)).map(|(_, block)| block.clone())
    }
}

/// Whether a policy leads where the wanted one is to lead.
pub(crate) fn leads_there(balancer: &SeenBalancer, seen: &SeenPolicy, wanted: &WantedPolicy) -> bool {
    match &wanted.to {
        RouteTarget::Redirect(to) => seen.prefix.as_deref() == Some(&**to),
        RouteTarget::Pool(id) => leads_to(balancer, seen.pool.as_deref(), id),
    }
}

/// Returns whose default is left. The pool has the name of no Ingress, but a default backend is in the namespace of its Ingress.
fn left_default(balancer: &SeenBalancer, pool: Option<&str>) -> Text {
    let found = balancer.pools.iter().find(|one| pool == Some(&*one.id));
    let service = found.and_then(|one| one.tags.iter().find_map(|tag| service_of(tag)));
    service.map(|service| format!("{}/", namespace_of(service)).into()).unwrap_or_default()
}

/// Whether the pool with this ID is that of a Service.
fn leads_to(balancer: &SeenBalancer, pool: Option<&str>, service: &Text) -> bool {
    let tag = tag_of_pool(&PoolId::Service(service.clone()));
    let found = balancer.pools.iter().find(|one| pool == Some(&*one.id));
    found.is_some_and(|one| one.tags.contains(&tag))
}
