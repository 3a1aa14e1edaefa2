//! The whole state, and the parts that it consists of. Each part is a type with private fields in a module of its
//! own; the modules below this one are the ways in which the parts act together.

mod accounts;
mod address;
mod admin;
mod agents;
mod answers;
mod apply;
mod compare;
mod configure;
mod decommission;
mod preview;
mod rehearse;
mod routes;
mod status;
mod test_audit;
mod tick;
mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::EndpointsApi;
use gimbal_schedule::Queue;
use gimbal_session::{Outcome, WriterLimits};

pub use address::AddressExplanation;
pub use admin::NotConfirmed;
pub use decommission::{Decommission, DecommissionOrder, Inventory, NotDecommissioned, RemovalState, Withdrawal};
pub use preview::Tally;
pub use rehearse::{PolicyDifference, Rehearsal, RehearsedWrite};
pub use status::{Explanation, ServiceStatus, SyncState};

use crate::batches::Batches;
use crate::cluster::WatchedCluster;
use crate::decide::View;
use crate::desired::Desired;
use crate::doubts::Doubts;
use crate::leadership::LeaseTerm;
use crate::target::Target;
use crate::targets::Targets;
use crate::{Backend, Claim, Counters, GRACE, Output, Urgency};
use compare::Comparison;

/// Settings that do not change while the writer runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which objects hold endpoints.
    pub api: EndpointsApi,
    /// Flow-control window and heartbeat time-out of each stream.
    pub limits: WriterLimits,
    /// How often all targets are compared with the desired state.
    pub comparison_interval: Duration,
}

/// The writer's state. Feed it with what happens, then carry out [`take_outputs`](Self::take_outputs) and
/// [`next_job`](Self::next_job).
#[derive(Debug, Clone)]
pub struct Reconciler {
    settings: Settings,
    /// How long agents have to come back before the loss policy does anything new.
    grace: Duration,
    leadership: LeaseTerm,
    /// What the agents said.
    desired: Desired,
    /// The backends that are objects, each with the UID of its object.
    objects: BTreeMap<BackendName, Arc<str>>,
    /// All targets: who wants each of them, and which objects of it exist.
    targets: Targets,
    /// What the watches showed besides the targets' objects.
    cluster: WatchedCluster,
    queue: Queue<BackendName, TargetKey>,
    batches: Batches,
    doubts: Doubts,
    comparison: Comparison,
    /// The guards have to learn the pending losses of all targets before the next target is decided.
    guard_is_stale: bool,
    /// The latest time on the wall clock.
    wall: SystemTime,
    outputs: Vec<Output>,
    counters: Counters,
}

impl Reconciler {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            desired: Desired::new(settings.api),
            objects: BTreeMap::new(),
            settings,
            grace: GRACE,
            leadership: LeaseTerm::default(),
            targets: Targets::default(),
            cluster: WatchedCluster::default(),
            queue: Queue::default(),
            batches: Batches::default(),
            doubts: Doubts::default(),
            comparison: Comparison::default(),
            guard_is_stale: false,
            wall: SystemTime::UNIX_EPOCH,
            outputs: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Gives agents another time than [`GRACE`] to come back to a writer that begins to lead.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Lets changes of existing slices wait until `period` has passed since the last write of their Service, where most of what is
    /// published as ready stays so. What comes meanwhile is one write. The first change after such a time is written at once.
    #[must_use]
    pub fn with_batch_period(self, period: Duration) -> Self {
        Self { batches: Batches::of(period), ..self }
    }

    /// Begins to lead in an epoch, or stops leading.
    ///
    /// When it begins, everything is decided again. When it stops, every stream ends, and both what the agents said and
    /// the stored states are forgotten: agents talk to another leader now, and acting on what was true before would
    /// undo its work. Call [`restore`](Self::restore) for the stored states each time before it begins.
    pub fn lead(&mut self, epoch: Option<u64>) {
        if epoch == self.leadership.epoch() {
            return;
        }
        if self.leadership.holds_lease() {
            self.end_all_streams("this writer does not lead any more");
            self.forget_desired();
        }
        self.leadership.set_epoch(epoch);
        if self.leadership.holds_lease() {
            for name in self.desired.keys().cloned().collect::<Vec<_>>() {
                self.end_order_of_before(&name);
            }
            self.end_orders_of_other_figures();
            self.guard_is_stale = self.cluster.is_listed();
            self.reconsider_all();
        }
    }

    /// Charges quotas for all existing objects, before any claim asks for room beside them, and enqueues all targets.
    fn reconsider_all(&mut self) {
        if self.cluster.is_listed() {
            self.charge_all_existing();
        }
        self.enqueue_everything();
    }

    fn forget_desired(&mut self) {
        for backend in self.desired.values_mut() {
            // Whoever leads next reads the stored state.
            backend.forget(&self.settings.limits);
        }
        self.cluster.creations().clear();
        self.doubts.clear();
        self.batches.clear();
        self.targets.change_all(Target::forget_desired);
    }

    /// Whether this process leads and does not [stand aside](Self::stand_aside).
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.leadership.holds_lease() && !self.leadership.is_aside()
    }

    /// Returns everything that the caller has to carry out and that no earlier call returned.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        self.take_outputs_within(|_| usize::MAX)
    }

    /// Returns what [`take_outputs`](Self::take_outputs) does, with at most `room(generation)` of the messages that wait
    /// for the agent of each stream. The others are returned by later calls.
    pub fn take_outputs_within(&mut self, room: impl Fn(u64) -> usize) -> Vec<Output> {
        let (outputs, wall) = (&mut self.outputs, self.wall);
        self.desired.drain_changed(|backend| {
            backend.keep_window(wall, outputs);
            let generation = backend.generation();
            for message in backend.end_mut().take_messages_within(room(generation)) {
                outputs.push(Output::Send { backend: backend.name().clone(), generation, message });
            }
            backend.end().has_more()
        });
        std::mem::take(&mut self.outputs)
    }

    /// Returns the totals for metrics.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the backends, by name.
    #[must_use]
    pub fn backends(&self) -> &BTreeMap<BackendName, Backend> {
        self.desired.all()
    }

    /// Returns how many targets wait or are being written.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queue.len() + self.queue.in_flight()
    }

    /// Returns, for each backend, how many targets in its turn may still have something to write.
    pub fn pending_by_backend(&mut self) -> BTreeMap<BackendName, u64> {
        let targets = &mut self.targets;
        self.desired.keys().map(|name| (name.clone(), targets.pending(name.as_str()))).collect()
    }

    /// Returns how many targets are being written.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// Returns how long ago the oldest change of an agent came that is neither written, nor held, nor rejected. One that
    /// the API server failed to write, and that is tried again, waits on.
    #[must_use]
    pub fn oldest_pending(&self, now: Instant) -> Option<Duration> {
        let oldest = self.desired.values().filter_map(Backend::waits_since).min()?;
        Some(now.saturating_duration_since(oldest))
    }

    /// Returns when the queue has something to decide without new input. [`tick`](Self::tick) has to be called anyway.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline()
    }

    /// Returns read access to everything that decisions depend on.
    fn view(&self) -> View<'_> {
        View::new(&self.desired, &self.targets, &self.cluster)
    }

    fn enqueue(&mut self, key: &TargetKey, backend: &BackendName, urgency: Urgency) {
        self.mark_dirty(key, urgency);
        self.queue.push(key, backend, urgency);
    }

    /// Marks a target as one that may differ from the desired state.
    fn mark_dirty(&mut self, key: &TargetKey, urgency: Urgency) {
        if let Some(target) = self.targets.get_mut(key) {
            target.set_converged(false);
            if urgency == Urgency::Fresh {
                target.forget_failures();
            }
        }
    }

    /// Enqueues every target under the backend that it belongs to, if there is one.
    fn enqueue_everything(&mut self) {
        let all: Vec<(TargetKey, BackendName)> =
            self.targets.iter().filter_map(|(key, target)| Some((key.clone(), self.backend_of(target)?))).collect();
        for (key, backend) in all {
            self.enqueue(&key, &backend, Urgency::Bulk);
        }
    }

    /// Returns the backend in whose turn a target waits in the queue: its owner's, a claimant's, or the one that its
    /// objects name.
    fn backend_of(&self, target: &Target) -> Option<BackendName> {
        match target.first_claim() {
            Some(claim) => Some(claim.backend.clone()),
            None => target.observed().owner().and_then(|(label, _)| self.desired.name(label)).cloned(),
        }
    }

    /// Reports the outcome of a change to the backend's agent, and that the status of its Service may have changed.
    fn report(&mut self, claim: &Claim, outcome: Outcome) {
        if let Some(backend) = self.desired.get_mut(&claim.backend) {
            if let Some((journey, end)) = backend.settle_journey(&claim.key, &outcome) {
                let traced = journey.trace.map(|_| claim.key.clone());
                self.outputs.push(Output::Settled { backend: claim.backend.clone(), end, journey, traced });
            }
            backend.end_mut().settle(&claim.key, outcome);
        }
        self.outputs.push(Output::Touched(claim.clone()));
    }
}
