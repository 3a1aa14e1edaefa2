//! How long changes take from their source to the Gimbal cluster.

use std::time::Duration;

use gimbal_reconcile::{JourneyEnd, JourneyLegs};
use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::latency;
use super::series::{BackendSeries, OfBackend};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LegLabels {
    backend: String,
    leg: &'static str,
    outcome: &'static str,
}

impl OfBackend for LegLabels {
    fn backend(&self) -> &str {
        &self.backend
    }
}

metrics_table! {
    /// The times of changes, by leg.
    pub(super) struct PropagationMetrics("gimbal") {
        seconds: BackendSeries<LegLabels, Histogram> = BackendSeries::of(Family::new_with_constructor(latency)), "propagation" ["backend", "leg", "outcome"] seconds,
            "Time of a change from its cause in the source until it was written, rejected or held; leg: source, agent, queue, apiserver, or total for all of them";
    }
}

impl PropagationMetrics {
    /// Records a change that is settled.
    pub(super) fn settled(&self, backend: &str, end: JourneyEnd, legs: &JourneyLegs) {
        let outcome = match end {
            JourneyEnd::Written => "written",
            JourneyEnd::Rejected => "rejected",
            JourneyEnd::Held => "held",
        };
        let JourneyLegs { source, agent, queue, api_server } = *legs;
        let legs = [
            ("source", source),
            ("agent", Some(agent)),
            ("queue", Some(queue)),
            ("apiserver", api_server),
            ("total", Some(legs.total())),
        ];
        for (leg, time) in legs {
            let Some(time): Option<Duration> = time else { continue };
            let labels = LegLabels { backend: backend.to_owned(), leg, outcome };
            self.seconds.of_labels(labels).observe(time.as_secs_f64());
        }
    }

    /// Ends the series of backends that are no longer known.
    pub(super) fn keep(&self, is_known: impl Fn(&str) -> bool) {
        self.seconds.keep(is_known);
    }
}
