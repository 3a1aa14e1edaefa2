//! The part of the writer's configuration that the guard uses.

use std::time::Duration;

use crate::Floors;

/// Limits of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardConfig {
    /// Share of the endpoints that may be missing at any time within the window; at 100 or more only the floors hold.
    pub max_drop_percent: u8,
    /// This many endpoints may be missing whatever the share.
    pub min_endpoints: u64,
    /// Time for which a lost endpoint counts as missing.
    pub window: Duration,
    /// A complete snapshot confirms a partial drop if it began at least this long after the drop.
    pub quiet_time: Duration,
    /// Every held removal is released after this time; `None`: never.
    pub release_all_after: Option<Duration>,
    /// Minimum number of endpoints in a namespace or a Service.
    pub floors: Floors,
    /// Whether losses of readiness are held by the same limits, counted in ready endpoints.
    pub readiness: bool,
}

impl GuardConfig {
    /// Returns the configuration of the guard that counts ready endpoints: it has no floors, and holds only if
    /// `readiness` is set.
    #[must_use]
    pub fn of_readiness(self) -> Self {
        let max_drop_percent = if self.readiness { self.max_drop_percent } else { 100 };
        Self { max_drop_percent, floors: Floors::default(), ..self }
    }
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            max_drop_percent: 50,
            min_endpoints: 20,
            window: Duration::from_secs(60),
            quiet_time: Duration::from_secs(60),
            release_all_after: None,
            floors: Floors::default(),
            readiness: false,
        }
    }
}
