//! Writes that the API server refuses (because of an admission policy, a quota of the namespace, an object without our
//! mark, or because the object is invalid or too large), and writes that fail repeatedly. Each is retried by itself
//! after a delay, or at once when its content changes; the other writes of the target go on meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Object as _, Service};
use gimbal_plan::{Action, Fingerprint};
use gimbal_session::RejectReason;

use crate::target::delay;

/// The identity of a write: kind, name, and whether it is a patch. Only the last refusal of each is kept.
pub(crate) type Write = (&'static str, Arc<str>, bool);

/// The last refusal of a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RefusedWrite {
    /// The content that was sent; `None` for a deletion.
    print: Option<Fingerprint>,
    until: Instant,
    failures: u32,
    /// The write was not part of the plan that was made last.
    aside: bool,
    /// The reason that is sent to the agent.
    pub(crate) reason: RejectReason,
    /// The message that is sent to the agent.
    pub(crate) message: String,
}

/// A write that failed this often in a row counts as refused, so that the other writes go on without it.
const PATIENCE: u32 = 3;
/// How long the number of refusals of a write that left the plan is remembered, counted from the time of its next
/// attempt.
const FORGET: Duration = Duration::from_secs(600);

/// The refused writes of one target. Usually there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    refused: BTreeMap<Write, RefusedWrite>,
    /// How often in a row each write failed for a reason that may be temporary.
    failed: BTreeMap<Write, u32>,
}

fn write(action: &Action) -> Write {
    (action.kind().kind, action.name().clone(), matches!(action, Action::Patch(_)))
}

fn print(action: &Action) -> Option<Fingerprint> {
    match action {
        Action::Create(body) | Action::Replace(body) | Action::Patch(body) => Some(body.fingerprint()),
        Action::Delete { .. } => None,
    }
}

impl Refusals {
    pub(crate) fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.failed.is_empty()
    }

    /// Whether any write of the current plan was refused.
    pub(crate) fn hinder(&self) -> bool {
        self.refused.values().any(|refusal| !refusal.aside)
    }

    /// Whether any write of the current plan was refused that is not the Service's own.
    pub(crate) fn hinder_endpoints(&self) -> bool {
        self.refused.iter().any(|((kind, ..), refusal)| *kind != Service::KIND.kind && !refusal.aside)
    }

    pub(crate) fn clear(&mut self) {
        self.refused.clear();
        self.failed.clear();
    }

    /// Counts a failure that may be temporary. Returns whether it happened so often that the write counts as refused.
    pub(crate) fn fails_for_long(&mut self, action: &Action) -> bool {
        // Counted whatever the content: a write whose content changes often would never reach the limit otherwise.
        let failures = self.failed.entry(write(action)).or_default();
        *failures = failures.saturating_add(1);
        *failures >= PATIENCE
    }

    /// Records a refusal. The delay grows with each refusal in a row, up to `longest`.
    pub(crate) fn note(
        &mut self,
        action: &Action,
        (reason, message): (RejectReason, String),
        longest: Duration,
        now: Instant,
    ) {
        let (write, print) = (write(action), print(action));
        let failures = self.refused.get(&write).filter(|old| old.print == print).map_or(0, |old| old.failures + 1);
        let until = now + delay(failures, longest);
        self.refused.insert(write, RefusedWrite { print, until, failures, aside: false, reason, message });
    }

    /// Forgets a write that succeeded.
    pub(crate) fn forget(&mut self, action: &Action) {
        let write = write(action);
        self.refused.remove(&write);
        self.failed.remove(&write);
    }

    /// Returns the refused and failed writes whose objects occur in none of `actions`, the whole current plan.
    pub(crate) fn outdated<'a>(&self, actions: impl Iterator<Item = &'a Action>) -> Vec<Write> {
        let planned: BTreeSet<(&str, &str)> = actions.map(|action| (action.kind().kind, &**action.name())).collect();
        let all: BTreeSet<&Write> = self.refused.keys().chain(self.failed.keys()).collect();
        all.into_iter().filter(|(kind, name, _)| !planned.contains(&(*kind, &**name))).cloned().collect()
    }

    /// Ignores these writes until they are planned again. The number of their refusals is remembered for a while;
    /// otherwise two Services that wait for each other's room, and are refused once they have it, would retry without
    /// delay forever.
    pub(crate) fn set_aside(&mut self, outdated: &[Write], now: Instant) {
        self.refused.retain(|write, refusal| {
            refusal.aside = outdated.contains(write);
            !refusal.aside || refusal.until + FORGET > now
        });
        let refused = &self.refused;
        self.failed.retain(|write, _| refused.contains_key(write) || !outdated.contains(write));
    }

    /// Returns the recent refusal of exactly this write, because of which it is not sent now.
    pub(crate) fn of(&self, action: &Action, now: Instant) -> Option<&RefusedWrite> {
        let refusal = self.refused.get(&write(action))?;
        (refusal.until > now && refusal.print == print(action)).then_some(refusal)
    }

    /// Returns the first refusal among `actions`, and the earliest time at which one of them may be retried.
    pub(crate) fn among<'a>(
        &self,
        actions: impl Iterator<Item = &'a Action>,
        now: Instant,
    ) -> Option<(&RefusedWrite, Instant)> {
        let mut refused = actions.filter_map(|action| self.of(action, now));
        let first = refused.next()?;
        Some((first, refused.map(|refusal| refusal.until).fold(first.until, Instant::min)))
    }
}
