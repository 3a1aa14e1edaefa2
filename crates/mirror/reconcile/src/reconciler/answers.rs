//! The answers to writes, and what follows from them.

use std::time::{Duration, Instant};

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Body, ReportOrder};
use gimbal_session::{Outcome, Reject, RejectReason};

use crate::job::Closing;
use crate::target::LONGEST_DELAY;
use crate::{Claim, Job, Output, Reconciler, Urgency, WriteAnswer, WriteFailure, Written};

/// Longest delay after the API server rejected an object as invalid or too large, which changes only when somebody
/// changes a webhook or a limit.
const LONGEST_INVALID: Duration = Duration::from_secs(300);
/// How many jobs in a row must meet a conflict before the agent is notified. The first ones are usually edits by
/// somebody else and are retried at once, with the object that was found.
const CONFLICTS: u32 = 3;
/// The message to the agent after that many conflicts. The API server's own message may mention other backends'
/// objects.
const CONFLICT: &str = "the API server answers 409 time and again: something changes the object all the time, or a quota, a webhook or a proxy is against it";
/// The delay after a create found an object that counts as gone, so that it does not find it over and over.
const FOUND_DELAY: Duration = Duration::from_secs(1);

impl Reconciler {
    /// Remembers what the API server answered to a write, for explanations. It decides nothing.
    pub fn note_answer(&mut self, key: &TargetKey, answer: WriteAnswer) {
        if let Some(target) = self.targets.get_mut(key) {
            target.writes_mut().note(answer);
        }
    }

    /// Takes the answers to a job: `written` has one for each action, in order.
    pub fn finish(&mut self, job: &Job, written: Vec<Written>, now: Instant) {
        let key = &job.target;
        let mut retry: Option<Instant> = None;
        // Each write is noticed once: now, or before that by the watch.
        let (mut as_sent, mut ours) = (0, 0);
        // If nothing was observed since the job was handed out, the answers are newer than all that is known.
        let told = if self.queue.noticed(key) == 0 { ReportOrder::Latest } else { ReportOrder::Unordered };
        let mut conflicts = self.count_conflicts(job, &written);
        for (action, written) in job.actions.iter().zip(written) {
            // A list that began meanwhile shows the write, or the watch after it does. The answer may even come from
            // a store that was replaced since.
            let overtaken = self.cluster.list_began_since(job.lists, action.kind());
            let wait = match written {
                Written::Failed(failure) => {
                    if matches!(failure, WriteFailure::Api(_)) {
                        self.doubts.note(key, action, now);
                    }
                    self.failed(job, action, failure, now)
                }
                Written::NotSent => Some(now),
                _ if overtaken => None,
                Written::Answered(body) => {
                    self.observe_body(&body, told, now);
                    ours += 1;
                    if let Some(target) = self.targets.get_mut(key).filter(|target| !target.refusals().is_empty()) {
                        target.refusals_mut().forget(action);
                    }
                    as_sent += usize::from(self.is_as_sent(key, action, &body) && self.holds(key, &body));
                    if let (Body::Service(_), Some(owner), Some(target)) =
                        (&body, &job.owner, self.targets.get_mut(key))
                    {
                        target.set_owner(Some(owner.clone()));
                    }
                    None
                }
                Written::Found(body) => {
                    self.observe_body(&body, told, now);
                    (!self.holds(key, &body)).then(|| now + FOUND_DELAY)
                }
                Written::Conflict { there } => {
                    self.observe_body(&there, told, now);
                    // One of several conflicts is reported, because the next job retries all of them.
                    let failure = conflicts.take().map(|message| WriteFailure::Contested(message.into()));
                    failure.and_then(|failure| self.failed(job, action, failure, now))
                }
                Written::Gone => {
                    if let Some(target) = self.targets.get_mut(key).filter(|target| !target.refusals().is_empty()) {
                        target.refusals_mut().forget(action);
                    }
                    self.observe_gone(key, action, now);
                    None
                }
            };
            retry = retry.max(wait);
        }
        let others = self.queue.noticed(key) > ours;
        let target = self.targets.get(key);
        let wanted = target.zip(job.owner.as_ref()).is_some_and(|(target, owner)| target.claims().contains(owner));
        let closing = job.closing.as_ref().filter(|_| wanted && as_sent == job.actions.len() && !others);
        let backend = self.targets.get(key).and_then(|target| self.backend_of(target));
        match (backend, retry, closing) {
            (Some(backend), Some(until), _) if !others => self.queue.push_later(key, &backend, until),
            // The next phase, or the decision that nothing is left to do.
            (Some(backend), _, None) => self.queue.push(key, &backend, Urgency::Fresh),
            _ => {}
        }
        if retry.is_some() {
            self.count_losses(key, now);
        }
        let more = self.queue.done(key);
        if let (false, Some(closing), Some(owner)) = (more, closing, &job.owner) {
            self.close(key, owner, closing, now);
        }
        self.drop_if_idle(key, now);
    }

    /// Whether the answered version is the one held, so that no later edit was observed before the answer.
    fn holds(&self, key: &TargetKey, answer: &Body) -> bool {
        let name = matches!(answer, Body::Slice(_)).then(|| &*answer.meta().name);
        self.targets.get(key).is_some_and(|target| target.holds_version(answer.kind(), name, answer.meta()))
    }

    /// Converges a target without another decision, because all was written as decided and nothing happened meanwhile.
    fn close(&mut self, key: &TargetKey, owner: &Claim, closing: &Closing, now: Instant) {
        if let Some(target) = self.targets.get_mut(key) {
            target.set_owner(Some(owner.clone()));
        }
        self.reject_other_claims(key, Some(owner));
        self.converge(key, Some(owner), false, closing.partly.clone(), now);
    }

    /// Whether the answer has the form that was sent. A form that differs, for example because of a webhook, counts
    /// as the wanted one until either side changes (`docs/design.md#rule-6`).
    fn is_as_sent(&mut self, key: &TargetKey, action: &Action, answer: &Body) -> bool {
        let sent = match action {
            Action::Create(sent) | Action::Replace(sent) if sent.is_same(answer) => return true,
            Action::Patch(sent) if sent.has_same_endpoints(answer) => return true,
            Action::Create(sent) | Action::Replace(sent) | Action::Patch(sent) => sent,
            Action::Delete { .. } => return false,
        };
        let (sent_form, answer_form) = (sent.fingerprint(), answer.fingerprint());
        if sent_form == answer_form {
            return true;
        }
        let Some(target) = self.targets.get_mut(key) else { return false };
        if target.observed_mut().accept(sent.kind(), sent.name(), sent_form, answer_form) {
            self.counters.accepted_forms += 1;
            let (kind, name) = (sent.kind().kind, sent.name().clone());
            self.outputs.push(Output::Accepted { target: key.clone(), kind, name });
        }
        false
    }

    fn observe_gone(&mut self, key: &TargetKey, action: &Action, now: Instant) {
        let (uid, version) = match action {
            Action::Delete { uid, resource_version, .. } => (uid, resource_version),
            Action::Create(body) | Action::Replace(body) | Action::Patch(body) => {
                (&body.meta().uid, &body.meta().resource_version)
            }
        };
        self.observe_deleted(action.kind(), key, action.name(), uid, version, now);
    }

    /// Counts jobs in a row that met a conflict. Returns the message for the agent once there were enough.
    fn count_conflicts(&mut self, job: &Job, written: &[Written]) -> Option<&'static str> {
        let target = self.targets.get_mut(&job.target)?;
        // A conflict that a list has overtaken says nothing about the current object.
        let counts = |action: &Action| !self.cluster.list_began_since(job.lists, action.kind());
        let mut answers = job.actions.iter().zip(written);
        if answers.any(|(action, written)| matches!(written, Written::Conflict { .. }) && counts(action)) {
            return (target.count_conflict() >= CONFLICTS).then_some(CONFLICT);
        }
        if written.iter().any(|written| written.is_there() || *written == Written::Gone) {
            target.forget_conflicts();
        }
        None
    }

    /// The changes that lead to a target were not written, because the API server `failed` or because it refuses them.
    fn note_failed_journeys(&mut self, job: &Job, failed: bool) {
        let Some(target) = self.targets.get(&job.target) else { return };
        for claim in target.claims().iter().chain(target.leaving()) {
            if let Some(backend) = self.desired.get_mut(&claim.backend) {
                backend.set_journey_failed(&claim.key, failed);
            }
        }
    }

    /// Handles a failed write. Returns when to decide the target again; `None` if the target need not wait: only this
    /// write is retried later, or a slice gets another name.
    fn failed(&mut self, job: &Job, action: &Action, failure: WriteFailure, now: Instant) -> Option<Instant> {
        let key = &job.target;
        let target = self.targets.get_mut(key)?;
        let unclear = matches!(failure, WriteFailure::Api(_) | WriteFailure::Contested(_));
        let lasts = unclear && target.refusals_mut().fails_for_long(action);
        // An answer that stays the same is a refusal, and a change that is refused is not late.
        let refused = !unclear || lasts && matches!(failure, WriteFailure::Contested(_));
        self.note_failed_journeys(job, !refused);
        let target = self.targets.get_mut(key)?;
        let api = |message: &str| format!("{} {}: {message}", action.kind().kind, action.name());
        // A refused write waits by itself, at most for `longest`, and the rest of the target goes on.
        let (reason, message, longest) = match failure {
            WriteFailure::Throttled(after) => return Some(target.failed(now, after)),
            WriteFailure::Foreign if action.kind().kind == "EndpointSlice" => {
                target.add_taken(action.name());
                return None;
            }
            WriteFailure::Foreign => {
                let message = format!("{} {key} exists and is not ours; it is never touched", action.kind().kind);
                (RejectReason::NameConflict, message, Some(LONGEST_DELAY))
            }
            WriteFailure::NamespaceMissing => {
                let message = format!("namespace {} does not exist, or is being deleted", key.namespace);
                (RejectReason::NamespaceMissing, message, None)
            }
            WriteFailure::Invalid(message) => (RejectReason::Invalid, api(&message), Some(LONGEST_INVALID)),
            WriteFailure::TooLarge(message) => (RejectReason::TooLarge, api(&message), Some(LONGEST_INVALID)),
            WriteFailure::Forbidden(message) => (RejectReason::ApiError, api(&message), Some(LONGEST_DELAY)),
            WriteFailure::Api(message) | WriteFailure::Contested(message) => {
                // A write that keeps failing delays the rest of the target no longer than a refused one.
                (RejectReason::ApiError, api(&message), lasts.then_some(LONGEST_DELAY))
            }
        };
        if let Some(longest) = longest {
            // The next decision reports it, unless something more important has to be reported to the claim.
            target.refusals_mut().note(action, (reason, message), longest, now);
            return None;
        }
        let until = Some(target.failed(now, None));
        // An owner that leads to another target by now is notified about that one.
        let owner = job.owner.iter().filter(|owner| target.claims().contains(owner));
        let concerned: Vec<Claim> = owner.chain(target.leaving()).cloned().collect();
        // A Service that could not be written takes no room from others until the next attempt.
        if target.observed().is_empty() {
            self.set_charged(key, None);
        } else {
            self.charge_existing_only(key);
        }
        for claim in concerned {
            let key = Some(claim.key.clone());
            let reject = Reject { key, reason, retryable: true, message: message.clone() };
            self.report(&claim, Outcome::Rejected(reject));
        }
        until
    }
}
