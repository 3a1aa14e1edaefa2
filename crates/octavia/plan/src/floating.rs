//! The floating IP: found by the mark, by the VIP's port, or, where an address is asked for, by the address.
//!
//! One that was made for the owner carries its mark and goes with it, unless it is kept. One that somebody else made is led to
//! the VIP and away from it again, and is never changed otherwise.

use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, DesiredLoadBalancer, FloatingWish};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::{KEEP, is_marked, is_word_of_mark};
use crate::memory::PlanPart;
use crate::seen::{SeenBalancer, SeenFloatingIp};
use crate::step::{BalancerStep, Block, CloudLook};

/// What there is to do about the floating IP.
pub(crate) enum FloatingNext {
    Step(BalancerStep),
    /// Somebody else has what is wanted.
    Conflict(String),
    Nothing,
}

impl Actor {
    /// Returns what there is to do so that the floating IP leads to a load balancer.
    pub(crate) fn floating_next(
        &self,
        wanted: &DesiredLoadBalancer,
        facts: &CloudFacts,
        balancer: &SeenBalancer,
        now: Duration,
    ) -> FloatingNext {
        match self.floating_wanted(wanted, facts, balancer) {
            FloatingNext::Step(step) => match self.unless_blocked(step, now) {
                Some(step) => FloatingNext::Step(step),
                None => FloatingNext::Nothing,
            },
            other => other,
        }
    }

    fn floating_wanted(
        &self,
        wanted: &DesiredLoadBalancer,
        facts: &CloudFacts,
        balancer: &SeenBalancer,
    ) -> FloatingNext {
        if let Some(step) = self.floating_marked_again() {
            return FloatingNext::Step(step);
        }
        let port = balancer.vip_port.as_str();
        let project = &*wanted.header.placement.project;
        let Some(wish) = wanted.header.floating.as_deref() else {
            let stray = self.seen.floating.iter().find_map(|one| self.released(one));
            return stray.map_or(FloatingNext::Nothing, FloatingNext::Step);
        };
        let Some(chosen) = self.chosen_floating(wish, port, project) else {
            if let Some(one) = self.left_in_another_project(wish, project) {
                return FloatingNext::Step(self.given_up(one));
            }
            return self.floating_by_address(wish, wanted, facts, port);
        };
        if chosen.port.as_deref() != Some(port) {
            return self.led_to(chosen, port);
        }
        if self.mark.is_in(&chosen.description) {
            let description = self.floating_description(wish);
            if chosen.description != description {
                let fields = json!({"description": description});
                return FloatingNext::Step(update(chosen, fields));
            }
        }
        // A second one is the twin of a lost creation, or has an address that is no longer wanted.
        let others = self.seen.floating.iter().filter(|one| one.id != chosen.id);
        let stray = others.filter(|one| self.mark.is_in(&one.description)).find_map(|one| self.released(one));
        stray.map_or(FloatingNext::Nothing, FloatingNext::Step)
    }

    /// Returns the floating IP that serves: one with the mark, else the one that the port has already.
    fn chosen_floating(&self, wish: &FloatingWish, port: &str, project: &str) -> Option<&SeenFloatingIp> {
        let address = wish.address.map(|address| address.to_string());
        let fits = |one: &&SeenFloatingIp| {
            address.as_ref().is_none_or(|address| one.address == *address)
                && wish.network.as_deref().is_none_or(|network| one.network.is_empty() || one.network == network)
                && (one.project.is_empty() || one.project == project)
        };
        let attached = |one: &SeenFloatingIp| one.port.as_deref() == Some(port);
        let usable = |one: &&SeenFloatingIp| self.mark.is_in(&one.description) || attached(one);
        // Of several every writer takes the same one.
        let rank = |one: &&SeenFloatingIp| (!self.mark.is_in(&one.description), !attached(one), one.id.clone());
        self.seen.floating.iter().filter(fits).filter(usable).min_by_key(rank)
    }

    /// Returns the floating IP of ours that has the wanted address in a project where it is no longer wanted. It cannot leave
    /// that project, and nothing else can have its address before it is gone; one that is kept is not given up for that.
    fn left_in_another_project(&self, wish: &FloatingWish, project: &str) -> Option<&SeenFloatingIp> {
        let address = wish.address?.to_string();
        let is_elsewhere = |one: &&SeenFloatingIp| !one.project.is_empty() && one.project != project;
        let mut ours = self.seen.floating.iter().filter(|one| self.mark.is_in(&one.description) && !one.is_kept());
        ours.find(|one| one.address == address && is_elsewhere(one))
    }

    /// Asks for the address, takes the floating IP that has it, or makes one.
    fn floating_by_address(
        &self,
        wish: &FloatingWish,
        wanted: &DesiredLoadBalancer,
        facts: &CloudFacts,
        port: &str,
    ) -> FloatingNext {
        let project = &*wanted.header.placement.project;
        if let Some(address) = wish.address {
            let address = address.to_string();
            match &self.memory.asked_floating {
                Some(Some(found)) if found.address == address => return self.taken_over(found, port, project),
                Some(None) => {}
                // Not asked, or for an address that was wanted before.
                None | Some(Some(_)) => {
                    let network = wish.network.as_deref().map(str::to_owned);
                    return FloatingNext::Step(BalancerStep::Look(CloudLook::FloatingIp { address, network }));
                }
            }
        }
        // A port leads to one floating IP at a time. The one that goes serves until there is another one: that may be refused.
        let is_served = match self.cleared(port, "") {
            Some(conflict @ FloatingNext::Conflict(_)) => return conflict,
            other => other.is_some(),
        };
        let network = wish.network.as_ref().or_else(|| facts.external.as_ref().map(|external| &external.network));
        let Some(network) = network else { return FloatingNext::Nothing };
        let mut body = json!({
            "floating_network_id": &**network,
            "description": self.floating_description(wish),
            "project_id": project,
        });
        if !is_served {
            body["port_id"] = json!(port);
        }
        if let Some(subnet) = &wish.subnet {
            body["subnet_id"] = json!(&**subnet);
        }
        if let Some(address) = wish.address {
            body["floating_ip_address"] = json!(address);
        }
        FloatingNext::Step(BalancerStep::Change(CloudChange::CreateFloatingIp { body }))
    }

    /// Takes a floating IP that somebody else made, if it is free.
    fn taken_over(&self, found: &SeenFloatingIp, port: &str, project: &str) -> FloatingNext {
        let SeenFloatingIp { address, description, .. } = found;
        if !found.project.is_empty() && found.project != project {
            return FloatingNext::Conflict(format!("floating IP {address} belongs to another project"));
        }
        let is_ours = |one: &str| {
            self.seen.ports.iter().any(|port| port.id == one) || self.seen.balancers.iter().any(|lb| lb.vip_port == one)
        };
        if let Some(other) = found.port.as_deref().filter(|one| !is_ours(one)) {
            return FloatingNext::Conflict(format!("floating IP {address} leads to port {other}"));
        }
        // Also one that is kept: it loses the mark with its owner, and until then that one may have it without a port for a moment.
        if is_marked(description) && !self.mark.is_in(description) {
            return FloatingNext::Conflict(format!("floating IP {address} was made for another owner: {description}"));
        }
        self.led_to(found, port)
    }

    /// Leads a floating IP to a port, which has no other one of its network then.
    fn led_to(&self, chosen: &SeenFloatingIp, port: &str) -> FloatingNext {
        let step = || FloatingNext::Step(update(chosen, json!({"port_id": port})));
        self.cleared(port, &chosen.network).unwrap_or_else(step)
    }

    /// Returns what there is to do about the floating IP that a port has, of those of a network, if it is named: Neutron leads one of
    /// each external network to a port, and whether it leads one of another network there shows only when it is asked to. One that
    /// somebody has added by hand goes as all such things do: after a drift interval.
    fn cleared(&self, port: &str, network: &str) -> Option<FloatingNext> {
        let is_in_the_way = |one: &&SeenFloatingIp| {
            let is_of_network = network.is_empty() || one.network.is_empty() || one.network == network;
            one.port.as_deref() == Some(port) && is_of_network
        };
        let other = self.seen.floating.iter().find(is_in_the_way)?;
        if self.mark.is_in(&other.description) || (self.memory.is_condemned(&other.id) && !other.is_kept()) {
            return Some(FloatingNext::Step(update(other, json!({"port_id": null}))));
        }
        Some(FloatingNext::Conflict(format!("floating IP {} leads to the port of the VIP", other.address)))
    }

    /// Returns the step by which a floating IP that is not wanted leaves.
    fn released(&self, one: &SeenFloatingIp) -> Option<BalancerStep> {
        if !self.mark.is_in(&one.description) {
            let goes = one.port.is_some() && self.memory.is_condemned(&one.id) && !one.is_kept();
            return goes.then(|| update(one, json!({"port_id": null})));
        }
        Some(self.given_up(one))
    }

    /// One that is kept loses the mark, so that it is not taken for something that was forgotten. One that goes leads nowhere
    /// first.
    fn given_up(&self, one: &SeenFloatingIp) -> BalancerStep {
        if one.is_kept() {
            let is_mark = |tag: &str| is_word_of_mark(tag, &self.mark.cluster_uid, &self.mark.cluster);
            // It is found by its description, which comes last.
            if one.tags.iter().any(|tag| is_mark(tag)) {
                let tags = one.tags.iter().filter(|tag| !is_mark(tag)).map(|tag| json!(tag)).collect();
                return BalancerStep::Change(CloudChange::TagFloatingIp { id: one.id.clone(), tags });
            }
            return update(one, json!({"port_id": null, "description": KEEP}));
        }
        match one.port {
            Some(_) => update(one, json!({"port_id": null})),
            None => BalancerStep::Change(CloudChange::DeleteFloatingIp { id: one.id.clone() }),
        }
    }

    /// Returns the step that gives a floating IP of ours its mark again which somebody has taken off.
    pub(crate) fn floating_marked_again(&self) -> Option<BalancerStep> {
        let mut unmarked = self.seen.floating.iter().filter(|one| !self.mark.is_in(&one.description));
        unmarked.find_map(|one| Some(update(one, json!({"description": self.memory.unmarked.get(&one.id)?}))))
    }

    /// Returns the step by which new connections stop when the owner goes.
    pub(crate) fn detached(&self) -> Option<BalancerStep> {
        let one = self.seen.floating.iter().find(|one| one.port.is_some())?;
        if self.mark.is_in(&one.description) {
            return Some(self.given_up(one));
        }
        Some(update(one, json!({"port_id": null})))
    }

    /// Returns the step by which the owner's floating IPs go, after the load balancer.
    pub(crate) fn last_floating(&self) -> Option<BalancerStep> {
        let one = self.seen.floating.iter().find(|one| self.mark.is_in(&one.description))?;
        Some(self.given_up(one))
    }

    /// Returns the step that leads the floating IP from one port to another in one request: there is no time without.
    pub(crate) fn moved(&self, from: &str, to: &str, now: Duration) -> Result<Option<BalancerStep>, Block> {
        let Some(one) = self.seen.floating.iter().find(|one| one.port.as_deref() == Some(from)) else {
            return Ok(None);
        };
        if let Some(block) = self.memory.block_of(&PlanPart::FloatingIp, now) {
            return Err(block.clone());
        }
        match self.cleared(to, &one.network) {
            Some(FloatingNext::Step(step)) => Ok(Some(step)),
            Some(FloatingNext::Conflict(words)) => Err(Block::Conflict(words)),
            Some(FloatingNext::Nothing) | None => Ok(Some(update(one, json!({"port_id": to})))),
        }
    }

    fn floating_description(&self, wish: &FloatingWish) -> String {
        let [plain, kept] = self.mark.descriptions();
        if wish.keep { kept } else { plain }
    }
}

/// Changes a floating IP only as it was seen: somebody else may have led it elsewhere meanwhile.
fn update(one: &SeenFloatingIp, fields: Value) -> BalancerStep {
    BalancerStep::Change(CloudChange::UpdateFloatingIp { id: one.id.clone(), revision: one.revision, fields })
}
