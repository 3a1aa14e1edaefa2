//! The Prometheus metrics of openstack-writer. Those that Kuryr has keep its names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::FreeQuota;
use gimbal_octavia_plan::{ApiVerb, ChangeOutcome, CloudChange};
use gimbal_octavia_registry::{CallAnswer, RegistryCounts, RegistryEvent};
use gimbal_openstack_client::{CallLabels, CallOutcome, CallTotals};
use gimbal_runtime::{CertificateMetrics, InfoMetric, MetricDoc, metrics_table};
use gimbal_session::GoodbyeReason;
use gimbal_transport::{Problem, Refusal};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::cloud_access::CloudAccess;
use crate::clusters::{AGES, Clusters};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudCallLabels {
    /// Not `service`: in a cluster with the Prometheus operator every series has that label, for the Service it is read from.
    api: &'static str,
    verb: &'static str,
    resource: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudTimeLabels {
    api: &'static str,
    verb: &'static str,
    resource: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    cluster: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterReasonLabels {
    cluster: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgeLabels {
    seconds: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// From a tenth of a second to an hour.
fn served() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 2.0, 16))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    cluster: String,
    resource: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    verb: &'static str,
    resource: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitingLabels {
    cluster: String,
    age: &'static str,
}

metrics_table! {
    /// Calls, streams and load balancers.
    struct WriterTable("gimbal_openstack_writer") {
        build: InfoMetric, "build" ["version"],
            "The version of the program";
        calls: Family<CloudCallLabels, Counter>, "calls" ["api", "verb", "resource", "outcome"],
            "Calls to OpenStack, by outcome";
        call_seconds: Family<CloudTimeLabels, Counter<f64, std::sync::atomic::AtomicU64>>, "call" ["api", "verb", "resource"] seconds,
            "Time that calls took, added up";
        load_balancers: Family<StateLabels, Gauge>, "load_balancers" ["state"],
            "Owners of load balancers: all, and those of them that are ready, being removed or pending; of connected clusters those that are stuck, held, over_quota, or without repair budget";
        orphans: Gauge, "orphans" [],
            "Objects in OpenStack whose owner is gone, of connected clusters";
        pending: Family<AgeLabels, Gauge>, "pending" ["seconds"],
            "Load balancers that have been in a PENDING status for longer than that";
        served_seconds: Family<ClusterLabels, Histogram> = Family::new_with_constructor(served), "served" ["cluster"] seconds,
            "Time from when something was wanted until it was there and active";
        drift_found: Family<KindLabels, Counter>, "drift_found" ["kind"],
            "Looks that found something of ours missing, changed, or added to by somebody else";
        drift: Counter, "drift" [],
            "Looks that found something changed by somebody else";
        changes: Counter, "changes" [],
            "Changes of OpenStack that were sent";
        unknown: Counter, "changes_unknown" [],
            "Changes whose answer was lost; each is looked up before anything is repeated";
        refused: Counter, "changes_refused" [],
            "Changes that OpenStack refused";
        steps: Family<StepLabels, Counter>, "steps" ["verb", "resource", "outcome"],
            "Changes of OpenStack that load balancers needed, and what came of each: accepted, refused, unknown, or not_sent";
        waiting: Family<WaitingLabels, Gauge>, "waiting" ["cluster", "age"],
            "Load balancers that are not as they are wanted yet, by age: up to 1m, 5m, 15m, and older";
        connected: Family<ClusterLabels, Gauge>, "cluster_connected" ["cluster"],
            "Whether the cluster's controller is connected; without it nothing is changed";
        entries: Family<ClusterLabels, Gauge>, "cluster_entries" ["cluster"],
            "Load balancers that the cluster wants";
        rejected: Family<ClusterReasonLabels, Gauge>, "cluster_rejected" ["cluster", "reason"],
            "Load balancers of the cluster that its policy refuses, by reason, while it is connected";
        removed: Family<ClusterLabels, Counter>, "orphans_removed" ["cluster"],
            "Owners that were gone, and whose objects were removed";
        held: Family<ClusterLabels, Counter>, "holds" ["cluster"],
            "Removals that the mass-change guard has held";
        refused_streams: Family<ReasonLabels, Counter>, "refused_streams" ["reason"],
            "Streams of controllers that were refused, by reason";
        broken_streams: Family<ClusterLabels, Counter>, "broken_streams" ["cluster"],
            "Streams that broke";
        refused_connections: Family<ReasonLabels, Counter>, "refused_connections" ["reason"],
            "Connections that were refused before they could speak, by reason";
        config_good: Gauge, "config_good" [],
            "Whether the configuration file could be used when it was last read";
        config_reloads: Counter, "config_reloads" [],
            "Times that a changed configuration file was taken";
        stuck: Counter, "stuck" [],
            "Load balancers that stayed in a PENDING status for too long";
    }
}

metrics_table! {
    /// Kuryr's metrics, under its names.
    struct KuryrTable("kuryr") {
        quota: Family<ResourceLabels, Gauge>, "quota_free_count" ["cluster", "resource"],
            "What is left of the quota of the cluster's project; without a limit there is no such line";
    }
}

/// Handles to every metric. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CloudWriterMetrics(Arc<MetricTables>);

#[derive(Debug)]
struct MetricTables {
    own: WriterTable,
    kuryr: KuryrTable,
    counted: Mutex<Counted>,
}

/// What was read from counters that only grow, so that their growth can be added.
#[derive(Debug, Default)]
struct Counted {
    calls: BTreeMap<CallLabels, CallTotals>,
    registry: RegistryCounts,
}

impl CloudWriterMetrics {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let (own, kuryr) = (WriterTable::register(registry), KuryrTable::register(registry));
        own.build.set([("version", env!("CARGO_PKG_VERSION"))]);
        own.config_good.set(1);
        Self(Arc::new(MetricTables { own, kuryr, counted: Mutex::default() }))
    }

    /// Describes them.
    #[must_use]
    pub fn reference() -> Vec<MetricDoc> {
        let tls = CertificateMetrics::reference().into_iter().map(|metric| metric.under("gimbal_openstack_writer"));
        WriterTable::reference().into_iter().chain(tls).chain(KuryrTable::reference()).collect()
    }

    /// A stream was refused.
    pub fn stream_refused(&self, reason: GoodbyeReason) {
        let reason = format!("{reason:?}");
        self.0.own.refused_streams.get_or_create_owned(&ReasonLabels { reason }).inc();
    }

    /// A stream broke.
    pub fn stream_broke(&self, cluster: &str) {
        self.0.own.broken_streams.get_or_create_owned(&ClusterLabels { cluster: cluster.to_owned() }).inc();
    }

    /// A connection was refused.
    pub fn connection_refused(&self, refusal: &Refusal) {
        if !matches!(refusal.problem, Problem::Silent) {
            let reason = refusal.problem.as_str().to_owned();
            self.0.own.refused_connections.get_or_create_owned(&ReasonLabels { reason }).inc();
        }
    }

    /// The configuration file was read.
    pub fn config_read(&self, good: bool) {
        self.0.own.config_good.set(good.into());
        self.0.own.config_reloads.inc_by(good.into());
    }

    /// Something happened.
    pub fn happened(&self, event: &RegistryEvent) {
        let of = |cluster: &str| ClusterLabels { cluster: cluster.to_owned() };
        match event {
            RegistryEvent::Served { cluster, took, .. } => {
                self.0.own.served_seconds.get_or_create_owned(&of(cluster)).observe(took.as_secs_f64());
            }
            RegistryEvent::Stuck { .. } => {
                self.0.own.stuck.inc();
            }
            RegistryEvent::OrphanRemoved { cluster, .. } => {
                self.0.own.removed.get_or_create_owned(&of(cluster)).inc();
            }
            RegistryEvent::BalancerGuard { cluster, event: gimbal_guard::GuardEvent::Held(_) }
            | RegistryEvent::MemberGuard { cluster, event: gimbal_guard::GuardEvent::Held(_) } => {
                self.0.own.held.get_or_create_owned(&of(cluster)).inc();
            }
            _ => {}
        }
    }

    /// A change was sent, or was not.
    pub fn step_taken(&self, change: &CloudChange, answer: &CallAnswer) {
        let call = change.request();
        let verb = match call.verb {
            ApiVerb::Create => "create",
            ApiVerb::Update => "update",
            ApiVerb::Delete => "delete",
        };
        let outcome = match answer {
            CallAnswer::Changed(ChangeOutcome::Accepted(_)) => "accepted",
            CallAnswer::Changed(ChangeOutcome::Refused(_)) => "refused",
            CallAnswer::Changed(ChangeOutcome::Unknown(_)) => "unknown",
            CallAnswer::NotSent
            | CallAnswer::Unsendable { .. }
            | CallAnswer::Rows(_)
            | CallAnswer::Listed(_)
            | CallAnswer::ReadFailed { .. }
            | CallAnswer::ReadRefused { .. } => "not_sent",
        };
        self.0.own.steps.get_or_create_owned(&StepLabels { verb, resource: call.resource, outcome }).inc();
    }

    /// Sets the metrics to the present state.
    pub fn show(&self, clusters: &Clusters, cloud: &CloudAccess, now: Instant) {
        let mut counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner);
        self.show_calls(&mut counted, cloud.cloud().calls().by_labels());
        let counts = clusters.registry.counts(now);
        self.show_counts(&mut counted, counts);
        self.show_clusters(clusters);
        self.show_waiting(clusters, now);
    }

    fn show_waiting(&self, clusters: &Clusters, now: Instant) {
        self.0.own.waiting.clear();
        for (name, state) in clusters.iter() {
            for ((age, _), count) in AGES.iter().zip(state.waiting_by_age(now)) {
                let labels = WaitingLabels { cluster: name.to_string(), age };
                self.0.own.waiting.get_or_create_owned(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    pub(crate) fn show_clusters(&self, clusters: &Clusters) {
        let own = &self.0.own;
        own.connected.clear();
        own.entries.clear();
        own.rejected.clear();
        for (name, state) in clusters.iter() {
            let cluster = || name.to_string();
            own.connected.get_or_create_owned(&ClusterLabels { cluster: cluster() }).set(state.is_connected().into());
            let entries = i64::try_from(state.end.tree().count()).unwrap_or(i64::MAX);
            own.entries.get_or_create_owned(&ClusterLabels { cluster: cluster() }).set(entries);
            // Without its stream, another writer may decide about the cluster, and what was known last is no news.
            let rejects = state.is_connected().then(|| state.end.reject_counts());
            for (reason, count) in rejects.into_iter().flatten() {
                let labels = ClusterReasonLabels { cluster: cluster(), reason: reason.as_str() };
                own.rejected.get_or_create_owned(&labels).set(i64::try_from(*count).unwrap_or(i64::MAX));
            }
            if let Some(reading) = &state.reading {
                self.show_quota(name, reading.known.quota);
            }
        }
    }

    fn show_calls(&self, counted: &mut Counted, calls: BTreeMap<CallLabels, CallTotals>) {
        for (labels, totals) in &calls {
            let before = counted.calls.get(labels);
            let CallLabels { service, verb, resource } = *labels;
            let (api, verb) = (service.as_str(), verb.as_str());
            for (outcome, count) in &totals.outcomes {
                let known = before.and_then(|before| before.outcomes.get(outcome)).copied().unwrap_or_default();
                let outcome = CallOutcome::as_str(*outcome);
                let labels = CloudCallLabels { api, verb, resource, outcome };
                // Another client, for other credentials, starts at 0.
                let more = if *count < known { *count } else { count - known };
                self.0.own.calls.get_or_create_owned(&labels).inc_by(more);
            }
            let known = before.map(|before| before.time).filter(|time| *time <= totals.time).unwrap_or(Duration::ZERO);
            let labels = CloudTimeLabels { api, verb, resource };
            self.0.own.call_seconds.get_or_create_owned(&labels).inc_by((totals.time - known).as_secs_f64());
        }
        counted.calls = calls;
    }

    fn show_counts(&self, counted: &mut Counted, counts: RegistryCounts) {
        let own = &self.0.own;
        let RegistryCounts { owners, ready, removing, pending, stuck, held, budget_spent, over_quota, orphans, .. } =
            counts;
        for (state, count) in [
            ("all", owners),
            ("ready", ready),
            ("removing", removing),
            ("pending", pending),
            ("stuck", stuck),
            ("held", held),
            ("over_quota", over_quota),
            ("no_repair_budget", budget_spent),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            own.load_balancers.get_or_create_owned(&StateLabels { state }).set(count);
        }
        own.orphans.set(i64::try_from(orphans).unwrap_or(i64::MAX));
        let before = counted.registry;
        for (seconds, count) in ["10", "60", "600"].into_iter().zip(counts.pending_for) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            own.pending.get_or_create_owned(&AgeLabels { seconds }).set(count);
        }
        let changed = |counts: &RegistryCounts| counts.drift - counts.drift_missing;
        for (kind, count, known) in [
            ("missing", counts.drift_missing, before.drift_missing),
            ("changed", changed(&counts), changed(&before)),
            ("added", counts.drift_added, before.drift_added),
        ] {
            own.drift_found.get_or_create_owned(&KindLabels { kind }).inc_by(count.saturating_sub(known));
        }
        own.drift.inc_by(counts.drift.saturating_sub(before.drift));
        own.changes.inc_by(counts.changes.saturating_sub(before.changes));
        own.unknown.inc_by(counts.unknown.saturating_sub(before.unknown));
        own.refused.inc_by(counts.refused.saturating_sub(before.refused));
        counted.registry = counts;
    }

    fn show_quota(&self, cluster: &str, quota: FreeQuota) {
        let FreeQuota { load_balancers, listeners, pools, members, ports, floating_ips } = quota;
        for (resource, free) in [
            ("loadbalancers", load_balancers),
            ("listeners", listeners),
            ("pools", pools),
            ("members", members),
            ("ports", ports),
            ("floatingips", floating_ips),
        ] {
            let labels = ResourceLabels { cluster: cluster.to_owned(), resource };
            match free {
                Some(free) => drop(self.0.kuryr.quota.get_or_create_owned(&labels).set(free.into())),
                None => drop(self.0.kuryr.quota.remove(&labels)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_openstack_client::{ServiceType, Verb};
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    fn calls(ok: u64, millis: u64) -> BTreeMap<CallLabels, CallTotals> {
        let labels = CallLabels { service: ServiceType::LoadBalancer, verb: Verb::Create, resource: "loadbalancer" };
        let totals =
            CallTotals { outcomes: [(CallOutcome::Ok, ok)].into(), bytes: 0, time: Duration::from_millis(millis) };
        [(labels, totals)].into()
    }

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = CloudWriterMetrics::register(&mut registry);
        let _tls = CertificateMetrics::register(registry.sub_registry_with_prefix("gimbal_openstack_writer"));
        metrics.stream_refused(GoodbyeReason::UnknownBackend);
        metrics.stream_broke("prod1");
        metrics.happened(&RegistryEvent::Served {
            cluster: "prod1".into(),
            key: gimbal_kuryr_model::DesiredKey::new(gimbal_kuryr_model::DesiredKind::LoadBalancer, "shop", "web"),
            took: Duration::from_secs(2),
            changing: None,
        });
        metrics.happened(&RegistryEvent::OrphanRemoved { cluster: "prod1".into(), owner: "u".into() });
        let cluster = || ClusterLabels { cluster: "prod1".to_owned() };
        metrics.0.own.held.get_or_create_owned(&cluster()).inc();
        metrics.0.own.connected.get_or_create_owned(&cluster()).set(1);
        metrics.0.own.entries.get_or_create_owned(&cluster()).set(1);
        let rejected = ClusterReasonLabels { cluster: "prod1".to_owned(), reason: "Quota" };
        metrics.0.own.rejected.get_or_create_owned(&rejected).set(1);
        let refused = ReasonLabels { reason: "expired".to_owned() };
        metrics.0.own.refused_connections.get_or_create_owned(&refused).inc();
        metrics.step_taken(&CloudChange::DeletePort { id: "p".into() }, &CallAnswer::NotSent);
        metrics.0.own.waiting.get_or_create_owned(&WaitingLabels { cluster: "prod1".to_owned(), age: "1m" }).set(1);
        let mut counted = Counted::default();
        metrics.show_calls(&mut counted, calls(1, 10));
        metrics.show_counts(&mut counted, RegistryCounts::default());
        metrics.show_quota("prod1", FreeQuota { listeners: Some(1), ..FreeQuota::default() });
        let found = gimbal_testkit::exposition::series(&text(&registry)).join("\n") + "\n";
        assert_eq!(found, include_str!("metrics/exposition.txt"), "{found}");
        let names: Vec<String> = CloudWriterMetrics::reference().into_iter().map(|metric| metric.name).collect();
        for series in found.lines() {
            let name = series.split('{').next().unwrap();
            let of_histogram = ["_bucket", "_count", "_sum"].into_iter().find_map(|end| name.strip_suffix(end));
            let name = of_histogram.filter(|_| series.ends_with(" histogram")).unwrap_or(name);
            assert!(names.iter().any(|known| known == name), "{name} is not in the reference: {names:?}");
        }
    }

    #[test]
    fn what_a_client_counts_is_added_and_another_client_begins_anew() {
        let mut registry = Registry::default();
        let metrics = CloudWriterMetrics::register(&mut registry);
        let mut counted = Counted::default();
        for (ok, millis) in [(2, 20), (5, 50), (1, 10)] {
            metrics.show_calls(&mut counted, calls(ok, millis));
        }
        let text = text(&registry);
        let labels = r#"{api="load-balancer",verb="create",resource="loadbalancer""#;
        assert!(text.contains(&format!("gimbal_openstack_writer_calls_total{labels},outcome=\"ok\"}} 6")), "{text}");
        assert!(text.contains(&format!("gimbal_openstack_writer_call_seconds_total{labels}}} 0.06")), "{text}");
    }

    #[test]
    fn a_resource_without_a_limit_has_no_line() {
        let mut registry = Registry::default();
        let metrics = CloudWriterMetrics::register(&mut registry);
        metrics.show_quota("prod1", FreeQuota { listeners: Some(7), ..FreeQuota::default() });
        assert!(text(&registry).contains(r#"kuryr_quota_free_count{cluster="prod1",resource="listeners"} 7"#));
        metrics.show_quota("prod1", FreeQuota::default());
        assert!(!text(&registry).contains("listeners"));
    }
}
