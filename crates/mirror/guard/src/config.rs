//! What the guard is told by the writer's configuration.

use std::time::Duration;

use crate::Floors;

/// When the guard holds, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardConfig {
    /// Share of the endpoints that may go within the window; 100 or more never holds.
    pub max_drop_percent: u8,
    /// So many may always go within the window.
    pub min_endpoints: u64,
    /// Length of the window.
    pub window: Duration,
    /// A complete snapshot that was begun this long after a partial drop confirms it.
    pub quiet_time: Duration,
    /// Any drop is let through after this time; `None`: never.
    pub release_all_after: Option<Duration>,
    /// What must be left of a namespace or a Service.
    pub floors: Floors,
    /// Losses of readiness are held by the same rule, counted in ready endpoints.
    pub readiness: bool,
}

impl GuardConfig {
    /// For the guard that counts ready endpoints alone: it never holds where that is not wanted, and has no floors.
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
