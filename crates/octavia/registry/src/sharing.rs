//! Load balancers that several owners share. The merged wish of a group has a cell like that of an owner; what is here keeps the
//! owners of a group, and lets one go only when nothing of it is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{
    DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, ListenerId, LoadBalancerReport, SharedGroup, Text,
};
use gimbal_octavia_plan::{Actor, BalancerStep, Sharing, SharingLoss, group_owner, is_group, merged, owners_in};
use serde_json::Value;

use crate::cell::{Cell, CellState};
use crate::cluster::ManagedCluster;
use crate::fingerprint::tags_of;
use crate::reporting::{is_told_anew, print_of};
use crate::shared::RegistryCore;

/// The owners of one load balancer.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// What they want.
    pub(crate) wants: BTreeMap<DesiredKey, DesiredLoadBalancer>,
    /// Those that something may be there for.
    owners: BTreeSet<Text>,
    /// Those of them whose key another owner has.
    replaced: BTreeSet<Text>,
    /// What they do not get.
    pub(crate) losses: BTreeMap<DesiredKey, SharingLoss>,
    /// What the last report of each was.
    pub(crate) reported: BTreeMap<DesiredKey, u64>,
}

/// The groups of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) all: BTreeMap<Text, Group>,
    /// The entries of owners that want a shared load balancer.
    keys: BTreeMap<Text, DesiredKey>,
    /// Those that are to decide anew: somebody wants something else, or may go now.
    stirred: BTreeSet<Text>,
    /// How often a wish was put together.
    pub(crate) wishes: u64,
}

impl Groups {
    /// Returns the entry of an owner that wants a shared load balancer.
    pub(crate) fn key_of(&self, owner: &Text) -> Option<&DesiredKey> {
        self.keys.get(owner)
    }

    /// Lets a group decide anew which of its owners have let go.
    pub(crate) fn stir(&mut self, group: &Text) {
        self.stirred.insert(group.clone());
    }

    /// Whether a group is to decide anew.
    pub(crate) fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    fn wants(&self, group: &Text, owner: &Text) -> bool {
        let wants = self.all.get(group).map(|one| &one.wants);
        wants.is_some_and(|wants| self.keys.get(owner).is_some_and(|key| wants.contains_key(key)))
    }

    /// Whether something may be there for an owner in a group.
    pub(crate) fn has_owner(&self, owner: &Text) -> bool {
        self.all.values().any(|one| one.owners.contains(owner))
    }

    /// Returns the groups that something may be there in for an owner that does not want it.
    fn holding(&self, owner: &Text) -> Vec<Text> {
        let holds = |(group, one): &(&Text, &Group)| one.owners.contains(owner) && !self.wants(group, owner);
        self.all.iter().filter(holds).map(|(group, _)| group.clone()).collect()
    }

    /// Whether this is a group that entries want.
    pub(crate) fn is_wanted(&self, group: &str) -> bool {
        self.all.get(group).is_some_and(|one| !one.wants.is_empty())
    }

    /// Whether a report differs from the last one that was sent.
    pub(crate) fn is_news(&self, group: &Text, key: &DesiredKey, report: &LoadBalancerReport) -> bool {
        self.all.get(group).is_some_and(|one| one.reported.get(key) != Some(&print_of(report)))
    }

    /// Takes note that a report is sent.
    pub(crate) fn tell(&mut self, group: &Text, key: &DesiredKey, report: &LoadBalancerReport) {
        if let Some(one) = self.all.get_mut(group) {
            one.reported.insert(key.clone(), print_of(report));
        }
    }

    /// Whether anything was reported of an entry.
    pub(crate) fn was_told(&self, group: &Text, key: &DesiredKey) -> bool {
        self.all.get(group).is_some_and(|one| one.reported.contains_key(key))
    }

    /// Returns the owners that something may be there for in a group.
    pub(crate) fn owners_of(&self, group: &str) -> impl Iterator<Item = &Text> {
        self.all.get(group).into_iter().flat_map(|one| &one.owners)
    }
}

/// Returns what stands for the owner of a group.
fn owner_of(group: &SharedGroup) -> Text {
    let (namespace, name) = group.name.split_once('/').unwrap_or(("", &group.name));
    group_owner(namespace, name)
}

/// Returns what exists in OpenStack for the owner of the load balancer that an entry shares; `None` if it shares none.
#[must_use]
pub fn sharing_owner(entry: &DesiredEntry) -> Option<Text> {
    match entry {
        DesiredEntry::LoadBalancer(wanted) => wanted.header.shared_group.as_deref().map(owner_of),
        DesiredEntry::Deleting { .. } => None,
    }
}

/// Returns the key that a group's load balancer is named by, and has its turns under.
fn key_of(group: &str) -> DesiredKey {
    let mut words = group.splitn(3, ':').skip(1);
    let (namespace, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    DesiredKey::new(DesiredKind::LoadBalancer, namespace, format!("group:{name}"))
}

impl ManagedCluster {
    /// Wants an entry. Returns `false` if another key has its owner.
    pub(crate) fn want(&mut self, key: DesiredKey, entry: DesiredEntry, shared: &RegistryCore, now: Instant) -> bool {
        let owner = entry.owner().clone();
        if self.is_held_elsewhere(&owner, &key) || self.groups.key_of(&owner).is_some_and(|holder| *holder != key) {
            // Whoever names an owner of somebody else must not change or remove what that one has.
            return false;
        }
        let group = sharing_owner(&entry);
        let left = self.leave(&key, &owner, group.as_ref());
        match (group, entry) {
            (Some(group), DesiredEntry::LoadBalancer(wanted)) => self.join(&group, key, wanted, shared, now),
            (_, entry) => self.want_alone(key, entry, shared, now),
        }
        if let Some(left) = left {
            self.regroup_soon(&left, shared, now);
        }
        true
    }

    /// An entry wants the load balancer of a group.
    fn join(
        &mut self,
        group: &Text,
        key: DesiredKey,
        wanted: DesiredLoadBalancer,
        shared: &RegistryCore,
        now: Instant,
    ) {
        let owner = wanted.header.owner.clone();
        self.take_key(&key, group, shared, now);
        self.is_wanted_again(&owner, now);
        let one = self.groups.all.entry(group.clone()).or_default();
        one.owners.insert(owner.clone());
        one.replaced.remove(&owner);
        let before = one.wants.insert(key.clone(), wanted.clone()).map(DesiredEntry::LoadBalancer);
        let after = DesiredEntry::LoadBalancer(wanted);
        if before.is_none_or(|before| is_told_anew(&before, &after)) {
            one.reported.remove(&key);
        }
        self.groups.keys.insert(owner, key);
        self.regroup_soon(group, shared, now);
    }

    /// An entry wants its group's load balancer no more: it goes, has one of its own, or is in another group.
    fn leave(&mut self, key: &DesiredKey, owner: &Text, to: Option<&Text>) -> Option<Text> {
        let group = self.keys.get(key).filter(|one| is_group(one)).cloned()?;
        let one = self.groups.all.get_mut(&group)?;
        let former = one.wants.get(key).map(|wanted| wanted.header.owner.clone());
        let is_other = former.as_ref().is_some_and(|former| former != owner);
        if to == Some(&group) && !is_other {
            return None;
        }
        one.wants.remove(key);
        one.losses.remove(key);
        one.reported.remove(key);
        if let Some(former) = former {
            self.groups.keys.remove(&former);
            one.replaced.extend(is_other.then_some(former));
        }
        self.keys.remove(key);
        Some(group)
    }

    /// The entry of an owner of a group has left the stream. That removes nothing.
    pub(crate) fn forget_shared(&mut self, key: &DesiredKey, group: &Text, shared: &RegistryCore, now: Instant) {
        let Some(one) = self.groups.all.get_mut(group) else { return };
        one.losses.remove(key);
        one.reported.remove(key);
        if let Some(wanted) = one.wants.remove(key) {
            self.groups.keys.remove(&wanted.header.owner);
        }
        if !one.wants.is_empty() {
            return self.regroup_soon(group, shared, now);
        }
        match self.cells.get_mut(group) {
            Some(cell) if cell.is_deleting() => {}
            // Its answer is awaited.
            Some(cell) if matches!(cell.state, CellState::Sending(_)) => cell.is_dropped = true,
            Some(_) => self.drop_cell(group, now),
            None => {}
        }
        self.groups.stirred.insert(group.clone());
    }

    /// Wants what the owners of a group want now, once for all of them that come at a time: thousands may be in one snapshot.
    fn regroup_soon(&mut self, group: &Text, shared: &RegistryCore, now: Instant) {
        match self.cells.get(group) {
            Some(cell) if !cell.is_deleting() => self.groups.stir(group),
            _ => self.regroup(group, shared, now),
        }
    }

    /// Wants what the owners of a group want now.
    fn regroup(&mut self, group: &Text, shared: &RegistryCore, now: Instant) {
        let Some(one) = self.groups.all.get(group) else { return };
        if !one.wants.is_empty() {
            let actor = self.cells.get(group).map(|cell| &cell.actor);
            let Some((entry, sharing, losses)) = self.shared_wish(group, actor) else { return };
            self.groups.wishes += 1;
            self.want_cell(key_of(group), entry, shared, now);
            if let Some(cell) = self.cells.get_mut(group) {
                cell.actor.share(sharing);
            }
            if let Some(one) = self.groups.all.get_mut(group) {
                one.losses = losses;
            }
            return;
        }
        let is_ordered = self.cells.get(group).is_some_and(|cell| self.is_ordered(group, cell));
        if is_ordered || !one.owners.iter().all(|owner| self.has_let_go(group, owner)) {
            // Whoever has not been heard yet may want it.
            return;
        }
        if one.owners.is_empty() && !self.cells.contains_key(group) {
            self.groups.all.remove(group);
            return;
        }
        self.want_cell(key_of(group), DesiredEntry::Deleting { owner: group.clone() }, shared, now);
        if let Some(cell) = self.cells.get_mut(group) {
            cell.is_former = true;
        }
    }

    /// Whether a group's removal was ordered, whatever its owners want.
    fn is_ordered(&self, group: &Text, cell: &Cell) -> bool {
        cell.is_orphan || self.keys.get(&cell.key) == Some(group)
    }

    /// Lets groups decide that an owner has let go.
    pub(crate) fn regroup_stirred(&mut self, shared: &RegistryCore, now: Instant) {
        while let Some(group) = self.groups.stirred.pop_first() {
            self.regroup(&group, shared, now);
        }
    }

    /// Whether what is there for an owner may go: it is gone, has nothing of its own any more, or is served elsewhere.
    fn has_let_go(&self, group: &Text, owner: &Text) -> bool {
        if self.groups.wants(group, owner) {
            return false;
        }
        let is_replaced = self.groups.all.get(group).is_some_and(|one| one.replaced.contains(owner));
        let elsewhere = self.groups.keys.get(owner).and_then(|key| self.keys.get(key));
        let cell = self.cells.get(elsewhere.unwrap_or(owner));
        is_replaced
            || cell.is_some_and(|cell| cell.lets_go || (elsewhere.is_some() && matches!(cell.state, CellState::Done)))
    }

    /// Returns the owners that a group waits for before it lets an owner go.
    pub(crate) fn not_heard(&self, cell: &Cell) -> Vec<String> {
        let owner = cell.wanted().owner();
        let groups = if is_group(owner) { vec![owner.clone()] } else { self.groups.holding(owner) };
        let all = groups.iter().flat_map(|group| self.groups.owners_of(group).map(move |owner| (group, owner)));
        all.filter(|(group, owner)| !self.has_let_go(group, owner)).map(|(_, owner)| owner.to_string()).collect()
    }

    /// Returns what the owners of a group want together, beside what is there of others.
    fn shared_wish(
        &self,
        group: &Text,
        actor: Option<&Actor>,
    ) -> Option<(DesiredEntry, Sharing, BTreeMap<DesiredKey, SharingLoss>)> {
        let one = self.groups.all.get(group)?;
        let owners: BTreeSet<Text> = one.wants.values().map(|wanted| wanted.header.owner.clone()).collect();
        let seen = actor.map(Actor::owners_seen).unwrap_or_default();
        let others = one.owners.union(&seen).filter(|owner| !owners.contains(*owner));
        let released: BTreeSet<Text> = others.filter(|owner| self.has_let_go(group, owner)).cloned().collect();
        let ports = actor.map(Actor::ports_seen).unwrap_or_default();
        let is_spared = |owner: &Text| !owners.contains(owner) && !released.contains(owner);
        let occupied = ports.into_iter().filter(|(_, owner)| is_spared(owner)).collect();
        let wish = merged(group, &one.wants, &occupied)?;
        let entry = self.with_own_port(DesiredEntry::LoadBalancer(wish.wanted));
        Some((entry, Sharing { parts: wish.parts, owners, released }, wish.losses))
    }

    /// Compares what a group wants with what a look has shown of its owners. Returns whether it may go on.
    pub(crate) fn refresh_shared(&mut self, group: &Text, cell: &mut Cell) -> bool {
        let Some(one) = self.groups.all.get_mut(group) else { return true };
        one.owners.extend(cell.actor.owners_seen());
        if one.wants.is_empty() {
            let all = one.owners.clone();
            return self.is_ordered(group, cell) || all.iter().all(|owner| self.has_let_go(group, owner));
        }
        let Some((entry, sharing, losses)) = self.shared_wish(group, Some(&cell.actor)) else { return true };
        self.groups.wishes += 1;
        if *cell.wanted() != entry {
            cell.held = None;
            cell.actor.want(entry);
        }
        cell.actor.share(sharing);
        if let Some(one) = self.groups.all.get_mut(group) {
            one.losses = losses;
        }
        true
    }

    /// Lets those owners of a group go of whom nothing is left. The actor has looked, and nothing it sent is unanswered.
    pub(crate) fn let_owners_go(&mut self, group: &Text, cell: &Cell, step: &BalancerStep) {
        let is_settled = match step {
            BalancerStep::Look(_) | BalancerStep::Wait(_) => false,
            BalancerStep::Gone => cell.unread.is_empty(),
            // What names no owner goes after what does: the floating IP and the port of the VIP.
            _ if cell.is_deleting() => false,
            BalancerStep::Change(_) | BalancerStep::Done | BalancerStep::Blocked(_) => true,
        };
        let Some(one) = self.groups.all.get_mut(group).filter(|_| is_settled) else { return };
        let mut kept = cell.actor.owners_seen();
        kept.extend(one.wants.values().map(|wanted| wanted.header.owner.clone()));
        let gone: Vec<Text> = one.owners.difference(&kept).cloned().collect();
        one.owners.retain(|owner| kept.contains(owner));
        one.replaced.retain(|owner| kept.contains(owner));
        if matches!(step, BalancerStep::Gone) && one.wants.is_empty() {
            self.groups.all.remove(group);
        }
        gone.iter().for_each(|owner| self.wake(owner));
    }

    /// Takes note that an owner has nothing of its own any more, or that what it has serves. Returns whether a group is still to
    /// let it go.
    pub(crate) fn lets_go(&mut self, owner: &Text, cell: &mut Cell) -> bool {
        let mut groups = self.groups.holding(owner);
        if let Some(one) = self.groups.all.get(owner) {
            // They may have come from another group.
            let owners: Vec<Text> = one.wants.values().map(|wanted| wanted.header.owner.clone()).collect();
            groups.extend(owners.iter().flat_map(|owner| self.groups.holding(owner)));
        } else {
            cell.lets_go = true;
        }
        let is_held = !groups.is_empty();
        self.groups.stirred.extend(groups);
        is_held
    }

    /// Takes the owners that a row of a group's load balancer names.
    pub(crate) fn group_found(&mut self, group: &Text, owners: &BTreeSet<Text>) {
        // Once it has looked, that counts.
        if self.cells.get(group).is_none_or(|cell| cell.confirmed != self.life) {
            let one = self.groups.all.entry(group.clone()).or_default();
            one.owners.extend(owners.iter().cloned());
            self.groups.stirred.insert(group.clone());
        }
    }

    /// Takes what lists have shown of shared load balancers. Returns the owners that something is there for.
    pub(crate) fn groups_listed(&mut self, listed: BTreeMap<Text, BTreeSet<Text>>, is_whole: bool) -> BTreeSet<Text> {
        for (group, owners) in &listed {
            self.group_found(group, owners);
        }
        if is_whole {
            let cells = &self.cells;
            let is_gone = |group: &Text, one: &Group| {
                one.wants.is_empty() && !listed.contains_key(group) && !cells.contains_key(group)
            };
            let gone = self.groups.all.extract_if(.., |group, one| is_gone(group, one));
            let owners: Vec<Text> = gone.flat_map(|(_, one)| one.owners).collect();
            owners.iter().for_each(|owner| self.wake(owner));
        }
        listed.into_values().flatten().collect()
    }
}

/// What one owner has of a shared load balancer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnersShare<'a> {
    pub(crate) wanted: &'a DesiredLoadBalancer,
    pub(crate) loss: Option<&'a SharingLoss>,
}

impl OwnersShare<'_> {
    pub(crate) fn has(&self, port: ListenerId) -> bool {
        let is_lost = self.loss.is_some_and(|loss| loss.ports.iter().any(|(lost, _)| *lost == port));
        !is_lost && self.wanted.header.listener(port).is_some()
    }

    /// Whether others have all of its ports.
    pub(crate) fn has_nothing(&self) -> bool {
        let ports = &self.wanted.header.listeners;
        !ports.is_empty() && !ports.iter().any(|wish| self.has(wish.id))
    }
}

/// Whether a load balancer is only blocked by a port that is not one of these.
pub(crate) fn is_block_of_others(cell: &Cell, at: Duration, is_its: impl Fn(ListenerId) -> bool) -> bool {
    let CellState::Blocked(block) = &cell.state else { return false };
    let mut ports = cell.actor.blocks(at).filter(|(_, other)| *other == block).map(|(port, _)| port).peekable();
    ports.peek().is_some() && ports.all(|port| port.is_some_and(|port| !is_its(port)))
}

/// Returns what an owner does not get, in words.
pub(crate) fn words_of(loss: &SharingLoss) -> String {
    let port = |(id, holder): &(ListenerId, Text)| format!("{holder} has port {}/{}", id.port, id.protocol.as_str());
    let mut words: Vec<String> = loss.ports.iter().map(port).collect();
    if !loss.settings.is_empty() {
        words.push(format!("{} decides about {}, for it is the oldest", loss.oldest, loss.settings.join(", ")));
    }
    format!("on the shared load balancer {}", words.join("; "))
}

/// Returns the owners that the tags of a row name.
pub(crate) fn owners_of_row(row: &Value) -> BTreeSet<Text> {
    owners_in(tags_of(row)).map(Text::from).collect()
}
