//! A floating IP and who may connect: fewer clients before it leads there, more after it leads there no longer. Neutron and Octavia may
//! each be busy for minutes, and until then no one may reach a port who should not.

use std::time::Duration;

use gimbal_kuryr_model::{ClientRanges, DesiredLoadBalancer, ListenerWish};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::children::{is_at, listener_at};
use crate::ranges::covers;
use crate::seen::{Provisioning, SeenBalancer, SeenListener};
use crate::step::BalancerStep;
use crate::target::WantedBalancer;

impl Actor {
    /// Whether a floating IP of ours that is not wanted any more still leads to a load balancer. Of a shared one the owner may not have
    /// been heard yet who wants it.
    pub(crate) fn is_exposed(&self, wanted: &DesiredLoadBalancer, balancer: &SeenBalancer) -> bool {
        let leads_there = |port: &Option<String>| port.as_deref() == Some(balancer.vip_port.as_str());
        let mut ours = self.seen.floating.iter().filter(|one| self.mark.is_in(&one.description));
        wanted.header.floating.is_none() && ours.any(|one| leads_there(&one.port)) && !self.is_spared(&balancer.tags)
    }

    /// Whether clients can connect who are not wanted, and are about to be kept out.
    pub(crate) fn lets_in_others(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer, now: Duration) -> bool {
        let wishes = &target.wanted.header.listeners;
        let is_open = |wish: &ListenerWish| {
            let ours = || listener_at(balancer, wish.id).filter(|seen| self.mark.is_on(&seen.tags));
            let seen = self.managed_listener(target, balancer, wish.id).or_else(ours);
            let ranges = target.clients(wish.id);
            // What Octavia has accepted holds when it has finished.
            let holds = |seen: &SeenListener| {
                *ranges == ClientRanges::Everyone
                    || (covers(&ranges, &seen.allowed_cidrs) && seen.provisioning != Provisioning::PendingUpdate)
            };
            seen.is_some_and(|seen| seen.admin_state_up && !holds(seen))
        };
        let is_wanted = |seen: &SeenListener| wishes.iter().any(|wish| is_at(seen, wish.id));
        let goes = |seen: &SeenListener| {
            seen.admin_state_up && self.part_may_go(&seen.id, &seen.tags) && self.may_remove(&seen.id, now)
        };
        let groups = || self.vip_groups_step(target, balancer).map(BalancerStep::Change);
        wishes.iter().any(is_open)
            || (!target.is_router() && balancer.listeners.iter().any(|seen| !is_wanted(seen) && goes(seen)))
            || groups().and_then(|step| self.unless_blocked(step, now)).is_some()
    }
}

/// Whether a step leads a floating IP to a port, or is the first of those that do: one that leads it away from where another one is to
/// lead must not come long before.
pub(crate) fn leads_anywhere(step: &BalancerStep) -> bool {
    match step {
        BalancerStep::Change(CloudChange::CreateFloatingIp { .. }) => true,
        BalancerStep::Change(CloudChange::UpdateFloatingIp { fields, .. }) => fields.get("port_id").is_some(),
        _ => false,
    }
}
