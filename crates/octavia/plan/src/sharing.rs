//! A load balancer that several owners share: what they want together, and which of its parts is whose.
//!
//! Its mark names the group instead of an owner. Whom it serves is in further tags: the load balancer has one for each owner, a
//! listener and its pool the one of theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kuryr_model::{
    ClientRanges, DesiredKey, DesiredLoadBalancer, DesiredMembers, ListenerId, LoadBalancerHeader, Text,
};
use serde_json::Value;

use crate::actor::Actor;
use crate::mark::{owner_tag_of, owners_in, with_missing};
use crate::seen::SeenBalancer;

/// Whose the parts of a shared load balancer are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// Whom each port serves.
    pub parts: BTreeMap<ListenerId, SharedPart>,
    /// The owners that want it.
    pub owners: BTreeSet<Text>,
    /// Owners that are known to want it no more. What is there for any other one stays as it is: it was not said yet what it
    /// wants.
    pub released: BTreeSet<Text>,
}

/// One port of a shared load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPart {
    /// Its owner.
    pub owner: Text,
    /// The owner's entry.
    pub key: DesiredKey,
    /// What the owner wants of its ports.
    pub header: Arc<LoadBalancerHeader>,
}

/// What several owners want together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedWish {
    /// The load balancer that serves them all.
    pub wanted: DesiredLoadBalancer,
    /// Whom each of its ports serves.
    pub parts: BTreeMap<ListenerId, SharedPart>,
    /// What an owner does not get, if there is anything.
    pub losses: BTreeMap<DesiredKey, SharingLoss>,
}

/// What one owner does not get of a shared load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharingLoss {
    /// Ports that somebody else has, and who.
    pub ports: Vec<(ListenerId, Text)>,
    /// Settings of the load balancer that the oldest owner decides otherwise.
    pub settings: Vec<&'static str>,
    /// The name of that one.
    pub oldest: Text,
}

/// Merges what owners want of one load balancer, in any order. The oldest one decides what there is once, and the older one of
/// two has a port that both want; ports that are `occupied` are left to those who have them. `None` without any owner.
#[must_use]
pub fn merged(
    group: &Text,
    wishes: &BTreeMap<DesiredKey, DesiredLoadBalancer>,
    occupied: &BTreeMap<ListenerId, Text>,
) -> Option<SharedWish> {
    let mut by_age: Vec<(&DesiredKey, &DesiredLoadBalancer)> = wishes.iter().collect();
    by_age.sort_by_key(|(key, wanted)| {
        let created = wanted.header.shared_group.as_ref().and_then(|group| group.created.clone());
        (created.is_none(), created, wanted.header.owner.clone(), *key)
    });
    let (leader, first) = by_age.first()?;
    let name = |key: &DesiredKey| -> Text { LoadBalancerHeader::display_name(&key.namespace, &key.name).into() };
    let mut header = LoadBalancerHeader::clone(&first.header);
    let mut parts: BTreeMap<ListenerId, SharedPart> = BTreeMap::new();
    let (mut listeners, mut members) = (Vec::new(), Vec::new());
    let mut losses = BTreeMap::new();
    for (key, wanted) in &by_age {
        let settings = if key == leader { Vec::new() } else { differing(&first.header, &wanted.header) };
        let mut loss = SharingLoss { ports: Vec::new(), settings, oldest: name(leader) };
        for wish in &wanted.header.listeners {
            if let Some(holder) = parts.get(&wish.id) {
                loss.ports.push((wish.id, name(&holder.key)));
            } else if let Some(holder) = occupied.get(&wish.id).filter(|holder| **holder != wanted.header.owner) {
                loss.ports.push((wish.id, holder.clone()));
            } else {
                let (owner, header) = (wanted.header.owner.clone(), Arc::clone(&wanted.header));
                parts.insert(wish.id, SharedPart { owner, key: DesiredKey::clone(key), header });
                listeners.push(wish.clone());
                members.extend(wanted.members.of(&wish.id.into()).iter().cloned());
            }
        }
        if !loss.ports.is_empty() || !loss.settings.is_empty() {
            losses.insert(DesiredKey::clone(key), loss);
        }
    }
    header.owner = group.clone();
    header.known = by_age.iter().all(|(_, wanted)| wanted.header.known);
    header.listeners = listeners.into();
    // Whose port is restricted says its part. What the port of the VIP may have depends on whether any is.
    let restricted = parts.values().map(|part| &part.header.clients).find(|one| matches!(one, ClientRanges::Only(_)));
    header.clients = restricted.unwrap_or(&first.header.clients).clone();
    header.sort();
    let wanted = DesiredLoadBalancer { generation: 0, header: Arc::new(header), members: DesiredMembers::new(members) };
    Some(SharedWish { wanted, parts, losses })
}

/// Returns the settings of a load balancer that two owners do not agree about.
fn differing(one: &LoadBalancerHeader, other: &LoadBalancerHeader) -> Vec<&'static str> {
    let (here, there) = (&one.placement, &other.placement);
    let (vip, others) = (&one.vip, &other.vip);
    let all = [
        ("project", here.project != there.project),
        ("provider", here.provider != there.provider),
        ("flavor", here.flavor != there.flavor),
        ("availability zone", here.availability_zone != there.availability_zone),
        ("subnet", vip.subnet != others.subnet || vip.additional_subnets != others.additional_subnets),
        ("network", vip.network != others.network),
        ("port of the VIP", vip.port != others.port),
        ("address", vip.address != others.address || vip.additional_addresses != others.additional_addresses),
        ("security groups", vip.security_groups != others.security_groups),
        ("floating IP", one.floating != other.floating),
        ("load balancer to adopt", other.adopt.is_some() && one.adopt != other.adopt),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
}

impl Sharing {
    /// Whether it was not said yet what this owner wants.
    fn spares(&self, owner: &str) -> bool {
        !self.owners.contains(owner) && !self.released.contains(owner)
    }

    /// Returns the tags of the owners.
    pub(crate) fn owner_tags(&self) -> impl Iterator<Item = String> {
        self.owners.iter().map(|owner| owner_tag_of(owner))
    }
}

/// Returns the tags of an object that are different from what it is to carry, sorted, as JSON. Where it is shared, those of
/// owners go that it is no longer for.
pub(crate) fn retagged(sharing: Option<&Sharing>, present: &[String], wanted: &[String]) -> Option<Value> {
    let Some(sharing) = sharing else { return with_missing(present, wanted) };
    let is_stale = |tag: &&String| {
        owners_in(std::iter::once(tag.as_str())).any(|owner| !sharing.spares(owner)) && !wanted.contains(tag)
    };
    let kept: Vec<String> = present.iter().filter(|tag| !is_stale(tag)).cloned().collect();
    match with_missing(&kept, wanted) {
        None if kept.len() < present.len() => {
            let mut kept = kept;
            kept.sort();
            Some(kept.into_iter().collect())
        }
        tags => tags,
    }
}

impl Actor {
    /// Sets whose the parts of the load balancer are that several owners share. Set before what is wanted.
    pub fn share(&mut self, sharing: Sharing) {
        if self.sharing.as_deref() != Some(&sharing) {
            self.memory.wish_changed(None);
            self.sharing = Some(Box::new(sharing));
        }
    }

    /// Whether something carries these tags that is there for an owner of whom it is not known what it wants.
    pub(crate) fn is_spared(&self, tags: &[String]) -> bool {
        let Some(sharing) = self.sharing.as_deref() else { return false };
        owners_in(tags.iter().map(String::as_str)).any(|owner| sharing.spares(owner))
    }

    /// Whether something with these tags was made for a port's former owner.
    #[must_use]
    pub fn is_of_another_owner(&self, port: ListenerId, tags: &[String]) -> bool {
        let part = self.sharing.as_deref().and_then(|sharing| sharing.parts.get(&port));
        part.is_some_and(|part| owners_in(tags.iter().map(String::as_str)).any(|owner| *owner != *part.owner))
    }

    /// Returns the owners that something in these load balancers is there for.
    #[must_use]
    pub fn owners_seen(&self) -> BTreeSet<Text> {
        self.seen.balancers.iter().flat_map(owners_of).collect()
    }

    /// Returns the ports that are there for owners, and whose they are.
    #[must_use]
    pub fn ports_seen(&self) -> Vec<(ListenerId, Text)> {
        let listeners = self.seen.balancers.iter().flat_map(|one| &one.listeners);
        let owned = listeners.filter_map(|one| {
            let owner = owners_in(one.tags.iter().map(String::as_str)).next()?;
            Some((crate::adopt::id_of(one), owner.into()))
        });
        owned.collect()
    }
}

fn owners_of(balancer: &SeenBalancer) -> impl Iterator<Item = Text> {
    let parts = balancer.listeners.iter().map(|one| &one.tags).chain(balancer.pools.iter().map(|one| &one.tags));
    let all = std::iter::once(&balancer.tags).chain(parts).flatten();
    owners_in(all.map(String::as_str)).map(Text::from)
}
