//! What Prometheus sees.

mod loss;
mod pace;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use gimbal_link::{Problem, Refusal};
use gimbal_stream::GoodbyeReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use loss::LossMetrics;
use pace::PaceMetrics;
use policy::PolicyMetrics;

use crate::pace::{Limit, Wait};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    verb: &'static str,
    kind: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BackendLabels {
    backend: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectLabels {
    backend: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    backend: String,
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GoodbyeLabels {
    backend: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: String,
}

/// Handles to every metric. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writes: Family<WriteLabels, Counter>,
    write_seconds: Histogram,
    propagation_seconds: Family<BackendLabels, Histogram>,
    connected: Family<BackendLabels, Gauge>,
    complete: Family<BackendLabels, Gauge>,
    services: Family<BackendLabels, Gauge>,
    endpoints: Family<BackendLabels, Gauge>,
    held_endpoints: Family<BackendLabels, Gauge>,
    rejected: Family<RejectLabels, Gauge>,
    source_age: Family<SourceLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    pending: Gauge,
    in_flight: Gauge,
    leading: Gauge,
    comparison_differences: Gauge,
    comparisons: Gauge,
    accepted_forms: Gauge,
    unreadable: Gauge,
    refused_streams: Family<ReasonLabels, Counter>,
    goodbyes: Family<GoodbyeLabels, Counter>,
    broken_streams: Family<BackendLabels, Counter>,
    resyncs: Family<BackendLabels, Counter>,
    watch_failures: Family<ReasonLabels, Counter>,
    handshake_failures: Family<ReasonLabels, Counter>,
    probes: Counter,
    policy: PolicyMetrics,
    pace: PaceMetrics,
    loss: LossMetrics,
}

impl Metrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let latency = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let inner = Inner {
            writes: Family::default(),
            write_seconds: latency(),
            propagation_seconds: Family::new_with_constructor(latency),
            connected: Family::default(),
            complete: Family::default(),
            services: Family::default(),
            endpoints: Family::default(),
            held_endpoints: Family::default(),
            rejected: Family::default(),
            source_age: Family::default(),
            pending: Gauge::default(),
            in_flight: Gauge::default(),
            leading: Gauge::default(),
            comparison_differences: Gauge::default(),
            comparisons: Gauge::default(),
            accepted_forms: Gauge::default(),
            unreadable: Gauge::default(),
            refused_streams: Family::default(),
            goodbyes: Family::default(),
            broken_streams: Family::default(),
            resyncs: Family::default(),
            watch_failures: Family::default(),
            handshake_failures: Family::default(),
            probes: Counter::default(),
            policy: PolicyMetrics::register(registry.sub_registry_with_prefix("gimbal_writer")),
            pace: PaceMetrics::register(registry.sub_registry_with_prefix("gimbal_writer")),
            loss: LossMetrics::register(registry.sub_registry_with_prefix("gimbal_writer")),
        };
        let r = registry.sub_registry_with_prefix("gimbal_writer");
        r.register("writes", "Calls to the API server that change an object, by outcome", inner.writes.clone());
        r.register_with_unit("write", "Time of such a call", Unit::Seconds, inner.write_seconds.clone());
        r.register_with_unit(
            "propagation",
            "From the source telling its agent of a change to the API server accepting it",
            Unit::Seconds,
            inner.propagation_seconds.clone(),
        );
        r.register("backend_connected", "Whether an agent of the backend is connected", inner.connected.clone());
        r.register("backend_complete", "Whether a complete snapshot of the backend was seen", inner.complete.clone());
        r.register("backend_services", "Services that the backend offers", inner.services.clone());
        r.register("backend_endpoints", "Endpoints of the backend in the Gimbal cluster", inner.endpoints.clone());
        r.register("backend_held_endpoints", "Endpoints whose removal the guard holds", inner.held_endpoints.clone());
        r.register("backend_rejected", "Services of the backend that are rejected, by reason", inner.rejected.clone());
        r.register_with_unit(
            "backend_source_age",
            "Time since the source last said anything about a kind",
            Unit::Seconds,
            inner.source_age.clone(),
        );
        r.register("pending", "Targets that wait to be written", inner.pending.clone());
        r.register("in_flight", "Targets that are being written", inner.in_flight.clone());
        r.register("leading", "Whether this process leads", inner.leading.clone());
        r.register(
            "comparison_differences",
            "Targets that a full comparison found to differ without a reason to; must stay 0",
            inner.comparison_differences.clone(),
        );
        r.register("comparisons", "Full comparisons that ended", inner.comparisons.clone());
        r.register(
            "accepted_forms",
            "Objects that the API server stored otherwise than sent",
            inner.accepted_forms.clone(),
        );
        r.register("unreadable", "Entries or frames of agents that could not be read", inner.unreadable.clone());
        r.register("refused_streams", "Streams of agents that were refused, by reason", inner.refused_streams.clone());
        r.register("goodbyes", "Streams of agents that the writer ended, by reason", inner.goodbyes.clone());
        r.register("broken_streams", "Streams of agents that ended in an error", inner.broken_streams.clone());
        r.register("resyncs", "Snapshots that were asked for in the middle of a stream", inner.resyncs.clone());
        r.register("watch_failures", "Failures of the watches on the Gimbal cluster", inner.watch_failures.clone());
        r.register("handshake_failures", "TLS handshakes that failed, by reason", inner.handshake_failures.clone());
        r.register("probes", "Connections that closed before they said anything", inner.probes.clone());
        Self(Arc::new(inner))
    }

    /// A write was answered.
    pub fn written(&self, verb: &'static str, kind: &'static str, code: &'static str, took: Duration) {
        self.0.writes.get_or_create_owned(&WriteLabels { verb, kind, code }).inc();
        self.0.write_seconds.observe(took.as_secs_f64());
    }

    /// A change of a backend was applied so long after its source told of it.
    pub fn propagated(&self, backend: &str, took: Duration) {
        let labels = BackendLabels { backend: backend.to_owned() };
        self.0.propagation_seconds.get_or_create_owned(&labels).observe(took.as_secs_f64());
    }

    /// A watch failed.
    pub fn watch_failed(&self, kind: &str) {
        self.0.watch_failures.get_or_create_owned(&ReasonLabels { reason: kind.to_owned() }).inc();
    }

    /// A stream was refused.
    pub fn refused(&self, reason: GoodbyeReason) {
        self.0.refused_streams.get_or_create_owned(&ReasonLabels { reason: format!("{reason:?}") }).inc();
    }

    /// The writer ended a stream of a backend.
    pub fn dismissed(&self, backend: &str, reason: GoodbyeReason) {
        let labels = GoodbyeLabels { backend: backend.to_owned(), reason: format!("{reason:?}") };
        self.0.goodbyes.get_or_create_owned(&labels).inc();
    }

    /// A stream of a backend ended in an error: its connection broke, or a message was too large.
    pub fn broke(&self, backend: &str) {
        self.0.broken_streams.get_or_create_owned(&BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// A backend's agent was asked for a snapshot: a frame was lost, a digest did not match, or a hold is to be confirmed.
    pub fn resync(&self, backend: &str) {
        self.0.resyncs.get_or_create_owned(&BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// A connection was refused.
    pub fn connection_refused(&self, refusal: &Refusal) {
        match refusal.problem {
            Problem::Silent => self.0.probes.inc(),
            problem => {
                let labels = ReasonLabels { reason: problem.as_str().to_owned() };
                self.0.handshake_failures.get_or_create_owned(&labels).inc()
            }
        };
    }

    /// The configuration file changed: what it says now is in force, or could not be taken.
    pub fn config_read(&self, good: bool) {
        self.0.policy.config_read(good);
    }

    /// The API server asked for a pause of all writes.
    pub fn paused(&self) {
        self.0.pace.paused();
    }

    /// A write could have gone, and had to wait so long.
    pub fn waited(&self, wait: Wait, time: Duration) {
        self.0.pace.waited(wait, time);
    }

    /// Shows how many writes may go side by side now.
    pub fn show_limit(&self, limit: &Limit) {
        self.0.pace.show(limit);
    }

    /// Another thing is made of a backend's loss from now on.
    pub fn lost(&self, backend: &str, stage: gimbal_reconcile::Stage) {
        self.0.loss.entered(backend, stage);
    }

    /// The mass-change guard of a backend did something.
    pub fn guarded(&self, backend: &str, event: &gimbal_plan::GuardEvent) {
        self.0.loss.guarded(backend, event);
    }

    /// A namespace was created, or could not be.
    pub fn namespace_created(&self, good: bool) {
        self.0.policy.namespace_created(good);
    }

    /// Shows the state as it is now.
    pub fn show(&self, reconciler: &gimbal_reconcile::Reconciler) {
        let inner = &self.0;
        inner.policy.show(reconciler);
        inner.loss.show(reconciler);
        let counters = reconciler.counters();
        inner.pending.set(signed(reconciler.pending() - reconciler.in_flight()));
        inner.in_flight.set(signed(reconciler.in_flight()));
        inner.leading.set(i64::from(reconciler.is_leading()));
        inner.comparison_differences.set(signed(counters.comparison_differences));
        inner.comparisons.set(signed(counters.comparisons));
        inner.accepted_forms.set(signed(counters.accepted_forms));
        inner.unreadable.set(signed(counters.unreadable));
        inner.rejected.clear();
        // Kinds are an agent's words: what it says no more must not stay.
        inner.source_age.clear();
        for (name, backend) in reconciler.backends() {
            let labels = BackendLabels { backend: name.to_string() };
            inner.connected.get_or_create_owned(&labels).set(i64::from(backend.connected));
            inner.complete.get_or_create_owned(&labels).set(i64::from(backend.end.is_complete()));
            inner.services.get_or_create_owned(&labels).set(signed(backend.end.tree().count()));
            inner.endpoints.get_or_create_owned(&labels).set(signed(backend.endpoints));
            let held = backend.guard.held().map_or(0, |held| held.endpoints_removed);
            inner.held_endpoints.get_or_create_owned(&labels).set(signed(held));
            for (reason, count) in backend.end.reject_counts() {
                let labels = RejectLabels { backend: name.to_string(), reason: reason.as_str() };
                inner.rejected.get_or_create_owned(&labels).set(signed(*count));
            }
            for source in backend.end.freshness() {
                if let Some(age) = source.age {
                    let labels = SourceLabels { backend: name.to_string(), kind: source.kind.clone() };
                    inner.source_age.get_or_create_owned(&labels).set(age.as_secs_f64());
                }
            }
        }
    }
}

/// Gauges are signed; no count of ours comes near the limit.
fn signed(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
