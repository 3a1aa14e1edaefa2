//! What Prometheus sees.

mod limiter;
mod loss;
mod policy;
mod series;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gimbal_plan::Guard;
use gimbal_reconcile::{Backend, Counters, Reconciler};
use gimbal_session::GoodbyeReason;
use gimbal_transport::{Problem, Refusal};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use limiter::LimiterMetrics;
use loss::LossMetrics;
use policy::PolicyMetrics;
use series::{Counts, Events, OfBackend, Seconds};

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

#[derive(Debug)]
struct Inner {
    writes: Family<WriteLabels, Counter>,
    write_seconds: Family<VerbLabels, Histogram>,
    propagation_seconds: Events<BackendLabels, Histogram>,
    connected: Counts<BackendLabels>,
    complete: Counts<BackendLabels>,
    services: Counts<BackendLabels>,
    endpoints: Counts<BackendLabels>,
    held_endpoints: Counts<BackendLabels>,
    rejected: Counts<RejectLabels>,
    source_age: Seconds<SourceLabels>,
    pending: Gauge,
    oldest_pending: Gauge<f64, AtomicU64>,
    in_flight: Gauge,
    leading: Gauge,
    lease_holder: Counts<HolderLabels>,
    lease_calls: Family<LeaseLabels, Counter>,
    happened: Happened,
    refused_streams: Family<ReasonLabels, Counter>,
    goodbyes: Events<GoodbyeLabels, Counter>,
    broken_streams: Events<BackendLabels, Counter>,
    resyncs: Events<BackendLabels, Counter>,
    watch_failures: Family<WatchLabels, Counter>,
    handshake_failures: Family<ReasonLabels, Counter>,
    probes: Counter,
    policy: PolicyMetrics,
    limiter: LimiterMetrics,
    loss: LossMetrics,
}

impl Metrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let latency: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let inner = Inner {
            writes: Family::default(),
            write_seconds: Family::new_with_constructor(latency),
            propagation_seconds: Events::of(Family::new_with_constructor(latency)),
            connected: Counts::default(),
            complete: Counts::default(),
            services: Counts::default(),
            endpoints: Counts::default(),
            held_endpoints: Counts::default(),
            rejected: Counts::default(),
            source_age: Seconds::default(),
            pending: Gauge::default(),
            oldest_pending: Gauge::default(),
            in_flight: Gauge::default(),
            leading: Gauge::default(),
            lease_holder: Counts::default(),
            lease_calls: Family::default(),
            happened: Happened::register(registry.sub_registry_with_prefix("gimbal_writer")),
            refused_streams: Family::default(),
            goodbyes: Events::default(),
            broken_streams: Events::default(),
            resyncs: Events::default(),
            watch_failures: Family::default(),
            handshake_failures: Family::default(),
            probes: Counter::default(),
            policy: PolicyMetrics::register(registry.sub_registry_with_prefix("gimbal_writer")),
            limiter: LimiterMetrics::register(registry.sub_registry_with_prefix("gimbal_writer")),
            loss: LossMetrics::register(registry.sub_registry_with_prefix("gimbal_writer")),
        };
        let r = registry.sub_registry_with_prefix("gimbal_writer");
        r.register("writes", "Calls to the API server that change an object, by outcome", inner.writes.clone());
        r.register_with_unit("write", "Time of such a call", Unit::Seconds, inner.write_seconds.clone());
        r.register_with_unit(
            "propagation",
            "From the source telling its agent of a change to the API server accepting it",
            Unit::Seconds,
            inner.propagation_seconds.family(),
        );
        r.register("backend_connected", "Whether an agent of the backend is connected", inner.connected.family());
        r.register("backend_complete", "Whether a complete snapshot of the backend was seen", inner.complete.family());
        r.register("backend_services", "Services that the backend offers", inner.services.family());
        r.register("backend_endpoints", "Endpoints of the backend in the Gimbal cluster", inner.endpoints.family());
        r.register(
            "backend_held_endpoints",
            "Endpoints whose removal, or loss of readiness, the guard holds",
            inner.held_endpoints.family(),
        );
        r.register("backend_rejected", "Services of the backend that are rejected, by reason", inner.rejected.family());
        r.register_with_unit(
            "backend_source_age",
            "Time since the source last said anything about a kind",
            Unit::Seconds,
            inner.source_age.family(),
        );
        r.register("pending", "Targets that wait to be written", inner.pending.clone());
        r.register("in_flight", "Targets that are being written", inner.in_flight.clone());
        r.register("leading", "Whether this process leads", inner.leading.clone());
        r.register(
            "lease_holder",
            "1 for the writer that leads, as far as this one knows",
            inner.lease_holder.family(),
        );
        r.register("lease_calls", "Calls about the Lease, by outcome; verb renew keeps it", inner.lease_calls.clone());
        r.register_with_unit(
            "oldest_pending",
            "Age of the oldest change that an agent told and that is neither written, nor rejected, nor held; 0: none waits",
            Unit::Seconds,
            inner.oldest_pending.clone(),
        );
        r.register("build", "Version of this program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        r.register("refused_streams", "Streams of agents that were refused, by reason", inner.refused_streams.clone());
        r.register("goodbyes", "Streams of agents that the writer ended, by reason", inner.goodbyes.family());
        r.register("broken_streams", "Streams of agents that ended in an error", inner.broken_streams.family());
        r.register("resyncs", "Snapshots that were asked for in the middle of a stream", inner.resyncs.family());
        r.register("watch_failures", "Failures of the watches on the Gimbal cluster", inner.watch_failures.clone());
        r.register("handshake_failures", "TLS handshakes that failed, by reason", inner.handshake_failures.clone());
        r.register("probes", "Connections that closed before they said anything", inner.probes.clone());
        Self(Arc::new(inner))
    }

    /// A write was answered.
    pub fn written(&self, verb: &'static str, kind: &'static str, code: &'static str, took: Duration) {
        self.0.writes.get_or_create_owned(&WriteLabels { verb, kind, code }).inc();
        self.0.write_seconds.get_or_create_owned(&VerbLabels { verb }).observe(took.as_secs_f64());
    }

    /// A change of a backend was applied so long after its source told of it.
    pub fn propagated(&self, backend: &str, took: Duration) {
        let labels = BackendLabels { backend: backend.to_owned() };
        self.0.propagation_seconds.of_labels(labels).observe(took.as_secs_f64());
    }

    /// A watch failed.
    pub fn watch_failed(&self, kind: &'static str, reason: &'static str) {
        self.0.watch_failures.get_or_create_owned(&WatchLabels { kind, reason }).inc();
    }

    /// Who leads, as far as is known; empty: nobody.
    pub fn led_by(&self, holder: &str) {
        let holder = (!holder.is_empty()).then(|| (HolderLabels { holder: holder.to_owned() }, 1));
        self.0.lease_holder.show(holder);
    }

    /// A call about the Lease ended.
    pub fn lease_called(&self, verb: &'static str, code: &'static str) {
        self.0.lease_calls.get_or_create_owned(&LeaseLabels { verb, code }).inc();
    }

    /// The age of the oldest change that waits.
    pub fn oldest_pending(&self, age: Duration) {
        self.0.oldest_pending.set(age.as_secs_f64());
    }

    /// A stream was refused.
    pub fn refused(&self, reason: GoodbyeReason) {
        self.0.refused_streams.get_or_create_owned(&ReasonLabels { reason: format!("{reason:?}") }).inc();
    }

    /// The writer ended a stream of a backend.
    pub fn dismissed(&self, backend: &str, reason: GoodbyeReason) {
        let labels = GoodbyeLabels { backend: backend.to_owned(), reason: format!("{reason:?}") };
        self.0.goodbyes.of_labels(labels).inc();
    }

    /// A stream of a backend ended in an error: its connection broke, or a message was too large.
    pub fn broke(&self, backend: &str) {
        self.0.broken_streams.of_labels(BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// A backend's agent was asked for a snapshot: a frame was lost, a digest did not match, or a hold is to be confirmed.
    pub fn resync(&self, backend: &str) {
        self.0.resyncs.of_labels(BackendLabels { backend: backend.to_owned() }).inc();
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
        self.0.limiter.paused();
    }

    /// A write could have gone, and had to wait so long.
    pub fn waited(&self, wait: WaitReason, time: Duration) {
        self.0.limiter.waited(wait, time);
    }

    /// Shows how many writes may go side by side now.
    pub fn show_limit(&self, limit: &ConcurrencyLimit, shared: &SharedLimit) {
        self.0.limiter.show(limit, shared);
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

    /// Shows the state as it is now. What is known of backends is a leader's: a standby hears no agent, and its zeros would
    /// stand beside the leader's figures.
    ///
    /// `may_write`: the lease is not late.
    pub fn show(&self, reconciler: &Reconciler, may_write: bool) {
        let inner = &self.0;
        inner.pending.set(signed(reconciler.pending() - reconciler.in_flight()));
        inner.in_flight.set(signed(reconciler.in_flight()));
        inner.leading.set(i64::from(reconciler.is_leading() && may_write));
        inner.happened.show(reconciler.counters());
        let known = reconciler.backends();
        let is_known = |backend: &str| known.contains_key(backend);
        inner.propagation_seconds.keep(is_known);
        inner.goodbyes.keep(is_known);
        inner.broken_streams.keep(is_known);
        inner.resyncs.keep(is_known);
        let led: Vec<&Backend> = known.values().filter(|_| reconciler.is_leading()).collect();
        inner.policy.show(reconciler, &led);
        inner.loss.show(&led, is_known);
        let each = |value: fn(&Backend) -> i64| led.iter().map(move |backend| (labels(backend), value(backend)));
        inner.services.show(each(|backend| signed(backend.end.tree().count())));
        inner.endpoints.show(each(|backend| signed(backend.endpoints)));
        let held = |backend: &Backend| {
            let holds = [backend.guards.removals(), backend.guards.readiness()].into_iter().filter_map(Guard::held);
            signed(holds.map(|held| held.endpoints_removed).max().unwrap_or_default())
        };
        inner.held_endpoints.show(each(held));
        // Nobody waits for the agent of a backend that the configuration does not name.
        let listed = || led.iter().filter(|backend| backend.listed);
        inner.connected.show(listed().map(|backend| (labels(backend), i64::from(backend.connected))));
        inner.complete.show(listed().map(|backend| (labels(backend), i64::from(backend.end.is_complete()))));
        inner.rejected.show(led.iter().flat_map(|backend| rejects(backend)));
        inner.source_age.show(listed().flat_map(|backend| ages(backend)));
    }
}

fn labels(backend: &Backend) -> BackendLabels {
    BackendLabels { backend: backend.name.to_string() }
}

fn rejects(backend: &Backend) -> impl Iterator<Item = (RejectLabels, i64)> {
    let name = backend.name.to_string();
    backend
        .end
        .reject_counts()
        .iter()
        .map(move |(reason, count)| (RejectLabels { backend: name.clone(), reason: reason.as_str() }, signed(*count)))
}

/// Kinds of objects that our agents tell of. An agent that calls them otherwise makes no series of its own.
const KINDS: [&str; 8] =
    ["services", "endpointslices", "endpoints", "projects", "loadbalancers", "listeners", "pools", "members"];

/// The age of each kind; of all that have no place in [`KINDS`] the oldest.
fn ages(backend: &Backend) -> BTreeMap<SourceLabels, f64> {
    let mut ages = BTreeMap::new();
    for source in backend.end.freshness() {
        let Some(age) = source.age else { continue };
        let kind = KINDS.into_iter().find(|kind| *kind == source.kind).unwrap_or("other");
        let oldest = ages.entry(SourceLabels { backend: backend.name.to_string(), kind }).or_insert(0.0_f64);
        *oldest = oldest.max(age.as_secs_f64());
    }
    ages
}

/// What happened since the process started. Each figure has two names: the first ones were registered as gauges, and stay for
/// those who ask for them.
#[derive(Debug)]
struct Happened(Vec<(Gauge, Counter, Count)>);

/// Which of the figures.
type Count = fn(&Counters) -> u64;

impl Happened {
    fn register(registry: &mut Registry) -> Self {
        let all: [(&str, &str, &str, Count); 4] = [
            (
                "comparison_differences",
                "differences_found",
                "Targets that a full comparison found to differ without a reason to; must stay 0",
                |counters| counters.comparison_differences,
            ),
            ("comparisons", "comparisons_ended", "Full comparisons that ended", |counters| counters.comparisons),
            (
                "accepted_forms",
                "forms_accepted",
                "Objects that the API server stored otherwise than sent",
                |counters| counters.accepted_forms,
            ),
            ("unreadable", "entries_unreadable", "Entries or frames of agents that could not be read", |counters| {
                counters.unreadable
            }),
        ];
        let register = |(old, new, help, value): (&str, &str, &str, Count)| {
            let (gauge, counter) = (Gauge::default(), Counter::default());
            registry.register(old, format!("As gimbal_writer_{new}_total, which is a counter"), gauge.clone());
            registry.register(new, help, counter.clone());
            (gauge, counter, value)
        };
        Self(all.into_iter().map(register).collect())
    }

    fn show(&self, counters: &Counters) {
        for (gauge, counter, value) in &self.0 {
            gauge.set(signed(value(counters)));
            counter.inner().store(value(counters), Ordering::Relaxed);
        }
    }
}

/// Gauges are signed; no count of ours comes near the limit.
fn signed(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
