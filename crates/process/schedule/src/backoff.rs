//! Exponential back-off.

use std::time::Duration;

/// Failures after which the delay no longer doubles. It keeps the shift below from overflowing.
const MAX_DOUBLINGS: u32 = 16;

/// An exponential back-off: the delay starts at `first` and doubles with each failure up to `longest`.
///
/// It keeps no state, so that a caller with many keys stores one failure count for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Upper bound of the delay.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the delay before the next attempt, given the number of failures before the latest one.
    #[must_use]
    pub fn delay(self, earlier_failures: u32) -> Duration {
        self.first.saturating_mul(1 << earlier_failures.min(MAX_DOUBLINGS)).min(self.longest)
    }

    /// Returns a delay between zero and [`Backoff::delay`], chosen by `random` ("full jitter"). Use it where many
    /// clients lose the same server and must not come back all at once.
    #[must_use]
    pub fn jittered(self, earlier_failures: u32, random: u64) -> Duration {
        let micros = u64::try_from(self.delay(earlier_failures).as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(random % micros.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(15) };

    #[test]
    fn doubles_up_to_the_limit() {
        let delays: Vec<u128> = (0..9).map(|failures| BACKOFF.delay(failures).as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
        assert_eq!(BACKOFF.delay(u32::MAX), BACKOFF.longest);
        assert_eq!(Backoff { longest: Duration::MAX, ..BACKOFF }.delay(u32::MAX), BACKOFF.first * 65_536);
    }

    #[test]
    fn jitter_stays_within_the_delay_and_reaches_both_ends() {
        assert_eq!(BACKOFF.jittered(1, 0), Duration::ZERO);
        assert_eq!(BACKOFF.jittered(1, 400_000), Duration::from_millis(400));
        assert_eq!(BACKOFF.jittered(1, 400_001), Duration::ZERO);
        assert!((0..50).all(|random| BACKOFF.jittered(0, random * 77_777) <= BACKOFF.first));
    }
}
