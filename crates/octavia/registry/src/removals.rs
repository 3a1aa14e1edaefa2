//! The guard of members: what may be removed now, and what stays for the time being.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use gimbal_guard::{Fall, Guard, GuardKey, Passage};
use gimbal_kuryr_model::{
    DesiredEntry, DesiredLoadBalancer, DesiredMember, DesiredMembers, ListenerId, MemberId, PoolId, Text,
};
use gimbal_model::Protocol;
use gimbal_octavia_plan::{Actor, SeenBalancer, SeenPool, service_of};

/// An owner, as the guard counts it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GuardedOwner(pub(crate) Text);

impl GuardKey for GuardedOwner {
    type Source = Text;
    type Group = ();

    fn group(&self) -> &() {
        &()
    }

    fn record_bytes(&self) -> usize {
        self.0.len() + 16
    }
}

/// Returns whether what is pending for an owner may go now. Nothing is stored on this side: what a restart forgets, the lists
/// show again, and it waits anew.
pub(crate) fn may_go(guard: &mut Guard<GuardedOwner>, key: &GuardedOwner, now: Instant) -> bool {
    match guard.verdict(key, now) {
        Passage::Allowed => true,
        Passage::Held => false,
        Passage::Unkept => {
            drop(guard.record(SystemTime::UNIX_EPOCH));
            guard.kept();
            guard.verdict(key, now) == Passage::Allowed
        }
    }
}

/// Takes note that an owner has `after` of something, and had `before`.
pub(crate) fn observe(
    guard: &mut Guard<GuardedOwner>,
    key: &GuardedOwner,
    before: u64,
    after: u64,
    fall: Fall,
    now: Instant,
) {
    if before != after {
        guard.observed(key, None, before, after, fall, now);
    }
}

/// Returns the members that are there and are no longer wanted, in pools that are wanted. A port or a route that goes is a person's
/// wish and is not counted, nor is a port that another owner of the group gets, nor what carries no mark of the owner.
pub(crate) fn surplus(actor: &Actor, wanted: &DesiredLoadBalancer, owner_tag: &str) -> Vec<DesiredMember> {
    let Some(balancer) = actor.balancer() else { return Vec::new() };
    let mut surplus = Vec::new();
    for pool in &balancer.pools {
        let Some(id) = id_of(balancer, pool) else { continue };
        let is_wanted = match &id {
            PoolId::Listener(listener) => {
                wanted.header.listener(*listener).is_some() && !actor.is_of_another_owner(*listener, &pool.tags)
            }
            PoolId::Service(id) => wanted.header.routing.as_deref().is_some_and(|routing| routing.pool(id).is_some()),
        };
        if !is_wanted {
            continue;
        }
        let there: BTreeSet<(IpAddr, u16)> =
            wanted.members.of(&id).iter().map(|member| (member.id.address, member.id.port)).collect();
        for member in pool.members.iter().filter(|member| member.tags.iter().any(|tag| tag == owner_tag)) {
            let Ok(address) = member.address.parse::<IpAddr>() else { continue };
            if !there.contains(&(address, member.port)) {
                surplus.push(DesiredMember {
                    id: MemberId { pool: id.clone(), address, port: member.port },
                    weight: u8::try_from(member.weight).unwrap_or(1),
                    name: (!member.name.is_empty()).then(|| member.name.as_str().into()),
                    subnet: member.subnet.as_deref().map(Text::from),
                });
            }
        }
    }
    surplus
}

/// Returns what is wanted with these members beside.
pub(crate) fn with_members(wanted: &DesiredLoadBalancer, more: Vec<DesiredMember>) -> DesiredEntry {
    let mut members = more;
    members.extend(wanted.members.as_slice().iter().cloned());
    DesiredEntry::LoadBalancer(DesiredLoadBalancer {
        generation: wanted.generation,
        header: Arc::clone(&wanted.header),
        members: DesiredMembers::new(members),
    })
}

/// Returns which pool this is. That of a Service may be the default of a listener.
pub(crate) fn id_of(balancer: &SeenBalancer, pool: &SeenPool) -> Option<PoolId> {
    let service = pool.tags.iter().find_map(|tag| service_of(tag));
    service.map(|id| PoolId::Service(id.into())).or_else(|| port_of(balancer, &pool.id).map(PoolId::Listener))
}

/// Returns the port that leads to a pool.
fn port_of(balancer: &SeenBalancer, pool: &str) -> Option<ListenerId> {
    let listener = balancer.listeners.iter().find(|one| one.default_pool.as_deref() == Some(pool))?;
    let protocol = match listener.protocol.as_str() {
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    Some(ListenerId::new(protocol, listener.port))
}
