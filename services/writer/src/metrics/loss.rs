//! What is lost, held, drained or removed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gimbal_plan::{GuardEvent, Release};
use gimbal_reconcile::{Backend, Stage};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};

use super::series::{Counts, Events, OfBackend, Seconds};
use super::signed;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    backend: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Staged {
    backend: String,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Released {
    backend: String,
    by: &'static str,
}

impl OfBackend for Labels {
    fn backend(&self) -> &str {
        &self.backend
    }
}

impl OfBackend for Staged {
    fn backend(&self) -> &str {
        &self.backend
    }
}

impl OfBackend for Released {
    fn backend(&self) -> &str {
        &self.backend
    }
}

#[derive(Debug, Default)]
pub(super) struct LossMetrics {
    lost: Seconds<Labels>,
    disconnected: Seconds<Labels>,
    silent: Counts<Labels>,
    stage: Counts<Staged>,
    stages: Events<Staged, Counter>,
    /// The older name of the next one, of another type.
    drained: Counts<Labels>,
    endpoints_drained: Events<Labels, Counter>,
    holds: Events<Labels, Counter>,
    released: Events<Released, Counter>,
    decommissioning: Counts<Labels>,
}

impl LossMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_with_unit(
            "backend_lost",
            "For how long the backend has been lost, by its connection or its source; 0: it is not",
            Unit::Seconds,
            metrics.lost.family(),
        );
        registry.register_with_unit(
            "backend_disconnected",
            "For how long no agent of the backend has been connected; 0: one is",
            Unit::Seconds,
            metrics.disconnected.family(),
        );
        registry.register(
            "backend_source_silent",
            "Whether an agent is connected whose source counts as lost (onLoss.sourceStaleAfter)",
            metrics.silent.family(),
        );
        registry.register(
            "backend_loss_stage",
            "1 for what is made of the backend's loss now: hold, not-ready or drained",
            metrics.stage.family(),
        );
        registry.register("backend_loss_stages", "How often a stage was entered", metrics.stages.family());
        registry.register(
            "backend_drained_endpoints",
            "As gimbal_writer_backend_endpoints_drained_total, which is a counter",
            metrics.drained.family(),
        );
        registry.register(
            "backend_endpoints_drained",
            "Endpoints that were removed because the backend was lost (onLoss.drainAfter)",
            metrics.endpoints_drained.family(),
        );
        registry.register("backend_guard_holds", "Holds of the mass-change guard", metrics.holds.family());
        registry.register(
            "backend_guard_released_endpoints",
            "Endpoints whose removal the mass-change guard held and let through, by why",
            metrics.released.family(),
        );
        registry.register(
            "backend_decommissioning",
            "Whether the backend is being removed",
            metrics.decommissioning.family(),
        );
        metrics
    }

    /// A stage was entered.
    pub(super) fn entered(&self, backend: &str, stage: Stage) {
        let labels = Staged { backend: backend.to_owned(), stage: stage.as_str() };
        self.stages.of_labels(labels).inc();
    }

    /// The guard of a backend did something.
    pub(super) fn guarded(&self, backend: &str, event: &GuardEvent) {
        let backend = backend.to_owned();
        match event {
            GuardEvent::Held(_) => {
                self.holds.of_labels(Labels { backend }).inc();
            }
            GuardEvent::Released { endpoints, by, .. } => {
                let by = match by {
                    Release::Snapshot => "snapshot",
                    Release::Approval => "approval",
                    Release::Age => "age",
                };
                self.released.of_labels(Released { backend, by }).inc_by(*endpoints);
            }
            GuardEvent::Ended { .. } | GuardEvent::SnapshotWanted { .. } => {}
        }
    }

    /// Of a backend that the configuration does not name, no loss is told: nobody waits for it.
    pub(super) fn show(&self, backends: &[&Backend], is_known: impl Fn(&str) -> bool) {
        let now = Instant::now();
        let labels = |backend: &Backend| Labels { backend: backend.name.to_string() };
        let listed = || backends.iter().filter(|backend| backend.listed);
        let seconds = |age: Option<Duration>| age.unwrap_or_default().as_secs_f64();
        self.lost.show(listed().map(|backend| (labels(backend), seconds(backend.loss.lost_for(now)))));
        self.disconnected.show(listed().map(|backend| (labels(backend), seconds(backend.loss.disconnected_for(now)))));
        self.silent.show(listed().map(|backend| (labels(backend), i64::from(backend.loss.is_stale()))));
        self.stage.show(listed().flat_map(|backend| {
            let is = |stage| i64::from(backend.loss.stage() == stage);
            let staged = |stage: Stage| Staged { backend: backend.name.to_string(), stage: stage.as_str() };
            [Stage::Hold, Stage::NotReady, Stage::Drained].map(|stage| (staged(stage), is(stage)))
        }));
        self.drained.show(backends.iter().map(|backend| (labels(backend), signed(backend.drained))));
        for backend in backends {
            let counter = self.endpoints_drained.of_labels(labels(backend));
            counter.inner().store(backend.drained, Ordering::Relaxed);
        }
        let going = |backend: &&Backend| (labels(backend), i64::from(backend.decommission.is_some()));
        self.decommissioning.show(backends.iter().map(going));
        self.stages.keep(&is_known);
        self.endpoints_drained.keep(&is_known);
        self.holds.keep(&is_known);
        self.released.keep(&is_known);
    }
}
