//! The periodic comparison of everything: rule 9's, which must find nothing.

use std::time::Instant;

use gimbal_model::TargetKey;

use crate::{Reconciler, Urgency};

/// How many targets one step of the comparison looks at, so that no change waits long behind it.
const COMPARISON_STEP: usize = 200;

impl Reconciler {
    /// Compares a few targets that should be in the desired state, and repairs those that are not.
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
        let (_, removals) = self.passage(key, now);
        let Some(target) = self.targets.get(key) else { return };
        if !target.converged || target.failures > 0 || self.queue.contains(key) {
            return;
        }
        let standing = self.standing(key, target);
        let course = self.course(key, target, &standing, removals, now);
        if course.is_some_and(|course| !course.plan.is_empty()) {
            self.counters.comparison_differences += 1;
            if let Some(backend) = self.backend_of(target) {
                self.enqueue(key, &backend, Urgency::Bulk);
            }
        }
    }
}
