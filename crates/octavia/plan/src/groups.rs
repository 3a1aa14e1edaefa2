//! Security groups of the VIP's port: a field of the load balancer, which versions before 2.29 do not have, and which excludes
//! ranges of clients. Octavia gives the port its own group besides, in the place of all others, each time that it makes, changes
//! or fails over the load balancer. Its own group lets in whoever the listeners serve, unless the field names others.
//!
//! A port of ours has its groups before a load balancer has the port, and gets in Neutron what it lacks later, for not every
//! provider sets them. The port of somebody else keeps what it has.

use std::time::Duration;

use gimbal_kuryr_model::{ApiVersion, ClientRanges, CloudFacts, DesiredEntry, Text};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::seen::{Provisioning, SeenBalancer, SeenPort};
use crate::step::BalancerStep;
use crate::target::WantedBalancer;

impl WantedBalancer<'_> {
    fn security_groups(&self) -> &[Text] {
        &self.wanted.header.vip.security_groups
    }

    /// Returns the groups that Octavia is to give its port; `None` where it cannot. Ranges of clients are what the user has
    /// asked for, so they win.
    pub(crate) fn octavias_groups(&self) -> Option<&[Text]> {
        let header = &self.wanted.header;
        if !self.abilities.vip_groups || header.vip.port.is_some() {
            return None;
        }
        Some(if self.is_restricted() { &[] } else { self.security_groups() })
    }

    /// Returns the change that gives a port of ours that nothing uses exactly its groups. Where none are wanted it keeps those
    /// that Neutron has given it.
    pub(crate) fn port_groups(&self, port: &SeenPort) -> Option<CloudChange> {
        let wanted = self.security_groups();
        if wanted.is_empty() || is_same(wanted, &port.security_groups) {
            return None;
        }
        let fields = json!({"security_groups": list(wanted)});
        Some(CloudChange::UpdatePort { id: port.id.clone(), revision: port.revision, fields })
    }

    /// Returns the change that gives the port of a load balancer the groups that it lacks, beside those of Octavia.
    fn lacking_groups(&self, port: &SeenPort) -> Option<CloudChange> {
        let has = |one: &Text| port.security_groups.iter().any(|seen| **one == **seen);
        let lacks: Vec<Value> =
            self.security_groups().iter().filter(|one| !has(one)).map(|one| json!(&**one)).collect();
        // Beside the ranges of a listener another group could only let in more.
        if lacks.is_empty() || self.is_restricted() {
            return None;
        }
        let all: Vec<Value> = port.security_groups.iter().map(|one| json!(one)).chain(lacks).collect();
        let fields = json!({"security_groups": all});
        Some(CloudChange::UpdatePort { id: port.id.clone(), revision: port.revision, fields })
    }

    fn is_restricted(&self) -> bool {
        matches!(self.wanted.header.clients, ClientRanges::Only(_))
    }
}

impl Actor {
    /// Returns the port of a load balancer's VIP, if it is ours.
    pub(crate) fn own_port(&self, balancer: &SeenBalancer) -> Option<&SeenPort> {
        self.seen.ports.iter().find(|port| port.id == balancer.vip_port)
    }

    /// Returns what there is to do about the port of a VIP in Neutron, which knows nothing of Octavia's lock.
    pub(crate) fn own_port_step(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &SeenBalancer,
        now: Duration,
    ) -> Option<BalancerStep> {
        if let Some(step) = self.marked_again(now) {
            return Some(step);
        }
        // Octavia sets them itself while it works.
        let is_told = target.octavias_groups().is_none_or(|wanted| is_same(wanted, &balancer.security_groups));
        let settled = balancer.provisioning == Provisioning::Active && is_told;
        let port = self.own_port(balancer).filter(|_| settled);
        let groups = port.and_then(|port| target.lacking_groups(port));
        let groups = groups.and_then(|change| self.unless_blocked(BalancerStep::Change(change), now));
        groups.or_else(|| self.neutron_tags_step(balancer, now))
    }

    /// Returns the change that makes Octavia give the port the wanted groups.
    pub(crate) fn vip_groups_step(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer) -> Option<CloudChange> {
        let wanted = target.octavias_groups()?;
        // While a floating IP is to go others are not let in, nor is anything closed that cannot be opened again before.
        if target.is_exposed || is_same(wanted, &balancer.security_groups) {
            return None;
        }
        if wanted.is_empty() && target.wanted.header.clients != ClientRanges::Everyone {
            // Octavia takes no ranges beside groups, and with neither everybody could connect: closed in between.
            let all = target.wanted.header.listeners.iter();
            let open = all
                .filter_map(|wish| self.managed_listener(target, balancer, wish.id))
                .find(|listener| listener.admin_state_up);
            if let Some(listener) = open {
                let fields = json!({"admin_state_up": false});
                return Some(CloudChange::UpdateListener { id: listener.id.clone(), fields });
            }
        }
        Some(CloudChange::UpdateBalancer { id: balancer.id.clone(), fields: json!({"vip_sg_ids": list(wanted)}) })
    }

    /// Octavia gives the port of a load balancer these groups. A look tells whether it has.
    pub(crate) fn told_groups(&mut self, balancer: &str, groups: &[Value]) {
        let seen = &mut *self.seen;
        let Some(balancer) = seen.balancers.iter().find(|one| one.id == balancer) else { return };
        let Some(port) = seen.ports.iter_mut().find(|one| one.id == balancer.vip_port) else { return };
        for group in groups.iter().filter_map(Value::as_str) {
            if !port.security_groups.iter().any(|one| one == group) {
                port.security_groups.push(group.to_owned());
            }
        }
    }

    /// Returns why the load balancer serves without the security groups that are wanted, in words.
    #[must_use]
    pub fn missing_groups(&self, facts: &CloudFacts) -> Option<&'static str> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        let header = &wanted.header;
        if header.vip.security_groups.is_empty() || self.balancer().is_none() {
            return None;
        }
        if header.vip.port.is_some() {
            return Some("the port of the VIP was made by somebody else, and keeps its security groups");
        }
        if facts.api_version < ApiVersion::VIP_GROUPS {
            return Some("security groups restrict no client before version 2.29 of Octavia's API");
        }
        if matches!(header.clients, ClientRanges::Only(_)) {
            return Some("the port of the VIP has ranges of clients or security groups; it has the ranges");
        }
        // What is believed to be missing was so at the last look.
        let lacks = !self.target(wanted, facts, Duration::ZERO).abilities.vip_groups;
        lacks.then_some("the provider gives the port of the VIP no security groups")
    }

    /// Returns the security groups that the port of the VIP was seen to have by our wish.
    #[must_use]
    pub fn security_groups(&self) -> Vec<String> {
        let Some(balancer) = self.balancer() else { return Vec::new() };
        let Some(port) = self.own_port(balancer) else { return balancer.security_groups.clone() };
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return port.security_groups.clone() };
        let all = wanted.header.vip.security_groups.iter().map(ToString::to_string);
        all.filter(|one| port.security_groups.contains(one)).collect()
    }
}

fn list(groups: &[Text]) -> Vec<Value> {
    groups.iter().map(|one| json!(&**one)).collect()
}

/// Whether these are the same groups, in any order.
fn is_same(wanted: &[Text], seen: &[String]) -> bool {
    wanted.len() == seen.len() && wanted.iter().all(|one| seen.iter().any(|seen| **one == **seen))
}
