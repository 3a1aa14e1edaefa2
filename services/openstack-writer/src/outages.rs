//! What of the cloud does not answer, so that the log has a line when it begins and one when it ends, and none for each of the
//! many calls between.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An outage that begins sooner after the line about the last one is not logged, nor is its end.
const QUIET: Duration = Duration::from_secs(60);
/// How often an outage that goes on is logged.
const REMINDER: Duration = Duration::from_secs(600);
/// Most things that are kept apart. Projects come from the configuration, and resources are a few words.
const MOST: usize = 4096;

/// What fails: a project, and reads of a resource, or changes.
type Subject = (String, &'static str);

#[derive(Debug, Default)]
struct Calls {
    /// When the calls began to fail; unset: the last one was answered.
    since: Option<Instant>,
    failures: u64,
    /// When the last line was written.
    told: Option<Instant>,
    /// Whether the beginning of this outage was logged.
    is_told: bool,
}

/// What there is to log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutageNews {
    /// Calls fail, since a moment or for this long already.
    Fails { since: Duration, failures: u64 },
    /// Calls are answered again.
    Over { after: Duration, failures: u64 },
}

/// What of the cloud does not answer.
#[derive(Debug, Default)]
pub(crate) struct Outages(BTreeMap<Subject, Calls>);

impl Outages {
    /// Takes note that a call failed, or was answered.
    pub(crate) fn called(&mut self, project: &str, what: &'static str, ok: bool, now: Instant) -> Option<OutageNews> {
        let subject = (project.to_owned(), what);
        if ok && !self.0.contains_key(&subject) || self.0.len() >= MOST && !self.0.contains_key(&subject) {
            return None;
        }
        let calls = self.0.entry(subject).or_default();
        if ok {
            let since = calls.since.take()?;
            let failures = std::mem::take(&mut calls.failures);
            let over = OutageNews::Over { after: now.saturating_duration_since(since), failures };
            return std::mem::take(&mut calls.is_told).then_some(over);
        }
        calls.failures += 1;
        let since = *calls.since.get_or_insert(now);
        let pause = if calls.is_told { REMINDER } else { QUIET };
        if calls.told.is_some_and(|told| now < told + pause) {
            return None;
        }
        (calls.told, calls.is_told) = (Some(now), true);
        Some(OutageNews::Fails { since: now.saturating_duration_since(since), failures: calls.failures })
    }
}

/// Logs what there is to log. `error` is why the last call failed.
pub(crate) fn log(project: &str, what: &'static str, news: Option<OutageNews>, error: Option<&str>) {
    match news {
        None => {}
        Some(OutageNews::Fails { since, failures }) => {
            let error = error.unwrap_or_default();
            tracing::warn!(
                project,
                what,
                failures,
                since_s = since.as_secs(),
                error,
                "OpenStack does not answer; what exists stays as it is"
            );
        }
        Some(OutageNews::Over { after, failures }) => {
            tracing::info!(project, what, failures, after_s = after.as_secs(), "OpenStack answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_when_it_begins_and_one_when_it_ends() {
        let (mut outages, start) = (Outages::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut called = |ok, seconds| outages.called("p", "pool", ok, at(seconds));
        assert_eq!(called(true, 0), None);
        assert_eq!(called(false, 1), Some(OutageNews::Fails { since: Duration::ZERO, failures: 1 }));
        assert_eq!(called(false, 2), None);
        assert_eq!(called(false, 600), None);
        let reminder = OutageNews::Fails { since: Duration::from_secs(600), failures: 4 };
        assert_eq!(called(false, 601), Some(reminder));
        assert_eq!(called(true, 610), Some(OutageNews::Over { after: Duration::from_secs(609), failures: 4 }));
        assert_eq!(called(true, 611), None);
    }

    #[test]
    fn calls_that_fail_now_and_then_are_logged_once_a_minute() {
        let (mut outages, start) = (Outages::default(), Instant::now());
        let lines = (0..3_000_u64).filter_map(|tick| {
            let now = start + Duration::from_millis(100 * tick);
            outages.called("p", "pool", tick % 2 == 1, now)
        });
        let lines: Vec<OutageNews> = lines.collect();
        assert_eq!(lines.len(), 2 * 5, "{lines:?}");
    }

    #[test]
    fn subjects_are_separate() {
        let (mut outages, now) = (Outages::default(), Instant::now());
        assert!(outages.called("p", "pool", false, now).is_some());
        assert!(outages.called("p", "listener", false, now).is_some());
        assert!(outages.called("q", "pool", false, now).is_some());
        assert!(outages.called("p", "pool", false, now).is_none());
    }
}
