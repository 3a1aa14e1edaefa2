//! Members that the policy does not allow: the others are served.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredLoadBalancer, DesiredMember, DesiredMembers, MemberId, PoolId};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_model::AddressRefusal;

use super::{ClusterPolicy, PolicyBreach};

/// Addresses that are named.
const NAMED: usize = 3;

impl ClusterPolicy {
    /// Returns the load balancer with those of its members that it may have, and a sentence about the others if there are any.
    ///
    /// # Errors
    /// A listener may have none of those of one address family that take new connections. Without any it would refuse every
    /// connection, or those clients would be left to members of the other family, which was not asked for: its members stay as they
    /// are. A router goes on nevertheless: one Service must not stop the routes to the others.
    pub fn with_allowed_members(
        &self,
        wanted: DesiredLoadBalancer,
    ) -> Result<(DesiredLoadBalancer, Option<String>), PolicyBreach> {
        let all = wanted.members.as_slice();
        let mut refused = BTreeSet::new();
        for member in all {
            if let Err(refusal) = self.addresses.check(member.id.address) {
                refused.insert((member.id.address, why(refusal)));
            }
        }
        if refused.is_empty() {
            return Ok((wanted, None));
        }
        let named: Vec<String> = refused.iter().take(NAMED).map(|(address, why)| format!("{address} {why}")).collect();
        let more = refused.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let words = format!("{}{more}", named.join(", "));
        let allowed: Vec<DesiredMember> = all.iter().filter(|member| self.allows_member(member)).cloned().collect();
        let is_router = wanted.header.routing.is_some();
        let lost = self.lost(all);
        if let Some((pool, is_ipv4)) = lost.first().filter(|_| !is_router) {
            let family = if *is_ipv4 { "IPv4" } else { "IPv6" };
            let message = format!("no {family} member of port {pool} may be served: {words}");
            return Err(PolicyBreach { reason: KuryrReason::MemberNotAllowed, message });
        }
        let left_out = all.len() - allowed.len();
        let mut words = format!("{left_out} of {} members are left out: {words}", all.len());
        if !lost.is_empty() {
            let pools: BTreeSet<String> = lost.iter().take(NAMED).map(|(pool, _)| pool.to_string()).collect();
            let pools: Vec<String> = pools.into_iter().collect();
            words.push_str(&format!("; that leaves no member that serves to {}", pools.join(", ")));
        }
        Ok((DesiredLoadBalancer { members: DesiredMembers::new(allowed), ..wanted }, Some(words)))
    }

    /// Whether the address of a member, and the subnet that it is reached in, are allowed.
    pub(super) fn allows_member(&self, member: &DesiredMember) -> bool {
        self.addresses.check(member.id.address).is_ok()
            && member.subnet.as_ref().is_none_or(|subnet| self.allows_subnet_of_members(subnet))
    }

    /// Returns the pools, by family, in which members take new connections of which none is allowed.
    pub(super) fn lost(&self, members: &[DesiredMember]) -> BTreeSet<(PoolId, bool)> {
        let serving = || members.iter().filter(|member| member.weight > 0);
        let allowed: BTreeSet<_> = serving().filter(|member| self.allows_member(member)).map(by_family).collect();
        serving().map(by_family).filter(|one| !allowed.contains(one)).collect()
    }
}

/// Returns a router with at most `most` members, and those that wait for room. Those of `former`, which is wanted so far, count as there.
/// What one Service has no room for must not stop the routes to the others.
pub fn with_most_members(
    wanted: DesiredLoadBalancer,
    former: Option<&DesiredLoadBalancer>,
    most: u64,
) -> (DesiredLoadBalancer, DesiredMembers) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let is_there = |id: &MemberId| former.is_some_and(|former| former.members.get(id).is_some());
    let (members, waiting) = wanted.members.split_at_most(most, is_there);
    (DesiredLoadBalancer { members, ..wanted }, waiting)
}

/// Returns the pool of a member, and whether its address is one of IPv4.
pub(super) fn by_family(member: &DesiredMember) -> (PoolId, bool) {
    (member.id.pool.clone(), member.id.address.is_ipv4())
}

fn why(refusal: AddressRefusal) -> String {
    match refusal {
        AddressRefusal::NotAllowed => "is outside of members.allow of the writer".to_owned(),
        AddressRefusal::Refused => "is in members.refuse of the writer".to_owned(),
        always => always.to_string(),
    }
}
