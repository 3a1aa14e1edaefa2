//! What becomes of the notes, counted.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::notes::Outcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

/// Metrics that are there with `--write-events` only.
#[derive(Debug)]
pub(crate) struct EventMetrics {
    tries: Family<Labels, Counter>,
    dropped: Counter,
    waiting: Gauge,
}

impl EventMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { tries: Family::default(), dropped: Counter::default(), waiting: Gauge::default() };
        let help = "Tries to tell a Service's owner by an Event, by what came of it";
        registry.register("event_writes", help, metrics.tries.clone());
        let help = "Services whose owners were not told, because there was no right, no answer, or too much to tell";
        registry.register("events_dropped", help, metrics.dropped.clone());
        registry.register("events_waiting", "Services whose owners are still to be told", metrics.waiting.clone());
        metrics
    }

    pub(super) fn came_of_it(&self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Written => "written",
            Outcome::Gone => "gone",
            Outcome::Denied => "denied",
            Outcome::Failed => "failed",
        };
        self.tries.get_or_create_owned(&Labels { outcome }).inc();
    }

    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }

    pub(super) fn waiting(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
