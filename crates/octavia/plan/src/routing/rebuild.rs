//! Whether another load balancer takes the place of a router of which much is to change: one request makes all of it, where each
//! change of a living one takes Octavia's lock for itself.

use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, ListenerId};
use serde_json::Value;

use crate::actor::Actor;
use crate::children::listener_at;
use crate::memory::{PlanPart, RepairTime};
use crate::pools::PoolsByTag;
use crate::request_size::fitted_balancer;
use crate::routing::fold::WantedPolicy;
use crate::seen::SeenBalancer;
use crate::target::WantedBalancer;

/// The number of changes above which a router is rebuilt, unless something else is configured.
pub const REBUILD_ABOVE: usize = 40;

/// How long a router waits for the one that is to take its place, and does not change. One that takes longer is given up, and the
/// changes are made one by one.
const AWAITED: Duration = Duration::from_secs(600);

impl Actor {
    /// Whether another load balancer is to take the place of a router that serves and can be moved. With a `successor`: whether
    /// that one still is to.
    pub(crate) fn is_rebuilt(
        &self,
        target: &WantedBalancer<'_>,
        current: &SeenBalancer,
        successor: Option<&SeenBalancer>,
        now: Duration,
    ) -> bool {
        let is_led_to = || self.seen.floating.iter().any(|one| one.port.as_deref() == Some(&*current.vip_port));
        // Without a floating IP clients could not follow.
        if self.rebuild_above == 0 || !target.is_router() || !is_led_to() {
            return false;
        }
        match successor {
            Some(new) => self.changes_left(target, current, now) > 0 && self.is_awaited(new, now),
            None => self.may_be_rebuilt(target, now) && self.is_rebuilt_sooner(target, current, now),
        }
    }

    /// Whether one that was made to take a router's place lacks so much that another one would be there sooner.
    pub(crate) fn is_outdated(&self, target: &WantedBalancer<'_>, successor: &SeenBalancer, now: Duration) -> bool {
        !successor.provisioning.is_pending()
            && self.may_be_rebuilt(target, now)
            && self.is_rebuilt_sooner(target, successor, now)
    }

    fn may_be_rebuilt(&self, target: &WantedBalancer<'_>, now: Duration) -> bool {
        let lacks_certificate = || target.wanted.header.listeners.iter().any(|wish| target.lacks_certificate(wish.id));
        target.abilities.provider.populated_create
            && target.abilities.provider.l7
            && has_room(target.facts, target)
            && self.memory.block_of(&PlanPart::Successor, now).is_none()
            && self.memory.next_repair(&PlanPart::Successor, self.budget, now) == RepairTime::Now
            && self.memory.next_repair(&PlanPart::Balancer, self.budget, now) == RepairTime::Now
            && !lacks_certificate()
            && self.unstored().next().is_none()
    }

    /// Whether a new one would save enough changes. What does not fit into the request that makes it comes one by one there as
    /// well.
    fn is_rebuilt_sooner(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer, now: Duration) -> bool {
        let changes = self.changes_left(target, balancer, now);
        if changes <= self.rebuild_above {
            return false;
        }
        let Some(body) = fitted_balancer(target.balancer(None, None, true, &[])) else { return false };
        let left = self.changes_of_new(target, &body);
        changes - left.min(changes) > self.rebuild_above.max(changes / 2)
    }

    /// Returns how many changes are left to be made to a router, but for those of members and attributes.
    fn changes_left(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer, now: Duration) -> usize {
        let pools = PoolsByTag::of(balancer);
        let ids: Vec<ListenerId> = target.wanted.header.listeners.iter().map(|wish| wish.id).collect();
        let all = target.pool_ids(&ids);
        let wanted = all.iter().filter_map(|id| target.pool(id));
        // It, and its members.
        let of_pools: usize = wanted.map(|one| if pools.of_wanted(balancer, &one).is_some() { 0 } else { 2 }).sum();
        let of_listener = |id: &ListenerId| match listener_at(balancer, *id) {
            Some(seen) => self.with_policies(target, (balancer, &pools), seen, *id, now, |plan| plan.changes()),
            None => 1 + target.folded(*id).policies.iter().map(WantedPolicy::changes).sum::<usize>(),
        };
        of_pools + ids.iter().map(of_listener).sum::<usize>()
    }

    /// Returns how many changes are left after a creation with this body.
    fn changes_of_new(&self, target: &WantedBalancer<'_>, body: &Value) -> usize {
        let listeners = body["listeners"].as_array().map(Vec::as_slice).unwrap_or_default();
        let made: usize = listeners.iter().filter_map(|one| one["l7policies"].as_array()).map(Vec::len).sum();
        let ids = target.wanted.header.listeners.iter().map(|wish| wish.id);
        ids.flat_map(|id| target.folded(id).policies).skip(made).map(|one| one.changes()).sum()
    }

    fn is_awaited(&self, successor: &SeenBalancer, now: Duration) -> bool {
        let since = self.memory.successor_since.as_ref().filter(|(id, _)| *id == successor.id);
        since.is_none_or(|(_, since)| *since + AWAITED > now)
    }

    /// Takes note since when there is one that takes another's place.
    pub(crate) fn note_successor(&mut self, now: Duration) {
        let id = self.lineup().and_then(|lineup| Some(lineup.successors.first()?.id.clone()));
        let since = &mut self.memory.successor_since;
        match id {
            None => *since = None,
            Some(id) if since.as_ref().is_some_and(|(known, _)| *known == id) => {}
            Some(id) => *since = Some((id, now)),
        }
    }
}

/// Whether the quota has room for another one, as far as that is known.
fn has_room(facts: &CloudFacts, target: &WantedBalancer<'_>) -> bool {
    let (quota, header) = (&facts.quota, &target.wanted.header);
    let pools = header.routing.as_ref().map_or(0, |routing| routing.pools.len());
    let fits =
        |free: Option<u32>, need: usize| free.is_none_or(|free| u32::try_from(need).is_ok_and(|need| need <= free));
    fits(quota.load_balancers, 1)
        && fits(quota.listeners, header.listeners.len())
        && fits(quota.pools, pools)
        && fits(quota.ports, 1)
}
