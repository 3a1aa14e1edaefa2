//! What the policies of the backends allow, and what comes of it.

use gimbal_reconcile::{Amount, Backend, Mode, Quota, Reconciler};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::signed;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    backend: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Measured {
    backend: String,
    measure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Planned {
    backend: String,
    change: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct PolicyMetrics {
    config_good: Gauge,
    config_reloads: Family<Outcome, Counter>,
    listed: Family<Labels, Gauge>,
    quarantined: Family<Labels, Gauge>,
    quota_used: Family<Measured, Gauge>,
    quota_limit: Family<Measured, Gauge>,
    quota_waiting: Family<Labels, Gauge>,
    planned: Family<Planned, Gauge>,
    namespaces_created: Family<Outcome, Counter>,
}

impl PolicyMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        // The process does not start with a file that is wrong.
        metrics.config_good.set(1);
        registry.register(
            "config_file_good",
            "Whether the configuration in force is what the file said when it was last read; 0: the one before",
            metrics.config_good.clone(),
        );
        registry.register(
            "config_reloads",
            "Changes of the configuration file, by whether they could be taken",
            metrics.config_reloads.clone(),
        );
        registry.register("backend_listed", "Whether the configuration names the backend", metrics.listed.clone());
        registry.register("backend_quarantined", "Whether the backend is in quarantine", metrics.quarantined.clone());
        registry.register(
            "backend_quota_used",
            "What the backend publishes of what a quota can limit",
            metrics.quota_used.clone(),
        );
        registry.register(
            "backend_quota_limit",
            "The backend's quota; absent where there is none",
            metrics.quota_limit.clone(),
        );
        registry.register(
            "backend_quota_waiting",
            "Services of the backend that wait for room in its quota",
            metrics.quota_waiting.clone(),
        );
        registry.register(
            "backend_planned",
            "Objects that would be written if the backend were not in quarantine",
            metrics.planned.clone(),
        );
        registry.register(
            "namespaces_created",
            "Tries to create a namespace that a policy lets be created, by outcome",
            metrics.namespaces_created.clone(),
        );
        metrics
    }

    pub(super) fn config_read(&self, good: bool) {
        self.config_good.set(i64::from(good));
        let outcome = if good { "taken" } else { "refused" };
        self.config_reloads.get_or_create_owned(&Outcome { outcome }).inc();
    }

    pub(super) fn namespace_created(&self, good: bool) {
        let outcome = if good { "created" } else { "failed" };
        self.namespaces_created.get_or_create_owned(&Outcome { outcome }).inc();
    }

    pub(super) fn show(&self, reconciler: &Reconciler) {
        // Limits come and go with the configuration.
        self.quota_limit.clear();
        for backend in reconciler.backends().values() {
            self.show_backend(reconciler, backend);
        }
    }

    fn show_backend(&self, reconciler: &Reconciler, backend: &Backend) {
        let labels = Labels { backend: backend.name.to_string() };
        let quarantined = backend.listed && backend.policy.mode == Mode::Quarantine;
        self.listed.get_or_create_owned(&labels).set(i64::from(backend.listed));
        self.quarantined.get_or_create_owned(&labels).set(i64::from(quarantined));
        self.quota_waiting.get_or_create_owned(&labels).set(signed(backend.usage.waiting()));
        let Amount { services, endpoints, bytes } = backend.usage.total();
        let Quota { services: most, endpoints: most_endpoints, bytes: most_bytes, .. } = backend.policy.quota;
        let measures =
            [("services", services, most), ("endpoints", endpoints, most_endpoints), ("bytes", bytes, most_bytes)];
        for (measure, used, limit) in measures {
            let labels = Measured { backend: backend.name.to_string(), measure };
            self.quota_used.get_or_create_owned(&labels).set(used.try_into().unwrap_or(i64::MAX));
            if let Some(limit) = limit {
                self.quota_limit.get_or_create_owned(&labels).set(limit.try_into().unwrap_or(i64::MAX));
            }
        }
        let tally = if quarantined { reconciler.preview(&backend.name) } else { gimbal_reconcile::Tally::default() };
        for (change, count) in [("create", tally.created), ("change", tally.changed), ("delete", tally.deleted)] {
            let labels = Planned { backend: backend.name.to_string(), change };
            self.planned.get_or_create_owned(&labels).set(count.try_into().unwrap_or(i64::MAX));
        }
    }
}
