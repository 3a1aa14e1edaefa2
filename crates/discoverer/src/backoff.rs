//! Exponential back-off with random pauses, so that many agents that lost the same peer do not return at the same time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// Exponential back-off with full jitter: each pause is random between zero and the current limit, which then doubles.
#[derive(Debug)]
pub struct Backoff {
    limits: gimbal_schedule::Backoff,
    failures: u32,
}

impl Backoff {
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

/// Why there is no stream to the writer. Decides when to dial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No address answers, or the stream broke. Dialled again soon, so that a writer that comes back is found at once.
    Lost,
    /// No writer leads. A new leader is expected soon, unless its cluster is down.
    NoLeader,
    /// One end refused the other. A retry alone is unlikely to help.
    Refused,
}

/// Limit of the first pause. It is short, so that a change during a reconnect is hardly delayed, but it still spreads
/// the handshakes of many agents that lose a writer at once.
const FIRST: Duration = Duration::from_millis(20);
/// Limit of later pauses while a writer or a leader is expected back soon.
const SOON: Duration = Duration::from_secs(1);
/// Time without a leader after which the pauses become longer.
const HASTE: Duration = Duration::from_secs(30);
/// Limit of those longer pauses. A writer that does not lead has to handle each handshake too.
const LATER: Duration = Duration::from_secs(5);
/// Limit of the pauses after a refusal.
const PATIENT: Duration = Duration::from_secs(15);

/// The pauses between dials. Pure except for randomness.
#[derive(Debug)]
pub(crate) struct Pauses {
    lost: Backoff,
    no_leader: Backoff,
    later: Backoff,
    refused: Backoff,
    leaderless_since: Option<Instant>,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self {
            lost: Backoff::new(FIRST, SOON),
            no_leader: Backoff::new(FIRST, SOON),
            later: Backoff::new(SOON, LATER),
            refused: Backoff::new(FIRST, PATIENT),
            leaderless_since: None,
        }
    }

    /// Returns the pause after this kind of failure.
    pub(crate) fn after(&mut self, trouble: Trouble, now: Instant) -> Duration {
        match trouble {
            Trouble::Lost => self.lost.pause(),
            Trouble::Refused => self.refused.pause(),
            Trouble::NoLeader => {
                let since = *self.leaderless_since.get_or_insert(now);
                let hastes = now.saturating_duration_since(since) < HASTE;
                if hastes { self.no_leader.pause() } else { self.later.pause() }
            }
        }
    }

    /// Resets all pauses. Called when a writer accepted the stream.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
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
    fn next_limit(backoff: &Backoff) -> Duration {
        backoff.limits.delay(backoff.failures)
    }

    #[test]
    fn doubles_to_its_limit_and_starts_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for limit in [100, 200, 400, 800, 1000, 1000] {
            assert_eq!(next_limit(&backoff), Duration::from_millis(limit));
            assert!(backoff.pause() <= Duration::from_millis(limit));
        }
        backoff.reset();
        assert_eq!(next_limit(&backoff), Duration::from_millis(100));
    }

    #[test]
    fn spreads() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1));
        let pauses: std::collections::BTreeSet<_> = (0..32).map(|_| backoff.pause()).collect();
        assert!(pauses.len() > 16, "{pauses:?}");
    }

    /// Simulates an outage that ends after `away`. Returns the time from its end to the first dial after it.
    fn late(trouble: Trouble, away: Duration) -> Duration {
        let begun = Instant::now();
        let (mut pauses, mut now) = (Pauses::new(), begun);
        while now < begun + away {
            now += pauses.after(trouble, now);
        }
        now - begun - away
    }

    #[test]
    fn whoever_comes_back_is_found_within_a_second_and_who_refuses_is_not_pressed() {
        for seconds in [1, 8, 20, 3600] {
            let latest = (0..50).map(|_| late(Trouble::Lost, Duration::from_secs(seconds))).max();
            assert!(latest <= Some(SOON), "{latest:?} after {seconds} s");
        }
        for seconds in [3, 8, 29] {
            let latest = (0..50).map(|_| late(Trouble::NoLeader, Duration::from_secs(seconds))).max();
            assert!(latest <= Some(SOON), "{latest:?} after {seconds} s");
        }
        let mut pauses = Pauses::new();
        let now = Instant::now();
        let mut longest = |trouble, now| (0..200).map(|_| pauses.after(trouble, now)).max().unwrap();
        assert!(longest(Trouble::NoLeader, now) <= SOON);
        assert!((SOON..=LATER).contains(&longest(Trouble::NoLeader, now + HASTE)));
        assert!((LATER..=PATIENT).contains(&longest(Trouble::Refused, now)));
    }
}
