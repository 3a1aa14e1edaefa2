//! Limits how many pools a poll reads again although nothing indicates that they changed.

use std::time::Duration;

/// The budget of the sweep. Elapsed time is saved up once for every pool, and each swept pool costs one sweep period.
#[derive(Debug, Default)]
pub(super) struct SweepBudget(Duration);

impl SweepBudget {
    /// Adds `elapsed` for each of `count` pools, and spends as much as it can: returns how many of the pools may be
    /// read now. Most polls of a small cloud sweep none. However much time has passed, no more than one period is
    /// added.
    pub(super) fn spend(&mut self, period: Option<Duration>, elapsed: Duration, count: u32) -> usize {
        let Some(period) = period.filter(|period| !period.is_zero()) else { return 0 };
        self.0 = self.0.saturating_add(elapsed.min(period).saturating_mul(count));
        let swept = u32::try_from(self.0.as_nanos() / period.as_nanos()).unwrap_or(count).min(count);
        self.0 = self.0.saturating_sub(period.saturating_mul(swept));
        usize::try_from(swept).unwrap_or(usize::MAX)
    }
}
