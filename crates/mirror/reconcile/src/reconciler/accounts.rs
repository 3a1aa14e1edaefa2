//! What the mass-change guards and the quotas of backends count for each target.

use std::time::Instant;

use gimbal_guard::Fall;
use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::Count;

use crate::decide::GuardAnswer;
use crate::guards::Recount;
use crate::target::Target;
use crate::{Claim, Reconciler, Stage, Urgency};

impl Reconciler {
    /// Reports to the guards what the next plan of a target would remove. If a change concerns many targets, all of
    /// them have to be reported before the first is decided; otherwise the first removals pass before the size of the
    /// change is known.
    pub(super) fn update_guard(&mut self, key: &TargetKey, now: Instant) {
        let Some(pending) = self.view().pending_loss(key) else { return };
        if let Some(backend) = self.desired.get_mut(&pending.backend) {
            backend.guards_mut().set_pending(key, &pending, now);
        }
    }

    /// Reports all targets to the guards.
    pub(super) fn update_guard_for_all(&mut self, now: Instant) {
        let all: Vec<TargetKey> = self.targets.iter().map(|(key, _)| key.clone()).collect();
        for key in all {
            self.update_guard(&key, now);
        }
    }

    /// Returns the guards' answer for a target's removals.
    pub(super) fn permit(&mut self, key: &TargetKey, now: Instant) -> GuardAnswer {
        let name = self.targets.get(key).and_then(|target| target.counted_for().cloned());
        match name.and_then(|name| self.desired.get_mut(&name)) {
            Some(backend) => backend.permit(key, now),
            None => GuardAnswer::ALLOWED,
        }
    }

    /// Counts the endpoints that a target has now, and reports to its backend's guards what went. Normally called when
    /// no write is under way for it.
    pub(super) fn recount(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        // Not a claim that waits for the name: the owner of the objects loses them.
        let owner = target.belongs_to(key);
        let name = owner.as_ref().map(|claim| claim.backend.clone()).or_else(|| self.backend_of(target));
        let name = name.filter(|name| self.desired.contains_key(name));
        if target.counted_for() != name.as_ref() {
            self.uncount(key, now);
        }
        let Some(target) = self.targets.get_mut(key) else { return };
        target.count_for(name, owner.map(|claim| claim.key));
        let count = target.observed().count();
        self.count(key, count, now);
    }

    /// Counts a target's losses before its next writes, which may wait for long. Returns whether there are any. New
    /// endpoints that replace others do not count yet: when the others go a moment later, that would look like a
    /// loss.
    pub(super) fn count_losses(&mut self, key: &TargetKey, now: Instant) -> bool {
        let fewer = |target: &Target| target.observed().count().endpoints < target.settled().endpoints;
        let lost = self.targets.get(key).is_some_and(fewer);
        if lost {
            self.recount(key, now);
        }
        lost
    }

    /// Takes a target out of its backend's totals, because none of its objects is left or they belong to another
    /// backend.
    pub(super) fn uncount(&mut self, key: &TargetKey, now: Instant) {
        self.count(key, Count::default(), now);
        if let Some(target) = self.targets.get_mut(key) {
            target.count_for_none();
        }
    }

    fn count(&mut self, key: &TargetKey, count: Count, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        // What a loss policy or an admin removes is not a loss to judge. A process that does not lead does not know
        // what was released.
        let removed = target.counted_for().is_some_and(|name| self.desired.is_being_decommissioned(name));
        let counts = self.leadership.holds_lease() && !removed;
        let stage = self.view().stage_of(target);
        let falls = |counts: bool| if counts { Fall::Lost } else { Fall::Forgiven };
        let fall = falls(counts && stage != Stage::Drained);
        let fall_of_ready = falls(counts && stage == Stage::Hold);
        let others = self.view().other_places(target, key);
        let in_doubt = self.doubts.are_of(key, target.observed(), now);
        let Some(target) = self.targets.get_mut(key) else { return };
        let before = target.set_settled(count);
        let Some(name) = target.counted_for() else { return };
        let Some(backend) = self.desired.get_mut(name) else { return };
        backend.budgets_mut().recount(before, count);
        // Moved, not lost.
        let moved =
            others.iter().max_by_key(|(_, there)| there.endpoints).filter(|_| counts && count == Count::default());
        let source = target.counted_as();
        let recount = Recount { source, before, after: count, in_doubt, moved, fall, fall_of_ready };
        backend.guards_mut().recount(key, &recount, now);
        for (place, _) in &others {
            self.update_guard(place, now);
        }
        if !others.is_empty() {
            self.update_guard(key, now);
        }
    }

    /// Counts what is there once nothing is under way, and what of the difference a loss policy removed.
    pub(super) fn recount_settled(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        let (before, drained) = (target.settled().endpoints, self.view().stage_of(target) == Stage::Drained);
        self.recount(key, now);
        self.count_drained(key, before, drained);
    }

    /// Adds the endpoints that went since the count `before` to the backend's total of drained ones, if its loss stage
    /// is `drained`. What went with its Service, or what the source no longer has, was not removed by the loss policy.
    pub(super) fn count_drained(&mut self, key: &TargetKey, before: usize, drained: bool) {
        let Some(target) = self.targets.get(key).filter(|_| drained) else { return };
        if target.observed().is_empty() {
            return;
        }
        let is_known = |claim: &Claim| {
            let absent = self.desired.get(&claim.backend).is_some_and(|backend| backend.is_absent(&claim.key));
            absent || self.desired.has_service(claim)
        };
        let claim = target.belongs_to(key).filter(is_known);
        let offered = claim.map_or(before, |claim| self.desired.publishable(&claim).endpoints.min(before));
        let gone = offered.saturating_sub(target.settled().endpoints) as u64;
        if let Some(backend) = target.counted_for().and_then(|name| self.desired.get_mut(name)) {
            backend.budgets_mut().add_drained(gone);
        }
    }

    /// Lowers what a target is charged to the endpoints that exist, without the write that was pending.
    pub(super) fn charge_existing_only(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key) else { return };
        let Some(claim) = target.charged() else { return };
        let endpoints = target.observed().endpoint_count() as u64;
        if let Some(backend) = self.desired.get_mut(&claim.backend) {
            backend.usage_mut().lower_charge(&claim.key, endpoints, key);
        }
    }

    /// Charges the quota of the claim that a target's objects belong to, before any claim asks for room beside them.
    /// Objects that the policy no longer admits are about to go and are not charged, so that they take no room from
    /// others.
    pub(super) fn charge_existing(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key).filter(|target| !target.observed().is_empty()) else { return };
        let permitted = |claim: &Claim| {
            let backend = self.desired.get(&claim.backend);
            backend.is_some_and(|backend| backend.policy().namespaces.permits(&key.namespace).is_ok())
        };
        let charged = target.charged().cloned().filter(|charged| target.claims().contains(charged));
        if let Some(claim) = charged.as_ref().filter(|claim| permitted(claim))
            && self.desired.get(&claim.backend).is_some_and(|backend| backend.usage().is_charged_at(&claim.key, key))
        {
            // Charged already; counting its endpoints again would be expensive.
            return;
        }
        let owner = charged.or_else(|| target.belongs_to(key)).filter(permitted);
        let endpoints = target.observed().endpoint_count() as u64;
        if let Some(claim) = &owner
            && let Some(backend) = self.desired.get_mut(&claim.backend)
        {
            backend.usage_mut().charge_existing(&claim.key, endpoints, key);
        }
        self.set_charged(key, owner);
    }

    /// Charges quotas for the existing objects of all targets.
    pub(super) fn charge_all_existing(&mut self) {
        let all: Vec<TargetKey> = self.targets.iter().map(|(key, _)| key.clone()).collect();
        for key in all {
            self.charge_existing(&key);
        }
    }

    /// Sets the claim whose backend's quota a target is charged to, and releases the charge of the one before.
    pub(super) fn set_charged(&mut self, key: &TargetKey, claim: Option<Claim>) {
        let Some(target) = self.targets.get_mut(key) else { return };
        if let Some(before) = target.set_charged(claim)
            && let Some(backend) = self.desired.get_mut(&before.backend)
        {
            backend.usage_mut().release(&before.key, key);
        }
    }

    /// Enqueues the targets of Services that wait for room in a quota, in their order, where room was released.
    pub(super) fn serve_waiting(&mut self) {
        let mut turns: Vec<(TargetKey, BackendName)> = Vec::new();
        for backend in self.desired.values_mut() {
            for key in backend.usage_mut().take_turns() {
                turns.extend(backend.routes().current(&key).map(|target| (target.clone(), backend.name().clone())));
            }
        }
        for (target, backend) in turns {
            self.enqueue(&target, &backend, Urgency::Bulk);
        }
    }
}
