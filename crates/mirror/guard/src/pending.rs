//! The loss that is pending for one target.

use std::time::{Duration, Instant};

use crate::hold::{Hold, Since};

/// Steps are merged if their ages differ by less than this fraction of the quiet time, or of their age if that is
/// longer.
const PIECES: u32 = 16;

/// The loss has been at least `level` since `since`.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// When the first part of the step began to wait.
    from: Since,
    /// When the last part did.
    since: Since,
    level: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    pub(crate) loss: u64,
    /// The part of `loss` that is released.
    pub(crate) released: u64,
    /// How much of the loss has waited since when: rising, the oldest first, the last one is `loss`. Steps of similar
    /// age are merged and count as the youngest of them: rather too young than too old. The bound on the difference
    /// keeps a loss that grows all the time from never becoming due.
    steps: Vec<Step>,
}

impl Pending {
    pub(crate) fn waiting(&self) -> u64 {
        self.loss - self.released
    }

    /// Sets the loss. An increase waits from now on; the rest keeps its age.
    pub(crate) fn set(&mut self, loss: u64, now: Instant, quiet: Duration) {
        if loss > self.loss {
            let since = Since::new(now);
            self.steps.push(Step { from: since, since, level: loss });
            self.merge(now, quiet);
        } else {
            let below = self.steps.iter().take_while(|step| step.level < loss).count();
            // Keeps as much of this step as is left.
            self.steps.truncate(below + usize::from(loss > 0));
            if let Some(last) = self.steps.last_mut() {
                last.level = loss;
            }
        }
        self.loss = loss;
        self.released = self.released.min(loss);
    }

    /// Records that `by` endpoints of the loss are gone: the released ones first, then those that waited longest.
    pub(crate) fn fell(&mut self, by: u64) {
        self.loss = self.loss.saturating_sub(by);
        self.released = self.released.saturating_sub(by).min(self.loss);
        self.steps.retain_mut(|step| {
            step.level = step.level.saturating_sub(by);
            step.level > 0
        });
    }

    /// Sets the age of the whole loss.
    pub(crate) fn waits_since(&mut self, since: Since) {
        self.steps.clear();
        if self.loss > 0 {
            self.steps.push(Step { from: since, since, level: self.loss });
        }
    }

    /// Returns the part of the loss that has waited for `after` at `at`, within this hold. It may include what is
    /// already released.
    pub(crate) fn due(&self, hold: &Hold, at: Instant, after: Duration) -> u64 {
        let old_enough = |since: &Since| since.age(at).is_some_and(|age| age >= after);
        if !old_enough(&hold.since) {
            return 0;
        }
        self.steps.iter().rev().find(|step| old_enough(&step.since)).map_or(0, |step| step.level)
    }

    /// Releases that part.
    pub(crate) fn release(&mut self, due: u64) {
        self.released = self.released.max(due.min(self.loss));
    }

    /// Merges steps of similar age, so that there are few of them however often the loss changes.
    fn merge(&mut self, now: Instant, quiet: Duration) {
        self.steps.dedup_by(|later, earlier| {
            let [oldest, youngest] = [earlier.from, later.since].map(|since| since.age(now).unwrap_or_default());
            let near = oldest.saturating_sub(youngest) <= youngest.max(quiet) / PIECES;
            if near {
                *earlier = Step { from: earlier.from, ..*later };
            }
            near
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(60);

    #[allow(clippy::disallowed_methods)]
    fn start() -> Instant {
        Instant::now()
    }

    fn hold(now: Instant) -> Hold {
        Hold { id: String::new(), since: Since::new(now), to_nothing: false, told: 0 }
    }

    /// However often the loss changes, few steps are kept, and no part counts as much younger than it is, or as older.
    #[test]
    fn a_loss_that_rises_for_a_day() {
        let (start, mut pending) = (start(), Pending::default());
        let (hold, at) = (hold(start), |second: u64| start + Duration::from_secs(second));
        for second in 0..86_400 {
            pending.set(second + 1, at(second), QUIET);
            assert!(pending.steps.len() < 300, "{}", pending.steps.len());
            for after in [60, 600, 36_000] {
                let due = pending.due(&hold, at(second), Duration::from_secs(after));
                let waited = (second + 1).saturating_sub(after);
                let least = (second + 1).saturating_sub(after + after / 8);
                assert!((least..=waited).contains(&due), "{due} of {waited} after {after} s at {second}");
            }
        }
    }

    #[test]
    fn what_comes_back_was_the_last_to_wait() {
        let (start, mut pending) = (start(), Pending::default());
        let (hold, at) = (hold(start), |second: u64| start + Duration::from_secs(second));
        pending.set(10, at(0), QUIET);
        pending.set(30, at(20), QUIET);
        pending.set(20, at(40), QUIET);
        pending.set(25, at(50), QUIET);
        let due = |pending: &Pending, second| pending.due(&hold, at(second), QUIET);
        assert_eq!([59, 60, 79, 80, 109, 110].map(|second| due(&pending, second)), [0, 10, 10, 20, 20, 25]);
        pending.release(10);
        assert_eq!(pending.waiting(), 15);
        pending.fell(15);
        assert_eq!((pending.waiting(), due(&pending, 60), due(&pending, 80), due(&pending, 110)), (10, 0, 5, 10));
        pending.waits_since(Since { at: at(60), before: QUIET });
        assert_eq!(due(&pending, 60), 10, "as long as before the restart");
        pending.set(11, at(61), QUIET);
        assert_eq!(due(&pending, 61), 10, "what joins it a moment later makes it no younger");
        pending.set(0, at(62), QUIET);
        assert!(pending.steps.is_empty());
    }
}
