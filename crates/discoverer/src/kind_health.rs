//! The health of one kind of object in a source. Pure.

use std::time::{Duration, Instant};

/// Failures that last this long make a kind unknown.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// What a failure means for a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindFailure {
    /// A lost connection or a busy server. The next response ends it, unless it has lasted for [`PATIENCE`].
    Passing,
    /// Something was missed or could not be read. Only a complete list ends it.
    Missed,
    /// A permission is missing. The kind is unknown at once, until a complete list.
    Denied,
}

/// The health of one kind of object.
#[derive(Debug, Default)]
pub struct KindHealth {
    last_heard: Option<Instant>,
    failing: Option<Failing>,
    lost: Option<String>,
    /// Whether only a complete list ends the failure.
    owes_list: bool,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    reason: String,
    /// Whether nothing failed, and something else is awaited.
    awaits: bool,
}

impl KindHealth {
    /// Called on any response. Ends a passing failure: the watch continues where it was.
    pub fn heard(&mut self, now: Instant) {
        self.last_heard = Some(now);
        if !self.owes_list {
            self.failing = None;
        }
    }

    /// Called after a complete list: all objects of the kind are known.
    pub fn listed(&mut self, now: Instant) {
        *self = Self { last_heard: Some(now), ..Self::default() };
    }

    /// Called on a failure. `reason` is a text for logs and inspection.
    pub fn failed(&mut self, failure: KindFailure, reason: impl Into<String>, now: Instant) {
        let reason = reason.into();
        let since = self.failing.as_ref().map_or(now, |failing| failing.since);
        self.failing = Some(Failing { since, reason: reason.clone(), awaits: false });
        self.owes_list |= failure != KindFailure::Passing;
        if failure == KindFailure::Denied {
            self.lose(reason);
        }
    }

    /// Called after a list that counts only when something else is known.
    pub fn awaits(&mut self, what: &str, now: Instant) {
        self.last_heard = Some(now);
        self.owes_list = true;
        self.failing.get_or_insert_with(|| Failing { since: now, reason: what.to_owned(), awaits: true });
    }

    /// Makes the kind unknown if a failure has lasted for [`PATIENCE`].
    pub fn tick(&mut self, now: Instant) {
        if let Some(failing) = &self.failing
            && now.saturating_duration_since(failing.since) >= PATIENCE
        {
            let reason = failing.reason.clone();
            self.lose(reason);
        }
    }

    fn lose(&mut self, reason: String) {
        self.owes_list = true;
        self.lost = Some(reason);
    }

    /// Returns when the kind becomes unknown if nothing else happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.lost.is_some() { None } else { self.failing.as_ref().map(|failing| failing.since + PATIENCE) }
    }

    /// Returns whether nothing is wrong or awaited now.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.failing.is_none() && self.lost.is_none()
    }

    /// Returns why the kind is unknown, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Returns the last failure that is not over.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        let failing = self.failing.as_ref().filter(|failing| !failing.awaits);
        failing.map(|failing| &*failing.reason).or(self.lost.as_deref())
    }

    /// Returns the time since the last response about this kind; `None` if there was none.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.last_heard.map(|heard| now.saturating_duration_since(heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_unknown_at_once_and_until_a_whole_list() {
        let now = Instant::now();
        let mut health = KindHealth::default();
        health.listed(now);
        health.failed(KindFailure::Denied, "no right", now);
        assert_eq!(health.lost(), Some("no right"));
        health.heard(now);
        assert!(health.lost().is_some() && !health.is_current());
        health.listed(now);
        assert!(health.is_current());
    }

    #[test]
    fn an_outage_is_unknown_once_patience_ends() {
        let now = Instant::now();
        let mut health = KindHealth::default();
        health.listed(now);
        health.failed(KindFailure::Passing, "connection refused", now);
        health.failed(KindFailure::Passing, "connection refused", now + PATIENCE / 2);
        assert_eq!(health.deadline(), Some(now + PATIENCE));
        health.tick(now + PATIENCE - Duration::from_millis(1));
        assert!(health.lost().is_none() && !health.is_current());
        health.tick(now + PATIENCE);
        assert!(health.lost().is_some());
        assert_eq!(health.deadline(), None);
    }

    #[test]
    fn a_short_outage_is_over_with_the_first_sign_of_life() {
        let now = Instant::now();
        let mut health = KindHealth::default();
        health.failed(KindFailure::Passing, "connection refused", now);
        health.heard(now + PATIENCE / 2);
        health.tick(now + PATIENCE * 2);
        assert!(health.is_current());
        assert_eq!(health.age(now + PATIENCE), Some(PATIENCE / 2));
    }

    /// The pages of a list that never completes count as responses, but the kind stays unknown.
    #[test]
    fn what_cannot_be_decoded_is_not_made_up_for_by_signs_of_life() {
        let now = Instant::now();
        let mut health = KindHealth::default();
        health.listed(now);
        health.failed(KindFailure::Missed, "not readable", now);
        health.heard(now + Duration::from_secs(1));
        health.tick(now + PATIENCE);
        assert!(health.lost().is_some());
    }
}
