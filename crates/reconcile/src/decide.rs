//! From a target to its next writes, with everything read at this moment.

use std::time::Instant;

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Plan, Removals, Rules, Wanted, plan};
use gimbal_stream::{Outcome, Reject, RejectReason};

use crate::claims::Standing;
use crate::target::Target;
use crate::{Claim, Job, Reconciler, Urgency};

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
    },
    /// The owner cannot have it. What is there stays.
    Rejected(Claim, Reject),
    /// Nobody can have it now.
    Blocked(Claim),
    /// It stays as it is.
    Kept,
    /// There is nothing to do and nothing there.
    Nothing,
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
            let actions = self.decide(&key, now);
            if actions.is_empty() {
                self.drop_if_idle(&key, now);
                continue;
            }
            self.queue.start(key.clone());
            return Some(Job { target: key, actions });
        }
        None
    }

    fn decide(&mut self, key: &TargetKey, now: Instant) -> Vec<Action> {
        self.weigh(key, now);
        let removals = self.removals(key, now);
        let Some(target) = self.targets.get(key) else { return Vec::new() };
        match self.verdict(key, target, removals) {
            Verdict::Plan { owner, plan, held, partly } => {
                if let Some(owner) = &owner {
                    self.give(key, owner);
                }
                if let Some(phase) = plan.phases.into_iter().next() {
                    return phase;
                }
                self.converge(key, owner.as_ref(), held, partly, now);
            }
            Verdict::Rejected(owner, reject) => {
                self.give(key, &owner);
                self.settle(&owner, Outcome::Rejected(reject));
                self.let_go(key);
            }
            Verdict::Blocked(holder) => {
                let claims = target.claims.clone();
                for claim in claims {
                    let message = format!("the name {key} stands for {holder}");
                    self.settle(&claim, Outcome::Rejected(reject(&claim, RejectReason::NameConflict, true, message)));
                }
                self.let_go(key);
            }
            Verdict::Kept | Verdict::Nothing => self.let_go(key),
        }
        Vec::new()
    }

    fn removals(&mut self, key: &TargetKey, now: Instant) -> Removals {
        let name = self.targets.get(key).and_then(|target| target.counted_for.clone());
        match name.and_then(|name| self.backends.get_mut(&name)) {
            Some(backend) => backend.guard.verdict(key, now),
            None => Removals::Allowed,
        }
    }

    fn verdict(&self, key: &TargetKey, target: &Target, removals: Removals) -> Verdict {
        let claim = match self.standing(key, target) {
            Standing::Owned(claim) => claim,
            Standing::Blocked(holder) => return Verdict::Blocked(holder),
            Standing::Kept(_) => return Verdict::Kept,
            Standing::Nothing => return Verdict::Nothing,
            Standing::Gone => {
                let (plan, held) = guarded(key, None, target, removals);
                return Verdict::Plan { owner: None, plan, held, partly: None };
            }
        };
        let Some(backend) = self.backends.get(&claim.backend) else { return Verdict::Kept };
        let Some(service) = backend.end.service(&claim.key) else { return Verdict::Kept };
        if !self.namespaces.contains(&key.namespace) {
            let message = format!("namespace {} does not exist in the Gimbal cluster", key.namespace);
            let reject = reject(&claim, RejectReason::NamespaceMissing, true, message);
            return Verdict::Rejected(claim, reject);
        }
        let rules =
            Rules { strip: &backend.policy.strip, addresses: &backend.policy.addresses, api: self.settings.api };
        match Wanted::new(&claim.backend, &claim.key, key, service, &rules) {
            Ok(wanted) => {
                let partly = refused_addresses(&claim, &wanted);
                let (plan, held) = guarded(key, Some(&wanted), target, removals);
                Verdict::Plan { owner: Some(claim), plan, held, partly }
            }
            Err(unwanted) => {
                let reject = reject(&claim, RejectReason::Invalid, false, unwanted.to_string());
                Verdict::Rejected(claim, reject)
            }
        }
    }

    /// `owner` has the target; everyone else who wants it hears so.
    fn give(&mut self, key: &TargetKey, owner: &Claim) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.owner = Some(owner.clone());
        let others: Vec<Claim> = target.claims.iter().filter(|claim| *claim != owner).cloned().collect();
        for claim in others {
            let message = format!("the name {key} belongs to {owner}");
            self.settle(&claim, Outcome::Rejected(reject(&claim, RejectReason::NameConflict, true, message)));
        }
    }

    /// Nothing is left to write.
    fn converge(&mut self, key: &TargetKey, owner: Option<&Claim>, held: bool, partly: Option<Reject>, now: Instant) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.failures = 0;
        target.converged = true;
        let why = format!("the mass-change guard holds what {key} would lose; AdminService.Approve releases it");
        if held {
            let waiting = owner.cloned().into_iter().chain(target.leaving.clone());
            for claim in waiting.collect::<Vec<_>>() {
                let held = reject(&claim, RejectReason::Held, true, why.clone());
                self.settle(&claim, Outcome::Rejected(held));
            }
            // What was added meanwhile is there beside what is held, and counts.
            self.recount(key, now);
            self.weigh(key, now);
            return;
        }
        let loss = std::mem::take(&mut target.loss);
        let counted_for = target.counted_for.clone();
        let backend = counted_for.filter(|_| loss > 0).and_then(|name| self.backends.get_mut(&name));
        if let Some(backend) = backend {
            backend.guard.applied(key, loss, now);
        }
        self.recount(key, now);
        if let Some(owner) = owner {
            self.settle(owner, partly.map_or(Outcome::Applied, Outcome::Rejected));
        }
        self.let_go(key);
    }

    /// Those that went away have nothing here any more.
    fn let_go(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get_mut(key) else { return };
        target.converged = true;
        for claim in std::mem::take(&mut target.leaving) {
            self.left(&claim);
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
        let removals = self.removals(key, now);
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
