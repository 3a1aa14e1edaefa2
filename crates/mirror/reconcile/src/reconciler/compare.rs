//! The periodic comparison of all targets with the desired state. Every change is written when it happens, so a
//! comparison must find nothing (`docs/design.md#rule-9`); what it does find is counted and repaired.

use std::ops::Bound;
use std::time::Instant;

use gimbal_model::TargetKey;

use crate::{Reconciler, Urgency};

/// How many targets one step compares, so that no change waits long behind it.
const STEP: usize = 200;

/// The progress of the comparison.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    next: Option<Instant>,
    after: Option<TargetKey>,
    running: bool,
}

impl Reconciler {
    /// Compares a few targets that should be in the desired state, and enqueues those that are not.
    pub(super) fn compare_some(&mut self, now: Instant) {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
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
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Unbounded,
        };
        let step: Vec<TargetKey> =
            self.targets.range((from, Bound::Unbounded)).take(STEP).map(|(key, _)| key.clone()).collect();
        for key in &step {
            self.compare(key, now);
        }
        self.comparison.after = step.last().cloned();
        if step.len() < STEP {
            self.comparison.running = false;
            self.comparison.next = Some(now + self.settings.comparison_interval);
            self.counters.comparisons += 1;
        }
    }

    fn compare(&mut self, key: &TargetKey, now: Instant) {
        let removals = self.permit(key, now).removals;
        let Some(target) = self.targets.get(key) else { return };
        if !target.has_converged() || target.failures() > 0 || self.queue.contains(key) {
            return;
        }
        let ownership = self.view().ownership(key, target);
        let proposal = self.view().propose(key, target, &ownership, removals, now);
        if proposal.is_some_and(|proposal| !proposal.plan.is_empty()) {
            self.counters.comparison_differences += 1;
            if let Some(backend) = self.backend_of(target) {
                self.enqueue(key, &backend, Urgency::Bulk);
            }
        }
    }
}
