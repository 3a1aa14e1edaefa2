//! The metrics of this program.

use gimbal_kubernetes_agent::failure_label;
use gimbal_kubernetes_client::ApiError;
use gimbal_runtime::{InfoMetric, metrics_table};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: &'static str,
    what: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    kind: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

metrics_table! {
    /// Metrics of gimbal-operator.
    #[derive(Clone)]
    pub(crate) struct OperatorMetrics("gimbal_operator") {
        backends: Family<StateLabels, Gauge>, "backends" ["state"],
            "Backends with a source: all, ready: a pod of the discoverer is available, blocked: something is missing or in the way";
        writes: Family<WriteLabels, Counter>, "writes" ["kind", "what", "code"],
            "Calls to the API server that change an object, by what is done and by outcome";
        signed: Counter, "certificates_signed" [],
            "Certificates that were signed";
        authority_not_after: Gauge, "authority_not_after" [] seconds,
            "When the certificate of the authority ends, since 1970; 0 without an authority";
        watch_failures: Family<WatchLabels, Counter>, "watch_failures" ["kind", "code"],
            "Lists and watches that failed";
        leading: Gauge, "leading" [],
            "Whether this process leads, and its namespace is the one that serves the cluster's Backends";
        lease_calls: Family<CallLabels, Counter>, "lease_calls" ["verb", "code"],
            "Calls about the Lease, by outcome; verb renew keeps it, release gives it up";
        build: InfoMetric, "build" ["version"],
            "Version of this program";
        event_writes: Family<EventLabels, Counter>, "event_writes" ["outcome"],
            "Attempts to write an Event about a Backend, by outcome";
        events_dropped: Counter, "events_dropped" [],
            "Events that were dropped: no right, no answer, or too many pending";
        events_waiting: Gauge, "events_waiting" [],
            "Events that wait to be written";
    }
}

impl OperatorMetrics {
    /// Sets which program this is.
    pub(crate) fn set_version(&self) {
        self.build.set([("version", env!("CARGO_PKG_VERSION"))]);
    }

    /// Counts a call about the Lease.
    pub(crate) fn lease_called(&self, verb: &'static str, error: Option<&ApiError>) {
        self.lease_calls.get_or_create_owned(&CallLabels { verb, code: code(error) }).inc();
    }

    /// Counts a write that was sent.
    pub(crate) fn written(&self, kind: &'static str, what: &'static str, error: Option<&ApiError>) {
        self.writes.get_or_create_owned(&WriteLabels { kind, what, code: code(error) }).inc();
    }

    /// Counts a list or a watch that failed.
    pub(crate) fn watch_failed(&self, kind: &'static str, error: &ApiError) {
        self.watch_failures.get_or_create_owned(&WatchLabels { kind, code: failure_label(error) }).inc();
    }

    /// Counts a certificate that was signed.
    pub(crate) fn signed(&self) {
        self.signed.inc();
    }

    /// Sets when the authority ends.
    pub(crate) fn set_authority(&self, not_after: Option<i64>) {
        self.authority_not_after.set(not_after.unwrap_or_default());
    }

    /// Counts an attempt to write an Event.
    pub(crate) fn event_written(&self, error: Option<&ApiError>) {
        self.event_writes.get_or_create_owned(&EventLabels { outcome: code(error) }).inc();
    }

    /// Counts an Event that was dropped.
    pub(crate) fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    /// Sets how many Events wait.
    pub(crate) fn set_events_waiting(&self, waiting: usize) {
        self.events_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Sets whether this process leads and serves.
    pub(crate) fn set_leading(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    /// Sets how many Backends there are: all, ready and blocked.
    pub(crate) fn show(&self, counts: [i64; 3]) {
        for (state, count) in ["all", "ready", "blocked"].into_iter().zip(counts) {
            self.backends.get_or_create_owned(&StateLabels { state }).set(count);
        }
    }
}

fn code(error: Option<&ApiError>) -> &'static str {
    error.map_or("ok", failure_label)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = OperatorMetrics::register(&mut registry);
        metrics.set_version();
        metrics.lease_called("renew", None);
        metrics.written("Deployment", "create", None);
        metrics.watch_failed("secrets", &ApiError::Withheld);
        metrics.event_written(None);
        metrics.show([0, 0, 0]);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let found = gimbal_testkit::exposition::series(&text).join("\n") + "\n";
        assert_eq!(found, include_str!("metrics/exposition.txt"), "{found}");
    }
}
