//! The writer's Prometheus metrics.

mod events;
mod limiter;
mod loss;
mod policy;
mod propagation;
mod series;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gimbal_backend::BackendObjects;
use gimbal_guard::Guard;
use gimbal_reconcile::{Backend, Counters, JourneyEnd, JourneyLegs, Reconciler};
use gimbal_runtime::{CertificateMetrics, InfoMetric, MetricDoc, metrics_table};
use gimbal_session::{GoodbyeReason, TraceContext};
use gimbal_transport::{Problem, Refusal};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use events::BackendEventMetrics;
use limiter::LimiterMetrics;
use loss::LossMetrics;
use policy::PolicyMetrics;
use propagation::PropagationMetrics;
use series::{BackendSeries, Counts, OfBackend, Seconds};

use gimbal_schedule::{ConcurrencyLimit, SharedLimit, WaitReason};

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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct SourceLabels {
    backend: String,
    kind: &'static str,
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    kind: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HolderLabels {
    holder: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    verb: &'static str,
    code: &'static str,
}

impl OfBackend for BackendLabels {
    fn backend(&self) -> &str {
        &self.backend
    }
}

impl OfBackend for GoodbyeLabels {
    fn backend(&self) -> &str {
        &self.backend
    }
}

/// Handles to every metric. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

/// Creates a histogram of 1 ms to 32 s.
fn latency() -> Histogram {
    Histogram::new(latency_buckets())
}

fn latency_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.001, 2.0, 16)
}

metrics_table! {
    /// The writer itself: its writes, its streams and its lease.
    struct OwnMetrics("gimbal_writer") {
        writes: Family<WriteLabels, Counter>, "writes" ["verb", "kind", "code"],
            "Calls to the API server that change an object, by outcome";
        write_seconds: Family<VerbLabels, Histogram> = Family::new_with_constructor(latency), "write" ["verb"] seconds,
            "Time of such a call";
        propagation_seconds: BackendSeries<BackendLabels, Histogram> = BackendSeries::of(Family::new_with_constructor(latency)), "propagation" ["backend"] seconds,
            "From the source reporting a change to its agent to the API server accepting it";
        connected: Counts<BackendLabels>, "backend_connected" ["backend"],
            "Whether an agent of the backend is connected";
        complete: Counts<BackendLabels>, "backend_complete" ["backend"],
            "Whether a complete snapshot of the backend was seen";
        services: Counts<BackendLabels>, "backend_services" ["backend"],
            "Services that the backend offers";
        endpoints: Counts<BackendLabels>, "backend_endpoints" ["backend"],
            "Endpoints of the backend in the Gimbal cluster";
        held_endpoints: Counts<BackendLabels>, "backend_held_endpoints" ["backend"],
            "Endpoints whose removal, or loss of readiness, the guard holds";
        rejected: Counts<RejectLabels>, "backend_rejected" ["backend", "reason"],
            "Services of the backend that are rejected, by reason";
        source_age: Seconds<SourceLabels>, "backend_source_age" ["backend", "kind"] seconds,
            "Time since the source last said anything about a kind, or since it is awaited if it never did";
        pending: Gauge, "pending" [],
            "Targets that wait to be written";
        oldest_pending: Gauge<f64, AtomicU64>, "oldest_pending" [] seconds,
            "Time since the oldest change of an agent came that is neither written, nor rejected, nor held; one that the API server failed to write waits on; 0: none waits";
        in_flight: Gauge, "in_flight" [],
            "Targets that are being written";
        leading: Gauge, "leading" [],
            "Whether this process leads";
        lease_holder: Counts<HolderLabels>, "lease_holder" ["holder"],
            "1 for the writer that leads, as far as this one knows";
        lease_calls: Family<LeaseLabels, Counter>, "lease_calls" ["verb", "code"],
            "Calls about the Lease, by outcome; verb renew keeps it, release gives it up";
        published: Gauge, "published" [],
            "Whether this process is the endpoint of the Service that --publish names";
        refused_streams: Family<ReasonLabels, Counter>, "refused_streams" ["reason"],
            "Streams of agents that were refused, by reason";
        goodbyes: BackendSeries<GoodbyeLabels, Counter>, "goodbyes" ["backend", "reason"],
            "Streams of agents that the writer ended, by reason";
        broken_streams: BackendSeries<BackendLabels, Counter>, "broken_streams" ["backend"],
            "Streams of agents that ended in an error";
        resyncs: BackendSeries<BackendLabels, Counter>, "resyncs" ["backend"],
            "Snapshots that were asked for in the middle of a stream";
        watch_failures: Family<WatchLabels, Counter>, "watch_failures" ["kind", "reason"],
            "Failures of the watches on the Gimbal cluster";
        handshake_failures: Family<ReasonLabels, Counter>, "handshake_failures" ["reason"],
            "TLS handshakes that failed, by reason";
        probes: Counter, "probes" [],
            "Connections that closed before they said anything";
        build: InfoMetric, "build" ["version"],
            "Version of this program";
    }
}

#[derive(Debug)]
struct Inner {
    counts: EventCounts,
    events: BackendEventMetrics,
    policy: PolicyMetrics,
    limiter: LimiterMetrics,
    loss: LossMetrics,
    propagation: PropagationMetrics,
    own: OwnMetrics,
}

impl Metrics {
    /// Creates every metric and registers it.
    pub fn register(registry: &mut Registry) -> Self {
        let inner = Inner {
            counts: EventCounts::register(registry),
            events: BackendEventMetrics::register(registry),
            policy: PolicyMetrics::register(registry),
            limiter: LimiterMetrics::register(registry),
            loss: LossMetrics::register(registry),
            propagation: PropagationMetrics::register(registry),
            own: OwnMetrics::register(registry),
        };
        inner.policy.start();
        inner.own.build.set([("version", env!("CARGO_PKG_VERSION"))]);
        Self(Arc::new(inner))
    }

    /// Describes every metric, in the order of its groups. Those of the process are not among them.
    #[must_use]
    pub fn reference() -> Vec<MetricDoc> {
        let certificate = CertificateMetrics::reference().into_iter().map(|metric| metric.under("gimbal_writer"));
        let groups = [
            OwnMetrics::reference(),
            PropagationMetrics::reference(),
            LossMetrics::reference(),
            BackendEventMetrics::reference(),
            PolicyMetrics::reference(),
            LimiterMetrics::reference(),
            EventCounts::reference(),
            certificate.collect(),
        ];
        groups.into_iter().flatten().collect()
    }

    /// Records the answer to a write.
    pub fn written(&self, verb: &'static str, kind: &'static str, code: &'static str, took: Duration) {
        self.0.own.writes.get_or_create_owned(&WriteLabels { verb, kind, code }).inc();
        self.0.own.write_seconds.get_or_create_owned(&VerbLabels { verb }).observe(took.as_secs_f64());
    }

    /// Records what came of a change of a backend, and how long that took, with its trace as an example.
    pub fn settled(&self, backend: &str, end: JourneyEnd, legs: &JourneyLegs, trace: Option<TraceContext>) {
        self.0.propagation.settled(backend, end, legs, trace);
        if end == JourneyEnd::Written {
            let labels = BackendLabels { backend: backend.to_owned() };
            self.0.own.propagation_seconds.of_labels(labels).observe(legs.since_reported().as_secs_f64());
        }
    }

    /// Records a failure of a watch.
    pub fn watch_failed(&self, kind: &'static str, reason: &'static str) {
        self.0.own.watch_failures.get_or_create_owned(&WatchLabels { kind, reason }).inc();
    }

    /// Sets the known leader; empty if none is known.
    pub fn led_by(&self, holder: &str) {
        let holder = (!holder.is_empty()).then(|| (HolderLabels { holder: holder.to_owned() }, 1));
        self.0.own.lease_holder.show(holder);
    }

    /// Sets whether this process is the endpoint of the Service that leads to the leader.
    pub fn published(&self, published: bool) {
        self.0.own.published.set(published.into());
    }

    /// Records the end of a call about the Lease.
    pub fn lease_called(&self, verb: &'static str, code: &'static str) {
        self.0.own.lease_calls.get_or_create_owned(&LeaseLabels { verb, code }).inc();
    }

    /// Sets the age of the oldest pending change.
    pub fn oldest_pending(&self, age: Duration) {
        self.0.own.oldest_pending.set(age.as_secs_f64());
    }

    /// Records that a stream was refused.
    pub fn refused(&self, reason: GoodbyeReason) {
        self.0.own.refused_streams.get_or_create_owned(&ReasonLabels { reason: format!("{reason:?}") }).inc();
    }

    /// Records that the writer ended a stream of a backend.
    pub fn dismissed(&self, backend: &str, reason: GoodbyeReason) {
        let labels = GoodbyeLabels { backend: backend.to_owned(), reason: format!("{reason:?}") };
        self.0.own.goodbyes.of_labels(labels).inc();
    }

    /// Records that a stream of a backend ended in an error: its connection broke, or a message was too large.
    pub fn broke(&self, backend: &str) {
        self.0.own.broken_streams.of_labels(BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// Records that an agent was asked for a snapshot: a frame was lost or could not be read, a digest did not match,
    /// or a hold is to be confirmed.
    pub fn resync(&self, backend: &str) {
        self.0.own.resyncs.of_labels(BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// Records that a connection was refused.
    pub fn connection_refused(&self, refusal: &Refusal) {
        match refusal.problem {
            Problem::Silent => self.0.own.probes.inc(),
            problem => {
                let labels = ReasonLabels { reason: problem.as_str().to_owned() };
                self.0.own.handshake_failures.get_or_create_owned(&labels).inc()
            }
        };
    }

    /// Shows how many Backends there are; nothing if backends are no objects.
    pub fn backend_objects(&self, objects: Option<&BackendObjects>) {
        self.0.policy.backend_objects(objects);
    }

    /// Records that the configuration file changed. `good`: the new content is in force; otherwise it was not valid.
    pub fn config_read(&self, good: bool) {
        self.0.policy.config_read(good);
    }

    /// Records that the API server asked for a pause of all writes.
    pub fn paused(&self) {
        self.0.limiter.paused();
    }

    /// Records that a write was ready, and how long it had to wait for a limit.
    pub fn waited(&self, wait: WaitReason, time: Duration) {
        self.0.limiter.waited(wait, time);
    }

    /// Sets the metrics of the limits on writes.
    pub fn show_limit(&self, limit: &ConcurrencyLimit, shared: &SharedLimit) {
        self.0.limiter.show(limit, shared);
    }

    /// Records that a backend entered another loss stage.
    pub fn lost(&self, backend: &str, stage: gimbal_reconcile::Stage) {
        self.0.loss.entered(backend, stage);
    }

    /// Records an event of a backend's mass-change guard.
    pub fn guarded(&self, backend: &str, event: &gimbal_guard::GuardEvent) {
        self.0.loss.guarded(backend, event);
    }

    /// Records an attempt to write an Event about a Backend.
    pub fn event_written(&self, outcome: &'static str) {
        self.0.events.written(outcome);
    }

    /// Records that an Event about a Backend was dropped.
    pub fn event_dropped(&self) {
        self.0.events.dropped();
    }

    /// Sets how many Events about Backends wait.
    pub fn events_waiting(&self, waiting: usize) {
        self.0.events.set_waiting(waiting);
    }

    /// Records that a namespace was created, or could not be.
    pub fn namespace_created(&self, good: bool) {
        self.0.policy.namespace_created(good);
    }

    /// Sets every metric of the state. Gauges of backends exist on the leader only: a standby has no streams, and its
    /// zeros would appear beside the leader's values.
    ///
    /// `may_write`: the lease is not late.
    pub fn show(&self, reconciler: &Reconciler, may_write: bool, now: Instant) {
        let inner = &self.0;
        inner.own.pending.set(signed(reconciler.pending() - reconciler.in_flight()));
        inner.own.in_flight.set(signed(reconciler.in_flight()));
        inner.own.leading.set(i64::from(reconciler.is_leading() && may_write));
        inner.counts.show(reconciler.counters());
        let known = reconciler.backends();
        let is_known = |backend: &str| known.contains_key(backend);
        inner.own.propagation_seconds.keep(is_known);
        inner.propagation.keep(is_known);
        inner.own.goodbyes.keep(is_known);
        inner.own.broken_streams.keep(is_known);
        inner.own.resyncs.keep(is_known);
        let led: Vec<&Backend> = known.values().filter(|_| reconciler.is_leading()).collect();
        inner.policy.show(reconciler, &led);
        inner.loss.show(&led, is_known);
        let each = |value: fn(&Backend) -> i64| led.iter().map(move |backend| (labels(backend), value(backend)));
        inner.own.services.show(each(|backend| signed(backend.end().tree().count())));
        inner.own.endpoints.show(each(|backend| signed(backend.endpoints())));
        let held = |backend: &Backend| {
            let holds = [backend.guards().removals(), backend.guards().readiness()].into_iter().filter_map(Guard::held);
            signed(holds.map(|held| held.endpoints_removed).max().unwrap_or_default())
        };
        inner.own.held_endpoints.show(each(held));
        // A backend that the configuration does not name is not expected to connect.
        let listed = || led.iter().filter(|backend| backend.is_listed());
        inner.own.connected.show(listed().map(|backend| (labels(backend), i64::from(backend.is_connected()))));
        inner.own.complete.show(listed().map(|backend| (labels(backend), i64::from(backend.end().is_complete()))));
        inner.own.rejected.show(led.iter().flat_map(|backend| rejects(backend)));
        inner.own.source_age.show(listed().flat_map(|backend| ages(backend, now)));
    }
}

fn labels(backend: &Backend) -> BackendLabels {
    BackendLabels { backend: backend.name().to_string() }
}

fn rejects(backend: &Backend) -> impl Iterator<Item = (RejectLabels, i64)> {
    let name = backend.name().to_string();
    backend
        .end()
        .reject_counts()
        .iter()
        .map(move |(reason, count)| (RejectLabels { backend: name.clone(), reason: reason.as_str() }, signed(*count)))
}

/// Kinds of source objects that our agents report. Other names share the label `other`, so that they add no series.
const KINDS: [&str; 8] =
    ["services", "endpointslices", "endpoints", "projects", "loadbalancers", "listeners", "pools", "members"];

/// Returns the age of each kind, which grows between heartbeats too. For kinds that are not in [`KINDS`], the oldest
/// counts.
fn ages(backend: &Backend, now: Instant) -> BTreeMap<SourceLabels, f64> {
    let mut ages = BTreeMap::new();
    for (kind, since) in backend.end().silent_since() {
        let age = now.saturating_duration_since(since);
        let kind = KINDS.into_iter().find(|known| *known == kind).unwrap_or("other");
        let oldest = ages.entry(SourceLabels { backend: backend.name().to_string(), kind }).or_insert(0.0_f64);
        *oldest = oldest.max(age.as_secs_f64());
    }
    ages
}

metrics_table! {
    /// Counts since the process started. Most have two names: the gauges are older, and stay for the dashboards that use
    /// them.
    struct EventCounts("gimbal_writer") {
        comparison_differences: Gauge, "comparison_differences" [],
            "As gimbal_writer_differences_found_total, which is a counter";
        differences_found: Counter, "differences_found" [],
            "Targets that a full comparison found to differ without a reason to; must stay 0";
        comparisons: Gauge, "comparisons" [],
            "As gimbal_writer_comparisons_ended_total, which is a counter";
        comparisons_ended: Counter, "comparisons_ended" [],
            "Full comparisons that ended";
        accepted_forms: Gauge, "accepted_forms" [],
            "As gimbal_writer_forms_accepted_total, which is a counter";
        forms_accepted: Counter, "forms_accepted" [],
            "Objects that the API server stored otherwise than sent";
        unreadable: Gauge, "unreadable" [],
            "As gimbal_writer_entries_unreadable_total, which is a counter";
        entries_unreadable: Counter, "entries_unreadable" [],
            "Entries or frames of agents that could not be read";
        changes_batched: Counter, "changes_batched" [],
            "Changes that waited to be written with later ones of their Service (--endpointslice-updates-batch-period)";
    }
}

impl EventCounts {
    fn show(&self, counters: &Counters) {
        for (gauge, counter, count) in [
            (&self.comparison_differences, &self.differences_found, counters.comparison_differences),
            (&self.comparisons, &self.comparisons_ended, counters.comparisons),
            (&self.accepted_forms, &self.forms_accepted, counters.accepted_forms),
            (&self.unreadable, &self.entries_unreadable, counters.unreadable),
        ] {
            gauge.set(signed(count));
            counter.inner().store(count, Ordering::Relaxed);
        }
        self.changes_batched.inner().store(counters.batched, Ordering::Relaxed);
    }
}

/// Gauges are signed; no count comes near the limit.
fn signed(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
