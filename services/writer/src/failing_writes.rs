//! Which objects cannot be written at the moment, and when each of them is tried again. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_model::BackendName;
use gimbal_schedule::Backoff;

/// Pauses of an object that is refused, or whose write gets no answer.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// The objects whose last write failed. One of them delays no other.
#[derive(Debug, Default)]
pub(crate) struct FailingWrites(BTreeMap<BackendName, Failing>);

#[derive(Debug)]
struct Failing {
    failures: u32,
    again: Instant,
}

impl FailingWrites {
    /// Whether an object is to be written now, if there is anything to write.
    pub(crate) fn may_try(&self, name: &BackendName, now: Instant) -> bool {
        self.0.get(name).is_none_or(|failing| failing.again <= now)
    }

    /// Notes that a write failed. Returns whether the one before did not.
    pub(crate) fn failed(&mut self, name: &BackendName, now: Instant) -> bool {
        let failing = self.0.entry(name.clone()).or_insert(Failing { failures: 0, again: now });
        failing.again = now + BACKOFF.delay(failing.failures);
        failing.failures = failing.failures.saturating_add(1);
        failing.failures == 1
    }

    /// Notes that a write did not fail. Returns whether the one before did.
    pub(crate) fn worked(&mut self, name: &BackendName) -> bool {
        self.0.remove(name).is_some()
    }

    /// Forgets the objects that are not among these.
    pub(crate) fn retain(&mut self, there: &BTreeSet<&BackendName>) {
        self.0.retain(|name, _| there.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_is_tried_more_and_more_rarely_and_delays_no_other() {
        let (one, other) = (BackendName::parse("one").unwrap(), BackendName::parse("other").unwrap());
        let (start, mut failing) = (Instant::now(), FailingWrites::default());
        let (mut tries, mut said) = (Vec::new(), 0);
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            assert!(failing.may_try(&other, now));
            assert!(!failing.worked(&other));
            if failing.may_try(&one, now) {
                tries.push(second);
                said += u32::from(failing.failed(&one, now));
            }
        }
        assert_eq!((tries, said), (vec![0, 1, 3, 7, 15, 31, 63, 123, 183], 1));
        assert!(failing.worked(&one));
        assert!(failing.failed(&one, start), "an outage of its own");
        failing.retain(&BTreeSet::from([&other]));
        assert!(failing.may_try(&one, start), "another object of its name");
    }
}
