//! How many changes are traced at most, whatever share of them is sampled.

use std::time::{Duration, Instant};

/// Changes that are traced in a second. Few enough that a burst, or an agent that samples everything, neither slows the
/// process nor fills the collector.
const A_SECOND: u32 = 100;

/// What is left of the present second.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    since: Instant,
    left: u32,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, left: A_SECOND }
    }

    /// Returns whether a change may be traced in this second.
    pub(crate) fn has_room(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        self.left > 0
    }

    /// A change is traced.
    pub(crate) fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_room_for_a_hundred() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let mut taken = |millis| {
            let mut taken = 0;
            while taken < 1000 && budget.has_room(start + Duration::from_millis(millis)) {
                budget.take();
                taken += 1;
            }
            taken
        };
        assert_eq!((taken(0), taken(999)), (100, 0));
        assert_eq!((taken(1000), taken(1999)), (100, 0));
        assert_eq!(taken(60_000), 100);
    }
}
