//! How writes ended, and what follows.

use std::time::{Duration, Instant};

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Action, Body};
use gimbal_stream::{Outcome, Reject, RejectReason};

use crate::job::Closing;
use crate::observe::is_known;
use crate::target::LONGEST_DELAY;
use crate::{Claim, Job, Output, Reconciler, Urgency, WriteFailure, Written};

/// Longest wait after the API server said that an object is not valid: that changes when somebody changes a webhook.
const LONGEST_INVALID: Duration = Duration::from_secs(300);
/// How long to wait for the watch to bring what a conflict was about.
const CONFLICT_DELAY: Duration = Duration::from_secs(1);

impl Reconciler {
    /// The writes of a job ended: `written` has one answer for each action, in order.
    pub fn finish(&mut self, job: &Job, written: Vec<Written>, now: Instant) {
        let key = &job.target;
        let mut retry: Option<Instant> = None;
        // Each is noticed once: now, or when the watch brought it before.
        let (mut as_sent, mut ours) = (0, 0);
        // A list that began meanwhile may not name what was written because it is gone already, and no event will tell. If
        // it is there, the list or the watch after it brings it.
        let overtaken = self.relists.begun != job.lists;
        for (action, written) in job.actions.iter().zip(written) {
            let wait = match written {
                Written::Answered(_) | Written::Found(_) if overtaken => None,
                Written::Answered(body) => {
                    self.observe(&body, now);
                    ours += 1;
                    as_sent += usize::from(self.is_as_sent(key, action, &body) && self.holds(key, &body));
                    if let (Body::Service(_), Some(owner), Some(target)) =
                        (&body, &job.owner, self.targets.get_mut(key))
                    {
                        target.owner = Some(owner.clone());
                    }
                    None
                }
                Written::Found(body) => {
                    self.observe(&body, now);
                    None
                }
                Written::Gone => {
                    self.observe_gone(key, action, now);
                    None
                }
                Written::NotSent => Some(now),
                Written::Failed(failure) => self.failed(job, action, failure, now),
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
        let more = self.queue.done(key);
        if let (false, Some(closing), Some(owner)) = (more, closing, &job.owner) {
            self.close(key, owner, closing, now);
        }
        self.drop_if_idle(key, now);
    }

    /// Whether the very version that was answered is held: neither was an edit after it seen before it.
    fn holds(&self, key: &TargetKey, answer: &Body) -> bool {
        let name = matches!(answer, Body::Slice(_)).then(|| &*answer.meta().name);
        self.targets.get(key).is_some_and(|target| is_known(target, answer.kind(), name, answer.meta()))
    }

    /// What was decided is written, and nothing came meanwhile: there is nothing to decide anew.
    fn close(&mut self, key: &TargetKey, owner: &Claim, closing: &Closing, now: Instant) {
        self.give(key, owner, true);
        self.converge(key, Some(owner), false, closing.partly.clone(), now);
    }

    /// Whether the answer is what was sent. Rule 6: where it differs, it counts as what we wanted until either side changes.
    fn is_as_sent(&mut self, key: &TargetKey, action: &Action, answer: &Body) -> bool {
        let (Action::Create(sent) | Action::Replace(sent)) = action else { return false };
        if sent.is_same(answer) {
            return true;
        }
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

    fn observe(&mut self, body: &Body, now: Instant) {
        match body {
            Body::Service(service) => self.service_is(service, now),
            Body::Endpoints(endpoints) => self.endpoints_is(endpoints, now),
            Body::Slice(slice) => self.slice_is(slice, now),
        }
    }

    fn observe_gone(&mut self, key: &TargetKey, action: &Action, now: Instant) {
        let (uid, version) = match action {
            Action::Delete { uid, resource_version, .. } => (uid, resource_version),
            Action::Create(body) | Action::Replace(body) | Action::Patch(body) => {
                (&body.meta().uid, &body.meta().resource_version)
            }
        };
        self.gone(action.kind(), key, action.name(), uid, version, now);
    }

    /// Returns when to try again.
    fn failed(&mut self, job: &Job, action: &Action, failure: WriteFailure, now: Instant) -> Option<Instant> {
        let key = &job.target;
        let target = self.targets.get_mut(key)?;
        let api = |message: &str| format!("{} {}: {message}", action.kind().kind, action.name());
        let (reason, message, until) = match failure {
            WriteFailure::Conflict => return Some(now + CONFLICT_DELAY),
            WriteFailure::Throttled(after) => {
                return Some(target.failed(now, LONGEST_DELAY, after));
            }
            WriteFailure::Foreign if action.kind().kind == "EndpointSlice" => {
                target.taken.insert(action.name().to_string());
                return None;
            }
            WriteFailure::Foreign => {
                let message = format!("{} {key} exists and is not ours; it is never touched", action.kind().kind);
                (RejectReason::NameConflict, message, target.failed(now, LONGEST_DELAY, None))
            }
            WriteFailure::NamespaceMissing => {
                let message = format!("namespace {} does not exist, or is being deleted", key.namespace);
                (RejectReason::NamespaceMissing, message, target.failed(now, LONGEST_DELAY, None))
            }
            WriteFailure::Invalid(message) => {
                (RejectReason::Invalid, api(&message), target.failed(now, LONGEST_INVALID, None))
            }
            WriteFailure::TooLarge(message) => {
                (RejectReason::TooLarge, api(&message), target.failed(now, LONGEST_INVALID, None))
            }
            WriteFailure::Api(message) => {
                (RejectReason::ApiError, api(&message), target.failed(now, LONGEST_DELAY, None))
            }
        };
        // An owner that leads elsewhere by now hears of that place.
        let owner = job.owner.iter().filter(|owner| target.claims.contains(owner));
        let concerned: Vec<Claim> = owner.chain(&target.leaving).cloned().collect();
        // What could not be written takes no room from others while it is tried again.
        if target.observed.is_empty() {
            self.set_charged(key, None);
        } else {
            self.charge_what_stands(key);
        }
        for claim in concerned {
            let key = Some(claim.key.clone());
            let reject = Reject { key, reason, retryable: true, message: message.clone() };
            self.settle(&claim, Outcome::Rejected(reject));
        }
        Some(until)
    }

    /// Lets a held removal pass. Returns how many Services it was about; `None` if there is no such removal.
    pub fn approve(&mut self, name: &BackendName, id: &str) -> Option<u64> {
        // The guard tells of it at the next tick, and everything of the backend is decided anew.
        let guard = &mut self.backends.get_mut(name)?.guard;
        let services = guard.held_targets().count() as u64;
        guard.approve(id).map(|_| services)
    }

    /// Lets a backend's name belong to another source. Returns the source that it belonged to.
    ///
    /// # Errors
    /// When the backend is not known, in a sentence.
    pub fn confirm_incarnation(&mut self, name: &BackendName, incarnation: &str) -> Result<Option<String>, String> {
        let backend = self.backends.get_mut(name).ok_or_else(|| format!("backend {name} is not configured"))?;
        let previous = backend.state.incarnation.replace(incarnation.to_owned());
        backend.refused_incarnation = None;
        backend.keep(&mut self.outputs);
        Ok(previous)
    }

    /// When something becomes due without new input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline()
    }
}
