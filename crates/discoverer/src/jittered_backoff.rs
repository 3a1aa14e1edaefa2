//! Exponential back-off with random pauses, so that many agents that lost the same peer do not return at the same time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Exponential back-off with full jitter: each pause is random between zero and the current limit, which then doubles.
#[derive(Debug)]
pub struct JitteredBackoff {
    limits: gimbal_schedule::Backoff,
    failures: u32,
}

impl JitteredBackoff {
    /// Creates a back-off with the first and the largest limit of a pause.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { limits: gimbal_schedule::Backoff { first, longest }, failures: 0 }
    }

    /// Returns the next pause, and doubles the limit.
    pub fn pause(&mut self) -> Duration {
        let pause = self.limits.jittered(self.failures, random());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Resets the limit. Called after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns a random number for jitter and instance names. It is not cryptographic; each `RandomState` has its own seed.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limit of the next pause.
    fn next_limit(backoff: &JitteredBackoff) -> Duration {
        backoff.limits.delay(backoff.failures)
    }

    #[test]
    fn doubles_to_its_limit_and_starts_over() {
        let mut backoff = JitteredBackoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for limit in [100, 200, 400, 800, 1000, 1000] {
            assert_eq!(next_limit(&backoff), Duration::from_millis(limit));
            assert!(backoff.pause() <= Duration::from_millis(limit));
        }
        backoff.reset();
        assert_eq!(next_limit(&backoff), Duration::from_millis(100));
    }

    #[test]
    fn spreads() {
        let mut backoff = JitteredBackoff::new(Duration::from_secs(1), Duration::from_secs(1));
        let pauses: std::collections::BTreeSet<_> = (0..32).map(|_| backoff.pause()).collect();
        assert!(pauses.len() > 16, "{pauses:?}");
    }
}
