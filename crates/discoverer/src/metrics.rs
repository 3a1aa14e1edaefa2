//! The metrics of a discoverer. The owner sets gauges about once a second; counters are incremented as events occur.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::inspection_view::InspectionView;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Reason {
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindReason {
    kind: String,
    reason: String,
}

type Seconds = Gauge<f64, AtomicU64>;

/// The counters of a source that all discoverers have in common. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SourceMetrics {
    failures: Family<KindReason, Counter>,
    lists: Family<Kind, Counter>,
}

impl SourceMetrics {
    /// Counts a failed list, watch or call. `kind` is one of [`crate::Known::freshness`]; `reason` is from a small
    /// fixed set.
    pub fn failed(&self, kind: &str, reason: &'static str) {
        self.failures.get_or_create_owned(&KindReason { kind: kind.into(), reason: reason.into() }).inc();
    }

    /// Counts a complete list of a kind.
    pub fn listed(&self, kind: &str) {
        self.lists.get_or_create_owned(&Kind { kind: kind.into() }).inc();
    }
}

/// All metrics that discoverers have in common.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    services: Gauge,
    endpoints: Gauge,
    pending: Gauge,
    rejected: Family<Reason, Gauge>,
    skipped: Family<Reason, Gauge>,
    connected: Gauge,
    complete: Gauge,
    freshness: Family<Kind, Seconds>,
    pub(crate) source: SourceMetrics,
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
    pub(crate) streams: Counter,
    pub(crate) replaced: Counter,
}

/// The reasons that have been reported, so that a reason that no longer occurs is reported as 0.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    rejected: BTreeMap<&'static str, u64>,
    skipped: BTreeMap<&'static str, u64>,
}

impl Metrics {
    pub(crate) fn register(&self, backend: &str, version: &str, registry: &mut Registry) {
        let info = vec![("backend", backend.to_owned()), ("version", version.to_owned())];
        registry.register("gimbal_discoverer", "Which backend this is", Info::new(info));
        let r = registry.sub_registry_with_prefix("gimbal_discoverer");
        r.register("services", "Services offered", self.services.clone());
        r.register("endpoints", "Endpoints of all Services offered", self.endpoints.clone());
        r.register("pending", "Services on their way to the writer", self.pending.clone());
        r.register("rejected", "Services that the writer rejects, by reason", self.rejected.clone());
        r.register("skipped", "Services, slices and endpoints left out, by reason", self.skipped.clone());
        r.register("connected", "1 while the writer has taken the stream in", self.connected.clone());
        r.register("source_complete", "1 while everything of the source is known", self.complete.clone());
        r.register("source_age_seconds", "Time since the source was last heard of", self.freshness.clone());
        r.register("source_failures", "Failed lists and watches", self.source.failures.clone());
        r.register("source_lists", "Complete lists", self.source.lists.clone());
        r.register("source_replacements", "Times that another source was found", self.replaced.clone());
        r.register("messages_sent", "Messages sent to the writer", self.sent.clone());
        r.register("messages_received", "Messages of the writer", self.received.clone());
        r.register("streams", "Streams opened", self.streams.clone());
    }

    /// Sets the gauges to the current state. `shown` keeps the reasons reported so far; one that no longer occurs is
    /// set to 0.
    pub(crate) fn refresh(&self, view: &InspectionView<'_>, shown: &mut Shown) {
        let backend = view.backend();
        set(&self.services, view.offer.agent.tree().count());
        set(&self.endpoints, backend.endpoints);
        set(&self.pending, backend.pending);
        set(&self.connected, backend.connected.into());
        set(&self.complete, backend.complete.into());
        let rejects = view.offer.agent.rejects().values().map(|reject| (reject.reason.as_str(), 1));
        set_all(&self.rejected, &mut shown.rejected, rejects);
        let skipped = view.source.skipped();
        set_all(&self.skipped, &mut shown.skipped, skipped.into_iter());
        for kind in view.source.freshness(view.now) {
            if let Some(age) = kind.age {
                self.freshness.get_or_create_owned(&Kind { kind: kind.kind }).set(age.as_secs_f64());
            }
        }
    }
}

fn set(gauge: &Gauge, value: u64) {
    gauge.inner().store(i64::try_from(value).unwrap_or(i64::MAX), Ordering::Relaxed);
}

fn set_all(
    family: &Family<Reason, Gauge>,
    shown: &mut BTreeMap<&'static str, u64>,
    counts: impl Iterator<Item = (&'static str, u64)>,
) {
    shown.values_mut().for_each(|count| *count = 0);
    for (reason, count) in counts {
        *shown.entry(reason).or_default() += count;
    }
    for (reason, count) in shown {
        set(&family.get_or_create_owned(&Reason { reason: (*reason).to_owned() }), *count);
    }
}
