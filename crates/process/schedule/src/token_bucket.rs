//! A token bucket.

use std::time::{Duration, Instant};

/// When a bucket with a rate of zero is asked again.
const NEVER: Duration = Duration::from_secs(24 * 3600);

const SECOND: i64 = 1_000_000_000;

/// A token bucket that may go into debt: a cost larger than the balance passes as soon as one token is there, and what
/// follows waits until the debt is paid.
///
/// The balance is kept as the time in which it accrues, in nanoseconds, so that deadlines are exact.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate: u64,
    /// The time in which one token accrues.
    one: i64,
    /// The largest balance.
    burst: i64,
    balance: i64,
    refilled_at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket that gains `rate` tokens a second and has room for those of `burst`, and for at least one.
    /// A rate of zero never gives a token.
    #[must_use]
    pub fn new(rate: u64, burst: Duration) -> Self {
        let one = if rate == 0 { SECOND } else { accrual_time(1, rate).max(1) };
        let burst = if rate == 0 { 0 } else { nanos(burst).max(one) };
        Self { rate, one, burst, balance: burst, refilled_at: None }
    }

    /// Returns the tokens gained a second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Adds the tokens gained since the last call.
    pub fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.refilled_at.replace(now).unwrap_or(now));
        if self.rate > 0 {
            self.balance = self.balance.saturating_add(nanos(elapsed)).min(self.burst);
        }
    }

    /// Returns whether at least one token is available, as of the last refill.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.balance >= self.one
    }

    /// Spends `cost` tokens, going into debt if there are fewer.
    pub fn spend(&mut self, cost: u64) {
        self.balance = self.balance.saturating_sub(accrual_time(cost, self.rate.max(1)));
    }

    /// Refills the bucket and takes one token, or what is left of one. Unlike [`TokenBucket::spend`], it adds no debt.
    pub fn take(&mut self, now: Instant) {
        self.refill(now);
        self.balance = self.balance.saturating_sub(self.one).max(self.balance.min(0));
    }

    /// Returns when a token is available again, or `None` if one is available as of the last refill.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let missing = u64::try_from(self.one - self.balance).ok().filter(|missing| *missing > 0)?;
        let missing = if self.rate == 0 { NEVER } else { Duration::from_nanos(missing) };
        self.refilled_at.map(|at| at + missing)
    }

    /// Refills the bucket; returns when a token is available again, or `None` if one is available now.
    pub fn rests_until(&mut self, now: Instant) -> Option<Instant> {
        self.refill(now);
        self.next()
    }
}

/// Returns the nanoseconds in which `tokens` accrue at `rate` a second.
fn accrual_time(tokens: u64, rate: u64) -> i64 {
    i64::try_from(u128::from(tokens) * SECOND.unsigned_abs() as u128 / u128::from(rate)).unwrap_or(i64::MAX)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_of_one_second_then_the_rate() {
        let (mut bucket, start) = (TokenBucket::new(10, SECOND), Instant::now());
        let mut taken = 0;
        for ms in 0..3000 {
            let now = start + Duration::from_millis(ms);
            while bucket.rests_until(now).is_none() {
                bucket.take(now);
                taken += 1;
            }
        }
        assert!((39..=40).contains(&taken), "{taken}");
        let next = bucket.next().unwrap();
        assert!(bucket.rests_until(next - Duration::from_millis(1)).is_some() && bucket.rests_until(next).is_none());
    }

    #[test]
    fn a_rate_of_nothing_never_gives() {
        let (mut bucket, now) = (TokenBucket::new(0, SECOND), Instant::now());
        assert_eq!(bucket.rests_until(now), Some(now + NEVER));
        assert!(bucket.rests_until(now + Duration::from_secs(60)).is_some());
        bucket.take(now);
        assert!(!bucket.has_any());
    }

    #[test]
    fn a_cost_above_the_balance_passes_and_delays_the_next() {
        let (mut bucket, now) = (TokenBucket::new(1000, SECOND / 4), Instant::now());
        bucket.refill(now);
        bucket.spend(20_000);
        // 250 tokens were there, and one more is needed than the debt.
        assert_eq!(bucket.next(), Some(now + Duration::from_millis(20_000 - 250 + 1)));
        bucket.take(now);
        assert_eq!(bucket.next(), Some(now + Duration::from_millis(20_000 - 250 + 1)), "take() adds no debt");
    }

    #[test]
    fn the_burst_is_at_least_one_token() {
        let (mut bucket, now) = (TokenBucket::new(1, SECOND / 4), Instant::now());
        assert_eq!(bucket.rests_until(now), None);
        bucket.spend(1);
        assert_eq!(bucket.rests_until(now), Some(now + SECOND));
    }
}
