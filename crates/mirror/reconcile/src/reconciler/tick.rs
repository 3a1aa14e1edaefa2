//! What becomes due with time, and what follows when a backend's state is stored.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use gimbal_guard::GuardEvent;
use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::Count;

use crate::{BackendState, Output, Policy, Reconciler, Urgency};

impl Reconciler {
    /// Restores the stored state of a backend, before this process leads. `wall` is the wall clock's time.
    pub fn restore(&mut self, name: &BackendName, state: BackendState, now: Instant, wall: SystemTime) {
        self.wall = wall;
        if !self.desired.contains_key(name) {
            self.put_backend(name, Policy::default(), false, now);
        }
        let targets = &self.targets;
        if let Some(backend) = self.desired.get_mut(name) {
            let counted = |key: &TargetKey| targets.get(key).filter(|target| target.counted_for() == Some(name));
            let settled = |key: &TargetKey| counted(key).map_or_else(Count::default, |target| target.settled());
            if backend.restore(state, settled, now, wall) {
                backend.keep(&mut self.outputs);
            }
        }
    }

    /// Takes over a backend whose stored state must not be used, because a newer writer stored it; `why` is for people. Of that
    /// state only the incarnation is in force. Nothing of the backend is removed, lost or not, until a state of this writer can
    /// be stored.
    pub fn restore_withheld(
        &mut self,
        name: &BackendName,
        incarnation: Option<String>,
        why: &str,
        now: Instant,
        wall: SystemTime,
    ) {
        self.restore(name, BackendState { incarnation, ..BackendState::default() }, now, wall);
        if let Some(backend) = self.desired.get_mut(name) {
            backend.withhold(why, &mut self.outputs);
        }
    }

    /// Counts the silence of every agent from `now`, and gives those that are away as long to come back as to a new leader
    /// (docs/design.md#rule-5). Called when this process was stopped for a while: what the agents sent meanwhile waits to
    /// be received, and so they are not the ones that were silent or away.
    pub fn excuse_silence(&mut self, now: Instant) {
        for backend in self.desired.values_mut() {
            backend.end_mut().excuse_silence(now);
            backend.loss_mut().begin_grace();
        }
    }

    /// Handles what becomes due: time-outs of streams, released removals, losses, the comparison. Call it about every
    /// 100 ms.
    pub fn tick(&mut self, now: Instant, wall: SystemTime) {
        self.wall = wall;
        let observed = self.cluster.is_listed() && !self.guard_is_stale;
        let names: Vec<BackendName> = self.desired.keys().cloned().collect();
        for name in names {
            let Some(backend) = self.desired.get_mut(&name) else { continue };
            let goes = backend.is_being_decommissioned();
            let outputs = if backend.is_connected() { backend.end_mut().tick(now) } else { Vec::new() };
            if observed && backend.end().is_complete() {
                backend.guards_mut().all_is_known(now);
            }
            let events = backend.guards_mut().tick(now);
            let (mut decide_anew, mut wanted) = (false, false);
            for event in events {
                match &event {
                    GuardEvent::SnapshotWanted { .. } => wanted = true,
                    GuardEvent::Held(_) | GuardEvent::Ended { .. } | GuardEvent::Released { .. } => decide_anew = true,
                }
                self.outputs.push(Output::Guard { backend: name.clone(), event });
            }
            if wanted {
                self.ask_for_held(&name);
            }
            if self.leadership.holds_lease() {
                decide_anew |= !self.leadership.is_aside() && self.follow_loss(&name, now);
                self.keep_news(&name, now);
                if goes {
                    self.follow_decommission(&name, now);
                    self.end_decommission(&name, now);
                }
            }
            if decide_anew {
                self.enqueue_backend(&name);
            }
            self.carry_out(&name, outputs, Urgency::Bulk, now);
        }
        for target in self.doubts.over(now) {
            self.end_doubt(&target, now);
        }
        self.serve_waiting();
        self.retry_namespaces(now);
        self.compare_some(now);
    }

    /// The outcome of a write is visible by now: what it was permitted to remove is no longer under way.
    fn end_doubt(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return self.doubts.forget(key) };
        let stands = self.doubts.are_of(key, target.observed(), now);
        if !stands && !self.queue.is_in_flight(key) && target.has_converged() {
            self.recount(key, now);
            self.update_guard(key, now);
        }
    }

    /// Updates the loss of a backend. Returns whether all of its targets have to be decided again.
    fn follow_loss(&mut self, name: &BackendName, now: Instant) -> bool {
        let grace = self.grace;
        let Some(backend) = self.desired.get_mut(name) else { return false };
        if !backend.is_listed() || backend.is_being_decommissioned() || backend.withheld().is_some() {
            // The objects of a backend that is not configured stay as they are, and those of one whose loss is not known.
            backend.budgets_mut().forget_loss();
            return false;
        }
        let before = backend.loss().stage();
        let stage = backend.observe_loss(grace, now, self.wall);
        if stage == before {
            return false;
        }
        let lost_for = backend.loss().lost_for(now).unwrap_or_default();
        self.outputs.push(Output::Loss { backend: name.clone(), stage, lost_for });
        true
    }

    /// Gives a backend's state to be stored, if it changed.
    fn keep_news(&mut self, name: &BackendName, now: Instant) {
        let Some(backend) = self.desired.get_mut(name) else { return };
        // The records of another writer's backend are stored by that writer.
        if backend.is_listed() {
            backend.guards_mut().note(now);
        }
        if backend.put_loss_and_holds(now, self.wall) {
            backend.keep(&mut self.outputs);
        }
    }

    /// Gives all states to be stored again, because the stored ones may be outdated.
    pub fn keep_all(&mut self) {
        let leads = self.leadership.holds_lease();
        for backend in self.desired.values_mut().filter(|_| leads) {
            if backend.has_stored_state() {
                backend.keep(&mut self.outputs);
            }
        }
    }

    /// The state of an [`Output::Keep`] is stored, and all that were given before it.
    pub fn kept(&mut self, name: &BackendName, version: u64, now: Instant) {
        let Some(backend) = self.desired.get_mut(name) else { return };
        backend.store_version(version);
        let withheld = backend.end_withholding();
        for target in backend.guards_mut().stored(version) {
            self.enqueue(&target, name, Urgency::Fresh);
        }
        if withheld {
            self.enqueue_backend(name);
        }
        self.begin_decommission(name, now);
    }

    /// Requests a missing namespace, if the backend's policy allows that and it was not requested recently. Like any
    /// other change, that counts against the backend's rate limit.
    pub(super) fn request_namespace(&mut self, namespace: &Arc<str>, backend: &BackendName, now: Instant) {
        let creates = self.desired.get(backend).is_some_and(|backend| backend.policy().namespaces.create);
        if creates && self.cluster.creations().request(namespace) {
            self.queue.spend(backend, now);
            self.outputs.push(Output::CreateNamespace { namespace: namespace.clone(), backend: backend.clone() });
        }
    }

    /// Takes the answer to [`Output::CreateNamespace`]. That the namespace exists is only known once the watch shows
    /// it.
    pub fn namespace_created(&mut self, namespace: &str, answer: Result<(), String>, now: Instant) {
        if self.cluster.creations().answered(namespace, answer, now) {
            // The Services that wait for it are notified of the problem.
            self.enqueue_namespace(&namespace.into());
        }
    }

    /// Enqueues the targets of missing namespaces that are to be requested again.
    fn retry_namespaces(&mut self, now: Instant) {
        for namespace in self.cluster.creations().take_due(now) {
            if self.enqueue_namespace(&namespace) == 0 {
                self.cluster.creations().remove(&namespace);
            }
        }
    }
}
