//! A router: the pools of Services, and listeners whose policies lead to them.

use std::borrow::Cow;
use std::time::Duration;

use gimbal_kuryr_model::{ListenerId, LoadBalancerHeader, PoolId, RouteTarget, Routing, Text};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::certificates::terminates;
use crate::change::CloudChange;
use crate::children::listener_at;
use crate::mark::{KEEP, route_tag, service_of, tag_of_pool};
use crate::members::MembersByPlace;
use crate::memory::{PlanPart, RepairTime};
use crate::pools::{PoolsByTag, pool_change};
use crate::routing::early::without_redirects;
use crate::routing::fold::{FoldedRoutes, WantedPolicy, fold};
use crate::routing::going::GoingRedirects;
use crate::routing::policies::{DefaultPool, PolicyGoes, PolicyPlan, PolicyRepair, PolicyWay, PolicyWish};
use crate::seen::{Provisioning, SeenBalancer, SeenListener, SeenPool};
use crate::seen_policy::SeenPolicy;
use crate::step::{BalancerStep, Block};
use crate::target::WantedBalancer;

/// Why no policy is made.
pub(crate) const NO_POLICIES: &str = "the provider cannot lead requests by host and path";

impl WantedBalancer<'_> {
    /// Whether its listeners lead to the pools of Services.
    pub(crate) fn is_router(&self) -> bool {
        self.wanted.header.routing.is_some()
    }

    /// Returns the pools that are wanted with these listeners.
    pub(crate) fn pool_ids(&self, listeners: &[ListenerId]) -> Vec<PoolId> {
        match self.wanted.header.routing.as_deref() {
            // Without a listener nothing leads there.
            Some(_) if listeners.is_empty() => Vec::new(),
            Some(routing) => routing.pools.iter().map(|pool| PoolId::Service(pool.id.clone())).collect(),
            None => listeners.iter().copied().map(PoolId::Listener).collect(),
        }
    }

    /// Returns the routes of a listener as policies.
    pub(crate) fn folded(&self, listener: ListenerId) -> FoldedRoutes {
        let Some(routing) = self.wanted.header.routing.as_deref() else { return FoldedRoutes::default() };
        fold(&self.routes_for_now(routing), listener)
    }

    /// Returns the routes as they are to be for now.
    pub(crate) fn routes_for_now<'r>(&self, routing: &'r Routing) -> Cow<'r, Routing> {
        without_redirects(routing, &self.redirects)
    }

    /// Returns the name of a Service's pool.
    pub(crate) fn service_pool_name(&self, id: &Text) -> Option<String> {
        let pool = self.wanted.header.routing.as_deref()?.pool(id)?;
        Some(LoadBalancerHeader::cut(pool.name.to_string()))
    }

    /// Adds what a router's listener leads to to the body of its creation with everything in it.
    pub(crate) fn add_routes(&self, listener: ListenerId, body: &mut Value) {
        let Some(routing) = self.wanted.header.routing.as_deref() else { return };
        let policies = self.folded(listener).policies;
        if !policies.is_empty() && !self.abilities.provider.l7 {
            return;
        }
        let nested = policies.into_iter().filter_map(|policy| {
            let target = match &policy.to {
                RouteTarget::Pool(id) => ("redirect_pool", json!({"name": self.service_pool_name(id)?})),
                RouteTarget::Redirect(to) => ("redirect_prefix", json!(&**to)),
            };
            Some(self.policy_wish(policy, PolicyWay::Shut, PolicyRepair::Later).nested(target))
        });
        body["l7policies"] = nested.collect();
        if let Some(name) = routing.default.as_ref().and_then(|id| self.service_pool_name(id)) {
            body["default_pool"] = json!({"name": name});
        }
    }

    /// Whether what no policy takes goes to a pool that is not wanted any more.
    fn leads_to_former(&self, balancer: &SeenBalancer, listener: &SeenListener) -> bool {
        let Some(routing) = self.wanted.header.routing.as_deref() else { return false };
        let mut led_to = balancer.pools.iter().filter(|pool| listener.default_pool.as_ref() == Some(&pool.id));
        let is_wanted = |tag: &String| service_of(tag).is_some_and(|id| routing.pool(id).is_some());
        led_to.any(|pool| !pool.tags.iter().any(is_wanted))
    }

    fn policy_wish(&self, policy: WantedPolicy, way: PolicyWay, repair: PolicyRepair) -> PolicyWish {
        let tag = route_tag(&policy.identity());
        let rule_tags = self.resource_tags.iter().map(ToString::to_string).collect();
        PolicyWish { policy, tag, tags: self.own_tags().collect(), rule_tags, way, repair }
    }
}

impl Actor {
    /// Returns the next step about a router: the pools first, then the listeners and where they lead.
    pub(crate) fn router_step(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'_>),
        listeners: &[ListenerId],
        now: Duration,
    ) -> Option<BalancerStep> {
        let wanted: Vec<_> = target.pool_ids(listeners).iter().filter_map(|id| target.pool(id)).collect();
        let made = |step: Option<BalancerStep>| step.and_then(|step| self.unless_blocked(step, now));
        let pool = wanted.iter().find_map(|one| made(self.pool_made(target, (balancer, pools), one, now).err()?));
        if pool.is_some() {
            return pool;
        }
        let listener = |id: &ListenerId| self.router_listener(target, (balancer, pools), *id, now);
        // HTTPS first: what is redirected from HTTP has to be answered there.
        if let Some(step) = listeners.iter().rev().find_map(listener) {
            return Some(step);
        }
        wanted.iter().find_map(|one| {
            let change = pool_change(pools.of_wanted(balancer, one)?, one, &target.pool_tags(&one.id), target)?;
            self.unless_blocked(BalancerStep::Change(change), now)
        })
    }

    fn router_listener(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'_>),
        id: ListenerId,
        now: Duration,
    ) -> Option<BalancerStep> {
        let wanted = target.listener(id)?;
        let unless_blocked = |change| self.unless_blocked(BalancerStep::Change(change), now);
        let Some(seen) = listener_at(balancer, id) else {
            if target.is_exposed {
                return None;
            }
            // It leads nowhere until it has its policies: what the first one takes must not go where others go.
            let mut body = wanted.body(&target.part_tags(id));
            body["loadbalancer_id"] = json!(balancer.id);
            return unless_blocked(CloudChange::CreateListener { body });
        };
        if self.is_in_the_way(seen, &wanted) {
            return None;
        }
        let change = self.listener_change(seen, &wanted, seen.default_pool.as_deref(), target, now);
        if let Some(step) = change.and_then(unless_blocked) {
            return Some(step);
        }
        let policies = self.with_policies(target, (balancer, pools), seen, id, now, |plan| plan.next());
        if let Some(step) = policies.and_then(unless_blocked) {
            return Some(step);
        }
        self.loosened(seen, target, id).and_then(|step| self.unless_blocked(step, now))
    }

    /// Passes on what is wanted of the policies of a listener.
    pub(crate) fn with_policies<T>(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'_>),
        listener: &SeenListener,
        listener_id: ListenerId,
        now: Duration,
        of: impl FnOnce(&PolicyPlan<'_>) -> T,
    ) -> T {
        let led_to = |id: &Text| self.pool_to_lead_to(target, (balancer, pools), id);
        let wish = |policy: WantedPolicy| {
            let part = PlanPart::Policy(policy.identity());
            let repair = match self.may_repair(&part, now) {
                false => PolicyRepair::Later,
                true if self.is_first_repair(&part, now) => PolicyRepair::Again,
                true => PolicyRepair::Anew,
            };
            let (pool, to) = match &policy.to {
                RouteTarget::Redirect(to) => (None, Some(to.to_string())),
                RouteTarget::Pool(id) => (Some(id), led_to(id).map(|pool| pool.id.clone())),
            };
            let way = match to {
                _ if !target.abilities.provider.l7 => PolicyWay::Shut,
                Some(to) => self.unless_part_blocked(&part, now).unwrap_or(PolicyWay::Open(to)),
                None => pool.map_or(PolicyWay::Shut, |id| self.way_of_missing(&part, id, now)),
            };
            target.policy_wish(policy, way, repair)
        };
        let wishes: Vec<PolicyWish> = target.folded(listener_id).policies.into_iter().map(wish).collect();
        // Where no policy can be made everything would go there.
        let leads = target.abilities.provider.l7 || wishes.is_empty();
        let wanted_default = target.wanted.header.routing.as_deref().and_then(|routing| routing.default.as_ref());
        let default = match wanted_default {
            None => Some(DefaultPool::Nowhere),
            Some(id) => match led_to(id) {
                Some(pool) => Some(DefaultPool::Pool(&pool.id)),
                None => match self.way_of_missing(&PlanPart::Port(Some(listener_id)), id, now) {
                    PolicyWay::Soon => Some(DefaultPool::Soon),
                    // A pool that is not wanted may have the place that the new one needs, and keeps it as long as it is led to.
                    PolicyWay::NoRoom => target.leads_to_former(balancer, listener).then_some(DefaultPool::Nowhere),
                    _ => None,
                },
            },
        };
        let ours = |seen: &SeenPolicy| self.mark.is_on(&seen.tags);
        let kept = |seen: &SeenPolicy| seen.tags.iter().any(|tag| tag == KEEP);
        let redirects = match terminates(target.wanted, listener_id) {
            true => self.redirects_left(target.wanted, now),
            false => GoingRedirects::default(),
        };
        of(&PolicyPlan {
            listener,
            wishes: &wishes,
            default: default.filter(|_| leads),
            goes: &|seen| match self.policy_goes(seen, now) {
                PolicyGoes::Now => redirects.policy_goes(seen),
                goes => goes,
            },
            names: &|seen| self.names_of(seen),
            may_be_taken: &|seen| ours(seen) || !kept(seen),
        })
    }

    pub(crate) fn policy_goes(&self, seen: &SeenPolicy, now: Duration) -> PolicyGoes {
        if !self.part_may_go(&seen.id, &seen.tags) {
            return PolicyGoes::NotYet;
        }
        match self.unless_part_blocked(&PlanPart::Removal(seen.id.clone()), now) {
            None => PolicyGoes::Now,
            Some(PolicyWay::Soon) => PolicyGoes::Soon,
            Some(_) => PolicyGoes::NotYet,
        }
    }

    /// Returns when something comes that is left alone; `None`: it is not.
    pub(crate) fn unless_part_blocked(&self, part: &PlanPart, now: Duration) -> Option<PolicyWay> {
        Some(match self.memory.block_of(part, now)? {
            Block::Failing if !self.memory.fails_on(part) => PolicyWay::Soon,
            Block::Failing => PolicyWay::Later,
            Block::Quota(_) => PolicyWay::NoRoom,
            _ => PolicyWay::Shut,
        })
    }

    /// Returns when a policy comes whose pool cannot be led to yet.
    pub(crate) fn way_of_missing(&self, part: &PlanPart, pool: &Text, now: Duration) -> PolicyWay {
        match (self.unless_part_blocked(part, now), self.way_of_pool(pool, now)) {
            (Some(PolicyWay::Shut), _) | (_, PolicyWay::Shut) => PolicyWay::Shut,
            (Some(PolicyWay::NoRoom), _) | (_, PolicyWay::NoRoom) => PolicyWay::NoRoom,
            (Some(PolicyWay::Later), _) | (_, PolicyWay::Later) => PolicyWay::Later,
            _ => PolicyWay::Soon,
        }
    }

    /// Returns when a pool can be led to that cannot yet.
    pub(crate) fn way_of_pool(&self, pool: &Text, now: Duration) -> PolicyWay {
        let pool = PoolId::Service(pool.clone());
        let (part, members) = (PlanPart::of_pool(&pool), PlanPart::NewMembers(pool.clone()));
        let ways: Vec<PolicyWay> =
            [&part, &members].into_iter().filter_map(|part| self.unless_part_blocked(part, now)).collect();
        let repair = self.memory.next_repair(&part, self.budget, now);
        // What is in ERROR until it may be made again has that in common with what goes on failing.
        let waits = matches!(repair, RepairTime::At(_)) && self.has_only_broken(&pool);
        match ways {
            _ if matches!(repair, RepairTime::Spent(_)) => PolicyWay::Shut,
            ways if ways.contains(&PolicyWay::Shut) => PolicyWay::Shut,
            ways if ways.contains(&PolicyWay::NoRoom) => PolicyWay::NoRoom,
            ways if waits || ways.contains(&PolicyWay::Later) => PolicyWay::Later,
            _ => PolicyWay::Soon,
        }
    }

    /// Whether there are pools for a Service, and all of them are in `ERROR`.
    fn has_only_broken(&self, pool: &PoolId) -> bool {
        let (balancer, tag) = (self.balancer(), tag_of_pool(pool));
        let mut pools =
            balancer.into_iter().flat_map(|one| &one.pools).filter(|one| one.tags.contains(&tag)).peekable();
        pools.peek().is_some() && pools.all(|one| one.provisioning == Provisioning::Error)
    }

    /// Returns the pool of a Service if requests may be led to it: it is led to already, or has all of its members.
    fn pool_to_lead_to<'a>(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'a>),
        id: &Text,
    ) -> Option<&'a SeenPool> {
        let id = PoolId::Service(id.clone());
        let pool = pools.of_wanted(balancer, &target.pool(&id)?)?;
        let has_all = || {
            let places = MembersByPlace::of(pool);
            target.members(&id).iter().all(|one| places.find(one).is_some())
        };
        (pools.is_used(&pool.id) || has_all()).then_some(pool)
    }

    /// Returns the policy with this ID.
    pub(crate) fn policy(&self, id: &str) -> Option<&SeenPolicy> {
        let listeners = self.seen.balancers.iter().flat_map(|one| &one.listeners);
        listeners.flat_map(|one| &one.policies).find(|one| one.id == id)
    }
}
