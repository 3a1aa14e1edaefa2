//! Metrics of loss, holds, draining and decommissioning.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gimbal_guard::{GuardEvent, Release};
use gimbal_reconcile::{Backend, Stage};
use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;

use super::series::{BackendSeries, Counts, OfBackend, Seconds};
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

metrics_table! {
    /// What is lost, held, drained or removed, by backend.
    pub(super) struct LossMetrics("gimbal_writer") {
        lost: Seconds<Labels>, "backend_lost" ["backend"] seconds,
            "For how long the backend has been lost, by its connection or its source; 0: it is not";
        disconnected: Seconds<Labels>, "backend_disconnected" ["backend"] seconds,
            "For how long no agent of the backend has been connected; 0: one is";
        silent: Counts<Labels>, "backend_source_silent" ["backend"],
            "Whether an agent is connected whose source counts as lost (onLoss.sourceStaleAfter)";
        stage: Counts<Staged>, "backend_loss_stage" ["backend", "stage"],
            "1 for what is made of the backend's loss now: hold, not-ready or drained";
        stages: BackendSeries<Staged, Counter>, "backend_loss_stages" ["backend", "stage"],
            "How often a stage was entered";
        drained: Counts<Labels>, "backend_drained_endpoints" ["backend"],
            "As gimbal_writer_backend_endpoints_drained_total, which is a counter";
        endpoints_drained: BackendSeries<Labels, Counter>, "backend_endpoints_drained" ["backend"],
            "Endpoints that were removed because the backend was lost (onLoss.drainAfter)";
        holds: BackendSeries<Labels, Counter>, "backend_guard_holds" ["backend"],
            "Holds of the mass-change guard";
        released: BackendSeries<Released, Counter>, "backend_guard_released_endpoints" ["backend", "by"],
            "Endpoints whose removal the mass-change guard held and let through, by why";
        decommissioning: Counts<Labels>, "backend_decommissioning" ["backend"],
            "Whether the backend is being removed";
    }
}

impl LossMetrics {
    /// Records that a backend entered a loss stage.
    pub(super) fn entered(&self, backend: &str, stage: Stage) {
        let labels = Staged { backend: backend.to_owned(), stage: stage.as_str() };
        self.stages.of_labels(labels).inc();
    }

    /// Records an event of a backend's guard.
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

    /// Sets the metrics. How long a backend has been lost, and its stage, are set for configured backends only, because
    /// others are not expected to connect.
    pub(super) fn show(&self, backends: &[&Backend], is_known: impl Fn(&str) -> bool) {
        let now = Instant::now();
        let labels = |backend: &Backend| Labels { backend: backend.name().to_string() };
        let listed = || backends.iter().filter(|backend| backend.is_listed());
        let seconds = |age: Option<Duration>| age.unwrap_or_default().as_secs_f64();
        self.lost.show(listed().map(|backend| (labels(backend), seconds(backend.loss().lost_for(now)))));
        self.disconnected
            .show(listed().map(|backend| (labels(backend), seconds(backend.loss().disconnected_for(now)))));
        self.silent.show(listed().map(|backend| (labels(backend), i64::from(backend.loss().is_stale()))));
        self.stage.show(listed().flat_map(|backend| {
            let is = |stage| i64::from(backend.loss().stage() == stage);
            let staged = |stage: Stage| Staged { backend: backend.name().to_string(), stage: stage.as_str() };
            [Stage::Hold, Stage::NotReady, Stage::Drained].map(|stage| (staged(stage), is(stage)))
        }));
        self.drained.show(backends.iter().map(|backend| (labels(backend), signed(backend.drained()))));
        for backend in backends {
            let counter = self.endpoints_drained.of_labels(labels(backend));
            counter.inner().store(backend.drained(), Ordering::Relaxed);
        }
        let going = |backend: &&Backend| (labels(backend), i64::from(backend.decommission().is_some()));
        self.decommissioning.show(backends.iter().map(going));
        self.stages.keep(&is_known);
        self.endpoints_drained.keep(&is_known);
        self.holds.keep(&is_known);
        self.released.keep(&is_known);
    }
}
