//! From a target to its next writes: one decision after the other is made and carried out.

use std::time::{Duration, Instant};

use gimbal_guard::Passage;
use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Action, Plan};
use gimbal_schedule::Queue;
use gimbal_session::{Outcome, Reject, RejectReason};

use super::Reconciler;
use crate::cluster::ListsBegun;
use crate::decide::{Decision, NextStep, Ownership, Proposal, QuotaShare, decide, reject};
use crate::job::Closing;
use crate::quota::Amount;
use crate::target::Target;
use crate::{Claim, Job, Stage, Urgency};

impl Reconciler {
    /// Returns the next writes to send, if there are any and this process may write.
    pub fn next_job(&mut self, now: Instant) -> Option<Job> {
        self.next_of(Queue::pop, now)
    }

    /// Like [`Reconciler::next_job`], but only for a fresh change of a backend of which nothing is being written.
    pub fn next_quiet_job(&mut self, now: Instant) -> Option<Job> {
        self.next_of(Queue::pop_quiet, now)
    }

    /// Whether fresh changes and other work have recently waited at the same time, so that every write delays another.
    #[must_use]
    pub fn is_shared(&self, now: Instant) -> bool {
        self.queue.is_shared(now)
    }

    fn next_of(
        &mut self,
        pop: impl Fn(&mut Queue<BackendName, TargetKey>, Instant) -> Option<TargetKey>,
        now: Instant,
    ) -> Option<Job> {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
            return None;
        }
        if std::mem::take(&mut self.guard_is_stale) {
            self.update_guard_for_all(now);
        }
        while let Some(key) = pop(&mut self.queue, now) {
            let Some(job) = self.decide_and_apply(&key, now) else {
                self.drop_if_idle(&key, now);
                continue;
            };
            if let Some(backend) = self.targets.get(&key).and_then(|target| self.backend_of(target)) {
                self.queue.spend(&backend, now);
            }
            self.start_journeys(&key, now);
            if job.closing.is_some() {
                self.batches.written(&key, now);
            }
            self.queue.start(key);
            return Some(job);
        }
        None
    }

    /// The changes that lead to a target are being written.
    fn start_journeys(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        for claim in target.claims().iter().chain(target.leaving()) {
            if let Some(backend) = self.desired.get_mut(&claim.backend) {
                backend.start_journey(&claim.key, now);
            }
        }
    }

    fn decide_and_apply(&mut self, key: &TargetKey, now: Instant) -> Option<Job> {
        self.update_guard(key, now);
        let mut permit = self.permit(key, now);
        if permit.passage == Passage::Held && self.count_losses(key, now) {
            // Removals that were permitted before the hold are done, and no longer pending.
            self.update_guard(key, now);
            permit = self.permit(key, now);
        }
        if let Some(target) = self.targets.get_mut(key) {
            target.set_preview(None);
        }
        self.batches.end_wait(key);
        let batch_ends = self.batches.open_until(key, now);
        let decision = decide(self.view(), key, permit, batch_ends, now)?;
        self.apply(key, decision, now)
    }

    /// Carries out a decision. Returns the writes to send, if there are any.
    fn apply(&mut self, key: &TargetKey, decision: Decision, now: Instant) -> Option<Job> {
        match decision {
            Decision::AwaitRecord => self.await_record(key, now),
            Decision::Leave { ownership, passage } => self.leave_as_it_is(key, ownership, passage, now),
            Decision::Proceed { proposal, contested, step } => {
                return self.proceed(key, proposal, contested, step, now);
            }
        }
        None
    }

    fn proceed(
        &mut self,
        key: &TargetKey,
        proposal: Proposal,
        contested: bool,
        step: NextStep,
        now: Instant,
    ) -> Option<Job> {
        if let Some(outdated) = &proposal.outdated
            && let Some(target) = self.targets.get_mut(key)
        {
            target.refusals_mut().set_aside(outdated, now);
        }
        if let Some(owner) = &proposal.owner {
            self.assign(key, owner, &proposal, contested, now);
        }
        let Proposal { owner, plan, held, reject, .. } = proposal;
        self.reject_other_claims(key, owner.as_ref());
        match step {
            NextStep::Write { closes } => {
                let closing = closes.then_some(Closing { partly: reject });
                return Some(job(key, owner, plan, closing, self.cluster.lists_begun()));
            }
            NextStep::WriteLater(until) => self.write_later(key, until),
            NextStep::AwaitRecord => {
                self.report_overdue_record(key, owner.as_ref());
                self.await_record(key, now);
            }
            NextStep::TurnAway => self.turn_away(key, owner, reject),
            NextStep::RetryRefused(until) => self.retry_refused(key, owner, reject, until, now),
            NextStep::Converge => self.converge(key, owner.as_ref(), held, reject, now),
        }
        None
    }

    /// A change waits, to be written with what else comes.
    fn write_later(&mut self, key: &TargetKey, until: Instant) {
        let backend = self.targets.get(key).and_then(|target| self.backend_of(target));
        if let Some(backend) = backend {
            self.queue.postpone(key, &backend, until);
            self.batches.wait(key, &backend);
            self.counters.batched += 1;
        }
    }

    /// Writes at once what waits for a backend: its agent has hardly any credit left.
    pub(super) fn end_waits_of(&mut self, name: &BackendName) {
        for key in self.batches.take_waiting(name) {
            self.queue.push(&key, name, Urgency::Bulk);
        }
    }

    /// Nothing is to be written for a target.
    fn leave_as_it_is(&mut self, key: &TargetKey, ownership: Ownership, passage: Passage, now: Instant) {
        // Nothing is under way, and nothing will be: the objects that exist now are all there is to count.
        self.recount(key, now);
        let blocked = matches!(ownership, Ownership::Blocked(_));
        match ownership {
            Ownership::Frozen(_) => return self.freeze(key),
            Ownership::Moving(claim, _) => self.desired.add_old_place(&claim, key),
            _ => {}
        }
        self.reject_other_claims(key, None);
        match passage {
            // A leaving claim has left only after its removal is no longer held.
            Passage::Held if blocked => return self.converge(key, None, true, None, now),
            Passage::Unkept if blocked => {
                self.report_overdue_record(key, None);
                return self.await_record(key, now);
            }
            _ => {}
        }
        self.charge_existing_only(key);
        self.release_leaving(key);
    }

    /// Enqueues a target for a second from now. [`Reconciler::kept`] enqueues it earlier, once the guard's record of
    /// its loss is stored.
    fn await_record(&mut self, key: &TargetKey, now: Instant) {
        let backend = self.targets.get(key).and_then(|target| self.backend_of(target));
        if let Some(backend) = backend {
            self.queue.push_later(key, &backend, now + Duration::from_secs(1));
        }
    }

    /// Rejects the owner and the leaving claims of a target because its removals wait for a record that may never be
    /// stored. A record that is merely slow is not reported.
    fn report_overdue_record(&mut self, key: &TargetKey, owner: Option<&Claim>) {
        let Some(target) = self.targets.get(key) else { return };
        let backend = target.counted_for().and_then(|name| self.desired.get(name));
        if !backend.is_some_and(|backend| backend.guards().wait_for_record()) {
            return;
        }
        let why = format!(
            "what {key} would lose waits: the guard's record of its backend cannot be kept in the Gimbal cluster"
        );
        let waiting: Vec<Claim> = owner.into_iter().chain(target.leaving()).cloned().collect();
        self.reject_all(waiting, RejectReason::Held, &why);
    }

    /// Rejects several claims of a target for one reason, until that passes.
    fn reject_all(&mut self, claims: Vec<Claim>, reason: RejectReason, message: &str) {
        for claim in claims {
            let reject = reject(&claim, reason, true, message.to_owned());
            self.report(&claim, Outcome::Rejected(reject));
        }
    }

    /// The objects of another claim keep the name although the owner cannot be written in their place. The owner is
    /// notified of the reason, and so are claims that left, because their objects still exist.
    fn turn_away(&mut self, key: &TargetKey, owner: Option<Claim>, why: Option<Reject>) {
        let (Some(owner), Some(why)) = (owner, why) else { return };
        let Some(target) = self.targets.get_mut(key) else { return };
        target.set_converged(true);
        let leaving = target.leaving().to_vec();
        self.reject_all(leaving, why.reason, &why.message);
        self.report(&owner, Outcome::Rejected(why));
    }

    /// Everything that the API server accepts is written. The rest is tried again after a delay, and takes no room
    /// from other Services until then.
    fn retry_refused(
        &mut self,
        key: &TargetKey,
        owner: Option<Claim>,
        why: Option<Reject>,
        until: Instant,
        now: Instant,
    ) {
        self.recount_settled(key, now);
        let Some(target) = self.targets.get_mut(key) else { return };
        target.set_converged(false);
        let concerned: Vec<Claim> = owner.into_iter().chain(target.leaving().iter().cloned()).collect();
        if target.observed().is_empty() {
            self.set_charged(key, None);
        } else {
            self.charge_existing_only(key);
        }
        if let Some(why) = why {
            self.reject_all(concerned, why.reason, &why.message);
        }
        if let Some(backend) = self.targets.get(key).and_then(|target| self.backend_of(target)) {
            self.queue.push_later(key, &backend, until);
        }
    }

    /// Gives a target to `owner`, and charges its Service to its backend's quota.
    fn assign(&mut self, key: &TargetKey, owner: &Claim, proposal: &Proposal, contested: bool, now: Instant) {
        // Objects of another claim, or of none, become the owner's only when they are written: until then another
        // claim may get its turn. A claim that cannot be written and has no objects does not become the owner either,
        // because objects that appear later may be another's.
        let written = proposal.plan.is_empty() && !proposal.is_rejected();
        let absent = |target: &Target| proposal.is_rejected() && target.observed().is_empty();
        if let Some(target) = self.targets.get_mut(key).filter(|target| written || !contested && !absent(target)) {
            target.set_owner(Some(owner.clone()));
        }
        let reason = proposal.reject.as_ref().map(|reject| reject.reason);
        match proposal.share {
            QuotaShare::Whole(amount) => self.charge(owner, amount, key),
            QuotaShare::Part(endpoints) => self.charge_part(owner, reason, endpoints, contested, key),
            QuotaShare::Existing => {
                let existing = self.targets.get(key).map_or(0, |target| target.observed().endpoint_count() as u64);
                self.charge_part(owner, reason, existing, contested, key);
            }
        }
        if reason == Some(RejectReason::NamespaceMissing) {
            self.request_namespace(&key.namespace, &owner.backend, now);
        }
    }

    /// Rejects the claims that want a target and do not get it.
    pub(super) fn reject_other_claims(&mut self, key: &TargetKey, owner: Option<&Claim>) {
        let Some(target) = self.targets.get(key) else { return };
        if target.claims().iter().all(|claim| Some(claim) == owner) {
            return;
        }
        let holder = owner.cloned().or_else(|| target.belongs_to(key));
        let others: Vec<Claim> = target.claims().iter().filter(|claim| Some(*claim) != owner).cloned().collect();
        for claim in others {
            let taken = match &holder {
                Some(holder) => self.taken(key, &claim, holder),
                None => reject(&claim, RejectReason::NameConflict, true, format!("the name {key} is taken")),
            };
            self.report(&claim, Outcome::Rejected(taken));
        }
    }

    /// Returns the reject for a claim that does not get the name. It does not reveal to one backend which Service of
    /// another has it.
    fn taken(&self, key: &TargetKey, claim: &Claim, holder: &Claim) -> Reject {
        if self.desired.is_frozen(&claim.backend) {
            return quarantined(claim);
        }
        let message = match claim.backend == holder.backend {
            true => format!("the name {key} is taken by {}", holder.key),
            false => format!("the name {key} is taken"),
        };
        reject(claim, RejectReason::NameConflict, true, message)
    }

    /// Charges the owner's whole Service to its quota.
    fn charge(&mut self, owner: &Claim, amount: Amount, key: &TargetKey) {
        if let Some(backend) = self.desired.get_mut(&owner.backend) {
            backend.usage_mut().charge(&owner.key, amount, key);
        }
        self.set_charged(key, Some(owner.clone()));
        let Some(target) = self.targets.get(key) else { return };
        // The other claims wait for the name now, not for room. Not earlier: of two that both wait for room, neither
        // may push the other out of the line.
        for claim in target.claims().iter().filter(|claim| *claim != owner) {
            if let Some(backend) = self.desired.get_mut(&claim.backend) {
                backend.usage_mut().stop_waiting(&claim.key);
            }
        }
    }

    /// Charges only `endpoints` of the owner's Service, which is not written as a whole. If there is no room, it gets
    /// in line; if no object of it exists, it takes no room from others.
    fn charge_part(
        &mut self,
        owner: &Claim,
        reason: Option<RejectReason>,
        endpoints: u64,
        contested: bool,
        key: &TargetKey,
    ) {
        let Some(backend) = self.desired.get_mut(&owner.backend) else { return };
        let first_time = reason == Some(RejectReason::Quota) && !backend.usage().waits(&owner.key);
        match reason {
            Some(RejectReason::Quota) => backend.usage_mut().wait(&owner.key),
            _ => backend.usage_mut().stop_waiting(&owner.key),
        }
        // Growth that was charged before and did not happen takes no room.
        backend.usage_mut().lower_charge(&owner.key, endpoints, key);
        let Some(target) = self.targets.get(key) else { return };
        let (absent, rivals) = (target.observed().is_empty(), target.claims().len() > 1);
        if absent {
            self.set_charged(key, None);
        }
        if first_time && (contested || absent && rivals) {
            // Another claim may have the name meanwhile, or the existing objects may go.
            self.enqueue(key, &owner.backend, Urgency::Bulk);
        }
    }

    /// Writes nothing, and keeps the claims that left while their objects exist: both are decided once the backend is
    /// admitted.
    fn freeze(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key) else { return };
        let (tally, mut concerned) = (self.tally(key, target), target.claims().to_vec());
        if !target.observed().is_empty() {
            concerned.extend(target.leaving().iter().cloned());
        }
        let holder = target.belongs_to(key);
        let Some(target) = self.targets.get_mut(key) else { return };
        target.set_preview(Some(tally));
        target.set_converged(true);
        if target.observed().is_empty() {
            self.release_leaving(key);
        }
        for claim in concerned {
            let reject = match &holder {
                Some(holder) => self.taken(key, &claim, holder),
                None => quarantined(&claim),
            };
            self.report(&claim, Outcome::Rejected(reject));
        }
    }

    /// Nothing is left to write for a target. `held`: because the guard, or the loss of the backend, holds the rest.
    /// `partly`: why not all of the owner's Service is written.
    pub(super) fn converge(
        &mut self,
        key: &TargetKey,
        owner: Option<&Claim>,
        held: bool,
        partly: Option<Reject>,
        now: Instant,
    ) {
        let drained = self.targets.get(key).is_some_and(|target| self.view().stage_of(target) == Stage::Drained);
        let Some(target) = self.targets.get_mut(key) else { return };
        let whole = partly.as_ref().is_none_or(|reject| reject.reason == RejectReason::AddressRefused);
        if whole {
            target.forget_failures();
            target.forget_conflicts();
        }
        target.set_converged(true);
        let before = target.settled().endpoints;
        if held {
            let waiting = owner.cloned().into_iter().chain(target.leaving().to_vec()).collect();
            let why = match self.withheld(key) {
                Some(why) => format!("what {key} would lose stays: {why}"),
                None if drained => format!("{key} stays without endpoints until its backend is back"),
                None => format!("the mass-change guard holds what {key} would lose; AdminService.Approve releases it"),
            };
            self.reject_all(waiting, RejectReason::Held, &why);
            // New endpoints exist beside the held ones and count.
            self.recount(key, now);
            self.update_guard(key, now);
            self.count_drained(key, before, drained);
            return;
        }
        if whole {
            // Otherwise the write is tried again as soon as there is room, and may be refused as before.
            target.forget_refusals();
        }
        self.recount_settled(key, now);
        if let Some(owner) = owner {
            self.report(owner, partly.map_or(Outcome::Applied, Outcome::Rejected));
            // Its old targets may go only once it is published here as a whole. Otherwise two claims that swap names,
            // each without room, would enqueue each other's target forever.
            if whole {
                self.enqueue_old_places(owner, key, now);
            }
        }
        self.release_leaving(key);
        let left = self.targets.get_mut(key).filter(|target| target.observed().is_empty() && owner.is_none());
        if let Some(target) = left {
            target.set_owner(None);
            // The name is free: the next claim gets it, or is notified why not.
            if let Some(next) = target.claims().first().map(|claim| claim.backend.clone()) {
                self.enqueue(key, &next, Urgency::Bulk);
            }
        }
    }

    /// Returns why nothing is removed of the backend that a target's endpoints count for, if its stored state must not be used.
    fn withheld(&self, key: &TargetKey) -> Option<&str> {
        self.desired.get(self.targets.get(key)?.counted_for()?)?.withheld()
    }

    /// The claims that left a target have no objects there any more.
    fn release_leaving(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.set_converged(true);
        for claim in target.take_leaving() {
            self.left_place(&claim, key);
        }
    }
}

fn quarantined(claim: &Claim) -> Reject {
    let message = "the backend is in quarantine: nothing is written for it until it is admitted".into();
    reject(claim, RejectReason::Quarantined, true, message)
}

/// Returns a job for the first phase of a plan, or for a whole plan that only creates: whatever happens meanwhile,
/// its later phases take nothing away. `closing` applies only to a job for the whole plan.
fn job(key: &TargetKey, owner: Option<Claim>, plan: Plan, closing: Option<Closing>, lists: ListsBegun) -> Job {
    let creates = plan.actions().all(|action| matches!(action, Action::Create(_)));
    let whole = creates || plan.phases.len() == 1;
    let mut phases = plan.phases.into_iter();
    let mut actions = phases.next().unwrap_or_default();
    let first = actions.len();
    if creates {
        actions.extend(phases.flatten());
    }
    Job { target: key.clone(), owner, actions, first, lists, closing: closing.filter(|_| whole) }
}
