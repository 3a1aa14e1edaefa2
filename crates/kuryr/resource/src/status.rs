//! Whether a status is to be written.

use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::LifecycleMeta;
use gimbal_kuryr_crd::names::conditions::READY;
use gimbal_kuryr_crd::{KuryrL7RouterStatus, KuryrLoadBalancerStatus, StatusCondition};
use gimbal_kuryr_model::{LoadBalancerReport, Phase};
use gimbal_kuryr_translate::{Finding, NotStreamed};
use serde::Serialize;
use serde_json::Value;

use crate::{InFlightWrite, ObjectPauses, Purpose, Told, difference, fingerprint};

/// What takes less time is not reported while it lasts: a status that says so would be out of date as soon as it is written.
const HOLD: Duration = Duration::from_secs(5);

/// The status of a custom resource, which has conditions.
pub trait ResourceStatus: Serialize + PartialEq + Clone + Default {
    /// The conditions.
    fn conditions(&self) -> &[StatusCondition];

    /// The conditions, to be changed.
    fn conditions_mut(&mut self) -> &mut [StatusCondition];
}

/// What a status is made from, beside what it says.
#[derive(Debug, Clone, Copy)]
pub struct StatusSource<'a, S> {
    /// The status as it is.
    pub old: Option<&'a S>,
    /// Metadata of the object.
    pub metadata: &'a LifecycleMeta,
    /// The latest report about its owner.
    pub report: Option<&'a LoadBalancerReport>,
    /// Whether the writer has said nothing of it since the status was written.
    pub heard_nothing: bool,
    /// Why it is not streamed, or not tried.
    pub not_streamed: Option<&'a NotStreamed>,
    /// What was left out of it.
    pub findings: &'a [Finding],
    /// Whether what was left out is known already.
    pub knows_findings: bool,
    /// Whether the writer has said anything about the cloud.
    pub has_facts: bool,
}

/// What is to be done with a status.
#[derive(Debug)]
pub enum StatusStep {
    /// Nothing: it knows more than we do, or is of no use any more.
    Kept,
    /// Nothing: it shows what there is to say.
    Shown,
    /// Nothing before this time.
    Later(Instant),
    /// Merge this.
    Write(Value, InFlightWrite),
}

impl<S: ResourceStatus> StatusSource<'_, S> {
    /// Decides what is to be done. `make` returns the status as it is to be, `tells` returns what a change of it means; `hold` is since
    /// when a status waits that says that something is being done.
    #[must_use]
    pub fn step(
        &self,
        make: impl FnOnce() -> S,
        tells: impl FnOnce(&S, &S) -> Vec<Told>,
        pauses: &ObjectPauses,
        hold: &mut Option<Instant>,
        now: Instant,
    ) -> StatusStep {
        let old = self.old.map(S::conditions).unwrap_or_default();
        let generation = self.metadata.generation;
        let is_said = self.not_streamed.is_some_and(|refused| says_refused(old, refused, generation));
        let is_silent = self.report.is_none() && is_said;
        let is_found = |one: &Finding| says_true(old, one.condition(), &one.to_string());
        let knows_less = match self.not_streamed {
            // All that it could say anew is said.
            Some(_) => is_silent && self.findings.iter().all(is_found),
            None => self.heard_nothing && (!self.has_facts || !old.is_empty()),
        };
        // After a restart the status knows more than we do. A status that is about to go is of no use.
        if knows_less || self.report.is_some_and(|report| report.phase == Phase::Gone) {
            return StatusStep::Kept;
        }
        let mut new = make();
        if is_silent || !self.knows_findings {
            keep_true(old, new.conditions_mut());
        }
        let going = self.metadata.is_being_deleted();
        let is_last_word = |report| is_settled(report, generation, going);
        let settled = self.not_streamed.is_some() || self.report.is_some_and(is_last_word);
        let wanted = status_fingerprint(&new);
        let is_accepted = || pauses.is_accepted(Purpose::Status, wanted, || fingerprint(&self.old));
        let is_same = if settled { self.old == Some(&new) } else { says_the_same(old, new.conditions()) };
        if is_same || is_accepted() {
            *hold = None;
            return StatusStep::Shown;
        }
        if !settled {
            let until = *hold.get_or_insert(now + HOLD);
            if now < until {
                return StatusStep::Later(until);
            }
        }
        let empty = S::default();
        let old = self.old.unwrap_or(&empty);
        let Some(change) = difference(old, &new) else { return StatusStep::Shown };
        *hold = None;
        let notices = tells(old, &new);
        StatusStep::Write(change, InFlightWrite { wanted, notices, ..InFlightWrite::new(Purpose::Status) })
    }
}

/// Notes what the API server made of a status.
pub fn note_accepted_status<S: ResourceStatus>(pauses: &mut ObjectPauses, wanted: u64, stored: Option<&S>) {
    let empty = S::default();
    if status_fingerprint(stored.unwrap_or(&empty)) == wanted {
        pauses.accepted(Purpose::Status, 0, 0);
    } else {
        pauses.accepted(Purpose::Status, wanted, fingerprint(&stored));
    }
}

/// The times of conditions differ in every attempt to write them.
fn status_fingerprint<S: ResourceStatus>(status: &S) -> u64 {
    let mut status = status.clone();
    for condition in status.conditions_mut() {
        condition.last_transition_time = "".into();
    }
    fingerprint(&status)
}

/// Whether a report is the last word about what is wanted now.
fn is_settled(report: &LoadBalancerReport, generation: i64, is_being_deleted: bool) -> bool {
    let transient = matches!(report.phase, Phase::Waiting | Phase::Making | Phase::Removing);
    !transient && (report.generation == generation || is_being_deleted)
}

/// Whether nothing has changed for a reader, while something is being done: conditions are as they were.
fn says_the_same(old: &[StatusCondition], new: &[StatusCondition]) -> bool {
    let same = |(old, new): (&StatusCondition, &StatusCondition)| {
        (&old.type_, &old.status, &old.reason) == (&new.type_, &new.status, &new.reason)
    };
    old.len() == new.len() && old.iter().zip(new).all(same)
}

/// Whether it is said of this generation already why an object is not streamed, or not tried.
fn says_refused(conditions: &[StatusCondition], refused: &NotStreamed, generation: i64) -> bool {
    let ready = conditions.iter().find(|one| &*one.type_ == READY);
    ready.is_some_and(|ready| {
        (&*ready.status, &*ready.reason, ready.observed_generation) == ("False", refused.reason(), Some(generation))
            && refused.to_string().starts_with(&*ready.message)
    })
}

/// Whether a condition is true already and says this, among other things.
#[must_use]
pub fn says_true(conditions: &[StatusCondition], kind: &str, words: &str) -> bool {
    let of = |one: &&StatusCondition| &*one.type_ == kind && &*one.status == "True";
    conditions.iter().find(of).is_some_and(|one| one.message.contains(words))
}

/// Whether the conditions show that a generation is there.
#[must_use]
pub fn shows_ready(conditions: &[StatusCondition], generation: i64) -> bool {
    ready_generation(conditions) == Some(generation)
}

/// Returns the generation that the conditions show to be there.
#[must_use]
pub fn ready_generation(conditions: &[StatusCondition]) -> Option<i64> {
    conditions.iter().find(|one| (&*one.type_, &*one.status) == (READY, "True"))?.observed_generation
}

/// Lets stay what a report has said: without one nothing is known to have passed.
fn keep_true(old: &[StatusCondition], new: &mut [StatusCondition]) {
    for one in new.iter_mut().filter(|one| &*one.status == "False") {
        let before = old.iter().find(|before| before.type_ == one.type_ && &*before.status == "True");
        if let Some(before) = before {
            *one = before.clone();
        }
    }
}

impl ResourceStatus for KuryrLoadBalancerStatus {
    fn conditions(&self) -> &[StatusCondition] {
        &self.conditions
    }

    fn conditions_mut(&mut self) -> &mut [StatusCondition] {
        &mut self.conditions
    }
}

impl ResourceStatus for KuryrL7RouterStatus {
    fn conditions(&self) -> &[StatusCondition] {
        &self.balancer.conditions
    }

    fn conditions_mut(&mut self) -> &mut [StatusCondition] {
        &mut self.balancer.conditions
    }
}
