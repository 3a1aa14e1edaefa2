//! Schedules requests for snapshots: at once the first time, then with growing delays while the trouble lasts.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// After this time without a request, the next one is made at once again.
const QUIET: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default)]
pub(super) struct Resync {
    last: Option<Instant>,
    delay: Duration,
    due: Option<Instant>,
    reason: String,
}

impl Resync {
    /// Schedules a request. One that is scheduled already keeps its time.
    pub(super) fn request(&mut self, reason: &str, now: Instant) {
        if self.due.is_some() {
            return;
        }
        if self.last.is_none_or(|last| now.saturating_duration_since(last) > QUIET) {
            self.delay = Duration::ZERO;
        }
        self.due = Some(now + self.delay);
        self.delay = if self.delay.is_zero() { FIRST } else { (self.delay * 2).min(LONGEST) };
        self.reason = reason.into();
    }

    /// Called when a snapshot of everything began.
    pub(super) fn begun(&mut self) {
        self.due = None;
    }

    /// Returns the reason of a request that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<String> {
        self.due.take_if(|due| *due <= now)?;
        self.last = Some(now);
        Some(std::mem::take(&mut self.reason))
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn waits_longer_each_time() {
        let mut now = Instant::now();
        let mut resync = Resync::default();
        for wait in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
            resync.request("lost", now);
            resync.request("again", now);
            if wait > 0 {
                assert_eq!(resync.take_due(now + Duration::from_secs(wait) - Duration::from_millis(1)), None);
            }
            now += Duration::from_secs(wait);
            assert_eq!(resync.take_due(now).as_deref(), Some("lost"));
            assert_eq!(resync.take_due(now), None);
        }
        now += QUIET + Duration::from_millis(1);
        resync.request("later", now);
        assert_eq!(resync.take_due(now).as_deref(), Some("later"), "quiet for long: at once");
    }
}
