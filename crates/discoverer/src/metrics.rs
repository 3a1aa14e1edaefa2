//! The metrics of a discoverer. The owner sets gauges about once a second; counters are incremented as events occur.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gimbal_runtime::{CertificateMetrics, GaugeSet, InfoMetric, MetricDoc, metrics_table};
use gimbal_session::Freshness;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::inspection_view::InspectionView;
use crate::payload::OfferedPayload;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    kind: String,
    reason: String,
}

metrics_table! {
    /// All metrics that discoverers have in common. With a payload other than Services, `services` and `endpoints`
    /// count its entries and their parts.
    #[derive(Default)]
    pub(crate) struct DiscovererMetrics("gimbal_discoverer") {
        services: Gauge, "services" [],
            "Services offered";
        endpoints: Gauge, "endpoints" [],
            "Endpoints of all Services offered";
        pending: Gauge, "pending" [],
            "Services on their way to the writer";
        rejected: Family<ReasonLabels, Gauge>, "rejected" ["reason"],
            "Services that the writer rejects, by reason";
        skipped: Family<ReasonLabels, Gauge>, "skipped" ["reason"],
            "Services, slices and endpoints left out, by reason";
        connected: Gauge, "connected" [],
            "1 while the writer has taken the stream in";
        pub(crate) dry_run: Gauge, "dry_run" [],
            "Whether it runs without --writer, so that nothing is sent";
        complete: Gauge, "source_complete" [],
            "1 while everything of the source is known";
        // Without `seconds`, which would add a unit to the exposition that was never there.
        freshness: GaugeSet<KindLabels, f64, AtomicU64>, "source_age_seconds" ["kind"],
            "Time since the source was last heard of";
        failures: Family<FailureLabels, Counter>, "source_failures" ["kind", "reason"],
            "Failed lists and watches";
        lists: Family<KindLabels, Counter>, "source_lists" ["kind"],
            "Complete lists";
        pub(crate) replaced: Counter, "source_replacements" [],
            "Times that another source was found";
        pub(crate) sent: Counter, "messages_sent" [],
            "Messages sent to the writer";
        pub(crate) received: Counter, "messages_received" [],
            "Messages of the writer";
        pub(crate) streams: Counter, "streams" [],
            "Streams opened";
    }
}

metrics_table! {
    /// What names this process.
    struct NameMetrics("gimbal") {
        name: InfoMetric, "discoverer" ["backend", "version"],
            "Which backend this is";
    }
}

/// Describes the metrics that discoverers have in common. Those of the process are not among them.
#[must_use]
pub fn metrics_reference() -> Vec<MetricDoc> {
    let certificate = CertificateMetrics::reference().into_iter().map(|metric| metric.under("gimbal_discoverer"));
    DiscovererMetrics::reference().into_iter().chain(certificate).chain(NameMetrics::reference()).collect()
}

/// The counters of a source that all discoverers have in common. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SourceMetrics(Arc<DiscovererMetrics>);

impl SourceMetrics {
    /// Counts a failed list, watch or call. `kind` is one of [`crate::SourceStatus::freshness`]; `reason` is from a small
    /// fixed set.
    pub fn failed(&self, kind: &str, reason: &'static str) {
        self.0.failures.get_or_create_owned(&FailureLabels { kind: kind.into(), reason: reason.into() }).inc();
    }

    /// Counts a complete list of a kind.
    pub fn listed(&self, kind: &str) {
        self.0.lists.get_or_create_owned(&KindLabels { kind: kind.into() }).inc();
    }
}

/// The reasons that have been reported, so that a reason that no longer occurs is reported as 0.
#[derive(Debug, Default)]
pub(crate) struct ReportedReasons {
    rejected: BTreeMap<&'static str, u64>,
    skipped: BTreeMap<&'static str, u64>,
}

impl DiscovererMetrics {
    /// Registers the metrics of the discoverer of this backend.
    pub(crate) fn of(backend: &str, version: &str, registry: &mut Registry) -> Arc<Self> {
        NameMetrics::register(registry).name.set([("backend", backend), ("version", version)]);
        Arc::new(Self::register(registry))
    }

    /// Returns the counters for the source.
    pub(crate) fn source(self: &Arc<Self>) -> SourceMetrics {
        SourceMetrics(self.clone())
    }

    /// Sets the gauges to the current state. `reported` keeps the reasons reported so far; one that no longer occurs is
    /// set to 0.
    pub(crate) fn refresh<P: OfferedPayload>(&self, view: &InspectionView<'_, P>, reported: &mut ReportedReasons) {
        let backend = view.backend();
        set(&self.services, view.publisher.agent.tree().count());
        set(&self.endpoints, backend.endpoints);
        set(&self.pending, backend.pending);
        set(&self.connected, backend.connected.into());
        set(&self.complete, backend.complete.into());
        let rejects = view.publisher.agent.rejects().values();
        let rejects = rejects.map(|reject| (P::reason_name(reject.reason), 1));
        set_all(&self.rejected, &mut reported.rejected, rejects);
        let skipped = view.source.skipped();
        set_all(&self.skipped, &mut reported.skipped, skipped.into_iter());
        self.freshness.show(ages(view.source.freshness(view.now)));
    }
}

fn set(gauge: &Gauge, value: u64) {
    gauge.inner().store(i64::try_from(value).unwrap_or(i64::MAX), Ordering::Relaxed);
}

/// Returns the age of each kind that was heard. One that is no longer read has none.
fn ages(kinds: Vec<Freshness>) -> impl Iterator<Item = (KindLabels, f64)> {
    kinds.into_iter().filter_map(|Freshness { kind, age }| Some((KindLabels { kind }, age?.as_secs_f64())))
}

fn set_all(
    family: &Family<ReasonLabels, Gauge>,
    shown: &mut BTreeMap<&'static str, u64>,
    counts: impl Iterator<Item = (&'static str, u64)>,
) {
    shown.values_mut().for_each(|count| *count = 0);
    for (reason, count) in counts {
        *shown.entry(reason).or_default() += count;
    }
    for (reason, count) in shown {
        set(&family.get_or_create_owned(&ReasonLabels { reason: (*reason).to_owned() }), *count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;

    use super::*;

    /// A discoverer that finds EndpointSlices reads no Endpoints any more, and their age would stay as it was.
    #[test]
    fn a_kind_that_is_not_read_any_more_has_no_age() {
        let mut registry = Registry::default();
        let metrics = DiscovererMetrics::of("node02", "1.0", &mut registry);
        for kind in ["endpoints", "endpointslices"] {
            let heard = vec![Freshness { kind: kind.to_owned(), age: Some(Duration::from_secs(1)) }];
            metrics.freshness.show(ages(heard));
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let ages: Vec<&str> = text.lines().filter(|line| line.contains("source_age_seconds{")).collect();
        assert_eq!(ages, ["gimbal_discoverer_source_age_seconds{kind=\"endpointslices\"} 1.0"]);
    }

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = DiscovererMetrics::of("node02", "1.0", &mut registry);
        metrics.source().failed("services", "timeout");
        metrics.source().listed("services");
        for family in [&metrics.rejected, &metrics.skipped] {
            set_all(family, &mut BTreeMap::new(), [("NameConflict", 1)].into_iter());
        }
        metrics.freshness.show([(KindLabels { kind: "services".to_owned() }, 1.0)]);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let found = gimbal_testkit::exposition::series(&text).join("\n") + "\n";
        assert_eq!(found, include_str!("metrics/exposition.txt"), "{found}");
    }
}
