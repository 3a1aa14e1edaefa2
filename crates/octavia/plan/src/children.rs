//! Listeners, and what is not wanted: new before old, a pool with its members before the listener that points to it.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_kuryr_model::{ListenerId, PoolId};
use gimbal_model::Protocol;
use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::fields::FieldTags;
use crate::mark::{KEEP, tag_of_pool};
use crate::members::MembersByPlace;
use crate::memory::PlanPart;
use crate::pools::{PoolsByTag, differing, pool_change};
use crate::ranges::{covers, may_open};
use crate::seen::{Provisioning, SeenBalancer, SeenListener, SeenPool};
use crate::step::BalancerStep;
use crate::target::{TERMINATED_HTTPS, WantedBalancer, WantedListener, WantedMember};

/// The limit of connections to a listener, and its value where there is none.
const LIMIT: &str = "connection_limit";
const NO_LIMIT: i64 = -1;

impl Actor {
    /// Returns the next step about what is below the load balancer.
    pub(crate) fn parts(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &SeenBalancer,
        now: Duration,
    ) -> Option<BalancerStep> {
        let all = target.wanted.header.listeners.iter().map(|wish| wish.id);
        let is_served = |id: &ListenerId| {
            let can_be = !target.lacks_certificate(*id) || listener_at(balancer, *id).is_some();
            can_be && target.refusal(*id).is_none() && self.memory.refusal_of(*id, now).is_none()
        };
        let (wanted, refused): (Vec<ListenerId>, Vec<ListenerId>) = all.partition(is_served);
        let left = self.left_open(target, balancer, &refused);
        let pools = PoolsByTag::of(balancer);
        if let Some(step) = self.tightened(target, balancer, &wanted, now) {
            return Some(step);
        }
        // Members change more often than all else, and whoever waits for one waits for traffic.
        let ids = target.pool_ids(&wanted);
        let of_served = |id: &PoolId| {
            let pool = pools.of_wanted(balancer, &target.pool(id)?).filter(|pool| match id {
                PoolId::Listener(id) => {
                    let listener = self.managed_listener(target, balancer, *id);
                    listener.is_some_and(|listener| listener.default_pool.as_ref() == Some(&pool.id))
                }
                PoolId::Service(_) => pools.is_used(&pool.id),
            })?;
            Some((id.clone(), pool))
        };
        let of_held =
            |id: &ListenerId| Some((PoolId::from(*id), self.held_pool(target, (balancer, &pools), *id, now)?));
        let of_left = |(id, listener): &(ListenerId, &SeenListener)| {
            Some((PoolId::from(*id), self.own_pool(balancer, listener, *id)?))
        };
        let follow = |(id, pool): (PoolId, &SeenPool)| {
            let may = self.member_changes(&id, now);
            self.unless_blocked(self.members_step(pool, &target.members(&id), &target.abilities, may)?, now)
        };
        let in_use = ids.iter().filter_map(of_served);
        let in_use = in_use.chain(wanted.iter().filter_map(of_held)).chain(left.iter().filter_map(of_left));
        let mut in_use: Vec<(PoolId, &SeenPool)> = in_use.collect();
        if let Some(turns) = &self.memory.member_turns {
            turns.order(&mut in_use);
        }
        let members = members_first(in_use.into_iter().filter_map(follow));
        if members.is_some() && !self.memory.others_first() {
            return members;
        }
        let next = |id: &ListenerId| {
            let step = self.port_step(target, (balancer, &pools), *id, now)?;
            self.unless_blocked(step, now)
        };
        let made = if target.is_router() {
            self.router_step(target, (balancer, &pools), &wanted, now)
        } else {
            wanted.iter().find_map(next)
        };
        let served = wanted.iter().filter_map(|id| listener_at(balancer, *id));
        let kept = served.chain(left.iter().map(|(_, listener)| *listener)).map(|one| one.id.as_str()).collect();
        let surplus = || self.unless_blocked(self.surplus((balancer, &pools), (&wanted, &kept), target, now)?, now);
        match made.or_else(surplus) {
            Some(step @ BalancerStep::Change(_)) => Some(step),
            other => members.or(other),
        }
    }

    /// Returns listeners of ours at ports that the provider refuses as they are wanted. They go on as they are, and only their
    /// members follow: who had connected before the refused setting was asked for still can. One that lets in others than those who
    /// are wanted is not among them.
    pub(crate) fn left_open<'a>(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &'a SeenBalancer,
        refused: &[ListenerId],
    ) -> Vec<(ListenerId, &'a SeenListener)> {
        let left = |id: &ListenerId| {
            let seen = listener_at(balancer, *id).filter(|seen| self.mark.is_on(&seen.tags))?;
            covers(&target.clients(*id), &seen.allowed_cidrs).then_some((*id, seen))
        };
        refused.iter().filter_map(left).collect()
    }

    /// Returns the next step about one port.
    fn port_step(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'_>),
        id: ListenerId,
        now: Duration,
    ) -> Option<BalancerStep> {
        let (listener, wanted_pool) = (target.listener(id)?, target.pool(&id.into())?);
        let tags = target.part_tags(id);
        let present = listener_at(balancer, id);
        if present.is_some_and(|seen| self.is_in_the_way(seen, &listener)) {
            return None;
        }
        let pool = match self.pool_made(target, (balancer, pools), &wanted_pool, now) {
            Ok(pool) => pool,
            Err(step) => return step,
        };
        let Some(seen) = present else {
            if target.is_exposed {
                return None;
            }
            let members = target.members(&wanted_pool.id);
            if !self.may_add(&wanted_pool.id, now) && !members.is_empty() && serving(pool, &members) == 0 {
                // Nothing points to a pool that has none of its members. Some of them are better than a closed port.
                return None;
            }
            let mut body = listener.body(&tags);
            body["loadbalancer_id"] = json!(balancer.id);
            // With a pool, Octavia 18 answers 500 where another transport has the same port: its check of that port reads the load
            // balancer without its VIP, which it then asks for. The pool follows as a change.
            if !balancer.listeners.iter().any(|other| other.port == id.port) {
                body["default_pool_id"] = json!(pool.id);
            }
            return Some(BalancerStep::Change(CloudChange::CreateListener { body }));
        };
        let held = self.held_pool(target, (balancer, pools), id, now);
        // Another protocol comes with another pool.
        let may_change = held.is_none() || seen.protocol == listener.protocol;
        let leads_to = held.unwrap_or(pool).id.as_str();
        let change = || self.listener_change(seen, &listener, Some(leads_to), target, now);
        if let Some(change) = may_change.then(change).flatten() {
            return Some(BalancerStep::Change(change));
        }
        if let Some(step) = self.loosened(seen, target, id).and_then(|step| self.unless_blocked(step, now)) {
            return Some(step);
        }
        Some(BalancerStep::Change(pool_change(pool, &wanted_pool, &tags, target)?))
    }

    /// Returns the pool that a port goes on with although another one is wanted: new members are refused for the time being, and the
    /// wanted pool has fewer of the wanted ones.
    fn held_pool<'a>(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&'a SeenBalancer, &PoolsByTag<'a>),
        id: ListenerId,
        now: Duration,
    ) -> Option<&'a SeenPool> {
        let (of_port, listener) = (PoolId::from(id), listener_at(balancer, id)?);
        let works = listener.admin_state_up && listener.provisioning != Provisioning::Error;
        if self.may_add(&of_port, now) || !works || !self.mark.is_on(&listener.tags) {
            return None;
        }
        let wanted = pools.of_wanted(balancer, &target.pool(&of_port)?);
        let present = self.own_pool(balancer, listener, id)?;
        if wanted.is_some_and(|pool| pool.id == present.id) {
            return None;
        }
        let members = target.members(&of_port);
        let comes = wanted.map_or(0, |pool| serving(pool, &members));
        (serving(present, &members) > comes).then_some(present)
    }

    /// Returns the pool that a listener leads to, if it was made for that port and works. The pool of another port has the members of
    /// that.
    fn own_pool<'a>(
        &self,
        balancer: &'a SeenBalancer,
        listener: &SeenListener,
        id: ListenerId,
    ) -> Option<&'a SeenPool> {
        let pool = balancer.pools.iter().find(|pool| Some(&pool.id) == listener.default_pool.as_ref())?;
        let ours = self.mark.is_on(&pool.tags) && pool.tags.contains(&tag_of_pool(&id.into()));
        (ours && pool.provisioning != Provisioning::Error).then_some(pool)
    }

    /// Returns the change that makes a listener as it is wanted, but for who may connect.
    pub(crate) fn listener_change(
        &self,
        seen: &SeenListener,
        wanted: &WantedListener,
        pool: Option<&str>,
        target: &WantedBalancer<'_>,
        now: Duration,
    ) -> Option<CloudChange> {
        let part = PlanPart::Port(Some(wanted.id));
        let broken = seen.provisioning == Provisioning::Error && self.may_repair(&part, now);
        // A broken one gets everything once more, for it may serve what it had; then it is made anew.
        if seen.protocol != wanted.protocol || (broken && !self.is_first_repair(&part, now)) {
            // It could not be made again.
            if target.is_exposed {
                return None;
            }
            return Some(CloudChange::DeleteListener { id: seen.id.clone() });
        }
        let fields = listener_fields(seen, wanted, pool, &target.part_tags(wanted.id), target, broken)?;
        Some(CloudChange::UpdateListener { id: seen.id.clone(), fields })
    }

    /// Returns the listener of a port, if it is not somebody else's.
    pub(crate) fn managed_listener<'a>(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &'a SeenBalancer,
        id: ListenerId,
    ) -> Option<&'a SeenListener> {
        let listener = target.listener(id)?;
        let seen = listener_at(balancer, id)?;
        (seen.protocol == listener.protocol && !self.is_in_the_way(seen, &listener)).then_some(seen)
    }

    /// Whether a listener has a port of ours and may not be touched: one that somebody added and keeps, or one of another
    /// protocol that somebody keeps, or has added only a short while ago.
    pub(crate) fn is_in_the_way(&self, seen: &SeenListener, wanted: &WantedListener) -> bool {
        let ours = self.mark.is_on(&seen.tags);
        let kept = seen.tags.iter().any(|tag| tag == KEEP);
        if seen.protocol == wanted.protocol { kept && !ours } else { !self.part_may_go(&seen.id, &seen.tags) }
    }

    /// Returns which port cannot be served because somebody else's listener has it.
    pub(crate) fn port_conflict(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer) -> Option<String> {
        target.wanted.header.listeners.iter().find_map(|wish| {
            let listener = target.listener(wish.id)?;
            let seen = listener_at(balancer, wish.id).filter(|seen| self.is_in_the_way(seen, &listener))?;
            Some(format!("listener {} has port {} and is not ours", seen.id, wish.id.port))
        })
    }

    /// Removes what is not wanted: listeners but the kept ones, before the pools that they point to.
    fn surplus(
        &self,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'_>),
        (wanted, kept): (&[ListenerId], &BTreeSet<&str>),
        target: &WantedBalancer<'_>,
        now: Duration,
    ) -> Option<BalancerStep> {
        let is_kept = |one: &SeenListener| kept.contains(one.id.as_str());
        let listener = self.surplus_listener(balancer, is_kept, now);
        if let Some(step) = listener.or_else(|| self.surplus_over_https(balancer, is_kept, now)) {
            return Some(step);
        }
        let may_go = |id: &str, tags: &[String]| self.part_may_go(id, tags) && self.may_remove(id, now);
        // Those of a router have their own order.
        let ours = balancer.listeners.iter().filter(|one| !target.is_router() && self.mark.is_on(&one.tags));
        if let Some(policy) = ours.flat_map(|one| &one.policies).find(|one| may_go(&one.id, &one.tags)) {
            return Some(BalancerStep::Change(CloudChange::DeletePolicy { id: policy.id.clone() }));
        }
        let ids = target.pool_ids(wanted);
        let needed: BTreeSet<&str> =
            ids.iter().filter_map(|id| Some(pools.of_wanted(balancer, &target.pool(id)?)?.id.as_str())).collect();
        let pool = balancer.pools.iter().find(|pool| {
            let id = pool.id.as_str();
            !pools.is_used(id) && !needed.contains(id) && may_go(id, &pool.tags)
        })?;
        Some(BalancerStep::Change(CloudChange::DeletePool { id: pool.id.clone() }))
    }

    /// Removes a listener that is not kept. One that cannot be removed is in the way of no other, and one for HTTPS goes after the
    /// redirects that lead there.
    pub(crate) fn surplus_listener(
        &self,
        balancer: &SeenBalancer,
        is_kept: impl Fn(&SeenListener) -> bool,
        now: Duration,
    ) -> Option<BalancerStep> {
        let may_go = |one: &SeenListener| self.part_may_go(&one.id, &one.tags) && self.may_remove(&one.id, now);
        let is_led_to =
            |one: &SeenListener| one.protocol == TERMINATED_HTTPS && !self.redirects_in(balancer, now).is_empty();
        let listener = balancer.listeners.iter().find(|one| !is_kept(one) && may_go(one) && !is_led_to(one))?;
        Some(BalancerStep::Change(CloudChange::DeleteListener { id: listener.id.clone() }))
    }

    pub(crate) fn part_may_go(&self, id: &str, tags: &[String]) -> bool {
        let is_kept = self.is_spared(tags) || tags.iter().any(|tag| tag == KEEP);
        !is_kept && (self.mark.is_on(tags) || self.memory.is_condemned(id))
    }
}

/// Returns the first of these steps about members of several ports. One that only takes a member away comes last: where members
/// are changed one by one, the new ones of all ports come before the old ones of any go.
pub(crate) fn members_first(steps: impl Iterator<Item = BalancerStep>) -> Option<BalancerStep> {
    let mut removal = None;
    for step in steps {
        if !matches!(step, BalancerStep::Change(CloudChange::DeleteMember { .. })) {
            return Some(step);
        }
        removal.get_or_insert(step);
    }
    removal
}

/// Returns how many of these members a pool has that take connections.
fn serving(pool: &SeenPool, members: &[WantedMember]) -> usize {
    let places = MembersByPlace::of(pool);
    members.iter().filter(|one| one.weight > 0 && places.find(one).is_some()).count()
}

/// Returns the listener that has a port.
pub(crate) fn listener_at(balancer: &SeenBalancer, id: ListenerId) -> Option<&SeenListener> {
    balancer.listeners.iter().find(|one| is_at(one, id))
}

/// Whether a listener has a port.
pub(crate) fn is_at(listener: &SeenListener, id: ListenerId) -> bool {
    let protocol = match listener.protocol.as_str() {
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    (listener.port, protocol) == (id.port, id.protocol)
}

/// Returns what has to be changed about a listener, but for who may connect; `whole`: everything that is wanted.
fn listener_fields(
    seen: &SeenListener,
    wanted: &WantedListener,
    pool: Option<&str>,
    tags: &[String],
    target: &WantedBalancer<'_>,
    whole: bool,
) -> Option<Value> {
    let WantedListener { id: _, name, protocol: _, up, allowed: _, options } = wanted;
    let mut fields = Map::new();
    if whole || seen.name != *name {
        fields.insert("name".into(), json!(name));
    }
    if whole || seen.default_pool.as_deref() != pool {
        fields.insert("default_pool_id".into(), json!(pool));
    }
    if *up && !seen.admin_state_up && !target.is_exposed && may_open(&target.clients(wanted.id), seen) {
        fields.insert("admin_state_up".into(), json!(true));
    }
    fields.extend(if whole { options.clone() } else { differing(&seen.row, options) });
    // Without a limit it is -1, whatever Octavia is configured for.
    let is_limited = || seen.row[LIMIT].as_i64().is_some_and(|limit| limit != NO_LIMIT);
    if !options.contains_key(LIMIT) && is_limited() {
        fields.insert(LIMIT.into(), json!(NO_LIMIT));
    }
    let times = FieldTags { present: &seen.tags, asked: &wanted.times() };
    // With null Octavia sets what it is configured for.
    fields.extend(times.given_up().map(|time| (time.to_owned(), Value::Null)));
    let tags = times.changed(target.sharing, tags, !fields.is_empty());
    fields.extend(tags.map(|tags| ("tags".to_owned(), tags)));
    (!fields.is_empty()).then_some(Value::Object(fields))
}
