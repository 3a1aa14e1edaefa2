//! Another load balancer takes the place of one: it is made first, then the floating IP moves, then the old one goes.

use std::time::Duration;

use gimbal_kuryr_model::{ListenerId, PoolId};

use crate::actor::Actor;
use crate::children::{is_at, listener_at, members_first};
use crate::make::{delete_balancer, wait};
use crate::mark::tag_of_pool;
use crate::members::MemberChanges;
use crate::memory::{PlanPart, RepairTime};
use crate::pools::PoolsByTag;
use crate::ranges::covers;
use crate::seen::{Provisioning, SeenBalancer, SeenListener, SeenPool};
use crate::step::{BalancerStep, Block, CloudLook, Wait};
use crate::target::WantedBalancer;

/// How long routers may take until they follow a floating IP that was led elsewhere. Clients come to the former load balancer
/// until then.
const NETWORK_FOLLOWS: Duration = Duration::from_secs(10);

/// Whether something that is left alone would be missing behind the floating IP if it were led away from this load balancer to the
/// new one.
fn would_be_missing(part: &PlanPart, current: &SeenBalancer, new: &SeenBalancer, target: &WantedBalancer<'_>) -> bool {
    let policies = || current.listeners.iter().flat_map(|one| &one.policies).filter(|one| one.admin_state_up);
    let is_there = match part {
        PlanPart::Port(_) => true,
        // It may be the former one alone that cannot be restricted.
        PlanPart::Ranges(id) | PlanPart::Closing(id) => {
            let clients = target.clients(*id);
            let is_restricted = |one: &SeenListener| !one.admin_state_up || covers(&clients, &one.allowed_cidrs);
            !listener_at(new, *id).is_some_and(is_restricted)
        }
        PlanPart::Policy(identity) => policies().any(|one| one.identity() == *identity),
        PlanPart::Pool(id) => leads_to(current, &PoolId::Service(id.clone())),
        PlanPart::NewMembers(id @ PoolId::Service(_)) => leads_to(current, id),
        PlanPart::NewMembers(PoolId::Listener(_)) => true,
        PlanPart::Monitor(id) => {
            let tag = tag_of_pool(id);
            current.pools.iter().any(|one| one.monitor.is_some() && one.tags.contains(&tag))
        }
        _ => false,
    };
    // A router that no client reaches has nothing to lose, and what lacks room may have it as soon as that one is gone.
    let is_router = current.listeners.iter().any(|one| !one.policies.is_empty());
    let is_dead = current.provisioning == Provisioning::Error && ["ERROR", "OFFLINE"].contains(&&*current.operating);
    is_there && !(is_router && is_dead)
}

fn leads_to(balancer: &SeenBalancer, id: &PoolId) -> bool {
    let (tag, pools) = (tag_of_pool(id), PoolsByTag::of(balancer));
    balancer.pools.iter().any(|one| one.tags.contains(&tag) && pools.is_used(&one.id))
}

impl Actor {
    pub(crate) fn replace(
        &self,
        target: &WantedBalancer<'_>,
        current: &SeenBalancer,
        successor: Option<&SeenBalancer>,
        now: Duration,
    ) -> BalancerStep {
        // The old one serves until the new one can.
        if let Some(step) = self.meanwhile(target, current, now) {
            return step;
        }
        match self.replaced(target, current, successor, now) {
            // Its members change all the same, and again when that is done: the new one may take minutes.
            BalancerStep::Wait(Wait::Pending { .. }) | BalancerStep::Blocked(_)
                if current.provisioning.is_pending() =>
            {
                wait(current)
            }
            step => step,
        }
    }

    /// Returns the next step of the replacement itself.
    fn replaced(
        &self,
        target: &WantedBalancer<'_>,
        current: &SeenBalancer,
        successor: Option<&SeenBalancer>,
        now: Duration,
    ) -> BalancerStep {
        let Some(new) = successor else {
            return match self.memory.next_repair(&PlanPart::Balancer, self.budget, now) {
                RepairTime::Spent(_) => BalancerStep::Blocked(Block::RepairBudget),
                RepairTime::At(then) => BalancerStep::Wait(Wait::Until(then)),
                RepairTime::Now => self.create(target, Some(current), now),
            };
        };
        if new.provisioning.is_pending() {
            return wait(new);
        }
        if new.provisioning == Provisioning::Error {
            return self.unless_refused(delete_balancer(new), now);
        }
        if let Some(step) = self.parts(target, new, now) {
            return step;
        }
        // What is left alone for now would be missing behind the floating IP.
        if let Some((_, block)) =
            self.memory.blocked(now).find(|(part, _)| would_be_missing(part, current, new, target))
        {
            return BalancerStep::Blocked(block.clone());
        }
        // Some providers say ACTIVE before everything in it is made.
        let leads = self.seen.floating.iter().any(|one| one.port.as_deref() == Some(&*current.vip_port));
        if leads && let Some(step) = self.unless_whole(new, now) {
            return step;
        }
        if let Some(step) = self.late_change(now) {
            return step;
        }
        match self.moved(&current.vip_port, &new.vip_port, now) {
            Ok(Some(step)) => step,
            Ok(None) => self.unless_refused(delete_balancer(current), now),
            Err(block) => BalancerStep::Blocked(block),
        }
    }

    /// Returns what to do first before a floating IP moves, or one of several load balancers goes.
    pub(crate) fn late_change(&self, now: Duration) -> Option<BalancerStep> {
        if self.seen.floating.is_empty() {
            return None;
        }
        if let Some(then) = self.memory.moved.map(|moved| moved + NETWORK_FOLLOWS).filter(|then| *then > now) {
            return Some(BalancerStep::Wait(Wait::Until(then)));
        }
        // A process that was killed may have sent a request which leads the floating IP to any of them, or deletes any of them,
        // and has not arrived yet.
        let at = self.memory.late_look()?;
        Some(if at > now { BalancerStep::Wait(Wait::Until(at)) } else { BalancerStep::Look(CloudLook::Owner) })
    }

    /// Returns the next step about a load balancer in whose place another one is to come: only what cannot wait for that.
    pub(crate) fn meanwhile(
        &self,
        target: &WantedBalancer<'_>,
        current: &SeenBalancer,
        now: Duration,
    ) -> Option<BalancerStep> {
        if current.provisioning != Provisioning::Active {
            return None;
        }
        let all = target.wanted.header.listeners.iter().map(|wish| wish.id);
        // What is known to be refused is so by the provider that is wanted.
        let is_served = |id: &ListenerId| {
            let is_refused = || target.refusal(*id).is_some() || self.memory.refusal_of(*id, now).is_some();
            self.is_of_former_provider(current) || !is_refused()
        };
        let (wanted, refused): (Vec<ListenerId>, Vec<ListenerId>) = all.partition(is_served);
        // Who may not connect any more is kept out at once, however long the other one takes.
        if let Some(step) = self.tightened(target, current, &wanted, now) {
            return Some(step);
        }
        let left = self.left_open(target, current, &refused);
        let is_kept = |one: &SeenListener| {
            wanted.iter().any(|id| is_at(one, *id)) || left.iter().any(|(_, listener)| listener.id == one.id)
        };
        if let Some(step) = self.surplus_listener(current, is_kept, now) {
            return Some(step);
        }
        let ids = target.pool_ids(&wanted).into_iter().chain(left.iter().map(|(id, _)| PoolId::from(*id)));
        let in_use = ids.filter_map(|id| {
            let pool = self.pool_in_use(current, &id).filter(|pool| pool.provisioning == Provisioning::Active)?;
            Some((id, pool))
        });
        let mut in_use: Vec<(PoolId, &SeenPool)> = in_use.collect();
        if let Some(turns) = &self.memory.member_turns {
            turns.order(&mut in_use);
        }
        let steps = in_use.into_iter().filter_map(|(id, pool)| {
            let may = MemberChanges { repair: false, add: self.may_add(&id, now) };
            self.unless_blocked(self.members_step(pool, &target.members(&id), &target.abilities, may)?, now)
        });
        members_first(steps)
    }
}
