//! How many ports Pods ask for.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time that one count is about.
const SLICE: Duration = Duration::from_secs(10);
/// The slices that a rate is taken from.
const RATE: usize = 6;
/// The slices that are remembered: a pool shrinks only when it has been too large for so long.
const KEPT: usize = 36;

/// How many Pods came to a pool of late. A pool is to cover the next slice at the rate of the last minute.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortDemand {
    /// The newest slice is the first.
    counts: VecDeque<u32>,
    /// When the newest slice began.
    began: Option<Instant>,
}

impl PortDemand {
    /// Counts a Pod.
    pub(crate) fn add(&mut self, now: Instant) {
        self.turn(now);
        if let Some(count) = self.counts.front_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// Begins the slice that `now` is in.
    fn turn(&mut self, now: Instant) {
        let Some(began) = self.began else {
            self.began = Some(now);
            self.counts.push_front(0);
            return;
        };
        let slices = now.saturating_duration_since(began).as_millis() / SLICE.as_millis();
        let slices = u32::try_from(slices).unwrap_or(u32::MAX);
        for _ in 0..slices.min(KEPT as u32) {
            self.counts.push_front(0);
        }
        self.counts.truncate(KEPT);
        self.began = Some(began + SLICE * slices);
    }

    /// Returns how many Pods the next ten seconds bring if it goes on as in the last minute.
    pub(crate) fn expected(&mut self, now: Instant) -> u32 {
        self.turn(now);
        self.expected_before(0)
    }

    /// Returns the largest number that was expected of late.
    pub(crate) fn peak(&mut self, now: Instant) -> u32 {
        self.turn(now);
        (0..self.counts.len()).map(|slices| self.expected_before(slices)).max().unwrap_or_default()
    }

    fn expected_before(&self, slices: usize) -> u32 {
        let sum: u32 = self.counts.iter().skip(slices).take(RATE).sum();
        sum.div_ceil(RATE as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test has a time of its own to start from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn after_a_minute_the_next_ten_seconds_are_covered() {
        let (mut demand, start) = (PortDemand::default(), start());
        for tenths in 0..600 {
            demand.add(start + Duration::from_millis(tenths * 100));
        }
        let end = start + Duration::from_secs(60) - Duration::from_millis(1);
        assert_eq!(demand.expected(end), 100, "ten a second");
        assert_eq!(demand.peak(end), 100);
    }

    #[test]
    fn idle_it_falls_at_once_and_its_peak_after_some_minutes() {
        let (mut demand, start) = (PortDemand::default(), start());
        for tenths in 0..600 {
            demand.add(start + Duration::from_millis(tenths * 100));
        }
        let after = |seconds: u64| start + Duration::from_secs(60 + seconds);
        assert_eq!((demand.expected(after(60)), demand.peak(after(60))), (0, 100));
        assert_eq!(demand.peak(after(280)), 100, "it may come back");
        assert_eq!(demand.peak(after(400)), 0);
        assert_eq!((demand.expected(after(90_000)), demand.peak(after(90_000))), (0, 0), "after any time");
    }
}
