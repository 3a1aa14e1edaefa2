//! One owner's load balancer: what is wanted, what was seen, and what is remembered.

use std::sync::Arc;
use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, DesiredEntry, DesiredKey, ListenerId, Text};
use serde_json::Value;

use crate::accepted::settle;
use crate::mark::Mark;
use crate::memory::{Memory, PlanPart, RepairBudget, RepairTime};
use crate::outcome::MissingAbility;
use crate::routing::rebuild::REBUILD_ABOVE;
use crate::routing::same::SameParts;
use crate::seen::{AddressHolder, Provisioning, Seen, SeenBalancer, SeenFloatingIp, SeenListener, SeenMember};
use crate::seen_store::SeenStore;
use crate::sharing::Sharing;
use crate::step::{BalancerStep, Block, Wait};

/// One owner's load balancer. A value: it holds no task and no connection, and costs what it has seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    pub(crate) key: DesiredKey,
    pub(crate) mark: Mark,
    pub(crate) desired: DesiredEntry,
    pub(crate) seen: SeenStore,
    pub(crate) memory: Memory,
    pub(crate) budget: RepairBudget,
    pub(crate) drift_interval: Duration,
    /// The number of changes above which another router is made in the place of one; 0: never.
    pub(crate) rebuild_above: usize,
    /// Tags that everything carries besides the mark.
    pub(crate) resource_tags: Arc<[Text]>,
    /// Set where several owners share the load balancer.
    pub(crate) sharing: Option<Box<Sharing>>,
}

impl Actor {
    /// Returns an actor that has not looked yet. The mark names the owner of `desired`.
    #[must_use]
    pub fn new(key: DesiredKey, mark: Mark, desired: DesiredEntry, budget: RepairBudget) -> Self {
        let (seen, memory) = (SeenStore::default(), Memory::default());
        let drift_interval = Duration::from_secs(60);
        Self {
            key,
            mark,
            desired,
            seen,
            memory,
            budget,
            drift_interval,
            rebuild_above: REBUILD_ABOVE,
            resource_tags: Arc::default(),
            sharing: None,
        }
    }

    /// Sets how long what somebody added by hand stays at least; usually 60 s.
    #[must_use]
    pub fn with_drift_interval(self, drift_interval: Duration) -> Self {
        Self { drift_interval, ..self }
    }

    /// Sets the tags that everything carries besides the mark; usually none.
    pub fn set_resource_tags(&mut self, tags: Arc<[Text]>) {
        self.resource_tags = tags;
    }

    /// Sets the number of changes above which another router is made in the place of one, 0 for never; usually
    /// [`REBUILD_ABOVE`].
    pub fn set_rebuild_above(&mut self, changes: usize) {
        self.rebuild_above = changes;
    }

    /// Sets until when a load balancer that serves is not deleted to be made again: one in `ERROR`, and one that is sound and not as
    /// it is wanted. Usually it is at once.
    pub fn stay_until(&mut self, in_error: Option<Duration>, sound: Option<Duration>) {
        (self.memory.repair_waits, self.memory.change_waits) = (in_error, sound);
    }

    /// Whether a step is to wait until others are back whose load balancers were deleted to be made again.
    #[must_use]
    pub fn waits_for_others(&self, step: &BalancerStep) -> bool {
        let waits = [self.memory.repair_waits, self.memory.change_waits];
        matches!(step, BalancerStep::Wait(Wait::Until(until)) if waits.contains(&Some(*until)))
    }

    /// Whether a load balancer of the owner may have served clients. One may, unless it was seen never to have become `ACTIVE`: the
    /// operating status alone does not say so.
    #[must_use]
    pub fn has_served(&self, balancer: &SeenBalancer) -> bool {
        let is_known = || matches!(&self.desired, DesiredEntry::LoadBalancer(wanted) if wanted.header.known);
        let was_there = || self.memory.was_active || is_known();
        balancer.says_that_it_served() || (was_there() && !self.memory.newborn.contains(&balancer.id))
    }

    /// Takes note of which load balancers have become `ACTIVE`.
    pub(crate) fn note_newborn(&mut self) {
        let memory = &mut self.memory;
        memory.newborn.retain(|id| self.seen.balancers.iter().any(|one| one.id == *id));
        for balancer in &self.seen.balancers {
            match balancer.provisioning {
                Provisioning::PendingCreate if !memory.newborn.contains(&balancer.id) => {
                    memory.newborn.push(balancer.id.clone());
                }
                // Only what is ACTIVE can be changed.
                Provisioning::Active | Provisioning::PendingUpdate => {
                    memory.newborn.retain(|id| *id != balancer.id);
                    memory.was_active = true;
                }
                _ => {}
            }
        }
        if memory.newborn.is_empty() {
            memory.newborn = Vec::new();
        }
    }

    /// Returns what is wanted.
    #[must_use]
    pub fn desired(&self) -> &DesiredEntry {
        &self.desired
    }

    /// Returns what was last seen, with what accepted changes have made of it.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes less memory until something is asked or done again: what was seen is packed.
    pub fn rests(&mut self) {
        self.seen.pack();
    }

    /// Whether a load balancer was seen. Nothing is unpacked for that.
    #[must_use]
    pub fn has_balancer(&self) -> bool {
        self.seen.has_balancers()
    }

    /// Whether a floating IP was seen. Nothing is unpacked for that.
    #[must_use]
    pub fn has_floating_ip(&self) -> bool {
        self.seen.has_floating()
    }

    /// Whether policies were seen. Nothing is unpacked for that.
    #[must_use]
    pub fn has_policies(&self) -> bool {
        self.seen.has_policies()
    }

    /// Returns the load balancer that serves: of several the oldest to which the floating IP leads, else the oldest.
    #[must_use]
    pub fn balancer(&self) -> Option<&SeenBalancer> {
        self.lineup().map(|lineup| lineup.current)
    }

    /// Returns the ports that cannot be served, with the reason in words.
    #[must_use]
    pub fn unsupported(&self, facts: &CloudFacts, now: Duration) -> Vec<(ListenerId, String)> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return Vec::new() };
        let target = self.target(wanted, facts, now);
        let all = wanted.header.listeners.iter().map(|wish| wish.id);
        let words = |id| target.refusal(id).or_else(|| self.memory.refusal_of(id, now)).map(str::to_owned);
        all.filter_map(|id| Some((id, words(id)?))).collect()
    }

    /// Returns what is left alone while the rest goes on, and why: for a port, or for all of them.
    pub fn blocks(&self, now: Duration) -> impl Iterator<Item = (Option<ListenerId>, &Block)> {
        self.memory.blocked(now).map(|(part, block)| match part {
            PlanPart::Port(id) => (*id, block),
            PlanPart::Ranges(id) | PlanPart::Closing(id) => (Some(*id), block),
            PlanPart::NewMembers(pool) | PlanPart::Monitor(pool) => (pool.listener(), block),
            PlanPart::Balancer
            | PlanPart::Successor
            | PlanPart::FloatingIp
            | PlanPart::Groups
            | PlanPart::Tags
            | PlanPart::Pool(_)
            | PlanPart::Policy(_)
            | PlanPart::Certificate(_)
            | PlanPart::Secrets
            | PlanPart::Removal(_) => (None, block),
        })
    }

    /// Returns when a part that is left alone is to be tried again: after [`BalancerStep::Blocked`](crate::BalancerStep), ask
    /// for a step then.
    #[must_use]
    pub fn retry_at(&self, now: Duration) -> Option<Duration> {
        let lineup = self.lineup();
        let all =
            lineup.iter().flat_map(|lineup| std::iter::once(lineup.current).chain(lineup.successors.iter().copied()));
        let parts = all.flat_map(|balancer| self.broken_in(balancer));
        let repairs = parts.filter_map(|part| match self.memory.next_repair(&part, self.budget, now) {
            RepairTime::At(then) | RepairTime::Spent(then) => Some(then),
            RepairTime::Now => None,
        });
        self.memory.retry_at(now).into_iter().chain(repairs).min()
    }

    /// Wants something else. An entry whose status was wiped makes the actor look before it believes itself.
    pub fn want(&mut self, desired: DesiredEntry) {
        if let DesiredEntry::LoadBalancer(wanted) = &desired
            && !wanted.header.known
        {
            self.memory.looked = false;
        }
        if desired != self.desired {
            let same = if self.memory.knows_no_part() { None } else { SameParts::of(&self.desired, &desired) };
            self.memory.wish_changed(same.as_ref());
            self.note_names(&desired);
        }
        self.desired = desired;
        self.contents_wanted();
    }

    /// Something was deleted: what a quota was in the way of is tried again.
    pub fn quota_freed(&mut self) {
        self.memory.quota_freed();
    }

    /// Octavia's API has another version than before: what was refused for good, or shown to be missing, is tried again.
    pub fn octavia_changed(&mut self) {
        self.memory.octavia_changed();
    }

    /// Makes the actor look again: for drift, and after the stream was lost.
    pub fn look_again(&mut self) {
        self.memory.looked = false;
    }

    /// Takes what OpenStack has for the owner. Returns what the provider was shown to lack.
    pub fn looked(&mut self, mut seen: Seen, now: Duration) -> Option<MissingAbility> {
        seen.balancers.iter_mut().flat_map(|one| &mut one.listeners).for_each(SeenListener::order_policies);
        self.keep_unmarked(&mut seen);
        self.find_unmarked(&seen);
        let unfinished = self.find_unfinished(&mut seen, now);
        let tag = self.mark.owner_tag();
        self.memory.looked(&seen, now, self.drift_interval, |tags| tags.contains(&tag));
        self.find_hidden(&mut seen, now);
        if seen != *self.seen {
            // What was wrong with what was there need not be wrong with this.
            self.memory.forget_invalid();
        }
        if self.seen.balancers.iter().any(|one| seen.balancers.iter().all(|other| other.id != one.id)) {
            self.memory.forget_ranges();
        }
        if self.has_address(&seen) && !self.has_address(&self.seen) {
            self.memory.address_found();
        }
        self.seen = seen.into();
        self.contents_wanted();
        self.note_newborn();
        self.forget_failover();
        self.forget_suspect();
        self.note_successor(now);
        self.find_given_away(now);
        unfinished.map(|missing| self.missing(missing.ability))
    }

    /// A failover has helped where the load balancer is `ACTIVE` after it.
    fn forget_failover(&mut self) {
        let all = &self.seen.balancers;
        let helped = |id: &mut String| all.iter().any(|one| one.id == *id && one.provisioning == Provisioning::Active);
        self.memory.failed_over.take_if(helped);
    }

    /// Takes the row of a load balancer that was pending; `None` if there is none any more.
    pub fn tracked(&mut self, id: &str, row: Option<&Value>) {
        self.memory.just_looked = None;
        let Some(row) = row else {
            // One that was not deleted may be there nevertheless, and is looked for before another one is made.
            let is_deleted = |one: &SeenBalancer| one.provisioning == Provisioning::PendingDelete;
            if self.seen.balancers.iter().any(|one| one.id == id && !is_deleted(one)) {
                self.memory.looked = false;
            }
            self.seen.balancers.retain(|one| one.id != id);
            self.memory.forget_ranges();
            return;
        };
        let read = SeenBalancer::read(row);
        let Some(balancer) = self.seen.balancers.iter_mut().find(|one| one.id == id) else { return };
        if balancer.provisioning.is_pending() && !read.provisioning.is_pending() {
            settle(balancer);
        }
        let (listeners, pools) = (std::mem::take(&mut balancer.listeners), std::mem::take(&mut balancer.pools));
        *balancer = SeenBalancer { listeners, pools, ..read };
        self.note_newborn();
        self.forget_failover();
    }

    /// Takes the members of a pool.
    pub fn read_members(&mut self, pool: &str, rows: &[Value]) {
        self.memory.unread.remove(pool);
        if let Some(pool) = self.pool_mut(pool) {
            pool.members = rows.iter().map(SeenMember::read).collect();
        }
    }

    /// Takes the floating IP that has an address which is wanted.
    pub fn found_floating_ip(&mut self, found: Option<SeenFloatingIp>) {
        self.memory.asked_floating = Some(found);
    }

    /// Returns the floating IP that has the wanted address, and that somebody else uses.
    #[must_use]
    pub fn awaited_floating_ip(&self) -> Option<&SeenFloatingIp> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        let address = wanted.header.floating.as_ref()?.address?.to_string();
        let asked = self.memory.asked_floating.as_ref()?.as_ref()?;
        let has = self.seen.floating.iter().any(|one| one.id == asked.id);
        (asked.address == address && !has).then_some(asked)
    }

    /// Takes the port that has an address which is wanted.
    pub fn found_holder(&mut self, holder: Option<AddressHolder>, now: Duration) {
        self.suspected(holder.as_ref(), now);
    }
}
