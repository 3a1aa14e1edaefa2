//! The namespaces that are missing in the Gimbal cluster and that a policy allows to be created. Each is requested
//! once, and again only if it is still missing some time after the answer. None is ever deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_schedule::Backoff;

/// Delay after a failed creation. After a successful one, the longest delay applies, because the watch normally shows
/// the namespace earlier.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// One wanted namespace.
#[derive(Debug, Clone)]
struct Creation {
    /// Failures in a row.
    failures: u32,
    /// Why the last attempt failed; sent to agents until the namespace exists.
    problem: Option<String>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The next target that needs the namespace requests it.
    Due,
    /// Requested, and not answered yet.
    Requested,
    /// Answered. If the namespace is still missing by then, it is due again.
    AnsweredUntil(Instant),
}

/// The wanted namespaces, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Creations(BTreeMap<Arc<str>, Creation>);

impl Creations {
    /// Marks a namespace as requested. Returns whether it has to be requested now.
    pub(crate) fn request(&mut self, namespace: &Arc<str>) -> bool {
        let creation = self.0.entry(namespace.clone()).or_insert_with(|| Creation {
            failures: 0,
            problem: None,
            progress: Progress::Due,
        });
        let due = creation.progress == Progress::Due;
        if due {
            creation.progress = Progress::Requested;
        }
        due
    }

    /// Records how the creation of a namespace ended. Returns whether it had been requested.
    pub(crate) fn answered(&mut self, namespace: &str, answer: Result<(), String>, now: Instant) -> bool {
        let Some(creation) = self.0.get_mut(namespace) else { return false };
        creation.problem = answer.err();
        let wait = match creation.problem {
            Some(_) => {
                creation.failures = creation.failures.saturating_add(1);
                RETRY.delay(creation.failures - 1)
            }
            None => {
                creation.failures = 0;
                RETRY.longest
            }
        };
        creation.progress = Progress::AnsweredUntil(now + wait);
        true
    }

    /// Whether a namespace may be there soon: its creation has not failed, or is attempted again now. Services that
    /// wait for it take their share of the quota meanwhile.
    pub(crate) fn is_creatable(&self, namespace: &str) -> bool {
        let rests = |creation: &Creation| matches!(creation.progress, Progress::AnsweredUntil(_));
        self.0.get(namespace).is_none_or(|creation| creation.problem.is_none() || !rests(creation))
    }

    /// Returns why a namespace that may be created does not exist.
    pub(crate) fn why_missing(&self, namespace: &str) -> String {
        match self.0.get(namespace).and_then(|creation| creation.problem.as_deref()) {
            Some(problem) => format!("namespace {namespace} could not be created: {problem}; it is tried again"),
            None => format!("namespace {namespace} does not exist in the Gimbal cluster; it is being created"),
        }
    }

    /// Returns the namespaces whose delay is over, and makes them due again.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut due = Vec::new();
        for (namespace, creation) in &mut self.0 {
            if matches!(creation.progress, Progress::AnsweredUntil(until) if until <= now) {
                creation.progress = Progress::Due;
                due.push(namespace.clone());
            }
        }
        due
    }

    /// Forgets a namespace that exists, or that no target wants any more.
    pub(crate) fn remove(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_ends_the_failures_in_a_row() {
        let (mut creations, now): (_, Instant) = (Creations::default(), Instant::now());
        let namespace: Arc<str> = "ns".into();
        let mut answer = |answer: Result<(), String>, wait: Duration| {
            assert!(creations.request(&namespace));
            assert!(creations.answered(&namespace, answer, now));
            assert_eq!(creations.take_due(now + wait - Duration::from_millis(1)), [] as [Arc<str>; 0], "{wait:?}");
            assert_eq!(creations.take_due(now + wait), std::slice::from_ref(&namespace), "{wait:?}");
        };
        let failed = || Err("a quota".to_owned());
        answer(failed(), Duration::from_secs(1));
        answer(failed(), Duration::from_secs(2));
        answer(Ok(()), Duration::from_secs(60));
        answer(failed(), Duration::from_secs(1));
        answer(failed(), Duration::from_secs(2));
    }
}
