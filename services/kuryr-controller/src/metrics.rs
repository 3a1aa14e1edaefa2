//! The metrics that only this program has.

use std::time::Duration;

use gimbal_kubernetes_agent::failure_label;
use gimbal_kubernetes_client::ApiError;
use gimbal_kubernetes_events::EventQueueCounts;
use gimbal_kuryr_resource::{LateCounts, ResourceCounts};
use gimbal_kuryr_router_core::IngressCounts;
use gimbal_runtime::{MetricDoc, metrics_table};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::kuryr_metrics::KuryrMetrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: &'static str,
    what: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

metrics_table! {
    /// Metrics of gimbal-kuryr-controller.
    #[derive(Clone)]
    pub(crate) struct ControllerMetrics("gimbal_kuryr_controller") {
        writes: Family<WriteLabels, Counter>, "writes" ["kind", "what", "code"],
            "Calls to the API server that change an object, by what is changed and by outcome";
        in_flight: Gauge, "in_flight" [],
            "Writes that are under way";
        waiting: Gauge, "waiting" [],
            "Objects that wait to be written";
        failing: Gauge, "failing" [],
            "Objects whose last write failed";
        services: Gauge, "services" [],
            "Services of the cluster";
        load_balancers: Family<StateLabels, Gauge>, "load_balancers" ["state"],
            "KuryrLoadBalancers: all, offered to the writer, deleting, ready as the writer last reported, waiting-for-writer, refused by the controller, rejected by the writer, late or blocked: tried by the writer and not ready for 15 minutes";
        ingresses: Family<StateLabels, Gauge>, "ingresses" ["state"],
            "Ingresses, with --ingress: all of the cluster, and those that are served by a router";
        routers: Family<StateLabels, Gauge>, "l7_routers" ["state"],
            "KuryrL7Routers, with --ingress, by the states of load_balancers";
        ready_seconds: Histogram = Histogram::new(exponential_buckets(0.1, 2.0, 14)), "ready" [] seconds,
            "Time from a change of a load balancer being offered to the writer until everything that is offered of it is ready";
        leading: Gauge, "leading" [],
            "Whether this process leads";
        dry_run: Gauge, "dry_run" [],
            "Whether it runs without --writer, so that nothing is streamed and no finalizer is set";
        lease_calls: Family<CallLabels, Counter>, "lease_calls" ["verb", "code"],
            "Calls about the Lease, by outcome; verb renew keeps it, release gives it up";
        events: Family<OutcomeLabels, Counter>, "event_writes" ["outcome"],
            "Attempts to write an Event, by outcome";
        events_dropped: Counter, "events_dropped" [],
            "Events that were dropped: no right, no answer, or too many pending";
        events_waiting: Gauge, "events_waiting" [],
            "Events that wait to be written";
    }
}

/// Describes the metrics that only this program has.
#[must_use]
pub fn metrics_reference() -> Vec<MetricDoc> {
    let mut all = ControllerMetrics::reference();
    all.extend(KuryrMetrics::reference());
    all
}

impl ControllerMetrics {
    /// Counts a call about the Lease.
    pub(crate) fn lease_called(&self, verb: &'static str, error: Option<&ApiError>) {
        self.lease_calls.get_or_create_owned(&CallLabels { verb, code: code(error) }).inc();
    }

    /// Counts a write that was sent.
    pub(crate) fn written(&self, kind: &'static str, what: &'static str, error: Option<&ApiError>) {
        self.writes.get_or_create_owned(&WriteLabels { kind, what, code: code(error) }).inc();
    }

    /// Sets what there is of Ingresses and their routers.
    pub(crate) fn show_routers(&self, ingresses: IngressCounts, counts: &ResourceCounts, late: LateCounts) {
        for (state, count) in [("all", ingresses.known), ("served", ingresses.served)] {
            set(&self.ingresses.get_or_create_owned(&StateLabels { state }), count);
        }
        show_states(&self.routers, counts, late);
    }

    /// Sets how many writes there are.
    pub(crate) fn show_writes(&self, in_flight: usize, waiting: usize, failing: usize) {
        set(&self.in_flight, in_flight);
        set(&self.waiting, waiting);
        set(&self.failing, failing);
    }

    /// Sets what there is of Services and their load balancers.
    pub(crate) fn show(&self, services: usize, counts: &ResourceCounts, late: LateCounts) {
        set(&self.services, services);
        show_states(&self.load_balancers, counts, late);
    }

    /// Notes how long a load balancer took.
    pub(crate) fn became_ready(&self, time: Duration) {
        self.ready_seconds.observe(time.as_secs_f64());
    }

    /// Sets whether this process leads.
    pub(crate) fn set_leading(&self, leading: bool) {
        set(&self.leading, usize::from(leading));
    }

    /// Sets whether there is no writer to stream to.
    pub(crate) fn set_dry_run(&self, is_dry_run: bool) {
        set(&self.dry_run, usize::from(is_dry_run));
    }
}

impl EventQueueCounts for ControllerMetrics {
    fn event_written(&self, error: Option<&ApiError>) {
        self.events.get_or_create_owned(&OutcomeLabels { outcome: code(error) }).inc();
    }

    fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    fn set_events_waiting(&self, waiting: usize) {
        set(&self.events_waiting, waiting);
    }
}

fn show_states(family: &Family<StateLabels, Gauge>, counts: &ResourceCounts, late: LateCounts) {
    for (state, count) in [
        ("all", counts.known),
        ("offered", counts.offered),
        ("deleting", counts.deleting),
        ("ready", counts.ready),
        ("waiting-for-writer", counts.waiting_for_writer),
        ("refused", counts.not_offered),
        ("rejected", counts.rejected),
        ("late", late.late),
        ("blocked", late.blocked),
    ] {
        set(&family.get_or_create_owned(&StateLabels { state }), count);
    }
}

fn code(error: Option<&ApiError>) -> &'static str {
    error.map_or("ok", failure_label)
}

fn set(gauge: &Gauge, value: usize) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = ControllerMetrics::register(&mut registry);
        metrics.lease_called("renew", None);
        metrics.written("KuryrLoadBalancer", "spec", None);
        metrics.show(0, &ResourceCounts::default(), LateCounts::default());
        metrics.show_routers(IngressCounts::default(), &ResourceCounts::default(), LateCounts::default());
        metrics.event_written(Some(&ApiError::Withheld));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let found = gimbal_testkit::exposition::series(&text).join("\n") + "\n";
        assert_eq!(found, include_str!("metrics/exposition.txt"), "{found}");
    }
}
