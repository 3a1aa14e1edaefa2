//! What failed, and when each of it is tried again.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Backoff;

/// Pauses of what is refused, or gets no answer.
const PAUSES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// Failures, by what failed: the pause doubles with each failure in a row, from a second to a minute. One of them delays no other.
/// `S` is what is said of one.
#[derive(Debug)]
pub struct Retries<K, S = ()>(BTreeMap<K, Failed<S>>);

#[derive(Debug)]
struct Failed<S> {
    /// Nothing is tried before.
    until: Instant,
    /// How often one after the other.
    count: u32,
    said: S,
}

impl<K, S> Default for Retries<K, S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, S> Retries<K, S> {
    /// Returns what is said of something that is not tried yet again; `None` if it may be tried.
    pub fn waits<Q: Ord + ?Sized>(&self, what: &Q, now: Instant) -> Option<&S>
    where
        K: Borrow<Q>,
    {
        self.0.get(what).filter(|failed| now < failed.until).map(|failed| &failed.said)
    }

    /// Takes note of a failure. Returns whether it is the first after a success.
    pub fn failed(&mut self, what: K, now: Instant, said: S) -> bool {
        let count = self.0.get(&what).map_or(0, |failed| failed.count);
        self.0.insert(what, Failed { until: now + PAUSES.delay(count), count: count.saturating_add(1), said });
        count == 0
    }

    /// Takes note of a success. Returns whether it comes after a failure.
    pub fn done<Q: Ord + ?Sized>(&mut self, what: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.remove(what).is_some()
    }

    /// Forgets what is not tried any more: it would be due for ever.
    pub fn keep(&mut self, is_tried: impl Fn(&K) -> bool) {
        self.0.retain(|what, _| is_tried(what));
    }

    /// Whether something is to be tried again.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.0.values().any(|failed| failed.until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_waits_longer_each_time_and_what_is_not_tried_any_more_is_never_due() {
        let (mut retries, begin) = (Retries::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(retries.waits("a", begin), None);
        assert!(retries.failed("a".to_owned(), begin, Some("why")));
        assert_eq!(retries.waits("a", begin), Some(&Some("why")));
        assert!(!retries.is_due(begin) && retries.is_due(after(100)));
        assert!(!retries.failed("a".to_owned(), after(100), None));
        assert_eq!(retries.waits("a", after(101)), Some(&None), "longer than the first time");
        retries.keep(|what| what != "a");
        assert!(!retries.is_due(after(10_000)));
        retries.failed("b".to_owned(), begin, None);
        assert!(retries.done("b"));
        assert!(!retries.is_due(after(10_000)) && retries.failed("b".to_owned(), begin, None));
    }

    #[test]
    fn one_that_fails_is_tried_more_and_more_rarely_and_delays_no_other() {
        let (start, mut retries) = (Instant::now(), Retries::default());
        let (mut tries, mut said) = (Vec::new(), 0);
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            assert_eq!(retries.waits("other", now), None);
            assert!(!retries.done("other"));
            if retries.waits("one", now).is_none() {
                tries.push(second);
                said += u32::from(retries.failed("one", now, ()));
            }
        }
        assert_eq!((tries, said), (vec![0, 1, 3, 7, 15, 31, 63, 123, 183], 1));
        assert!(retries.done("one"));
        assert!(retries.failed("one", start, ()), "an outage of its own");
        retries.keep(|what| *what == "other");
        assert_eq!(retries.waits("one", start), None, "another object of its name");
    }
}
