//! What there is to do while a load balancer is wanted.

use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, DesiredLoadBalancer};
use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::exposure::leads_anywhere;
use crate::floating::FloatingNext;
use crate::memory::{PlanPart, RepairTime};
use crate::request_size::fitted_balancer;
use crate::seen::{Provisioning, SeenBalancer, SeenPort};
use crate::sharing::retagged;
use crate::step::{BalancerStep, Block, CloudLook, Wait};
use crate::target::WantedBalancer;
use crate::vip::{can_be_moved, must_be_replaced};

impl Actor {
    pub(crate) fn target<'a>(
        &'a self,
        wanted: &'a DesiredLoadBalancer,
        facts: &'a CloudFacts,
        now: Duration,
    ) -> WantedBalancer<'a> {
        let abilities = self.abilities(wanted, facts, now);
        let has_one = || self.balancer().map_or(!abilities.additional_vips, |one| one.additional_vips.is_empty());
        WantedBalancer {
            key: &self.key,
            wanted,
            facts,
            mark: &self.mark,
            resource_tags: &self.resource_tags,
            abilities,
            has_one_address: !wanted.header.vip.additional_subnets.is_empty() && has_one(),
            sharing: self.sharing.as_deref(),
            certificates: self.references(wanted, now),
            redirects: self.redirects_for_now(wanted),
            is_exposed: self.balancer().is_some_and(|balancer| self.is_exposed(wanted, balancer)),
        }
    }

    pub(crate) fn make(&self, wanted: &DesiredLoadBalancer, facts: &CloudFacts, now: Duration) -> BalancerStep {
        if self.seen.balancers.is_empty()
            && let Some(step) = self.adoption_awaited(wanted, now)
        {
            return step;
        }
        // Octavia's lock does not matter to the key manager, and a listener comes after its certificates.
        // Where the key manager fails, everything else comes first.
        let fails = self.memory.fails_to_store(now);
        if let Some(step) = self.store_step(wanted, now).filter(|_| !fails) {
            return step;
        }
        let target = self.target(wanted, facts, now);
        let Some(lineup) = self.lineup() else {
            return self.contents_awaited(now).unwrap_or_else(|| self.create(&target, None, now));
        };
        let current = lineup.current;
        // Of a shared one the oldest owner may not have been heard yet, and another one would lack those who have not.
        let is_whole = !self.is_spared(&current.tags);
        let differs = is_whole && must_be_replaced(current, &target);
        let broken = current.provisioning == Provisioning::Error;
        // One that is made for something that is no longer wanted is no successor.
        let fits = |new: &&SeenBalancer| !must_be_replaced(new, &target);
        let can_move = can_be_moved(current, &target);
        let rebuilt = can_move && is_whole && !differs && !broken && {
            self.is_rebuilt(&target, current, lineup.successors.iter().copied().find(fits), now)
        };
        let moves = can_move && (differs || broken || rebuilt);
        let is_successor =
            |new: &&SeenBalancer| moves && fits(new) && !(rebuilt && self.is_outdated(&target, new, now));
        let successor = lineup.successors.iter().copied().find(is_successor);
        let is_left = |one: &&SeenBalancer| successor.is_none_or(|new| new.id != one.id);
        let left: Vec<&SeenBalancer> = lineup.others.into_iter().chain(lineup.successors).filter(is_left).collect();
        let late = self.late_change(now);
        if late.is_none()
            && let Some(other) = left.iter().find(|one| !one.provisioning.is_pending() && self.may_remove(&one.id, now))
        {
            return delete_balancer(other);
        }
        let mut conflict = None;
        let stays = !differs || moves;
        let is_unwanted = wanted.header.floating.is_none();
        // One that is not wanted leads there no longer before another load balancer is made on the same port.
        if is_whole && (stays || is_unwanted) {
            // Octavia's lock does not matter to Neutron.
            match self.floating_next(wanted, facts, current, now) {
                // They are kept out first.
                FloatingNext::Step(step)
                    if !is_unwanted && leads_anywhere(&step) && self.lets_in_others(&target, current, now) => {}
                FloatingNext::Step(step) => return step,
                FloatingNext::Conflict(words) => conflict = Some(words),
                FloatingNext::Nothing => {}
            }
            if let Some(step) = self.own_port_step(&target, current, now).filter(|_| stays) {
                return step;
            }
        }
        let step = match (differs, broken) {
            _ if rebuilt || (differs && moves) => self.replace(&target, current, successor, now),
            (true, _) => self.gives_way(&target, current, now),
            // A failover takes nothing away from those of its owners who have not been heard.
            (false, true) if !is_whole => {
                let failover = self.failover(&target, current).filter(|_| self.may_repair(&PlanPart::Balancer, now));
                failover.unwrap_or(BalancerStep::Wait(Wait::Until(now + self.drift_interval)))
            }
            (false, true) => self.repair(&target, current, successor, now),
            (false, false) => self.keep(&target, current, now),
        };
        match (step, conflict, left.first()) {
            (BalancerStep::Done, _, Some(other)) => match late {
                Some(step) if !other.provisioning.is_pending() => step,
                _ => self.unless_refused(delete_balancer(other), now),
            },
            (BalancerStep::Done, Some(words), None) => BalancerStep::Blocked(Block::Conflict(words)),
            (step, ..) => step,
        }
    }

    /// Returns the next step of making a load balancer, in the place of another one if there is one.
    pub(crate) fn create(
        &self,
        target: &WantedBalancer<'_>,
        replaces: Option<&SeenBalancer>,
        now: Duration,
    ) -> BalancerStep {
        if replaces.is_none()
            && let Some(step) = self.suspect_step(now).or_else(|| self.port_given_away(now))
        {
            return step;
        }
        let port = self.free_port(target);
        // A port that cannot be used holds the address against the load balancer.
        let in_the_way = self.unused_ports().find(|one| !self.can_have(one, target));
        if let Some(port) = in_the_way {
            return self.unless_refused(self.port_deleted(port, now), now);
        }
        // A port has its groups before anything uses it.
        if let Some(change) = port.and_then(|port| target.port_groups(port)) {
            return self.unless_refused(BalancerStep::Change(change), now);
        }
        let change = match (self.port_network(target), port) {
            (Some(network), None) => CloudChange::CreatePort { body: self.port_body(target, network) },
            (_, port) => {
                let all = target.wanted.header.listeners.iter().map(|wish| wish.id);
                let is_left_out = |id: &_| {
                    target.refusal(*id).is_some()
                        || target.lacks_certificate(*id)
                        || self.memory.refusal_of(*id, now).is_some()
                };
                let without: Vec<_> = all.filter(is_left_out).collect();
                let (port, replaces) = (port.map(|port| port.id.as_str()), replaces.map(|one| one.id.as_str()));
                let populated = target.abilities.provider.populated_create;
                let body = fitted_balancer(target.balancer(port, replaces, populated, &without));
                let body = body.unwrap_or_else(|| target.balancer(port, replaces, false, &without));
                CloudChange::CreateBalancer { body }
            }
        };
        self.unless_refused(BalancerStep::Change(change), now)
    }

    /// Whether the removal of something that is not wanted is not refused for the time being.
    pub(crate) fn may_remove(&self, id: &str, now: Duration) -> bool {
        self.memory.block_of(&PlanPart::Removal(id.to_owned()), now).is_none()
    }

    /// Returns the step by which a load balancer goes before another one can be made in its place. As long as it may not be
    /// deleted it serves.
    fn gives_way(&self, target: &WantedBalancer<'_>, current: &SeenBalancer, now: Duration) -> BalancerStep {
        let waits = match current.provisioning {
            // It leaves no gap.
            _ if !self.has_served(current) => None,
            Provisioning::Error => self.memory.repair_waits,
            _ => self.memory.change_waits,
        };
        if let Some(until) = waits.filter(|until| *until > now) {
            return self.meanwhile(target, current, now).unwrap_or(BalancerStep::Wait(Wait::Until(until)));
        }
        let step = self.unless_refused(delete_balancer(current), now);
        // One whose deletion has failed may fail again, and the members would wait for the pause after it.
        if matches!(step, BalancerStep::Change(_))
            && !self.memory.was_refused(&PlanPart::Removal(current.id.clone()), now)
        {
            return step;
        }
        self.meanwhile(target, current, now).unwrap_or(step)
    }

    /// Deletes a port that no load balancer has. Another writer, or a person, may have made one on it a moment ago: a look comes
    /// right before.
    pub(crate) fn port_deleted(&self, port: &SeenPort, now: Duration) -> BalancerStep {
        if !self.memory.has_just_looked(now) {
            return BalancerStep::Look(CloudLook::Owner);
        }
        BalancerStep::Change(CloudChange::DeletePort { id: port.id.clone() })
    }

    /// Returns the next step about a load balancer that stays.
    fn keep(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer, now: Duration) -> BalancerStep {
        if balancer.provisioning.is_pending() {
            return wait(balancer);
        }
        let groups = self.vip_groups_step(target, balancer).filter(|_| !self.is_spared(&balancer.tags));
        if let Some(step) = groups.and_then(|change| self.unless_blocked(BalancerStep::Change(change), now)) {
            return step;
        }
        if let Some(step) = self.parts(target, balancer, now) {
            return step;
        }
        let fields = self.balancer_fields(target, balancer);
        let update = fields.map(|fields| CloudChange::UpdateBalancer { id: balancer.id.clone(), fields });
        if let Some(step) = update.and_then(|change| self.unless_blocked(BalancerStep::Change(change), now)) {
            return step;
        }
        // Only beside a load balancer that is there.
        if let Some(stray) = self.unused_ports().find(|one| self.may_remove(&one.id, now)) {
            return self.port_deleted(stray, now);
        }
        if let Some(step) = self.surplus_secret(target, now) {
            return step;
        }
        // One that is gone has no members to read.
        if let Some(pool) = balancer.pools.iter().find(|one| self.memory.unread.contains(&one.id)) {
            return BalancerStep::Look(CloudLook::Members { pool: pool.id.clone() });
        }
        self.at_rest(target, balancer, now)
    }

    /// Everything that can be done is done.
    fn at_rest(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer, now: Duration) -> BalancerStep {
        if let Some(step) = self.look_at_unfinished(now).or_else(|| self.store_step(target.wanted, now)) {
            return step;
        }
        if let Some(at) = self.memory.recheck() {
            // What has failed is tried again before.
            let then = self.memory.retry_at(now).map_or(at, |retry| retry.min(at));
            return if at > now { BalancerStep::Wait(Wait::Until(then)) } else { BalancerStep::Look(CloudLook::Owner) };
        }
        // A port that cannot be removed is reported, and is in the way of nothing; a listener that is not wanted serves clients.
        let is_part = |id: &String| {
            let mut listeners = balancer.listeners.iter();
            listeners.any(|one| one.id == *id || one.policies.iter().any(|policy| policy.id == *id))
                || balancer.pools.iter().any(|one| one.id == *id)
        };
        // That no other one can take its place is no matter: its changes were made one by one.
        let is_apart = |part: &PlanPart| match part {
            PlanPart::Removal(id) => !is_part(id),
            part => *part == PlanPart::Successor,
        };
        let mut blocked = self.memory.blocked(now).filter(|(part, _)| !is_apart(part));
        if let Some((_, block)) = blocked.next() {
            return BalancerStep::Blocked(block.clone());
        }
        if let Some(step) = self.contents_missing(now) {
            return step;
        }
        if let Some(step) = self.adoption_awaited(target.wanted, now) {
            return step;
        }
        if let Some(words) = self.port_conflict(target, balancer) {
            return BalancerStep::Blocked(Block::Conflict(words));
        }
        let times = self.broken_parts().into_iter().map(|part| self.memory.next_repair(&part, self.budget, now));
        let block = times.fold(None, |block, time| match (block, time) {
            (_, RepairTime::Spent(_)) => Some(Block::RepairBudget),
            (None, _) => Some(Block::Failing),
            (block, _) => block,
        });
        block.map_or(BalancerStep::Done, BalancerStep::Blocked)
    }

    fn balancer_fields(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer) -> Option<Value> {
        let mut fields = Map::new();
        if balancer.name != target.name() {
            fields.insert("name".into(), json!(target.name()));
        }
        if balancer.description != self.mark.description() {
            fields.insert("description".into(), json!(self.mark.description()));
        }
        if !balancer.admin_state_up {
            fields.insert("admin_state_up".into(), json!(true));
        }
        let tags = retagged(target.sharing, &balancer.tags, &target.tags().collect::<Vec<_>>());
        fields.extend(tags.map(|tags| ("tags".to_owned(), tags)));
        (!fields.is_empty()).then_some(Value::Object(fields))
    }
}

pub(crate) fn wait(balancer: &SeenBalancer) -> BalancerStep {
    BalancerStep::Wait(Wait::Pending { balancer: balancer.id.clone() })
}

/// Deletes a load balancer as soon as Octavia lets it.
pub(crate) fn delete_balancer(balancer: &SeenBalancer) -> BalancerStep {
    if balancer.provisioning.is_pending() {
        return wait(balancer);
    }
    BalancerStep::Change(CloudChange::DeleteBalancer { id: balancer.id.clone() })
}
