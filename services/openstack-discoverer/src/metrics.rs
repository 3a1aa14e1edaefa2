//! The metrics that only this discoverer has.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gimbal_discoverer::SourceMetrics;
use gimbal_openstack_client::{CallKind, CallOutcome, Calls};
use gimbal_openstack_source::ListMode;
use gimbal_runtime::{MetricDoc, metrics_table};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::poll_state::PollSummary;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabels {
    why: &'static str,
}

metrics_table! {
    /// The metrics of calls and polls.
    #[derive(Default)]
    struct CloudMetrics("gimbal_discoverer") {
        calls: Family<CallLabels, Counter>, "cloud_calls" ["kind", "result"],
            "Calls to the cloud, by kind and result";
        bytes: Family<KindLabels, Counter>, "cloud_bytes" ["kind"],
            "Bytes of the cloud's answers, by kind of call";
        // Without `seconds`, which would add a unit to the exposition that was never there.
        seconds: Family<KindLabels, Counter<f64, AtomicU64>>, "cloud_call_seconds" ["kind"],
            "Time that calls took, added up, by kind";
        retries: Counter, "cloud_retries" [],
            "Calls that repeated one that was cut off or throttled";
        tokens_issued: Counter, "cloud_tokens" [],
            "Tokens that Keystone issued";
        tokens_rejected: Counter, "cloud_tokens_rejected" [],
            "Tokens that were refused before their time";
        polls: Family<PollLabels, Counter>, "polls" ["result"],
            "Polls that ended, by how much they showed";
        poll_seconds: Gauge<f64, AtomicU64>, "poll_seconds" [],
            "Time that the last poll took";
        poll_calls: Gauge, "poll_calls" [],
            "Calls of the last poll, tokens included";
        member_lists: Family<WhyLabels, Counter>, "member_lists" ["why"],
            "Member lists asked for: needed, since something changed, or swept";
        mode: Family<ModeLabels, Gauge>, "mode" ["mode"],
            "1 for how lists are asked for: bulk, or per-project";
        projects: Gauge, "projects" [],
            "Projects in the last list of them";
    }
}

/// Describes the metrics that only this discoverer has.
pub(crate) fn reference() -> Vec<MetricDoc> {
    CloudMetrics::reference()
}

#[derive(Debug, Default)]
pub(crate) struct CloudSourceMetrics {
    pub(crate) source: SourceMetrics,
    cloud: CloudMetrics,
    counted: Counted,
}

/// The client's counters as last read. A new client, made for other credentials, starts at 0.
#[derive(Debug, Default)]
struct Counted(BTreeMap<(CallKind, &'static str), u64>);

impl Counted {
    /// Returns how much a counter has grown since it was last read.
    fn growth(&mut self, kind: CallKind, what: &'static str, now: u64) -> u64 {
        let before = self.0.insert((kind, what), now).unwrap_or_default();
        now.saturating_sub(before)
    }
}

impl CloudSourceMetrics {
    pub(crate) fn new(source: SourceMetrics, registry: &mut Registry) -> Self {
        Self { source, cloud: CloudMetrics::register(registry), counted: Counted::default() }
    }

    /// Called when the client was replaced: its counters start at 0.
    pub(crate) fn client_replaced(&mut self) {
        self.counted = Counted::default();
    }

    pub(crate) fn entered(&self, mode: ListMode) {
        for (candidate, name) in [(ListMode::Bulk, "bulk"), (ListMode::PerProject, "per-project")] {
            self.cloud.mode.get_or_create_owned(&ModeLabels { mode: name }).set((candidate == mode).into());
        }
    }

    pub(crate) fn projects(&self, count: usize) {
        self.cloud.projects.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Adds the growth of the client's counters to the metrics.
    pub(crate) fn count(&mut self, calls: &Calls) {
        for kind in CallKind::ALL {
            for outcome in CallOutcome::ALL {
                let result = outcome.as_str();
                let more = self.counted.growth(kind, result, calls.count(kind, outcome));
                if more > 0 {
                    self.cloud.calls.get_or_create_owned(&CallLabels { kind: kind.as_str(), result }).inc_by(more);
                }
            }
            let (sum, label) = (calls.sum(kind), KindLabels { kind: kind.as_str() });
            let bytes = self.counted.growth(kind, "bytes", sum.bytes);
            let micros = u64::try_from(sum.time.as_micros()).unwrap_or(u64::MAX);
            let time = Duration::from_micros(self.counted.growth(kind, "micros", micros));
            if sum.calls > 0 {
                self.cloud.bytes.get_or_create_owned(&label).inc_by(bytes);
                self.cloud.seconds.get_or_create_owned(&label).inc_by(time.as_secs_f64());
            }
        }
        self.cloud.retries.inc_by(self.counted.growth(CallKind::Token, "retries", calls.retries()));
        self.cloud.tokens_issued.inc_by(self.counted.growth(CallKind::Token, "issued", calls.tokens_issued()));
        self.cloud.tokens_rejected.inc_by(self.counted.growth(CallKind::Token, "rejected", calls.tokens_rejected()));
    }

    pub(crate) fn polled(&self, summary: &PollSummary, took: Duration, calls: u64) {
        self.cloud.polls.get_or_create_owned(&PollLabels { result: summary.result.as_str() }).inc();
        self.cloud.poll_seconds.set(took.as_secs_f64());
        self.cloud.poll_calls.set(i64::try_from(calls).unwrap_or(i64::MAX));
        for (why, count) in [("needed", summary.needed), ("swept", summary.swept)] {
            self.cloud
                .member_lists
                .get_or_create_owned(&WhyLabels { why })
                .inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = CloudSourceMetrics::new(SourceMetrics::default(), &mut registry);
        metrics.cloud.calls.get_or_create_owned(&CallLabels { kind: "token", result: "ok" }).inc();
        metrics.cloud.bytes.get_or_create_owned(&KindLabels { kind: "token" }).inc();
        metrics.cloud.seconds.get_or_create_owned(&KindLabels { kind: "token" }).inc();
        metrics.entered(ListMode::Bulk);
        metrics.polled(&PollSummary { needed: 1, ..PollSummary::default() }, Duration::from_secs(1), 1);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let found = gimbal_testkit::exposition::series(&text).join("\n") + "\n";
        assert_eq!(found, include_str!("metrics/exposition.txt"), "{found}");
    }
}
