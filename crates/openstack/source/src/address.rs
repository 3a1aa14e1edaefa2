//! Where one address of a Service is in the cloud, and why it is offered as it is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use gimbal_model::{AddressInSource, AddressObject, Conditions, Service, SourceKey};
use gimbal_octavia_rows::{Address, Id, LoadBalancer, Member, ObjectKind, OperatingStatus};

use crate::poller::{CloudPoller, PublishedBalancer, ScopePoller};

impl CloudPoller {
    /// Returns the members that have an endpoint of a Service with this address, and why it is offered as it is.
    #[must_use]
    pub fn explain_address(&self, key: &SourceKey, address: IpAddr) -> AddressInSource {
        let published = |standing: &PublishedBalancer| {
            standing.services.iter().find(|(published, _)| published == key).map(|(_, service)| service.clone())
        };
        for scope in self.scopes() {
            for (id, standing) in scope.standings() {
                if let Some(service) = published(standing) {
                    return scope.explain_address(id, standing, &service, address);
                }
            }
        }
        // Why there is no such Service is said of the Service itself.
        AddressInSource::default()
    }
}

impl ScopePoller {
    fn explain_address(
        &self,
        balancer: &Id,
        standing: &PublishedBalancer,
        service: &Service,
        address: IpAddr,
    ) -> AddressInSource {
        let offered = service.conditions_at(address);
        let row = self.lists().load_balancers.get(balancer);
        let members: Vec<&Member> = row.map(|row| self.members_at(row, address)).unwrap_or_default();
        let mut reasons = Vec::new();
        if members.is_empty() {
            reasons.push(format!("no member of the pools of load balancer {balancer} has it"));
        }
        for member in &members {
            let left_out = standing.left_out.iter().find(|one| one.kind == ObjectKind::Member && one.id == member.id);
            reasons.extend(left_out.map(ToString::to_string));
            if left_out.is_none() && member.operating == OperatingStatus::Error {
                reasons.push(format!("member {} fails its health check (operating_status ERROR)", member.id));
            }
            if left_out.is_none() && member.backup {
                reasons
                    .push(format!("member {} is a backup: it is ready only while no primary member works", member.id));
            }
        }
        let object = |member: &&Member| AddressObject {
            kind: "member",
            name: member.id.as_str().into(),
            conditions: offered.unwrap_or(Conditions::NOT_READY),
        };
        AddressInSource { objects: members.iter().map(object).collect(), reasons }
    }

    /// Returns the members with this address of the pools that a load balancer sends to, in order.
    fn members_at(&self, balancer: &LoadBalancer, address: IpAddr) -> Vec<&Member> {
        let belongings = self.lists().belongings();
        let mut pools: BTreeSet<&Id> = BTreeSet::new();
        for listener in belongings.listeners.get(&balancer.id).into_iter().flatten() {
            let policies = belongings.policies.get(&listener.id).into_iter().flatten();
            let redirects = policies.filter_map(|policy| policy.redirect_pool.as_ref());
            let known = |id: &&Id| self.lists().pools.get(id).map(|pool| &pool.id);
            pools.extend(listener.default_pool_id.iter().chain(redirects).filter_map(|id| known(&id)));
        }
        let pools = pools.into_iter().filter_map(|id| self.lists().pools.get(id));
        let members = pools.flat_map(|pool| self.members_of(pool));
        members.filter(|member| matches!(member.address, Address::Ip(ip) if ip == address)).collect()
    }
}
