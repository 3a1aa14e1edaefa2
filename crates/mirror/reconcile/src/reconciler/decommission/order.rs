//! The order to remove a backend, and how far it is.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The progress of an ordered removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decommission {
    /// The order is not stored yet. Nothing is removed before it is; otherwise a restart would leave it half done.
    Ordered {
        /// The version of the state that contains the order.
        version: u64,
    },
    /// The order is stored, and the endpoints are being made not ready. Nothing is deleted yet.
    MakingNotReady {
        /// When to check again whether any is ready.
        look: Instant,
    },
    /// None of the endpoints is ready, until then. Nothing is deleted yet.
    NotReady {
        /// When objects are removed.
        until: Instant,
    },
    /// Objects are being removed.
    Running {
        /// When to check again whether anything is left.
        look: Instant,
        /// Whether nothing was left at the last check. A backend that is to leave stays so until the configuration no longer
        /// has it.
        is_over: bool,
    },
}

/// The order to remove a backend, as it is stored over restarts of the writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecommissionOrder {
    /// The id with which it was given.
    pub id: String,
    /// UID of the object that it is about; `None` if the backend is not an object.
    pub object: Option<Arc<str>>,
    /// Since when no endpoint is ready, by the writer's wall clock; `None` as long as some are.
    pub since: Option<SystemTime>,
    /// For how long the endpoints are not ready before objects are deleted.
    pub not_ready_for: Duration,
}

impl DecommissionOrder {
    /// Returns how far it is once it is stored. The time counts from when nothing was ready, and not from the order: whoever still needs
    /// the endpoints has noticed nothing before that.
    pub(crate) fn stage(&self, now: Instant, wall: SystemTime) -> Decommission {
        let age = self.since.map(|since| wall.duration_since(since).unwrap_or_default());
        match self.not_ready_for.saturating_sub(age.unwrap_or_default()) {
            Duration::ZERO => Decommission::Running { look: now, is_over: false },
            left if age.is_some() => Decommission::NotReady { until: now + left },
            _ => Decommission::MakingNotReady { look: now },
        }
    }

    /// The time begins now at the latest: a wall clock that was set back gives the endpoints the whole of it once more, and not more.
    /// Returns whether that changes anything.
    pub(crate) fn begins_by(&mut self, wall: SystemTime) -> bool {
        let is_ahead = self.since.is_some_and(|since| since > wall);
        if is_ahead {
            self.since = Some(wall);
        }
        is_ahead
    }

    /// Returns when objects are deleted, by the wall clock; `None` as long as endpoints are ready.
    pub(crate) fn ends(&self) -> Option<SystemTime> {
        self.since?.checked_add(self.not_ready_for)
    }
}

/// Why the order to remove a backend is over before anything, or everything, of it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// The configuration admits the backend (again).
    Admitted,
    /// The order was about an object that is gone, and another one has its name.
    OtherObject,
    /// The backend had other Services, or far more or fewer endpoints, by the time at which the order was stored.
    OtherFigures,
}

impl Withdrawal {
    /// Returns it as a part of a sentence.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Admitted => "the configuration of this writer admits it",
            Self::OtherObject => "it was approved for an object that is gone, and another one has its name",
            Self::OtherFigures => "it could not be stored at once, and what would go is another by now",
        }
    }
}
