//! Since when a change is on its way.

use std::time::{Duration, Instant};

/// When a change was reported by the source, and how long before that it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeSince {
    /// When the source reported it to the agent.
    pub reported: Instant,
    /// Time from its cause in the source until then; `None` if the source does not say.
    pub caused: Option<Duration>,
}

/// How long the oldest change of a frame has been on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeAge {
    /// Time since the source reported it to the agent.
    pub waited: Duration,
    /// Time from its cause in the source until then; `None` if the source does not say.
    pub caused: Option<Duration>,
}

impl ChangeSince {
    /// A change that the source reports now, and says nothing more about.
    #[must_use]
    pub fn now(now: Instant) -> Self {
        Self { reported: now, caused: None }
    }

    /// Returns the one that began earlier.
    #[must_use]
    pub fn older(self, other: Self) -> Self {
        if other.begun() < self.begun() { other } else { self }
    }

    /// Returns its age.
    #[must_use]
    pub fn age(self, now: Instant) -> ChangeAge {
        ChangeAge { waited: now.saturating_duration_since(self.reported), caused: self.caused }
    }

    /// Returns its age, as a writer takes it: without [`capability::CHANGE_AGE`](crate::capability::CHANGE_AGE), only since it was
    /// reported.
    pub(crate) fn age_for(self, takes_age: bool, now: Instant) -> ChangeAge {
        let age = self.age(now);
        ChangeAge { caused: age.caused.filter(|_| takes_age), ..age }
    }

    fn begun(self) -> Instant {
        self.reported.checked_sub(self.caused.unwrap_or_default()).unwrap_or(self.reported)
    }
}
