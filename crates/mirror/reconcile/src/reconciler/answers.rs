//! How writes ended, and what follows.

use std::time::{Duration, Instant};

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Body, Told};
use gimbal_session::{Outcome, Reject, RejectReason};

use crate::job::Closing;
use crate::target::LONGEST_DELAY;
use crate::{Claim, Job, Output, Reconciler, Urgency, WriteFailure, Written};

/// Longest wait after the API server said that an object is not valid: that changes when somebody changes a webhook.
const LONGEST_INVALID: Duration = Duration::from_secs(300);
/// From so many jobs in a row that met a conflict on, it is told. Those before are tried again at once with what was found:
/// somebody else changed an object meanwhile.
const CONFLICTS: u32 = 3;
/// What is told then, in words of ours: the server's own may be about others.
const CONFLICT: &str = "the API server answers 409 time and again: something changes the object all the time, or a quota, a webhook or a proxy is against it";
/// How long to wait where a create found what counts as gone, so that it does not find it over and over.
const FOUND_DELAY: Duration = Duration::from_secs(1);

impl Reconciler {
    /// The writes of a job ended: `written` has one answer for each action, in order.
    pub fn finish(&mut self, job: &Job, written: Vec<Written>, now: Instant) {
        let key = &job.target;
        let mut retry: Option<Instant> = None;
        // Each is noticed once: now, or when the watch brought it before.
        let (mut as_sent, mut ours) = (0, 0);
        // What is answered was asked after all that is held was known, if nothing came since.
        let told = if self.queue.noticed(key) == 0 { Told::Last } else { Told::InAnyOrder };
        let mut conflicts = self.count_conflicts(job, &written);
        for (action, written) in job.actions.iter().zip(written) {
            // What a list of the kind, which began meanwhile, shows or does not show was there after the write, or its
            // watch tells of the write. The answer may even be of a store that is no more.
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
                    if let Some(target) = self.targets.get_mut(key).filter(|target| !target.refusals.is_empty()) {
                        target.refusals.forget(action);
                    }
                    as_sent += usize::from(self.is_as_sent(key, action, &body) && self.holds(key, &body));
                    if let (Body::Service(_), Some(owner), Some(target)) =
                        (&body, &job.owner, self.targets.get_mut(key))
                    {
                        target.owner = Some(owner.clone());
                    }
                    None
                }
                Written::Found(body) => {
                    self.observe_body(&body, told, now);
                    (!self.holds(key, &body)).then(|| now + FOUND_DELAY)
                }
                Written::Conflict { there } => {
                    self.observe_body(&there, told, now);
                    // Of many in one job one is told: the next try is of all of them.
                    let failure = conflicts.take().map(|message| WriteFailure::Api(message.into()));
                    failure.and_then(|failure| self.failed(job, action, failure, now))
                }
                Written::Gone => {
                    if let Some(target) = self.targets.get_mut(key).filter(|target| !target.refusals.is_empty()) {
                        target.refusals.forget(action);
                    }
                    self.observe_gone(key, action, now);
                    None
                }
            };
            retry = retry.max(wait);
        }
        let others = self.queue.noticed(key) > ours;
        let target = self.targets.get(key);
        let wanted = target.zip(job.owner.as_ref()).is_some_and(|(target, owner)| target.claims.contains(owner));
        let closing = job.closing.as_ref().filter(|_| wanted && as_sent == job.actions.len() && !others);
        let backend = self.targets.get(key).and_then(|target| self.backend_of(target));
        match (backend, retry, closing) {
            (Some(backend), Some(until), _) if !others => self.queue.push_later(key, &backend, until),
            // The next phase, or the look that finds nothing left to do.
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

    /// Whether the very version that was answered is held: neither was an edit after it seen before it.
    fn holds(&self, key: &TargetKey, answer: &Body) -> bool {
        let name = matches!(answer, Body::Slice(_)).then(|| &*answer.meta().name);
        self.targets.get(key).is_some_and(|target| target.holds_version(answer.kind(), name, answer.meta()))
    }

    /// What was decided is written, and nothing came meanwhile: there is nothing to decide anew.
    fn close(&mut self, key: &TargetKey, owner: &Claim, closing: &Closing, now: Instant) {
        if let Some(target) = self.targets.get_mut(key) {
            target.owner = Some(owner.clone());
        }
        self.reject_other_claims(key, Some(owner));
        self.converge(key, Some(owner), false, closing.partly.clone(), now);
    }

    /// Whether the answer is what was sent. Rule 6: where it differs, it counts as what we wanted until either side changes.
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
        if target.observed.accept(sent.kind(), sent.name(), sent_form, answer_form) {
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

    /// Counts jobs in a row that met a conflict. What to tell, if it is time; until then it is tried again at once, with what
    /// was found.
    fn count_conflicts(&mut self, job: &Job, written: &[Written]) -> Option<&'static str> {
        let target = self.targets.get_mut(&job.target)?;
        // One that a list has overtaken says nothing of what is there now.
        let counts = |action: &Action| !self.cluster.list_began_since(job.lists, action.kind());
        let mut answers = job.actions.iter().zip(written);
        if answers.any(|(action, written)| matches!(written, Written::Conflict { .. }) && counts(action)) {
            target.conflicts = target.conflicts.saturating_add(1);
            return (target.conflicts >= CONFLICTS).then_some(CONFLICT);
        }
        if written.iter().any(|written| written.is_there() || *written == Written::Gone) {
            target.conflicts = 0;
        }
        None
    }

    /// Returns when to try again.
    fn failed(&mut self, job: &Job, action: &Action, failure: WriteFailure, now: Instant) -> Option<Instant> {
        let key = &job.target;
        let target = self.targets.get_mut(key)?;
        let api = |message: &str| format!("{} {}: {message}", action.kind().kind, action.name());
        // What is refused waits by itself, and the rest of the target goes on: `longest` says for how long at most.
        let (reason, message, longest) = match failure {
            WriteFailure::Throttled(after) => return Some(target.failed(now, after)),
            WriteFailure::Foreign if action.kind().kind == "EndpointSlice" => {
                target.taken.insert(action.name().to_string());
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
            WriteFailure::Api(message) => {
                // What fails time and again keeps the rest no longer than what is refused.
                let longest = target.refusals.fails_for_long(action).then_some(LONGEST_DELAY);
                (RejectReason::ApiError, api(&message), longest)
            }
        };
        if let Some(longest) = longest {
            // The look that comes next tells why, once it is clear that there is nothing to be told before that.
            target.refusals.note(action, (reason, message), longest, now);
            return None;
        }
        let until = Some(target.failed(now, None));
        // An owner that leads elsewhere by now hears of that place.
        let owner = job.owner.iter().filter(|owner| target.claims.contains(owner));
        let concerned: Vec<Claim> = owner.chain(&target.leaving).cloned().collect();
        // What could not be written takes no room from others while it is tried again.
        if target.observed.is_empty() {
            self.set_charged(key, None);
        } else {
            self.charge_existing_only(key);
        }
        for claim in concerned {
            let key = Some(claim.key.clone());
            let reject = Reject { key, reason, retryable: true, message: message.clone() };
            self.settle(&claim, Outcome::Rejected(reject));
        }
        until
    }
}
