//! What failed, and when it is tried again.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_operator_core::ReadyStatement;
use gimbal_schedule::Backoff;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// Something that failed.
#[derive(Debug, Clone)]
struct Failure {
    /// Nothing is tried before.
    until: Instant,
    /// How often one after the other.
    count: u32,
    /// What is said of it.
    stated: Option<ReadyStatement>,
}

/// Failures, by what failed.
#[derive(Debug)]
pub(crate) struct Retries<K>(BTreeMap<K, Failure>);

impl<K> Default for Retries<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Retries<K> {
    /// Returns what is said of something that is not tried yet again; `None` if it may be tried.
    pub(crate) fn waits<Q: Ord + ?Sized>(&self, what: &Q, now: Instant) -> Option<Option<ReadyStatement>>
    where
        K: Borrow<Q>,
    {
        let failure = self.0.get(what).filter(|failure| now < failure.until)?;
        Some(failure.stated.clone())
    }

    /// Takes note of a failure. Returns whether it is the first after a success.
    pub(crate) fn failed(&mut self, what: K, now: Instant, stated: Option<ReadyStatement>) -> bool {
        let count = self.0.get(&what).map_or(0, |failure| failure.count);
        self.0.insert(what, Failure { until: now + BACKOFF.delay(count), count: count + 1, stated });
        count == 0
    }

    /// Takes note of a success.
    pub(crate) fn done<Q: Ord + ?Sized>(&mut self, what: &Q)
    where
        K: Borrow<Q>,
    {
        self.0.remove(what);
    }

    /// Forgets what is not tried any more: it would be due for ever.
    pub(crate) fn keep(&mut self, is_tried: impl Fn(&K) -> bool) {
        self.0.retain(|what, _| is_tried(what));
    }

    /// Whether something is to be tried again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.0.values().any(|failure| failure.until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_waits_longer_each_time_and_what_is_not_tried_any_more_is_never_due() {
        let (mut retries, begin) = (Retries::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let stated = Some(ReadyStatement::not("WriteRefused", "why"));
        assert_eq!(retries.waits("a", begin), None);
        assert!(retries.failed("a".to_owned(), begin, stated.clone()));
        assert_eq!(retries.waits("a", begin), Some(stated));
        assert!(!retries.is_due(begin) && retries.is_due(after(100)));
        assert!(!retries.failed("a".to_owned(), after(100), None));
        assert_eq!(retries.waits("a", after(101)), Some(None), "longer than the first time");
        retries.keep(|what| what != "a");
        assert!(!retries.is_due(after(10_000)));
        retries.failed("b".to_owned(), begin, None);
        retries.done("b");
        assert!(!retries.is_due(after(10_000)) && retries.failed("b".to_owned(), begin, None));
    }
}
