//! What goes on of an entry that is refused and was allowed before: its members come and go, and fewer clients may connect.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kuryr_model::{
    ClientRanges, DesiredLoadBalancer, DesiredMember, DesiredMembers, LoadBalancerHeader, PoolId,
};
use ipnet::IpNet;

use super::ClusterPolicy;
use super::members::by_family;

impl ClusterPolicy {
    /// Returns what was allowed of an entry last, `allowed`, with the members of the version that is refused, and how many of
    /// these wait for room. Members of `former`, which is wanted so far, stay where the refused version has no such pool, or none
    /// that is allowed and takes new connections. Of more than `most` members, those that take new connections come first, and
    /// among equals those that are there.
    #[must_use]
    pub fn following(
        &self,
        former: &DesiredLoadBalancer,
        allowed: &Arc<LoadBalancerHeader>,
        refused: &DesiredLoadBalancer,
        most: u64,
    ) -> (DesiredLoadBalancer, usize) {
        let mut header = allowed.clone();
        // What opens it to more clients may belong to what is refused.
        let is_narrower = is_within(&refused.header.clients, &allowed.clients);
        let clients = if is_narrower { &refused.header.clients } else { &allowed.clients };
        if header.known != refused.header.known || header.clients != *clients {
            let header = Arc::make_mut(&mut header);
            (header.known, header.clients) = (refused.header.known, clients.clone());
        }
        // The other Services of a router go on, as they do where it is not refused.
        let lost = if header.routing.is_some() { BTreeSet::new() } else { self.lost(refused.members.as_slice()) };
        let follows = |member: &&DesiredMember| {
            let pool = &member.id.pool;
            has_pool(&header, pool) && has_pool(&refused.header, pool) && !lost.contains(&by_family(member))
        };
        let stay = former.members.as_slice().iter().filter(|member| !follows(member));
        let come = refused.members.as_slice().iter().filter(follows).filter(|member| self.allows_member(member));
        let mut members: Vec<DesiredMember> = stay.chain(come).cloned().collect();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let waiting = members.len().saturating_sub(most);
        if waiting > 0 {
            members.sort_by_cached_key(|member| (member.weight == 0, former.members.get(&member.id).is_none()));
            members.truncate(most);
        }
        let mut members = DesiredMembers::new(members);
        members.share(&refused.members);
        (DesiredLoadBalancer { generation: former.generation, header, members }, waiting)
    }
}

fn has_pool(header: &LoadBalancerHeader, pool: &PoolId) -> bool {
    match pool {
        PoolId::Listener(id) => header.listener(*id).is_some(),
        PoolId::Service(id) => header.routing.as_deref().is_some_and(|routing| routing.pool(id).is_some()),
    }
}

/// Whether every client of the first ranges is one of the others.
fn is_within(ranges: &ClientRanges, others: &ClientRanges) -> bool {
    match (ranges, others) {
        (ClientRanges::NoOne, _) | (_, ClientRanges::Everyone) => true,
        (ClientRanges::Everyone, _) | (_, ClientRanges::NoOne) => false,
        (ClientRanges::Only(ranges), ClientRanges::Only(others)) => {
            // None of them contains another one, so the last that does not come after a range is the only one that may have it.
            let mut others = IpNet::aggregate(&others.to_vec());
            others.sort_unstable();
            ranges.iter().all(|range| {
                let after = others.partition_point(|other| other <= range);
                after.checked_sub(1).is_some_and(|last| others[last].contains(range))
            })
        }
    }
}
