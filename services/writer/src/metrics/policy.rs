//! Metrics of the backends' policies, and of what follows from them.

use gimbal_backend::{BackendObjects, KnownObject};
use gimbal_reconcile::{Amount, Backend, Mode, Quota, Reconciler, Tally};
use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::series::Counts;
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
struct Standing {
    standing: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

metrics_table! {
    /// What the policies of the backends allow, and what follows from them.
    pub(super) struct PolicyMetrics("gimbal_writer") {
        config_good: Gauge, "config_file_good" [],
            "Whether the configuration in force is what the file said when it was last read; 0: the one before";
        config_reloads: Family<Outcome, Counter>, "config_reloads" ["outcome"],
            "Changes of the configuration file, by whether they could be taken";
        backend_objects: Counts<Standing>, "backend_objects" ["standing"],
            "Backends that are objects: in force as they are, refused, or kept although the object is gone";
        listed: Counts<Labels>, "backend_listed" ["backend"],
            "Whether the configuration names the backend";
        quarantined: Counts<Labels>, "backend_quarantined" ["backend"],
            "Whether the backend is in quarantine";
        quota_used: Counts<Measured>, "backend_quota_used" ["backend", "measure"],
            "What the backend publishes of what a quota can limit";
        quota_limit: Counts<Measured>, "backend_quota_limit" ["backend", "measure"],
            "The backend's quota; absent without a limit";
        quota_waiting: Counts<Labels>, "backend_quota_waiting" ["backend"],
            "Services of the backend that wait for room in its quota";
        planned: Counts<Planned>, "backend_planned" ["backend", "change"],
            "Objects that would be written if the backend were not in quarantine";
        namespaces_created: Family<Outcome, Counter>, "namespaces_created" ["outcome"],
            "Tries to create a namespace that a policy lets be created, by outcome";
    }
}

impl PolicyMetrics {
    /// Sets the state at the start: the process does not start with an invalid file.
    pub(super) fn start(&self) {
        self.config_good.set(1);
    }

    pub(super) fn config_read(&self, good: bool) {
        self.config_good.set(i64::from(good));
        let outcome = if good { "taken" } else { "refused" };
        self.config_reloads.get_or_create_owned(&Outcome { outcome }).inc();
    }

    pub(super) fn backend_objects(&self, objects: Option<&BackendObjects>) {
        let standings = objects.into_iter().flat_map(BackendObjects::known).map(|(_, known)| match known {
            KnownObject { problem: Some(_), .. } => "refused",
            KnownObject { is_kept: true, .. } => "kept",
            _ => "in-force",
        });
        let standings: Vec<_> = standings.collect();
        let count = |standing| standings.iter().filter(|one| **one == standing).count();
        let shown = ["in-force", "refused", "kept"].map(|standing| (Standing { standing }, signed(count(standing))));
        self.backend_objects.show(shown.into_iter().filter(|_| objects.is_some()));
    }

    pub(super) fn namespace_created(&self, good: bool) {
        let outcome = if good { "created" } else { "failed" };
        self.namespaces_created.get_or_create_owned(&Outcome { outcome }).inc();
    }

    pub(super) fn show(&self, reconciler: &Reconciler, backends: &[&Backend]) {
        let labels = |backend: &Backend| Labels { backend: backend.name().to_string() };
        let each = |value: fn(&Backend) -> i64| backends.iter().map(move |backend| (labels(backend), value(backend)));
        self.listed.show(each(|backend| i64::from(backend.is_listed())));
        self.quarantined.show(each(|backend| i64::from(is_quarantined(backend))));
        self.quota_waiting.show(each(|backend| signed(backend.usage().waiting())));
        let measures = || backends.iter().flat_map(|backend| measures(backend));
        self.quota_used.show(measures().map(|(labels, used, _)| (labels, signed(used))));
        // Limits come and go with the configuration.
        self.quota_limit.show(measures().filter_map(|(labels, _, limit)| Some((labels, signed(limit?)))));
        self.planned.show(backends.iter().flat_map(|backend| planned(reconciler, backend)));
    }
}

fn is_quarantined(backend: &Backend) -> bool {
    backend.is_listed() && backend.policy().mode == Mode::Quarantine
}

/// Returns for each limit of a quota its metric's labels, how much is used, and the limit.
fn measures(backend: &Backend) -> [(Measured, u64, Option<u64>); 3] {
    let Amount { services, endpoints, bytes } = backend.usage().total();
    let Quota { services: most, endpoints: most_endpoints, bytes: most_bytes, .. } = backend.policy().quota;
    [("services", services, most), ("endpoints", endpoints, most_endpoints), ("bytes", bytes, most_bytes)]
        .map(|(measure, used, limit)| (Measured { backend: backend.name().to_string(), measure }, used, limit))
}

fn planned(reconciler: &Reconciler, backend: &Backend) -> [(Planned, i64); 3] {
    let tally = if is_quarantined(backend) { reconciler.preview(backend.name()) } else { Tally::default() };
    [("create", tally.created), ("change", tally.changed), ("delete", tally.deleted)]
        .map(|(change, count)| (Planned { backend: backend.name().to_string(), change }, signed(count)))
}
