//! How long the latest changes of a backend took, without I/O and clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time that is counted together.
const MINUTE: Duration = Duration::from_secs(60);
/// Time over which [`LagHistory::minutes`] looks.
const HOUR: Duration = Duration::from_secs(3600);
/// Time over which [`LagHistory::recent`] looks, to the minute.
pub(crate) const RECENT: Duration = Duration::from_secs(5 * 60);
/// Counts are by steps of an eighth of a millisecond, and by an eighth of the value above sixteen of them.
const STEP: Duration = Duration::from_micros(125);
/// Steps from which on the width of a class grows, and the classes of each doubling.
const LINEAR: u64 = 16;
const CLASSES: u64 = 8;
/// A longer time counts as this one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The times that changes of one backend took within the last hour. Its memory does not depend on their number.
#[derive(Debug, Clone, Default)]
pub(crate) struct LagHistory {
    /// The last minutes, the oldest first.
    minutes: VecDeque<Minute>,
    /// The minutes before those, each with its begin.
    past: VecDeque<(Instant, LagSummary)>,
}

/// What some changes took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LagSummary {
    /// How many there were.
    pub(crate) changes: u64,
    /// Half of them took no longer.
    pub(crate) p50: Duration,
    /// 99 of 100 took no longer.
    pub(crate) p99: Duration,
    /// None took longer.
    pub(crate) most: Duration,
}

#[derive(Debug, Clone)]
struct Minute {
    since: Instant,
    /// Changes by class.
    counts: Vec<u32>,
    most: Duration,
}

impl LagHistory {
    /// Records that a change took `lag`.
    pub(crate) fn record(&mut self, lag: Duration, now: Instant) {
        let lag = lag.min(LONGEST);
        while let Some(minute) = self.minutes.pop_front_if(|minute| !minute.is_recent(now)) {
            self.past.extend(minute.summary().map(|summary| (minute.since, summary)));
        }
        self.past.retain(|(since, _)| now.saturating_duration_since(*since) < HOUR);
        if self.minutes.back().is_none_or(|minute| now.saturating_duration_since(minute.since) >= MINUTE) {
            self.minutes.push_back(Minute { since: now, counts: Vec::new(), most: Duration::ZERO });
        }
        let Some(minute) = self.minutes.back_mut() else { return };
        let class = class(lag);
        if minute.counts.len() <= class {
            minute.counts.resize(class + 1, 0);
        }
        minute.counts[class] = minute.counts[class].saturating_add(1);
        minute.most = minute.most.max(lag);
    }

    /// Returns what the changes of the last minutes took; `None`: there were none.
    pub(crate) fn recent(&self, now: Instant) -> Option<LagSummary> {
        let recent = || self.minutes.iter().filter(|minute| minute.is_recent(now));
        let classes = recent().map(|minute| minute.counts.len()).max()?;
        let mut counts = vec![0_u64; classes];
        for minute in recent() {
            counts.iter_mut().zip(&minute.counts).for_each(|(sum, count)| *sum += u64::from(*count));
        }
        LagSummary::of(&counts, recent().map(|minute| minute.most).max()?)
    }

    /// Returns what the changes of each minute of the last hour took, the oldest first, with the time since the minute
    /// began. Minutes without changes are left out.
    pub(crate) fn minutes(&self, now: Instant) -> impl Iterator<Item = (Duration, LagSummary)> {
        let past = self.past.iter().copied();
        let recent = self.minutes.iter().filter_map(|minute| Some((minute.since, minute.summary()?)));
        let aged = move |(since, summary)| (now.saturating_duration_since(since), summary);
        past.chain(recent).map(aged).filter(|(age, _)| *age < HOUR)
    }
}

impl LagSummary {
    /// Summarizes numbers of changes by class; `None` without changes.
    fn of(counts: &[u64], most: Duration) -> Option<Self> {
        let changes: u64 = counts.iter().sum();
        let quantile = |percent: u64| {
            let rank = (changes * percent).div_ceil(100);
            let mut below = 0;
            let class = counts.iter().position(|count| {
                below += count;
                below >= rank
            });
            // The upper bound of the class, so that it is never said to be faster than it was.
            class.map_or(most, |class| upper_bound(class).min(most))
        };
        (changes > 0).then(|| Self { changes, p50: quantile(50), p99: quantile(99), most })
    }
}

impl Minute {
    /// Whether a part of it is within the last minutes.
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < RECENT + MINUTE
    }

    fn summary(&self) -> Option<LagSummary> {
        let counts: Vec<u64> = self.counts.iter().map(|count| u64::from(*count)).collect();
        LagSummary::of(&counts, self.most)
    }
}

/// Returns a lag in milliseconds, rounded up: no change is said to have been faster than it was.
pub(crate) fn millis_begun(lag: Duration) -> u64 {
    u64::try_from(lag.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Returns the class of a time, which is not above [`LONGEST`].
fn class(lag: Duration) -> usize {
    let steps = u64::try_from(lag.as_micros() / STEP.as_micros()).unwrap_or(u64::MAX);
    let class = if steps < LINEAR {
        steps
    } else {
        let doublings = u64::from(steps.ilog2() - LINEAR.ilog2()) + 1;
        doublings * CLASSES + (steps >> doublings)
    };
    usize::try_from(class).unwrap_or(usize::MAX)
}

/// Returns the time that everything in a class is below.
fn upper_bound(class: usize) -> Duration {
    let class = class as u64;
    let steps = if class < LINEAR {
        class + 1
    } else {
        let doublings = class / CLASSES - 1;
        (class % CLASSES + CLASSES + 1) << doublings
    };
    STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_class_is_an_eighth_wide_at_most_and_they_join_without_a_gap() {
        let mut before = Duration::ZERO;
        for step in 0..class(LONGEST) {
            let bound = upper_bound(step);
            assert!(bound > before, "{step}");
            assert_eq!((class(before), class(bound)), (step, step + 1), "{before:?} to {bound:?}");
            assert!(bound - before <= STEP.max(before / 8), "{before:?} to {bound:?}");
            before = bound;
        }
        assert!(upper_bound(class(LONGEST)) > LONGEST);
    }

    #[test]
    fn the_slowest_of_a_hundred_shows_only_beyond_its_percentile() {
        let (mut lag, now) = (LagHistory::default(), Instant::now());
        assert_eq!(lag.recent(now), None);
        (0..99).for_each(|_| lag.record(millis(10), now));
        lag.record(millis(3000), now);
        let summary = lag.recent(now).unwrap();
        assert_eq!((summary.changes, summary.most), (100, millis(3000)));
        let close = |time: Duration| (millis(10)..=millis(12)).contains(&time);
        assert!(close(summary.p50) && close(summary.p99), "{summary:?}");
        lag.record(millis(3000), now);
        assert_eq!(lag.recent(now).unwrap().p99, millis(3000));
    }

    #[test]
    fn what_is_minutes_ago_is_no_more_shown_and_takes_no_memory() {
        let (mut lag, start) = (LagHistory::default(), Instant::now());
        for second in 0..3600 {
            lag.record(millis(20), start + SECOND * second);
        }
        let end = start + SECOND * 3600;
        assert_eq!(lag.minutes.len(), 6);
        let changes = lag.recent(end).unwrap().changes;
        assert!((300..=360).contains(&changes), "{changes}");
        lag.record(30 * SECOND, end);
        assert_eq!(lag.recent(end).unwrap().most, 30 * SECOND);
        let later = end + RECENT;
        assert_eq!(lag.recent(later).unwrap().changes, 1, "the minute in which it was");
        assert_eq!(lag.recent(later + MINUTE), None);
        lag.record(millis(1), later + MINUTE);
        assert_eq!((lag.minutes.len(), lag.past.len()), (1, 54));
        lag.record(Duration::MAX, later + MINUTE);
        assert_eq!(lag.recent(later + MINUTE).unwrap().most, LONGEST);
    }

    #[test]
    fn an_hour_is_shown_minute_by_minute_and_no_more() {
        let (mut lag, start) = (LagHistory::default(), Instant::now());
        for minute in 0..90_u32 {
            // Every third minute is quiet.
            if minute % 3 != 0 {
                lag.record(millis(u64::from(minute)), start + MINUTE * minute);
            }
        }
        let shown: Vec<(Duration, u128)> =
            lag.minutes(start + MINUTE * 90).map(|(age, summary)| (age, summary.most.as_millis())).collect();
        let expected: Vec<(Duration, u128)> = (31..90_u32)
            .filter(|minute| minute % 3 != 0)
            .map(|minute| (MINUTE * (90 - minute), minute.into()))
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(lag.minutes(start + HOUR * 3).count(), 0);
    }
}
