//! From a target to its next writes, with everything read at this moment.

use std::time::Instant;

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Passage, Plan, Removals, Rules, Wanted, plan};
use gimbal_stream::{Outcome, Reject, RejectReason};

use crate::claims::Standing;
use crate::job::Closing;
use crate::quota::Amount;
use crate::target::Target;
use crate::{Claim, Job, Reconciler, Stage, Urgency};

/// How many targets one step of the comparison looks at, so that no change waits long behind it.
const COMPARISON_STEP: usize = 200;

/// What is to be done about a target.
enum Verdict {
    /// These writes, perhaps none.
    Plan {
        /// Whose it is; `None` where it goes.
        owner: Option<Claim>,
        plan: Plan,
        /// The guard keeps something that would otherwise go.
        held: bool,
        /// Set if a part of it is left out.
        partly: Option<Reject>,
        /// What it takes of the owner's quota.
        amount: Amount,
    },
    /// The owner cannot have it. What is there stays.
    Rejected(Claim, Reject),
    /// Nobody can have it now.
    Blocked(Claim),
    /// It waits until this claim is in another target.
    Moving(Claim),
    /// Its backend is in quarantine.
    Frozen,
    /// It stays as it is.
    Kept,
    /// There is nothing to do and nothing there.
    Nothing,
}

fn quarantined(claim: &Claim) -> Reject {
    let message = "the backend is in quarantine: nothing is written for it until it is admitted".into();
    reject(claim, RejectReason::Quarantined, true, message)
}

fn reject(claim: &Claim, reason: RejectReason, retryable: bool, message: String) -> Reject {
    Reject { key: Some(claim.key.clone()), reason, retryable, message }
}

impl Reconciler {
    /// The next writes to send, if there are any and this process may write.
    pub fn next_job(&mut self, now: Instant) -> Option<Job> {
        if self.epoch.is_none() || !self.has_observed() {
            return None;
        }
        while let Some(key) = self.queue.pop(now) {
            let Some(job) = self.decide(&key, now) else {
                self.drop_if_idle(&key, now);
                continue;
            };
            if let Some(backend) = self.targets.get(&key).and_then(|target| self.backend_of(target)) {
                self.queue.spend(&backend, now);
            }
            self.queue.start(key);
            return Some(job);
        }
        None
    }

    fn decide(&mut self, key: &TargetKey, now: Instant) -> Option<Job> {
        self.weigh(key, now);
        let passage = self.passage(key, now);
        let removals = if passage == Passage::Allowed { Removals::Allowed } else { Removals::Held };
        if let Some(target) = self.targets.get_mut(key) {
            target.preview = None;
        }
        // With its losses an object is written once. Only where they may have to wait for long do its gains go ahead.
        if passage == Passage::Unkept && !self.record_is_late(key, now) {
            self.await_record(key, now);
            return None;
        }
        let target = self.targets.get(key)?;
        match self.verdict(key, target, removals) {
            Verdict::Plan { owner, plan, held, partly, amount } => {
                let left = !plan.phases.is_empty();
                if let Some(owner) = &owner {
                    self.give(key, owner, !left);
                    self.charge(owner, amount, key);
                }
                if left {
                    let closing = (owner.is_some() && passage == Passage::Allowed).then_some(Closing { partly });
                    return Some(job(key, owner, plan, closing, self.relists.begun));
                }
                if held && passage == Passage::Unkept {
                    self.await_record(key, now);
                    return None;
                }
                self.converge(key, owner.as_ref(), held, partly, now);
            }
            Verdict::Rejected(owner, reject) => {
                let nothing_there = target.observed.is_empty();
                let others = self.is_anothers(key, target, &owner);
                if !others {
                    self.give(key, &owner, false);
                }
                self.hold_back(&owner, &reject, nothing_there, others, key);
                self.settle(&owner, Outcome::Rejected(reject));
                self.let_go(key);
            }
            Verdict::Blocked(holder) => {
                for claim in target.claims.clone() {
                    let taken = self.taken(key, &claim, &holder);
                    self.settle(&claim, Outcome::Rejected(taken));
                }
                self.let_go(key);
            }
            Verdict::Frozen => self.freeze(key),
            Verdict::Moving(claim) => {
                self.places.entry(claim).or_default().insert(key.clone());
                self.charge_what_stands(key);
                self.let_go(key);
            }
            Verdict::Kept | Verdict::Nothing => {
                self.charge_what_stands(key);
                self.let_go(key);
            }
        }
        None
    }

    /// Whether what the target would lose may go now.
    fn passage(&mut self, key: &TargetKey, now: Instant) -> Passage {
        let name = self.targets.get(key).and_then(|target| target.counted_for.clone());
        match name.and_then(|name| self.backends.get_mut(&name)) {
            Some(backend) => backend.guard.verdict(key, now),
            None => Passage::Allowed,
        }
    }

    fn record_is_late(&self, key: &TargetKey, now: Instant) -> bool {
        let name = self.targets.get(key).and_then(|target| target.counted_for.as_ref());
        name.and_then(|name| self.backends.get(name)).is_none_or(|backend| backend.guard.record_is_late(now))
    }

    fn verdict(&self, key: &TargetKey, target: &Target, removals: Removals) -> Verdict {
        let standing = self.standing(key, target);
        if let Some((plan, held)) = self.plan_of_lost(key, target, &standing, removals) {
            return Verdict::Plan { owner: None, plan, held, partly: None, amount: Amount::default() };
        }
        let claim = match standing {
            Standing::Owned(claim) => claim,
            Standing::Blocked(holder) => return Verdict::Blocked(holder),
            Standing::Moving(holder, _) => return Verdict::Moving(holder),
            Standing::Frozen(_) => return Verdict::Frozen,
            Standing::Kept(_) => return Verdict::Kept,
            Standing::Nothing => return Verdict::Nothing,
            Standing::Gone(_) => {
                let (plan, held) = guarded(key, None, target, removals);
                return Verdict::Plan { owner: None, plan, held, partly: None, amount: Amount::default() };
            }
        };
        let Some(backend) = self.backends.get(&claim.backend) else { return Verdict::Kept };
        let Some(service) = backend.end.service(&claim.key) else { return Verdict::Kept };
        if !self.namespaces.contains(&key.namespace) {
            let message = match backend.policy.namespaces.create {
                true => self.why_missing(&key.namespace),
                false => format!("namespace {} does not exist in the Gimbal cluster", key.namespace),
            };
            let reject = reject(&claim, RejectReason::NamespaceMissing, true, message);
            return Verdict::Rejected(claim, reject);
        }
        let rules =
            Rules { strip: &backend.policy.strip, addresses: &backend.policy.addresses, api: self.settings.api };
        match Wanted::new(&claim.backend, &claim.key, key, service, &rules) {
            Ok(wanted) => {
                let amount = match self.room_for(&claim) {
                    Ok(amount) => amount,
                    Err(exceeded) => {
                        let reject = reject(&claim, RejectReason::Quota, true, exceeded.to_string());
                        return Verdict::Rejected(claim, reject);
                    }
                };
                let partly = refused_addresses(&claim, &wanted);
                let wanted = match self.lost_for(target, &claim.backend) {
                    Some(lost) => wanted.lost(lost),
                    None => wanted,
                };
                let (plan, held) = guarded(key, Some(&wanted), target, removals);
                Verdict::Plan { owner: Some(claim), plan, held, partly, amount }
            }
            Err(unwanted) => {
                let reject = reject(&claim, RejectReason::Invalid, false, unwanted.to_string());
                Verdict::Rejected(claim, reject)
            }
        }
    }

    /// `owner` gets the target; everyone else who wants it hears so. What stands for another, or nobody, is its own once it
    /// is written: until then it may yet be somebody else's turn.
    pub(crate) fn give(&mut self, key: &TargetKey, owner: &Claim, written: bool) {
        let Some(target) = self.targets.get(key) else { return };
        let own = written || !self.is_anothers(key, target, owner);
        let Some(target) = self.targets.get_mut(key) else { return };
        if own {
            target.owner = Some(owner.clone());
        }
        let others: Vec<Claim> = target.claims.iter().filter(|claim| *claim != owner).cloned().collect();
        for claim in others {
            let taken = self.taken(key, &claim, owner);
            self.settle(&claim, Outcome::Rejected(taken));
        }
    }

    /// What a claim hears that does not get the name. Whose it is is no business of another backend's.
    fn taken(&self, key: &TargetKey, claim: &Claim, holder: &Claim) -> Reject {
        if self.is_frozen(&claim.backend) {
            return quarantined(claim);
        }
        let message = match claim.backend == holder.backend {
            true => format!("the name {key} is taken by {}", holder.key),
            false => format!("the name {key} is taken"),
        };
        reject(claim, RejectReason::NameConflict, true, message)
    }

    /// The owner's Service counts against its quota from here on.
    fn charge(&mut self, owner: &Claim, amount: Amount, key: &TargetKey) {
        if let Some(backend) = self.backends.get_mut(&owner.backend) {
            backend.usage.count(&owner.key, amount, key);
        }
        self.set_charged(key, Some(owner.clone()));
        let Some(target) = self.targets.get(key) else { return };
        // They wait for the name, not for room. Only now: of two that both wait for room neither may push the other away.
        for claim in target.claims.iter().filter(|claim| *claim != owner) {
            if let Some(backend) = self.backends.get_mut(&claim.backend) {
                backend.usage.stop_waiting(&claim.key);
            }
        }
    }

    /// The owner's Service is not written as it is: for want of room it gets in line, and where nothing of it is there it
    /// takes no room from others.
    fn hold_back(&mut self, owner: &Claim, reject: &Reject, nothing_there: bool, others: bool, key: &TargetKey) {
        let Some(backend) = self.backends.get_mut(&owner.backend) else { return };
        let create = reject.reason == RejectReason::NamespaceMissing && backend.policy.namespaces.create;
        let stands = self.targets.get(key).map_or(0, |target| target.observed.endpoint_count() as u64);
        let first_time = reject.reason == RejectReason::Quota && !backend.usage.waits(&owner.key);
        if reject.reason == RejectReason::Quota {
            backend.usage.wait(&owner.key);
            // What it was to grow to before, and did not, takes no room.
            backend.usage.stopped_at(&owner.key, stands, key);
        } else {
            backend.usage.stop_waiting(&owner.key);
        }
        if nothing_there {
            self.set_charged(key, None);
        }
        if create {
            self.ask_for_namespace(&key.namespace, &owner.backend);
        }
        let rivals = self.targets.get(key).is_some_and(|target| target.claims.len() > 1);
        if first_time && (others || nothing_there && rivals) {
            // Another claim may have the name meanwhile, or what is there may go.
            self.enqueue(key, &owner.backend, Urgency::Bulk);
        }
    }

    /// Nothing is written, and nothing that left and still stands is forgotten: it is decided once the backend is admitted.
    fn freeze(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key) else { return };
        let (tally, mut concerned) = (self.tally(key, target), target.claims.clone());
        if !target.observed.is_empty() {
            concerned.extend(target.leaving.iter().cloned());
        }
        let holder = self.whose(key, target);
        let Some(target) = self.targets.get_mut(key) else { return };
        target.preview = Some(tally);
        target.converged = true;
        if target.observed.is_empty() {
            self.let_go(key);
        }
        for claim in concerned {
            let reject = match &holder {
                Some(holder) => self.taken(key, &claim, holder),
                None => quarantined(&claim),
            };
            self.settle(&claim, Outcome::Rejected(reject));
        }
    }

    /// Nothing is left to write.
    pub(crate) fn converge(
        &mut self,
        key: &TargetKey,
        owner: Option<&Claim>,
        held: bool,
        partly: Option<Reject>,
        now: Instant,
    ) {
        let drained = self.targets.get(key).is_some_and(|target| self.stage_of(target) == Stage::Drained);
        let Some(target) = self.targets.get_mut(key) else { return };
        target.failures = 0;
        target.converged = true;
        let before = target.settled_endpoints;
        if held {
            let why = match drained {
                true => format!("{key} stays without endpoints until its backend is back"),
                false => format!("the mass-change guard holds what {key} would lose; AdminService.Approve releases it"),
            };
            let waiting = owner.cloned().into_iter().chain(target.leaving.clone());
            for claim in waiting.collect::<Vec<_>>() {
                let held = reject(&claim, RejectReason::Held, true, why.clone());
                self.settle(&claim, Outcome::Rejected(held));
            }
            // What was added meanwhile is there beside what is held, and counts.
            self.recount(key, now);
            self.weigh(key, now);
            self.count_drained(key, before, drained);
            return;
        }
        let loss = std::mem::take(&mut target.loss);
        let counted_for = target.counted_for.clone();
        let backend = counted_for.filter(|_| loss > 0).and_then(|name| self.backends.get_mut(&name));
        if let Some(backend) = backend {
            backend.guard.applied(key, loss, now);
        }
        self.recount(key, now);
        self.count_drained(key, before, drained);
        if let Some(owner) = owner {
            self.settle(owner, partly.map_or(Outcome::Applied, Outcome::Rejected));
            self.look_at_places(owner, key, now);
        }
        self.let_go(key);
        let left = self.targets.get_mut(key).filter(|target| target.observed.is_empty() && owner.is_none());
        if let Some(target) = left {
            target.owner = None;
            // Who could not write, and wants the name that is free now, has it or hears why not.
            if let Some(next) = target.claims.first().map(|claim| claim.backend.clone()) {
                self.enqueue(key, &next, Urgency::Bulk);
            }
        }
    }

    /// Those that went away have nothing here any more.
    fn let_go(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.converged = true;
        for claim in std::mem::take(&mut target.leaving) {
            self.left_place(&claim, key);
        }
    }

    /// Compares a few targets that should be in the desired state, and repairs those that are not: rule 9's periodic
    /// comparison, which must find nothing.
    pub(crate) fn compare_some(&mut self, now: Instant) {
        if self.epoch.is_none() || !self.has_observed() {
            return;
        }
        let due = *self.comparison.next.get_or_insert(now + self.settings.comparison_interval);
        if !self.comparison.running {
            if now < due {
                return;
            }
            self.comparison.running = true;
            self.comparison.after = None;
        }
        let from = match &self.comparison.after {
            Some(after) => std::ops::Bound::Excluded(after.clone()),
            None => std::ops::Bound::Unbounded,
        };
        let step: Vec<TargetKey> = self
            .targets
            .range((from, std::ops::Bound::Unbounded))
            .take(COMPARISON_STEP)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &step {
            self.compare(key, now);
        }
        self.comparison.after = step.last().cloned();
        if step.len() < COMPARISON_STEP {
            self.comparison.running = false;
            self.comparison.next = Some(now + self.settings.comparison_interval);
            self.counters.comparisons += 1;
        }
    }

    fn compare(&mut self, key: &TargetKey, now: Instant) {
        let passage = self.passage(key, now);
        let removals = if passage == Passage::Allowed { Removals::Allowed } else { Removals::Held };
        let Some(target) = self.targets.get(key) else { return };
        if !target.converged || target.failures > 0 || self.queue.contains(key) {
            return;
        }
        let Verdict::Plan { plan, .. } = self.verdict(key, target, removals) else { return };
        if !plan.phases.is_empty() {
            self.counters.comparison_differences += 1;
            if let Some(backend) = self.backend_of(target) {
                self.enqueue(key, &backend, Urgency::Bulk);
            }
        }
    }
}

/// The first phase of a plan, or all of a plan that only creates: whatever else happens meanwhile, nothing is lost by the
/// later ones. `closing` stands if that is the whole plan.
fn job(key: &TargetKey, owner: Option<Claim>, plan: Plan, closing: Option<Closing>, lists: u64) -> Job {
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

/// The plan, and whether the guard keeps a part of what would be done without it.
fn guarded(key: &TargetKey, wanted: Option<&Wanted>, target: &Target, removals: Removals) -> (Plan, bool) {
    let made = plan(key, wanted, &target.observed, removals, &target.taken);
    let held = removals == Removals::Held
        && made.phases.is_empty()
        && !plan(key, wanted, &target.observed, Removals::Allowed, &target.taken).phases.is_empty();
    (made, held)
}

fn refused_addresses(claim: &Claim, wanted: &Wanted) -> Option<Reject> {
    let (address, why) = wanted.refused.first()?;
    let more = match wanted.refused.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more are refused"),
    };
    let message = format!("address {address} {why}{more}; the other endpoints are published");
    Some(reject(claim, RejectReason::AddressRefused, false, message))
}
