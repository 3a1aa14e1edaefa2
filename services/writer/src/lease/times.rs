//! The times of a lease, all from its duration.

use std::time::Duration;

/// See the module. With the default duration of three seconds: relied on for two, renewed each second, looked at by others
/// twice a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long a lease lasts for others without a renewal.
    pub(super) duration: Duration,
    /// How long its holder relies on it.
    pub(super) deadline: Duration,
    /// How often its holder renews it.
    pub(super) renew: Duration,
    /// How often others look.
    pub(super) poll: Duration,
    /// How long to wait after a failure.
    pub(super) retry: Duration,
}

impl Times {
    /// The shortest duration: the API keeps whole seconds, and a renewal takes a part of one.
    pub const SHORTEST: Duration = Duration::from_secs(2);
    /// The longest duration: a leader that died is missed for so long.
    pub const LONGEST: Duration = Duration::from_secs(3600);

    /// The times for a lease that lasts so long, in whole seconds; what is more is cut off.
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        let duration = Duration::from_secs(duration.clamp(Self::SHORTEST, Self::LONGEST).as_secs());
        Self { duration, deadline: duration * 2 / 3, renew: duration / 3, poll: duration / 6, retry: duration / 15 }
    }

    /// The duration as the API keeps it.
    pub(super) fn seconds(&self) -> i32 {
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
