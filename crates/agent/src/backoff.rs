//! Pauses that double, spread out at random so that many who lost the same peer do not come back together.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Doubling pauses with full jitter: each is anything between nothing and the current limit.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    limit: Duration,
}

impl Backoff {
    /// The first limit, and the longest.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, limit: first }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let limit = self.limit;
        self.limit = (limit * 2).min(self.longest);
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(random() % micros.saturating_add(1))
    }

    /// It worked: the next trouble is a new one.
    pub fn reset(&mut self) {
        self.limit = self.first;
    }
}

/// Good enough to spread things out and to tell processes apart: each `RandomState` is seeded anew.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_its_limit_and_starts_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for limit in [100, 200, 400, 800, 1000, 1000] {
            assert_eq!(backoff.limit, Duration::from_millis(limit));
            assert!(backoff.pause() <= Duration::from_millis(limit));
        }
        backoff.reset();
        assert_eq!(backoff.limit, Duration::from_millis(100));
    }

    #[test]
    fn spreads() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1));
        let pauses: std::collections::BTreeSet<_> = (0..32).map(|_| backoff.pause()).collect();
        assert!(pauses.len() > 16, "{pauses:?}");
    }
}
