//! Property tests that are sized by time: each runs a number of cases at least, and further ones until its time is
//! over.
//!
//! `GIMBAL_PROVE` replaces the number (`cargo xtask prove` sets it), and `GIMBAL_PROVE_SECONDS` the time. The values are
//! others each time, unless `PROPTEST_RNG_SEED` is set, as `cargo xtask test` does.

#![allow(clippy::panic)] // It is for tests.

mod worlds;

use std::fmt::Debug;
use std::str::FromStr;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
pub use worlds::{WorldCounts, note, worlds};

/// How many seconds each property takes, if its least number of cases takes less.
const USUAL_SECONDS: u64 = 2;

/// Checks a property with at least `least` values of a strategy.
///
/// # Panics
/// If it does not hold, with the smallest value found for which it does not.
pub fn check<S: Strategy>(least: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: Debug,
{
    let seconds = from_env("GIMBAL_PROVE_SECONDS").unwrap_or(USUAL_SECONDS);
    check_for(from_env("GIMBAL_PROVE").unwrap_or(least), Duration::from_secs(seconds), strategy, test);
}

fn check_for<S: Strategy>(
    least: u32,
    time: Duration,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: Debug,
{
    let began = Instant::now();
    let mut cases = least;
    let mut seeds = TestRunner::new(Config::default());
    loop {
        let config = Config {
            cases,
            max_shrink_iters: 20_000,
            max_local_rejects: u32::MAX,
            failure_persistence: None,
            ..Config::default()
        };
        if let Err(error) = TestRunner::new_with_rng(config, seeds.new_rng()).run(strategy, &test) {
            panic!("{error}");
        }
        if began.elapsed() >= time {
            return;
        }
        cases = (least / 8).max(1);
    }
}

fn from_env<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn cases(least: u32, time: Duration, each: Duration) -> u32 {
        let cases = Cell::new(0);
        check_for(least, time, &any::<u8>(), |_| {
            cases.set(cases.get() + 1);
            std::thread::sleep(each);
            Ok(())
        });
        cases.get()
    }

    #[test]
    fn the_number_is_reached_whatever_time_it_takes() {
        assert_eq!(cases(20, Duration::ZERO, Duration::ZERO), 20);
        assert_eq!(cases(20, Duration::from_millis(5), Duration::from_millis(1)), 20);
    }

    #[test]
    fn each_round_has_other_values() {
        let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
        check_for(8, Duration::from_millis(20), &any::<u64>(), |n| {
            seen.borrow_mut().insert(n);
            Ok(())
        });
        assert!(seen.borrow().len() > 16, "{seen:?}");
    }

    #[test]
    fn the_rest_of_the_time_is_used() {
        assert!(cases(1, Duration::from_millis(50), Duration::ZERO) > 100);
    }

    #[test]
    #[should_panic(expected = "minimal failing input")]
    fn a_failure_names_the_smallest_value() {
        check_for(1000, Duration::ZERO, &(0..1000_u32), |n| {
            prop_assert!(n < 100);
            Ok(())
        });
    }
}
