//! How fast we write: side by side as much as the API server takes, fewer when it asks for patience, and never more a
//! second than we were told.

use std::time::{Duration, Instant};

/// Wait after a 429 that names no time.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// Additive increase, multiplicative decrease of concurrency, and a token bucket. Time is a parameter.
#[derive(Debug)]
pub struct Pace {
    most: f64,
    concurrency: f64,
    paused_until: Option<Instant>,
    qps: Option<f64>,
    tokens: f64,
    refilled: Option<Instant>,
}

impl Pace {
    /// At most `most` side by side, and `qps` a second (0: any number).
    #[must_use]
    pub fn new(most: u32, qps: u32) -> Self {
        let qps = (qps > 0).then(|| f64::from(qps));
        let most = f64::from(most);
        Self { most, concurrency: most, paused_until: None, qps, tokens: qps.unwrap_or(0.0).max(1.0), refilled: None }
    }

    /// Whether another job may start while `in_flight` are under way.
    pub fn may_start(&mut self, in_flight: usize, now: Instant) -> bool {
        if self.paused_until.is_some_and(|until| now < until) {
            return false;
        }
        self.paused_until = None;
        self.refill(now);
        // The value is a small count: it is exact in a float.
        #[allow(clippy::cast_precision_loss)]
        let room = (in_flight as f64) < self.concurrency.max(1.0).floor();
        room && (self.qps.is_none() || self.tokens >= 1.0)
    }

    /// A job of so many writes starts.
    pub fn started(&mut self, writes: usize) {
        if self.qps.is_some() {
            #[allow(clippy::cast_precision_loss)]
            let spent = writes as f64;
            // A job of several writes may go into debt, and the next one waits the longer.
            self.tokens -= spent;
        }
    }

    /// A write was answered.
    pub fn answered(&mut self) {
        self.concurrency = (self.concurrency + 1.0 / self.concurrency.max(1.0)).min(self.most);
    }

    /// The API server asked for patience.
    pub fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        // One storm of 429s is one sign, however many writes it hits.
        if self.paused_until.is_none_or(|until| now >= until) {
            self.concurrency = (self.concurrency / 2.0).max(1.0);
        }
        let until = now + retry_after.unwrap_or(DEFAULT_PAUSE);
        self.paused_until = self.paused_until.max(Some(until));
    }

    /// Jobs that may be under way side by side now.
    #[must_use]
    pub fn concurrency(&self) -> f64 {
        self.concurrency
    }

    /// When to ask again, if only time stands in the way.
    #[must_use]
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        if self.paused_until.is_some() {
            return self.paused_until;
        }
        let qps = self.qps?;
        (self.tokens < 1.0).then(|| now + Duration::from_secs_f64((1.0 - self.tokens) / qps))
    }

    fn refill(&mut self, now: Instant) {
        let Some(qps) = self.qps else { return };
        let since = now.saturating_duration_since(self.refilled.replace(now).unwrap_or(now));
        self.tokens = (self.tokens + since.as_secs_f64() * qps).min(qps.max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_halves_once_and_pauses_for_the_longest() {
        let (mut pace, now) = (Pace::new(32, 0), Instant::now());
        assert!(pace.may_start(31, now));
        assert!(!pace.may_start(32, now));
        for _ in 0..10 {
            pace.throttled(Some(Duration::from_secs(2)), now);
        }
        pace.throttled(None, now);
        assert!((pace.concurrency() - 16.0).abs() < f64::EPSILON);
        assert!(!pace.may_start(0, now + Duration::from_millis(1999)));
        assert!(pace.may_start(15, now + Duration::from_secs(2)));
        assert!(!pace.may_start(16, now + Duration::from_secs(2)));
    }

    #[test]
    fn concurrency_comes_back_and_never_passes_the_limit() {
        let (mut pace, now) = (Pace::new(4, 0), Instant::now());
        for n in 0..20 {
            pace.throttled(Some(Duration::ZERO), now + Duration::from_secs(n));
        }
        assert!(pace.may_start(0, now + Duration::from_secs(60)), "at least one may always be under way");
        for _ in 0..100 {
            pace.answered();
        }
        assert!((pace.concurrency() - 4.0).abs() < f64::EPSILON);
    }

    #[test]
    fn no_more_a_second_than_told() {
        let (mut pace, start) = (Pace::new(1000, 10), Instant::now());
        let mut writes = 0;
        for ms in 0..3000 {
            let now = start + Duration::from_millis(ms);
            while pace.may_start(0, now) {
                pace.started(1);
                writes += 1;
            }
        }
        assert!((39..=40).contains(&writes), "a burst of one second's worth, then 10 a second: {writes}");
        let now = start + Duration::from_millis(3000);
        assert!(pace.wake_at(now).is_some_and(|at| at <= now + Duration::from_millis(110)));
    }
}
