//! From a target to its next writes, with everything read at this moment.

use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Action, Guard, Passage, Plan, Removals};
use gimbal_session::{Outcome, Reject, RejectReason};

use crate::claims::Standing;
use crate::course::{Course, Share, reject};
use crate::job::Closing;
use crate::observe::Begun;
use crate::quota::Amount;
use crate::target::Target;
use crate::{Claim, Job, Reconciler, Stage, Urgency};
use gimbal_schedule::Queue;

fn quarantined(claim: &Claim) -> Reject {
    let message = "the backend is in quarantine: nothing is written for it until it is admitted".into();
    reject(claim, RejectReason::Quarantined, true, message)
}

impl Reconciler {
    /// The next writes to send, if there are any and this process may write.
    pub fn next_job(&mut self, now: Instant) -> Option<Job> {
        self.next_of(Queue::pop, now)
    }

    /// As [`Reconciler::next_job`], but only for a fresh change of a backend of which nothing is being written.
    pub fn next_quiet_job(&mut self, now: Instant) -> Option<Job> {
        self.next_of(Queue::pop_quiet, now)
    }

    /// Whether fresh changes and other work have lately been about at the same time: then whatever is under way delays
    /// somebody.
    #[must_use]
    pub fn is_shared(&self, now: Instant) -> bool {
        self.queue.is_shared(now)
    }

    fn next_of(
        &mut self,
        pop: impl Fn(&mut Queue<BackendName, TargetKey>, Instant) -> Option<TargetKey>,
        now: Instant,
    ) -> Option<Job> {
        if self.epoch.is_none() || !self.has_observed() {
            return None;
        }
        if std::mem::take(&mut self.unweighed) {
            // The guard sees all of it before the first target is decided.
            self.weigh_everything(now);
        }
        while let Some(key) = pop(&mut self.queue, now) {
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
        let (mut passage, mut removals) = self.passage(key, now);
        if passage == Passage::Held && self.count_losses(key, now) {
            // What was let pass before the hold is gone, and waits no more.
            self.weigh(key, now);
            (passage, removals) = self.passage(key, now);
        }
        if let Some(target) = self.targets.get_mut(key) {
            target.preview = None;
        }
        // With its losses an object is written once. Only where they may have to wait for long do its gains go ahead.
        if passage == Passage::Unkept && !self.record_is_late(key, now) {
            self.await_record(key, now);
            return None;
        }
        let target = self.targets.get(key)?;
        let standing = self.standing_if(key, target, passage != Passage::Allowed);
        let Some(course) = self.course(key, target, &standing, removals, now) else {
            self.leave_as_it_is(key, standing, passage, now);
            return None;
        };
        let left = !course.plan.is_empty();
        if let Some(outdated) = &course.outdated
            && let Some(target) = self.targets.get_mut(key)
        {
            target.refusals.set_aside(outdated, now);
        }
        let target = self.targets.get(key)?;
        let others = course.owner.as_ref().is_some_and(|owner| self.is_anothers(key, target, owner));
        if let Some(owner) = &course.owner {
            self.take(key, owner, &course, others, now);
        }
        self.tell_claims(key, course.owner.as_ref());
        if left {
            let whole = matches!(course.share, Share::Whole(_)) && course.again.is_none();
            let closes = course.owner.is_some() && whole && passage == Passage::Allowed;
            let closing = closes.then_some(Closing { partly: course.reject });
            return Some(job(key, course.owner, course.plan, closing, self.relists.begun()));
        }
        if course.held && passage == Passage::Unkept {
            self.tell_that_it_waits(key, course.owner.as_ref());
            self.await_record(key, now);
            return None;
        }
        let rejected = others && course.is_rejected();
        match (course.owner, course.reject, course.again) {
            (Some(owner), Some(why), None) if rejected => self.turn_away(key, &owner, why),
            (owner, why, Some(until)) => self.wait_for_the_refused(key, owner, why, until, now),
            (owner, why, None) => self.converge(key, owner.as_ref(), course.held, why, now),
        }
        None
    }

    /// Nothing is to be done about the target.
    fn leave_as_it_is(&mut self, key: &TargetKey, standing: Standing, passage: Passage, now: Instant) {
        // Nothing is under way, and nothing will be: what is there now is what there is.
        self.recount(key, now);
        let blocked = matches!(standing, Standing::Blocked(_));
        match standing {
            Standing::Frozen(_) => return self.freeze(key),
            Standing::Moving(claim, _) => drop(self.places.entry(claim).or_default().insert(key.clone())),
            _ => {}
        }
        self.tell_claims(key, None);
        match passage {
            // Who leaves it has left once that is not held any more.
            Passage::Held if blocked => return self.converge(key, None, true, None, now),
            Passage::Unkept if blocked => {
                self.tell_that_it_waits(key, None);
                return self.await_record(key, now);
            }
            _ => {}
        }
        self.charge_what_stands(key);
        self.let_go(key);
    }

    /// What is to go waits for a record that may never be kept: whoever asks is to hear of it. One that is merely slow is no
    /// news.
    fn tell_that_it_waits(&mut self, key: &TargetKey, owner: Option<&Claim>) {
        let Some(target) = self.targets.get(key) else { return };
        let backend = target.counted_for.as_ref().and_then(|name| self.backends.get(name));
        if !backend.is_some_and(|backend| backend.guards().into_iter().any(Guard::waits_for_record)) {
            return;
        }
        let why = format!(
            "what {key} would lose waits: the guard's record of its backend cannot be kept in the Gimbal cluster"
        );
        let waiting: Vec<Claim> = owner.into_iter().chain(&target.leaving).cloned().collect();
        for claim in waiting {
            let held = reject(&claim, RejectReason::Held, true, why.clone());
            self.settle(&claim, Outcome::Rejected(held));
        }
    }

    /// What stands for another keeps its name though nobody can write in its place: who wants the name hears why not, and
    /// who left hears nothing yet, for its object is still there.
    fn turn_away(&mut self, key: &TargetKey, owner: &Claim, why: Reject) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.converged = true;
        let leaving = target.leaving.clone();
        for claim in leaving {
            let why = reject(&claim, why.reason, true, why.message.clone());
            self.settle(&claim, Outcome::Rejected(why));
        }
        self.settle(owner, Outcome::Rejected(why));
    }

    /// All is written that the API server takes. The rest is tried again by and by, and what could not be written takes no
    /// room from others until then.
    fn wait_for_the_refused(
        &mut self,
        key: &TargetKey,
        owner: Option<Claim>,
        why: Option<Reject>,
        until: Instant,
        now: Instant,
    ) {
        self.count_what_went(key, now);
        let Some(target) = self.targets.get_mut(key) else { return };
        target.converged = false;
        let concerned: Vec<Claim> = owner.into_iter().chain(target.leaving.iter().cloned()).collect();
        if target.observed.is_empty() {
            self.set_charged(key, None);
        } else {
            self.charge_what_stands(key);
        }
        if let Some(why) = why {
            for claim in concerned {
                let why = reject(&claim, why.reason, true, why.message.clone());
                self.settle(&claim, Outcome::Rejected(why));
            }
        }
        if let Some(backend) = self.targets.get(key).and_then(|target| self.backend_of(target)) {
            self.queue.push_later(key, &backend, until);
        }
    }

    /// Whether what the target would lose may go now, and what is to be written otherwise.
    pub(crate) fn passage(&mut self, key: &TargetKey, now: Instant) -> (Passage, Removals) {
        let name = self.targets.get(key).and_then(|target| target.counted_for.clone());
        match name.and_then(|name| self.backends.get_mut(&name)) {
            Some(backend) => backend.passage(key, now),
            None => (Passage::Allowed, Removals::Allowed),
        }
    }

    fn record_is_late(&self, key: &TargetKey, now: Instant) -> bool {
        let name = self.targets.get(key).and_then(|target| target.counted_for.as_ref());
        name.and_then(|name| self.backends.get(name)).is_none_or(|backend| backend.record_is_late(now))
    }

    /// `owner` gets the target, and its Service counts against its quota from here on. What stands for another, or nobody, is
    /// its own once it is written: until then it may yet be somebody else's turn.
    fn take(&mut self, key: &TargetKey, owner: &Claim, course: &Course, others: bool, now: Instant) {
        let written = course.plan.is_empty() && !course.is_rejected();
        // Nor is it who cannot be written and has nothing there: what comes back there may be another's.
        let nothing = |target: &Target| course.is_rejected() && target.observed.is_empty();
        if let Some(target) = self.targets.get_mut(key).filter(|target| written || !others && !nothing(target)) {
            target.owner = Some(owner.clone());
        }
        let reason = course.reject.as_ref().map(|reject| reject.reason);
        match course.share {
            Share::Whole(amount) => self.charge(owner, amount, key),
            Share::Part(endpoints) => self.hold_back(owner, reason, endpoints, others, key),
            Share::Stands => {
                let stands = self.targets.get(key).map_or(0, |target| target.observed.endpoint_count() as u64);
                self.hold_back(owner, reason, stands, others, key);
            }
        }
        if reason == Some(RejectReason::NamespaceMissing) {
            self.ask_for_namespace(&key.namespace, &owner.backend, now);
        }
    }

    /// Everyone hears who wants the target and does not get it.
    pub(crate) fn tell_claims(&mut self, key: &TargetKey, owner: Option<&Claim>) {
        let Some(target) = self.targets.get(key) else { return };
        if target.claims.iter().all(|claim| Some(claim) == owner) {
            return;
        }
        let holder = owner.cloned().or_else(|| self.whose(key, target));
        let others: Vec<Claim> = target.claims.iter().filter(|claim| Some(*claim) != owner).cloned().collect();
        for claim in others {
            let taken = match &holder {
                Some(holder) => self.taken(key, &claim, holder),
                None => reject(&claim, RejectReason::NameConflict, true, format!("the name {key} is taken")),
            };
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

    /// The owner's Service is not written as it is, and `endpoints` of it count until it is: for want of room it gets in
    /// line, and where nothing of it is there it takes no room from others.
    fn hold_back(
        &mut self,
        owner: &Claim,
        reason: Option<RejectReason>,
        endpoints: u64,
        others: bool,
        key: &TargetKey,
    ) {
        let Some(backend) = self.backends.get_mut(&owner.backend) else { return };
        let first_time = reason == Some(RejectReason::Quota) && !backend.usage.waits(&owner.key);
        match reason {
            Some(RejectReason::Quota) => backend.usage.wait(&owner.key),
            _ => backend.usage.stop_waiting(&owner.key),
        }
        // What it was to grow to before, and did not, takes no room.
        backend.usage.stopped_at(&owner.key, endpoints, key);
        let Some(target) = self.targets.get(key) else { return };
        let (nothing_there, rivals) = (target.observed.is_empty(), target.claims.len() > 1);
        if nothing_there {
            self.set_charged(key, None);
        }
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
        let whole = partly.as_ref().is_none_or(|reject| reject.reason == RejectReason::AddressRefused);
        if whole {
            target.failures = 0;
            target.conflicts = 0;
        }
        target.converged = true;
        let before = target.settled.endpoints;
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
        if whole {
            // Else it is tried again as soon as there is room, and may be refused as before.
            target.refusals.clear();
        }
        self.count_what_went(key, now);
        if let Some(owner) = owner {
            // What it moves away from may go only once it is whole here; else two that change places, each without room,
            // would have each other looked at for ever.
            self.settle(owner, partly.map_or(Outcome::Applied, Outcome::Rejected));
            if whole {
                self.look_at_places(owner, key, now);
            }
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

    /// Nothing is under way: counts anew what is there, which tells the guard what went.
    fn count_what_went(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        let (before, drained) = (target.settled.endpoints, self.stage_of(target) == Stage::Drained);
        self.recount(key, now);
        self.count_drained(key, before, drained);
    }

    /// Those that went away have nothing here any more.
    fn let_go(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.converged = true;
        for claim in std::mem::take(&mut target.leaving) {
            self.left_place(&claim, key);
        }
    }
}

/// The first phase of a plan, or all of a plan that only creates: whatever else happens meanwhile, nothing is lost by the
/// later ones. `closing` stands if that is the whole plan.
fn job(key: &TargetKey, owner: Option<Claim>, plan: Plan, closing: Option<Closing>, lists: Begun) -> Job {
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
