//! A token bucket: so many a second, with a burst of one second's worth.

use std::time::{Duration, Instant};

/// Who never gets anything is looked at again after so long, in vain.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// See the module. Time is a parameter.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    rate: u64,
    /// What may still be taken, as the time that it takes to come.
    saved: Duration,
    at: Option<Instant>,
}

impl Bucket {
    /// `rate` a second; 0 lets nothing through.
    pub(crate) fn new(rate: u64) -> Self {
        Self { rate, saved: if rate == 0 { Duration::ZERO } else { Duration::from_secs(1) }, at: None }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    fn one(&self) -> Option<Duration> {
        (self.rate > 0).then(|| Duration::from_secs(1) / u32::try_from(self.rate).unwrap_or(u32::MAX))
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at.replace(now).unwrap_or(now));
        if self.rate > 0 {
            self.saved = (self.saved + passed).min(Duration::from_secs(1));
        }
    }

    /// Whether one may be taken now.
    fn has(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.one().is_some_and(|one| self.saved >= one)
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&mut self, now: Instant) {
        self.refill(now);
        if let Some(one) = self.one() {
            self.saved = self.saved.saturating_sub(one);
        }
    }

    /// Until when none can be taken; `None`: one can be now.
    pub(crate) fn rests_until(&mut self, now: Instant) -> Option<Instant> {
        (!self.has(now)).then(|| self.next().unwrap_or(now + NEVER))
    }

    /// When the next one can be taken; `None`: never, or now.
    fn next(&self) -> Option<Instant> {
        let missing = self.one()?.checked_sub(self.saved).filter(|missing| !missing.is_zero())?;
        Some(self.at? + missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_one_second_then_the_rate() {
        let (mut bucket, start) = (Bucket::new(10), Instant::now());
        let mut taken = 0;
        for ms in 0..3000 {
            let now = start + Duration::from_millis(ms);
            while bucket.has(now) {
                bucket.take(now);
                taken += 1;
            }
        }
        assert!((39..=40).contains(&taken), "{taken}");
        let next = bucket.next().unwrap();
        assert!(!bucket.has(next - Duration::from_millis(1)) && bucket.has(next));
    }

    #[test]
    fn a_rate_of_nothing_never_gives() {
        let (mut bucket, now) = (Bucket::new(0), Instant::now());
        assert!(!bucket.has(now + Duration::from_secs(60)));
        assert_eq!(bucket.next(), None);
        assert!(bucket.rests_until(now).is_some());
    }
}
