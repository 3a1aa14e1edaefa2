//! What is lost, held, drained or removed.

use std::time::Instant;

use gimbal_plan::{GuardEvent, Release};
use gimbal_reconcile::{Reconciler, Stage};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

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

type Seconds = Gauge<f64, std::sync::atomic::AtomicU64>;

#[derive(Debug, Default)]
pub(super) struct LossMetrics {
    lost: Family<Labels, Seconds>,
    disconnected: Family<Labels, Seconds>,
    silent: Family<Labels, Gauge>,
    stage: Family<Staged, Gauge>,
    stages: Family<Staged, Counter>,
    drained: Family<Labels, Gauge>,
    holds: Family<Labels, Counter>,
    released: Family<Released, Counter>,
    decommissioning: Family<Labels, Gauge>,
}

impl LossMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_with_unit(
            "backend_lost",
            "For how long the backend has been lost, by its connection or its source; 0: it is not",
            Unit::Seconds,
            metrics.lost.clone(),
        );
        registry.register_with_unit(
            "backend_disconnected",
            "For how long no agent of the backend has been connected; 0: one is",
            Unit::Seconds,
            metrics.disconnected.clone(),
        );
        registry.register(
            "backend_source_silent",
            "Whether an agent is connected whose source counts as lost (onLoss.sourceStaleAfter)",
            metrics.silent.clone(),
        );
        registry.register(
            "backend_loss_stage",
            "1 for what is made of the backend's loss now: hold, not-ready or drained",
            metrics.stage.clone(),
        );
        registry.register("backend_loss_stages", "How often a stage was entered", metrics.stages.clone());
        registry.register(
            "backend_drained_endpoints",
            "Endpoints that were removed because the backend was lost (onLoss.drainAfter), since the process started",
            metrics.drained.clone(),
        );
        registry.register("backend_guard_holds", "Holds of the mass-change guard", metrics.holds.clone());
        registry.register(
            "backend_guard_released_endpoints",
            "Endpoints whose removal the mass-change guard held and let through, by why",
            metrics.released.clone(),
        );
        registry.register(
            "backend_decommissioning",
            "Whether the backend is being removed",
            metrics.decommissioning.clone(),
        );
        metrics
    }

    /// A stage was entered.
    pub(super) fn entered(&self, backend: &str, stage: Stage) {
        let labels = Staged { backend: backend.to_owned(), stage: stage.as_str() };
        self.stages.get_or_create_owned(&labels).inc();
    }

    /// The guard of a backend did something.
    pub(super) fn guarded(&self, backend: &str, event: &GuardEvent) {
        let backend = backend.to_owned();
        match event {
            GuardEvent::Held(_) => {
                self.holds.get_or_create_owned(&Labels { backend }).inc();
            }
            GuardEvent::Released { endpoints, by, .. } => {
                let by = match by {
                    Release::Snapshot => "snapshot",
                    Release::Approval => "approval",
                    Release::Age => "age",
                };
                self.released.get_or_create_owned(&Released { backend, by }).inc_by(*endpoints);
            }
            GuardEvent::Ended { .. } | GuardEvent::SnapshotWanted { .. } => {}
        }
    }

    pub(super) fn show(&self, reconciler: &Reconciler) {
        let now = Instant::now();
        // A backend that was decommissioned is not shown any more.
        self.stage.clear();
        self.decommissioning.clear();
        for (name, backend) in reconciler.backends() {
            let labels = Labels { backend: name.to_string() };
            let seconds = |age: Option<std::time::Duration>| age.unwrap_or_default().as_secs_f64();
            self.lost.get_or_create_owned(&labels).set(seconds(backend.loss.lost_for(now)));
            self.disconnected.get_or_create_owned(&labels).set(seconds(backend.loss.disconnected_for(now)));
            self.silent.get_or_create_owned(&labels).set(i64::from(backend.loss.is_stale()));
            self.drained.get_or_create_owned(&labels).set(signed(backend.drained));
            self.decommissioning.get_or_create_owned(&labels).set(i64::from(backend.decommission.is_some()));
            for stage in [Stage::Hold, Stage::NotReady, Stage::Drained] {
                let labels = Staged { backend: name.to_string(), stage: stage.as_str() };
                self.stage.get_or_create_owned(&labels).set(i64::from(backend.loss.stage() == stage));
            }
        }
    }
}
