//! What is in `ERROR` is made well again, as often as the budget allows: the load balancer, and each of its ports by itself.

use std::time::Duration;

use gimbal_kuryr_model::{DesiredEntry, ListenerId, PoolId};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::{is_pool_tag, is_port_tag, port_tag, replaces_tag, tag_of_pool};
use crate::members::MemberChanges;
use crate::memory::{PlanPart, RepairTime};
use crate::seen::{Provisioning, SeenBalancer, SeenListener, SeenMember, SeenPool};
use crate::step::{BalancerStep, Block, Wait};
use crate::target::WantedBalancer;
use crate::vip::can_be_moved;

impl Actor {
    /// Repairs a load balancer in `ERROR`: by failover, which keeps its traffic; else by another one that takes its place; else
    /// by making it anew. One that has never served is made anew at once.
    pub(crate) fn repair(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &SeenBalancer,
        successor: Option<&SeenBalancer>,
        now: Duration,
    ) -> BalancerStep {
        if successor.is_some() {
            return self.replace(target, balancer, successor, now);
        }
        match self.memory.next_repair(&PlanPart::Balancer, self.budget, now) {
            RepairTime::Spent(_) => return BalancerStep::Blocked(Block::RepairBudget),
            RepairTime::At(then) => return BalancerStep::Wait(Wait::Until(then)),
            RepairTime::Now => {}
        }
        let has_served = self.has_served(balancer);
        if let Some(step) = self.failover(target, balancer) {
            return step;
        }
        if has_served && can_be_moved(balancer, target) {
            match self.create(target, Some(balancer), now) {
                // Where there is room for one only, the one that does not serve goes first. Whatever else is in the way of
                // another one may last, and then there would be none.
                BalancerStep::Blocked(Block::Quota(_)) if balancer.operating == "ERROR" => {}
                step => return step,
            }
        }
        // In ERROR it may serve all the same.
        let may_serve = has_served && balancer.operating != "ERROR";
        if let Some(until) = self.memory.repair_waits.filter(|until| may_serve && *until > now) {
            return BalancerStep::Wait(Wait::Until(until));
        }
        self.unless_refused(BalancerStep::Change(CloudChange::DeleteBalancer { id: balancer.id.clone() }), now)
    }

    /// Returns the step by which a load balancer that has served is made well again as it is, unless that did not help before.
    pub(crate) fn failover(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer) -> Option<BalancerStep> {
        let failed_over = self.memory.failed_over.as_ref() == Some(&balancer.id);
        let may_help = self.has_served(balancer) && target.abilities.failover && !failed_over;
        may_help.then(|| BalancerStep::Change(CloudChange::FailoverBalancer { id: balancer.id.clone() }))
    }

    /// Whether a part may be repaired now.
    pub(crate) fn may_repair(&self, part: &PlanPart, now: Duration) -> bool {
        self.memory.next_repair(part, self.budget, now) == RepairTime::Now
    }

    /// Returns what may be done about the members of a pool.
    pub(crate) fn member_changes(&self, id: &PoolId, now: Duration) -> MemberChanges {
        MemberChanges { repair: self.may_repair(&PlanPart::of_pool(id), now), add: self.may_add(id, now) }
    }

    /// Whether new members of a pool are not refused for the time being.
    pub(crate) fn may_add(&self, id: &PoolId, now: Duration) -> bool {
        self.memory.block_of(&PlanPart::NewMembers(id.clone()), now).is_none()
    }

    /// Whether a part has not been repaired of late.
    pub(crate) fn is_first_repair(&self, part: &PlanPart, now: Duration) -> bool {
        self.memory.repairs_of(part, self.budget, now) == 0
    }

    /// Returns what is in `ERROR` and wanted.
    pub(crate) fn broken_parts(&self) -> Vec<PlanPart> {
        self.balancer().map(|balancer| self.broken_in(balancer)).unwrap_or_default()
    }

    /// Returns what of a load balancer is in `ERROR` and wanted.
    pub(crate) fn broken_in(&self, balancer: &SeenBalancer) -> Vec<PlanPart> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return Vec::new() };
        if balancer.provisioning == Provisioning::Error {
            return vec![PlanPart::Balancer];
        }
        let ids = wanted.header.listeners.iter().map(|wish| wish.id);
        let ports = ids.filter(|id| is_broken(balancer, *id)).map(|id| PlanPart::Port(Some(id)));
        let Some(routing) = wanted.header.routing.as_deref() else { return ports.collect() };
        let services = routing.pools.iter().map(|pool| PoolId::Service(pool.id.clone()));
        let services = services.filter(|id| has_broken_pool(balancer, &tag_of_pool(id)));
        let policies = balancer.listeners.iter().flat_map(|one| &one.policies);
        let policies = policies.filter(|one| self.mark.is_on(&one.tags) && one.is_broken());
        let policies = policies.map(|one| PlanPart::Policy(one.identity()));
        ports.chain(services.map(|id| PlanPart::of_pool(&id))).chain(policies).collect()
    }

    /// Returns what a change repairs.
    pub(crate) fn repaired_by(&self, change: &CloudChange) -> Option<PlanPart> {
        if self.desired.is_deleting() {
            return None;
        }
        let is_broken = |id: &str| {
            let found = self.seen.balancers.iter().find(|one| one.id == id);
            found.is_some_and(|one| one.provisioning == Provisioning::Error)
        };
        let listeners = || self.seen.balancers.iter().flat_map(|one| &one.listeners);
        let pools = || self.seen.balancers.iter().flat_map(|one| &one.pools);
        let repairs = match change {
            CloudChange::DeleteBalancer { id } | CloudChange::FailoverBalancer { id } => is_broken(id),
            CloudChange::CreateBalancer { body } => {
                let tags = body["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
                let is_replaced = |one: &SeenBalancer| tags.iter().any(|tag| *tag == replaces_tag(&one.id));
                let replaced = self.seen.balancers.iter().find(|one| is_replaced(one));
                if replaced.is_some_and(|one| one.provisioning != Provisioning::Error) {
                    return Some(PlanPart::Successor);
                }
                replaced.is_some()
            }
            CloudChange::CreatePool { body } => {
                let tags = body["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
                let same = |pool: &SeenPool| {
                    let mut is_for = pool.tags.iter().filter(|tag| is_port_tag(tag) || is_pool_tag(tag));
                    is_for.any(|tag| tags.iter().any(|t| t == tag))
                };
                pools().any(|pool| pool.provisioning == Provisioning::Error && same(pool))
            }
            // Who may connect is no repair, and comes first.
            CloudChange::UpdateListener { fields, .. } if fields.get("default_pool_id").is_none() => false,
            CloudChange::UpdateListener { id, .. } | CloudChange::DeleteListener { id } => {
                listeners().any(|one| one.id == *id && one.provisioning == Provisioning::Error)
            }
            CloudChange::UpdatePolicy { id, .. } | CloudChange::DeletePolicy { id } => {
                let policy = self.policy(id).filter(|one| one.is_broken());
                return policy.map(|one| PlanPart::Policy(one.identity()));
            }
            CloudChange::SetMembers { pool, members, .. } => {
                let listed = |one: &SeenMember| {
                    members.iter().any(|body| body["address"] == one.address && body["protocol_port"] == one.port)
                };
                let broken = |one: &SeenMember| one.provisioning == Provisioning::Error && listed(one);
                pools().any(|one| one.id == *pool && one.members.iter().any(broken))
            }
            CloudChange::UpdateMember { id, .. } => {
                let mut all = pools().flat_map(|pool| &pool.members);
                all.any(|one| one.id == *id && one.provisioning == Provisioning::Error)
            }
            CloudChange::DeleteMonitor { id, .. } => {
                let mut all = pools().filter_map(|pool| pool.monitor.as_ref());
                all.any(|one| one.id == *id && one.provisioning == Provisioning::Error)
            }
            _ => false,
        };
        match self.part_of(change) {
            _ if !repairs => None,
            PlanPart::Ranges(id) => Some(PlanPart::Port(Some(id))),
            PlanPart::Removal(_) => Some(PlanPart::Balancer),
            PlanPart::Monitor(id) => Some(PlanPart::of_pool(&id)),
            part => Some(part),
        }
    }
}

/// Whether something of a port is in `ERROR`.
fn is_broken(balancer: &SeenBalancer, id: ListenerId) -> bool {
    let tag = port_tag(id);
    let listener = |one: &SeenListener| one.tags.contains(&tag) && one.provisioning == Provisioning::Error;
    balancer.listeners.iter().any(listener) || has_broken_pool(balancer, &tag)
}

/// Whether a pool with this tag is in `ERROR`, or something in it.
fn has_broken_pool(balancer: &SeenBalancer, tag: &str) -> bool {
    let error = |one: Provisioning| one == Provisioning::Error;
    let pool = |one: &SeenPool| {
        let monitor = one.monitor.as_ref().is_some_and(|monitor| error(monitor.provisioning));
        let member = one.members.iter().any(|member| error(member.provisioning));
        one.tags.iter().any(|one| one == tag) && (error(one.provisioning) || monitor || member)
    };
    balancer.pools.iter().any(pool)
}
