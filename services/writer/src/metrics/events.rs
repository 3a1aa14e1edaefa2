//! Metrics of the Events about Backends.

use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::signed;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

metrics_table! {
    /// Events about Backends, with --backends objects.
    pub(super) struct BackendEventMetrics("gimbal_writer") {
        writes: Family<Outcome, Counter>, "event_writes" ["outcome"],
            "Attempts to write an Event, by outcome";
        dropped: Counter, "events_dropped" [],
            "Events that were dropped: no right, no answer, or too many pending";
        waiting: Gauge, "events_waiting" [],
            "Events that wait to be written";
    }
}

impl BackendEventMetrics {
    /// Records an attempt to write an Event.
    pub(super) fn written(&self, outcome: &'static str) {
        self.writes.get_or_create_owned(&Outcome { outcome }).inc();
    }

    /// Records that an Event was dropped.
    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }

    /// Sets how many Events wait.
    pub(super) fn set_waiting(&self, waiting: usize) {
        self.waiting.set(signed(waiting as u64));
    }
}
