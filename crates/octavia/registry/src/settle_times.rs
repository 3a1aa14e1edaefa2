//! How long Octavia's work takes, learned by provider and operation.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_octavia_plan::Provisioning;

/// The first look, before anything was learned.
const FIRST: Duration = Duration::from_millis(500);
/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_millis(50);

/// Learned times.
#[derive(Debug, Default)]
pub(crate) struct SettleTimes(BTreeMap<(String, u8), Duration>);

fn operation(status: Provisioning) -> u8 {
    match status {
        Provisioning::PendingCreate => 0,
        Provisioning::PendingDelete => 1,
        _ => 2,
    }
}

impl SettleTimes {
    /// Returns how long to wait before the first look.
    pub(crate) fn first_look(&self, provider: &str, status: Provisioning) -> Duration {
        let learned = self.0.get(&(provider.to_owned(), operation(status)));
        learned.map_or(FIRST, |time| time.mul_f64(0.8).clamp(SHORTEST, LONGEST))
    }

    /// Returns the pause after that one, and after each with `before`.
    pub(crate) fn next_pause(before: Option<Duration>, first: Duration) -> Duration {
        before.map_or_else(|| first.mul_f64(0.25), |before| before.mul_f64(1.5)).clamp(SHORTEST, LONGEST)
    }

    /// Takes note that a load balancer had settled when it was looked at after `time`: not later than that, perhaps long before.
    pub(crate) fn settled(&mut self, provider: &str, status: Provisioning, time: Duration) {
        let learned = self.0.entry((provider.to_owned(), operation(status))).or_insert(time);
        let part = if time < *learned { 0.5 } else { 0.125 };
        *learned = learned.mul_f64(1.0 - part) + time.mul_f64(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_comes_shortly_before_the_usual_end() {
        let mut times = SettleTimes::default();
        assert_eq!(times.first_look("amphora", Provisioning::PendingCreate), FIRST);
        for _ in 0..20 {
            times.settled("amphora", Provisioning::PendingCreate, Duration::from_secs(2));
        }
        let first = times.first_look("amphora", Provisioning::PendingCreate);
        assert!(first > Duration::from_millis(1_590) && first < Duration::from_millis(1_610), "{first:?}");
        assert_eq!(times.first_look("amphora", Provisioning::PendingUpdate), FIRST);
        for _ in 0..20 {
            times.settled("amphora", Provisioning::PendingCreate, Duration::from_secs(60));
        }
        assert_eq!(times.first_look("amphora", Provisioning::PendingCreate), LONGEST);
        let mut pause = None;
        for _ in 0..20 {
            pause = Some(SettleTimes::next_pause(pause, LONGEST));
        }
        assert_eq!(pause, Some(LONGEST));
    }
}
