//! The VIP: its port, and what about it cannot be changed.

use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, DesiredEntry, LoadBalancerHeader, Text};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::seen::{SeenBalancer, SeenPort};
use crate::target::{WantedBalancer, fixed_ip};

impl Actor {
    /// Returns the network of the port that is made for the VIP, if one is wanted.
    pub(crate) fn port_network<'a>(&self, target: &WantedBalancer<'a>) -> Option<&'a str> {
        let vip = &target.wanted.header.vip;
        let own = vip.from_outside && vip.port.is_none() && target.abilities.provider.own_port;
        let subnet = vip.subnet.as_ref().filter(|_| own)?;
        target.facts.subnets.get(subnet).map(|subnet| &*subnet.network)
    }

    pub(crate) fn port_body(&self, target: &WantedBalancer<'_>, network: &str) -> Value {
        let header = &target.wanted.header;
        let first = fixed_ip(header.vip.subnet.as_deref().unwrap_or_default(), header.vip.address);
        let more = target.additional_vips().into_iter().map(|(subnet, address)| fixed_ip(subnet, address));
        let fixed: Vec<Value> = std::iter::once(first).chain(more).collect();
        let mut body = json!({
            "name": target.name(),
            "description": self.mark.description(),
            "network_id": network,
            "project_id": &*header.placement.project,
            "admin_state_up": true,
            "fixed_ips": fixed,
        });
        if !header.vip.security_groups.is_empty() {
            body["security_groups"] = header.vip.security_groups.iter().map(|one| json!(&**one)).collect();
        }
        body
    }

    /// Returns the port of ours that a new load balancer can have: of several every writer takes the same one.
    pub(crate) fn free_port<'a>(&'a self, target: &WantedBalancer<'_>) -> Option<&'a SeenPort> {
        self.unused_ports().filter(|port| self.can_have(port, target)).min_by_key(|port| &port.id)
    }

    /// Returns the ports of ours that no load balancer has, whoever's it is.
    pub(crate) fn unused_ports(&self) -> impl Iterator<Item = &SeenPort> {
        let is_used = |port: &SeenPort| self.seen.balancers.iter().any(|one| one.vip_port == port.id);
        self.seen.ports.iter().filter(move |port| !port.is_anothers() && !is_used(port))
    }

    /// Whether a port can be the VIP's.
    pub(crate) fn can_have(&self, port: &SeenPort, target: &WantedBalancer<'_>) -> bool {
        let header = &target.wanted.header;
        let vip = &header.vip;
        let has = |subnet: &str, address: Option<std::net::IpAddr>| {
            let address = address.map(|address| address.to_string());
            let fits = |(at, has): &(String, String)| at == subnet && address.as_ref().is_none_or(|one| one == has);
            port.fixed.iter().any(fits)
        };
        let first = vip.subnet.as_deref().is_none_or(|subnet| has(subnet, vip.address));
        vip.port.is_none()
            && target.abilities.provider.own_port
            && !self.is_unusable(port)
            && (port.project.is_empty() || port.project == *header.placement.project)
            && first
            && target.additional_vips().into_iter().all(|(subnet, address)| has(subnet, address))
    }

    /// Returns why the load balancer serves at one address where two are wanted, in words.
    #[must_use]
    pub fn missing_address(&self, facts: &CloudFacts) -> Option<&'static str> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        let target = self.target(wanted, facts, Duration::ZERO);
        let could_have = target.abilities.additional_vips && target.has_one_address;
        could_have
            .then_some("the load balancer was made with one address and keeps it; another one in its place has both")
    }

    /// Something else has had this port for a drift interval.
    fn is_unusable(&self, port: &SeenPort) -> bool {
        self.memory.used_port.as_ref().is_some_and(|(id, _, for_good)| *id == port.id && *for_good)
    }
}

/// Whether something differs that a load balancer keeps for its life. Whose port the VIP has is no such thing: one that Octavia
/// made serves as well, for as long as the load balancer lives. An address more than is wanted does no harm, and one that serves alone is
/// not taken away for a second one: a newer Octavia would have all of them replaced at once that were made before.
pub(crate) fn must_be_replaced(balancer: &SeenBalancer, target: &WantedBalancer<'_>) -> bool {
    let lacks = |(subnet, address): (&str, Option<std::net::IpAddr>)| {
        let address = address.map(|address| address.to_string());
        let fits = |(at, has): &(String, String)| at == subnet && address.as_ref().is_none_or(|one| one == has);
        !balancer.additional_vips.iter().any(fits)
    };
    kept_otherwise(balancer, &target.wanted.header).next().is_some()
        || (!balancer.additional_vips.is_empty() && target.additional_vips().into_iter().any(lacks))
}

/// Whether another load balancer can take this one's place before it goes: clients know the floating IP, and the address behind
/// it is Neutron's choice. A floating IP does not leave its project.
pub(crate) fn can_be_moved(balancer: &SeenBalancer, target: &WantedBalancer<'_>) -> bool {
    let header = &target.wanted.header;
    header.floating.is_some()
        && header.vip.address.is_none()
        && header.vip.port.is_none()
        && header.vip.additional_addresses.is_empty()
        && *header.placement.project == balancer.project
}

/// Returns what a load balancer has otherwise than it is wanted of that which it keeps for its life: its name for people, what is wanted,
/// and what was seen.
pub(crate) fn kept_otherwise<'a>(
    balancer: &'a SeenBalancer,
    header: &LoadBalancerHeader,
) -> impl Iterator<Item = (&'static str, Text, &'a str)> {
    let SeenBalancer { project, provider, flavor, zone, vip_subnet, vip_address, vip_port, .. } = balancer;
    let seen = [project, provider, flavor, zone, vip_subnet, vip_address, vip_port];
    let all = header.kept_for_life().into_iter().zip(seen);
    all.filter_map(|((what, wanted), seen)| Some((what, wanted.filter(|wanted| **wanted != **seen)?, seen.as_str())))
}
