//! Writes of which nobody knows whether they were done: their answers were lost, or told of trouble. What they take away may be
//! gone already, or go yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::Kind;
use gimbal_model::TargetKey;
use gimbal_plan::{Action, Observed};

/// An API server gives a request up after a minute, unless it was told otherwise (`--request-timeout`).
const LONGEST: Duration = Duration::from_secs(60);

/// The write named this version of an object. As long as that is what is seen, nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doubt {
    kind: Kind,
    name: Arc<str>,
    version: Arc<str>,
    until: Instant,
}

impl Doubt {
    fn stands(&self, observed: &Observed) -> bool {
        let mut held = observed.held().filter(|held| held.kind == self.kind);
        held.any(|held| held.name.is_none_or(|name| *name == *self.name) && *held.resource_version == *self.version)
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubts(BTreeMap<TargetKey, Vec<Doubt>>);

impl Doubts {
    /// A write failed in a way that does not tell whether it was done.
    pub(crate) fn note(&mut self, target: &TargetKey, action: &Action, now: Instant) {
        let version = match action {
            // It takes nothing away.
            Action::Create(_) => return,
            Action::Delete { resource_version, .. } => resource_version,
            Action::Replace(body) | Action::Patch(body) => &body.meta().resource_version,
        };
        let doubt =
            Doubt { kind: action.kind(), name: action.name().clone(), version: version.clone(), until: now + LONGEST };
        let doubts = self.0.entry(target.clone()).or_default();
        doubts.retain(|other| (other.kind, &other.name) != (doubt.kind, &doubt.name));
        doubts.push(doubt);
    }

    /// Whether anything that was done or not may be missing of what is seen.
    pub(crate) fn are_of(&mut self, target: &TargetKey, observed: &Observed, now: Instant) -> bool {
        let Some(doubts) = self.0.get_mut(target) else { return false };
        doubts.retain(|doubt| now < doubt.until && doubt.stands(observed));
        let any = !doubts.is_empty();
        if !any {
            self.0.remove(target);
        }
        any
    }

    /// Targets with doubts that are over.
    pub(crate) fn over(&self, now: Instant) -> Vec<TargetKey> {
        let over = self.0.iter().filter(|(_, doubts)| doubts.iter().any(|doubt| now >= doubt.until));
        over.map(|(target, _)| target.clone()).collect()
    }

    /// It is gone, and nothing can be missing of it.
    pub(crate) fn forget(&mut self, target: &TargetKey) {
        self.0.remove(target);
    }

    /// Who leads next sees what there is.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
