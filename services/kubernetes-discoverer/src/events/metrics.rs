//! Metrics of the notes.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::notes::NoteOutcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

/// Metrics that exist only with `--write-events`.
#[derive(Debug)]
pub(crate) struct EventMetrics {
    tries: Family<Labels, Counter>,
    dropped: Counter,
    waiting: Gauge,
}

impl EventMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { tries: Family::default(), dropped: Counter::default(), waiting: Gauge::default() };
        let help = "Attempts to write an Event about a rejection, by outcome";
        registry.register("event_writes", help, metrics.tries.clone());
        let help = "Events about rejections that were dropped: no right, no answer, or too many pending";
        registry.register("events_dropped", help, metrics.dropped.clone());
        registry.register(
            "events_waiting",
            "Events about rejections that are waiting to be written",
            metrics.waiting.clone(),
        );
        metrics
    }

    pub(super) fn count_outcome(&self, outcome: NoteOutcome) {
        let outcome = match outcome {
            NoteOutcome::Written => "written",
            NoteOutcome::Gone => "gone",
            NoteOutcome::Denied => "denied",
            NoteOutcome::Failed => "failed",
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
