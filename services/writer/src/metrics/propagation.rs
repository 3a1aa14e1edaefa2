//! How long changes take from their source to the Gimbal cluster.

use std::time::{Duration, SystemTime};

use gimbal_reconcile::{JourneyEnd, JourneyLegs};
use gimbal_runtime::metrics_table;
use gimbal_session::TraceContext;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;

use super::latency_buckets;
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

/// Labels of an example, as OpenMetrics calls a trace's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExampleLabels {
    trace_id: String,
}

/// A histogram whose buckets name the last traced change that they counted.
type TracedHistogram = HistogramWithExemplars<ExampleLabels>;

/// Creates a histogram with the buckets of all times of the writer.
fn traced_latency() -> TracedHistogram {
    HistogramWithExemplars::new(latency_buckets())
}

metrics_table! {
    /// The times of changes, by leg.
    pub(super) struct PropagationMetrics("gimbal") {
        seconds: BackendSeries<LegLabels, TracedHistogram> = BackendSeries::of(Family::new_with_constructor(traced_latency)), "propagation" ["backend", "leg", "outcome"] seconds,
            "Time of a change from its cause in the source until it was written, rejected or held; leg: source, agent, queue, apiserver, or total for all of them";
    }
}

impl PropagationMetrics {
    /// Records a change that is settled, with its trace as an example.
    pub(super) fn settled(&self, backend: &str, end: JourneyEnd, legs: &JourneyLegs, trace: Option<TraceContext>) {
        let outcome = end.as_str();
        let example = trace.map(|trace| (ExampleLabels { trace_id: hex(trace.trace_id()) }, SystemTime::now()));
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
            let (trace, at) = example.clone().unzip();
            self.seconds.of_labels(labels).observe(time.as_secs_f64(), trace, at);
        }
    }

    /// Ends the series of backends that are no longer known.
    pub(super) fn keep(&self, is_known: impl Fn(&str) -> bool) {
        self.seconds.keep(is_known);
    }
}

fn hex(trace_id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(trace_id))
}
