//! The members of one pool: the fewest requests that make them as they are wanted.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::abilities::UsableAbilities;
use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::KEEP;
use crate::memory::member_key;
use crate::request_size::fitting;
use crate::seen::{Provisioning, SeenMember, SeenPool};
use crate::step::{BalancerStep, CloudLook};
use crate::tags::member_tags;
use crate::target::WantedMember;

/// What may be done about the members of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberChanges {
    /// Whether those in `ERROR` are sent again.
    pub(crate) repair: bool,
    /// Whether new ones are not refused for the time being.
    pub(crate) add: bool,
}

impl Actor {
    /// Returns the next change of a pool's members: additions and changes alone in an additive batch, and the whole list in one
    /// request as soon as any goes, if it has room there. Octavia applies a batch at once, so that new members never come after
    /// old ones have gone.
    ///
    /// While new ones are refused, the others change and go all the same; but not the last one that takes connections.
    pub(crate) fn members_step(
        &self,
        pool: &SeenPool,
        wanted: &[WantedMember],
        abilities: &UsableAbilities,
        may: MemberChanges,
    ) -> Option<BalancerStep> {
        let MemberChanges { repair, add } = may;
        let tags = member_tags(&self.mark, &self.resource_tags);
        let untagged =
            |seen: &SeenMember| self.resource_tags.iter().any(|tag| !seen.tags.iter().any(|one| **tag == **one));
        let places = MembersByPlace::of(pool);
        let find = |one: &WantedMember| places.find(one);
        let wanted: Vec<&WantedMember> = wanted.iter().filter(|one| add || find(one).is_some()).collect();
        let wanted_places: HashSet<_> = wanted.iter().map(|one| MemberPlace::of(&one.address, one.port)).collect();
        let broken = |seen: &SeenMember| repair && seen.provisioning == Provisioning::Error;
        let changed: Vec<&WantedMember> = wanted
            .iter()
            .copied()
            .filter(|one| find(one).is_none_or(|seen| broken(seen) || untagged(seen) || differs(seen, one)))
            .collect();
        let (mut removed, mut kept): (Vec<&SeenMember>, Vec<&SeenMember>) = pool
            .members
            .iter()
            .filter(|seen| !wanted_places.contains(&MemberPlace::of(&seen.address, seen.port)))
            .partition(|seen| self.may_go(pool, seen));
        let serves = wanted.iter().any(|one| one.weight > 0) || kept.iter().any(|seen| seen.weight > 0);
        if !add
            && !serves
            && let Some(last) = removed.iter().position(|seen| seen.weight > 0)
        {
            kept.push(removed.remove(last));
        }
        if changed.is_empty() && removed.is_empty() {
            return None;
        }
        let id = pool.id.clone();
        if abilities.provider.batch_members {
            let additive = abilities.additive_members;
            if !(additive && removed.is_empty()) {
                let all: Vec<Value> =
                    wanted.iter().map(|one| one.body(&tags)).chain(kept.into_iter().map(body_of)).collect();
                if fitting(&all) >= all.len() {
                    return Some(BalancerStep::Change(CloudChange::SetMembers {
                        pool: id,
                        members: all,
                        additive: false,
                    }));
                }
            }
            // What a request has no room for comes in the next one, and what goes, goes after the last, one by one.
            if additive && !changed.is_empty() {
                let mut members: Vec<Value> = changed.iter().map(|one| one.body(&tags)).collect();
                members.truncate(fitting(&members));
                return Some(BalancerStep::Change(CloudChange::SetMembers { pool: id, members, additive }));
            }
        }
        // One by one, additions first. A member without an ID was made a moment ago.
        if pool.members.iter().any(|seen| seen.id.is_empty()) {
            return Some(BalancerStep::Look(CloudLook::Members { pool: id }));
        }
        if let Some(one) = changed.iter().find(|one| find(one).is_none()) {
            return Some(BalancerStep::Change(CloudChange::CreateMember { pool: id, body: one.body(&tags) }));
        }
        let known = || changed.iter().filter_map(|one| Some((*one, find(one)?)));
        if let Some((one, seen)) = known().find(|(one, seen)| !is_elsewhere(seen, one)) {
            let change = CloudChange::UpdateMember { pool: id, id: seen.id.clone(), fields: fields(one, &tags) };
            return Some(BalancerStep::Change(change));
        }
        // A member keeps its subnet for life, and only one can have its address and port: the old one goes first.
        let moved = known().map(|(_, seen)| seen).next();
        let gone = moved.or_else(|| removed.first().copied())?;
        Some(BalancerStep::Change(CloudChange::DeleteMember { pool: id, id: gone.id.clone() }))
    }

    /// Whether a change of members brings one that its pool has not.
    pub(crate) fn adds_members(&self, change: &CloudChange) -> bool {
        match change {
            CloudChange::CreateMember { .. } => true,
            CloudChange::SetMembers { pool, members, .. } => {
                let mut pools = self.seen.balancers.iter().flat_map(|one| &one.pools);
                let known = pools.find(|one| one.id == *pool).map(|one| one.members.as_slice()).unwrap_or_default();
                let known: HashSet<(&str, u64)> =
                    known.iter().map(|seen| (seen.address.as_str(), seen.port.into())).collect();
                let is_new = |body: &Value| {
                    let place = body["address"].as_str().zip(body["protocol_port"].as_u64());
                    place.is_none_or(|place| !known.contains(&place))
                };
                members.iter().any(is_new)
            }
            _ => false,
        }
    }

    fn may_go(&self, pool: &SeenPool, seen: &SeenMember) -> bool {
        let ours = seen.tags.contains(&self.mark.owner_tag());
        let kept = seen.tags.iter().any(|tag| tag == KEEP);
        !kept && (ours || self.memory.is_condemned(&member_key(&pool.id, &seen.address, seen.port)))
    }
}

/// Where a member is. Addresses are compared as addresses: Octavia keeps them as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MemberPlace<'a> {
    Address(IpAddr, u16),
    Text(&'a str, u16),
}

impl<'a> MemberPlace<'a> {
    fn of(address: &'a str, port: u16) -> Self {
        address.parse().map_or(Self::Text(address, port), |address| Self::Address(address, port))
    }
}

/// The members of a pool by where they are. With thousands of them, looking through all for each would take minutes.
pub(crate) struct MembersByPlace<'a>(HashMap<MemberPlace<'a>, &'a SeenMember>);

impl<'a> MembersByPlace<'a> {
    pub(crate) fn of(pool: &'a SeenPool) -> Self {
        // Of several at one place the first counts.
        let all = pool.members.iter().rev();
        Self(all.map(|seen| (MemberPlace::of(&seen.address, seen.port), seen)).collect())
    }

    /// Returns the member that is where a wanted one is to be.
    pub(crate) fn find(&self, wanted: &WantedMember) -> Option<&'a SeenMember> {
        self.0.get(&MemberPlace::of(&wanted.address, wanted.port)).copied()
    }
}

fn differs(seen: &SeenMember, wanted: &WantedMember) -> bool {
    let WantedMember { address: _, port: _, weight, name, subnet: _, monitor_port } = wanted;
    seen.weight != *weight
        || seen.name != *name
        || seen.monitor_port != *monitor_port
        || seen.monitor_address.is_some()
        || seen.backup
        || !seen.admin_state_up
        || is_elsewhere(seen, wanted)
}

/// Whether a member is reached in another subnet than the wanted one.
fn is_elsewhere(seen: &SeenMember, wanted: &WantedMember) -> bool {
    wanted.subnet.as_ref().is_some_and(|subnet| seen.subnet.as_ref() != Some(subnet))
}

fn fields(wanted: &WantedMember, tags: &[String]) -> Value {
    json!({
        "weight": wanted.weight,
        "name": wanted.name,
        "monitor_port": wanted.monitor_port,
        "monitor_address": null,
        "backup": false,
        "admin_state_up": true,
        "tags": tags,
    })
}

/// Returns a member as it is, for a batch that must not change it.
fn body_of(seen: &SeenMember) -> Value {
    let mut body = json!({
        "address": seen.address,
        "protocol_port": seen.port,
        "weight": seen.weight,
        "name": seen.name,
        "backup": seen.backup,
        "admin_state_up": seen.admin_state_up,
        "monitor_port": seen.monitor_port,
        "monitor_address": seen.monitor_address,
        "tags": seen.tags,
    });
    if let Some(subnet) = &seen.subnet {
        body["subnet_id"] = json!(subnet);
    }
    body
}
