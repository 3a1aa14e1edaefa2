//! Writes that the API server will not take as they are: an admission policy, a quota of the namespace, an object of somebody
//! else; and those that fail time and again. Each is tried again by itself after a while, or at once when it would be another write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Object as _, Service};
use gimbal_plan::{Action, Fingerprint};
use gimbal_session::RejectReason;

use crate::target::delay;

/// Kind, name, and whether only a part of the object was sent: of each the last refusal counts.
pub(crate) type Write = (&'static str, Arc<str>, bool);

/// One that was refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// What was sent; `None` for a deletion.
    print: Option<Fingerprint>,
    until: Instant,
    failures: u32,
    /// Nothing of the kind is to be written now.
    aside: bool,
    /// Why, for the agent.
    pub(crate) reason: RejectReason,
    /// Why, in words.
    pub(crate) message: String,
}

/// A write that failed so often in a row, in whatever way, counts as refused: others go on without it.
const PATIENCE: u32 = 3;
/// For so long it is known how often a write was refused that is not to be sent any more.
const FORGET: Duration = Duration::from_secs(600);

/// Those of one target. Mostly there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    refused: BTreeMap<Write, Refusal>,
    /// How often each write failed in a row that may be taken any moment.
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

    /// Whether anything was refused that is to be written still.
    pub(crate) fn hinder(&self) -> bool {
        self.refused.values().any(|refusal| !refusal.aside)
    }

    /// The same of something else than the Service itself.
    pub(crate) fn hinder_endpoints(&self) -> bool {
        self.refused.iter().any(|((kind, ..), refusal)| *kind != Service::KIND.kind && !refusal.aside)
    }

    pub(crate) fn clear(&mut self) {
        self.refused.clear();
        self.failed.clear();
    }

    /// A write failed in a way that may pass any moment. Whether that was once too often.
    pub(crate) fn fails_for_long(&mut self, action: &Action) -> bool {
        // Whatever its content was: what changes often would never fail for long else.
        let failures = self.failed.entry(write(action)).or_default();
        *failures = failures.saturating_add(1);
        *failures >= PATIENCE
    }

    /// A write was refused. It waits the longer the more often that happened in a row.
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
        self.refused.insert(write, Refusal { print, until, failures, aside: false, reason, message });
    }

    /// It was taken.
    pub(crate) fn forget(&mut self, action: &Action) {
        let write = write(action);
        self.refused.remove(&write);
        self.failed.remove(&write);
    }

    /// Those of objects that none of `actions`, which are all that there is to write, is about.
    pub(crate) fn outdated<'a>(&self, actions: impl Iterator<Item = &'a Action>) -> Vec<Write> {
        let planned: BTreeSet<(&str, &str)> = actions.map(|action| (action.kind().kind, &**action.name())).collect();
        let all: BTreeSet<&Write> = self.refused.keys().chain(self.failed.keys()).collect();
        all.into_iter().filter(|(kind, name, _)| !planned.contains(&(*kind, &**name))).cloned().collect()
    }

    /// These hinder nothing until they are planned again. How often they were refused is not forgotten at once: two that wait
    /// for the room of each other, and are refused when they have it, would try over and over.
    pub(crate) fn set_aside(&mut self, outdated: &[Write], now: Instant) {
        self.refused.retain(|write, refusal| {
            refusal.aside = outdated.contains(write);
            !refusal.aside || refusal.until + FORGET > now
        });
        let refused = &self.refused;
        self.failed.retain(|write, _| refused.contains_key(write) || !outdated.contains(write));
    }

    /// Why a write is not to be sent now: this very one was refused a while ago.
    pub(crate) fn of(&self, action: &Action, now: Instant) -> Option<&Refusal> {
        let refusal = self.refused.get(&write(action))?;
        (refusal.until > now && refusal.print == print(action)).then_some(refusal)
    }

    /// The first of those that keep `actions` from being sent now, and when the first of them may be tried again.
    pub(crate) fn among<'a>(
        &self,
        actions: impl Iterator<Item = &'a Action>,
        now: Instant,
    ) -> Option<(&Refusal, Instant)> {
        let mut refused = actions.filter_map(|action| self.of(action, now));
        let first = refused.next()?;
        Some((first, refused.map(|refusal| refusal.until).fold(first.until, Instant::min)))
    }
}
