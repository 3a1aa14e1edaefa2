//! Writes whose answers were lost or reported an unclear failure: whether they were carried out is unknown. What they
//! remove may be gone already, or may still go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::Kind;
use gimbal_model::TargetKey;
use gimbal_plan::{Action, Observed};

/// An API server gives up a request after a minute by default (`--request-timeout`).
const LONGEST: Duration = Duration::from_secs(60);

/// A write that named this version of an object. While that version is the one observed, its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doubt {
    kind: Kind,
    name: Arc<str>,
    version: Arc<str>,
    until: Instant,
}

impl Doubt {
    fn is_open(&self, observed: &Observed) -> bool {
        let mut held = observed.objects().filter(|held| held.kind == self.kind);
        held.any(|held| held.name.is_none_or(|name| *name == *self.name) && *held.resource_version == *self.version)
    }
}

/// The writes with an unknown outcome, by target.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubts(BTreeMap<TargetKey, Vec<Doubt>>);

impl Doubts {
    /// Records a write that failed without telling whether it was carried out.
    pub(crate) fn note(&mut self, target: &TargetKey, action: &Action, now: Instant) {
        let version = match action {
            // A create removes nothing.
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

    /// Whether a write with an unknown outcome may still remove something of what is observed.
    pub(crate) fn are_of(&mut self, target: &TargetKey, observed: &Observed, now: Instant) -> bool {
        let Some(doubts) = self.0.get_mut(target) else { return false };
        doubts.retain(|doubt| now < doubt.until && doubt.is_open(observed));
        let any = !doubts.is_empty();
        if !any {
            self.0.remove(target);
        }
        any
    }

    /// Returns the targets that have a write whose outcome must be visible by now.
    pub(crate) fn over(&self, now: Instant) -> Vec<TargetKey> {
        let over = self.0.iter().filter(|(_, doubts)| doubts.iter().any(|doubt| now >= doubt.until));
        over.map(|(target, _)| target.clone()).collect()
    }

    /// Forgets a target that was dropped.
    pub(crate) fn forget(&mut self, target: &TargetKey) {
        self.0.remove(target);
    }

    /// Forgets everything: the next leader observes the objects itself.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
