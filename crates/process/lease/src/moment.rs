//! A clock that goes on while the machine is suspended, as the clocks of other machines do.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine started, suspension included. It means nothing on another machine. It is a type of its own so
/// that it is never compared with [`std::time::Instant`], which stops while the machine is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Returns the current time.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        // Neither is negative, because this clock starts at zero.
        Self(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default()))
    }

    /// Returns the time since `earlier`, or zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_and_never_overflows() {
        let now = Moment::now();
        assert!(Moment::now() >= now);
        assert_eq!((now + Duration::from_secs(2)).since(now), Duration::from_secs(2));
        assert_eq!(now.since(now + Duration::from_secs(2)), Duration::ZERO);
        assert!(now + Duration::MAX > now + Duration::from_secs(1 << 40));
        // The clock that counts from the start of the machine, sleep included: no less than its own uptime.
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!(Moment::now().0.as_secs_f64() >= uptime);
    }
}
