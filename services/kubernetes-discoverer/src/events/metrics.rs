//! Metrics of the notes.

use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::notes::NoteOutcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

metrics_table! {
    /// Metrics that exist only with `--write-events`.
    pub(crate) struct EventMetrics("gimbal_discoverer") {
        tries: Family<OutcomeLabels, Counter>, "event_writes" ["outcome"],
            "Attempts to write an Event about a rejection, by outcome";
        dropped: Counter, "events_dropped" [],
            "Events about rejections that were dropped: no right, no answer, or too many pending";
        waiting: Gauge, "events_waiting" [],
            "Events about rejections that are waiting to be written";
    }
}

impl EventMetrics {
    pub(super) fn count_outcome(&self, outcome: NoteOutcome) {
        let outcome = match outcome {
            NoteOutcome::Written => "written",
            NoteOutcome::Gone => "gone",
            NoteOutcome::Denied => "denied",
            NoteOutcome::Failed => "failed",
        };
        self.tries.get_or_create_owned(&OutcomeLabels { outcome }).inc();
    }

    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }

    pub(super) fn waiting(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = EventMetrics::register(&mut registry);
        metrics.count_outcome(NoteOutcome::Written);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let found = gimbal_testkit::exposition::series(&text);
        let expected = [
            "gimbal_discoverer_event_writes_total{outcome} counter",
            "gimbal_discoverer_events_dropped_total{} counter",
            "gimbal_discoverer_events_waiting{} gauge",
        ];
        assert_eq!(found, expected);
    }
}
