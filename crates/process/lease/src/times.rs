//! The times of a lease, derived from its duration.

use std::time::Duration;

/// The times of a lease. A lease of three seconds (the default) is relied on for two, renewed each second, and read by
/// other candidates twice a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long other candidates wait for a renewal before they take over.
    pub duration: Duration,
    /// How long after a renewal was sent its holder may write.
    pub deadline: Duration,
    /// Interval of renewals.
    pub renew: Duration,
    /// Interval of reads by other candidates.
    pub poll: Duration,
    /// Delay after a failed call.
    pub retry: Duration,
}

impl Times {
    /// Shortest duration. The API has whole seconds, and a renewal takes a part of one.
    pub const SHORTEST: Duration = Duration::from_secs(2);
    /// Longest duration; a leader that died is replaced after this time.
    pub const LONGEST: Duration = Duration::from_secs(3600);

    /// Derives the times from a duration, which is cut to whole seconds and to the bounds above.
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        let duration = Duration::from_secs(duration.clamp(Self::SHORTEST, Self::LONGEST).as_secs());
        Self { duration, deadline: duration * 2 / 3, renew: duration / 3, poll: duration / 6, retry: duration / 15 }
    }

    /// Returns the duration in seconds, as the API stores it.
    pub(crate) fn seconds(&self) -> i32 {
        i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_three_seconds_and_of_what_is_too_short() {
        let of = |seconds| Times::new(Duration::from_secs_f64(seconds));
        let millis = |time: Duration| time.as_millis();
        let three = of(3.0);
        let all = [three.duration, three.deadline, three.renew, three.poll, three.retry].map(millis);
        assert_eq!(all, [3000, 2000, 1000, 500, 200]);
        assert_eq!(of(3.9), three);
        assert_eq!(of(0.1).seconds(), 2);
        assert_eq!(of(1e9).seconds(), 3600);
    }
}
