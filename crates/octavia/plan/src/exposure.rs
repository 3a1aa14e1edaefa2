//! A floating IP and who may connect: fewer clients before it leads there, more after it leads there no longer. Neutron and Octavia may
//! each be busy for minutes, and until then no one may reach a port who should not.

use gimbal_kuryr_model::DesiredLoadBalancer;

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::children::listener_at;
use crate::ranges::covers;
use crate::seen::SeenBalancer;
use crate::step::BalancerStep;
use crate::target::WantedBalancer;

impl Actor {
    /// Whether a floating IP of ours that is not wanted any more still leads to a load balancer.
    pub(crate) fn is_exposed(&self, wanted: &DesiredLoadBalancer, balancer: &SeenBalancer) -> bool {
        let leads_there = |port: &Option<String>| port.as_deref() == Some(balancer.vip_port.as_str());
        let mut ours = self.seen.floating.iter().filter(|one| self.mark.is_in(&one.description));
        wanted.header.floating.is_none() && ours.any(|one| leads_there(&one.port))
    }

    /// Whether a listener of ours lets in others than those who are wanted.
    pub(crate) fn lets_in_others(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer) -> bool {
        target.wanted.header.listeners.iter().any(|wish| {
            let seen = listener_at(balancer, wish.id).filter(|seen| seen.admin_state_up && self.mark.is_on(&seen.tags));
            seen.is_some_and(|seen| !covers(&target.clients(wish.id), &seen.allowed_cidrs))
        })
    }
}

/// Whether a step leads a floating IP to a load balancer.
pub(crate) fn leads_to(step: &BalancerStep, balancer: &SeenBalancer) -> bool {
    let port = match step {
        BalancerStep::Change(CloudChange::CreateFloatingIp { body }) => &body["port_id"],
        BalancerStep::Change(CloudChange::UpdateFloatingIp { fields, .. }) => &fields["port_id"],
        _ => return false,
    };
    port.as_str() == Some(balancer.vip_port.as_str())
}
