//! Namespaces of the Gimbal cluster that are missing and that a policy lets be created: each is asked for once, and
//! again only after a failure and a while. None is ever deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::BackendName;
use gimbal_schedule::Backoff;

use crate::{Output, Reconciler};

/// Delay after a failed creation.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// One namespace that is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Creation {
    failures: u32,
    /// Why it failed last; agents hear it until it is there.
    problem: Option<String>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Whoever needs it next asks for it.
    Due,
    /// Asked for, and not answered yet.
    UnderWay,
    /// Answered; if it is still missing by then, it is due again.
    Until(Instant),
}

/// By name.
pub(crate) type Creations = BTreeMap<Arc<str>, Creation>;

impl Reconciler {
    /// A backend needs this namespace, and may have it created if its policy says so.
    /// That is a change like any other, and takes its share of the backend's pace.
    pub(crate) fn ask_for_namespace(&mut self, namespace: &Arc<str>, backend: &BackendName, now: Instant) {
        if !self.backends.get(backend).is_some_and(|backend| backend.policy.namespaces.create) {
            return;
        }
        let creation = self.creations.entry(namespace.clone()).or_insert_with(|| Creation {
            failures: 0,
            problem: None,
            stage: Stage::Due,
        });
        if creation.stage != Stage::Due {
            return;
        }
        creation.stage = Stage::UnderWay;
        self.queue.spend(backend, now);
        self.outputs.push(Output::CreateNamespace { namespace: namespace.clone(), backend: backend.clone() });
    }

    /// How the creation of a namespace ended. That it is there is what the watch says.
    pub fn namespace_created(&mut self, namespace: &str, answer: Result<(), String>, now: Instant) {
        let Some(creation) = self.creations.get_mut(namespace) else { return };
        creation.problem = answer.err();
        let wait = match creation.problem {
            Some(_) => RETRY.delay(creation.failures),
            None => RETRY.longest,
        };
        creation.failures += 1;
        creation.stage = Stage::Until(now + wait);
        // Who waits for it hears of the problem.
        let namespace: Arc<str> = namespace.into();
        self.enqueue_namespace(&namespace);
    }

    /// Whether nothing is known to keep a namespace from being created, or it is tried again now: what waits for it takes
    /// its room meanwhile, also after a failure.
    pub(crate) fn is_creatable(&self, namespace: &str) -> bool {
        let rests = |creation: &Creation| matches!(creation.stage, Stage::Until(_));
        self.creations.get(namespace).is_none_or(|creation| creation.problem.is_none() || !rests(creation))
    }

    /// Why a namespace that may be created is not there.
    pub(crate) fn why_missing(&self, namespace: &str) -> String {
        match self.creations.get(namespace).and_then(|creation| creation.problem.as_deref()) {
            Some(problem) => format!("namespace {namespace} could not be created: {problem}; it is tried again"),
            None => format!("namespace {namespace} does not exist in the Gimbal cluster; it is being created"),
        }
    }

    /// Tries again what is due.
    pub(crate) fn create_again(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (namespace, creation) in &mut self.creations {
            if matches!(creation.stage, Stage::Until(until) if until <= now) {
                creation.stage = Stage::Due;
                due.push(namespace.clone());
            }
        }
        for namespace in due {
            // Nobody may want it any more.
            if self.enqueue_namespace(&namespace) == 0 {
                self.creations.remove(&namespace);
            }
        }
    }
}
