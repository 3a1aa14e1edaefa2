//! Metrics of the limits on writes.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use gimbal_schedule::{ConcurrencyLimit, SharedLimit, WaitReason};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    reason: &'static str,
}

metrics_table! {
    /// How fast this process writes, and what delays its writes.
    pub(super) struct LimiterMetrics("gimbal_writer") {
        concurrency: Gauge, "concurrency" [],
            "Writes that may be under way side by side now";
        shared: Gauge, "concurrency_shared" [],
            "Writes that may be under way side by side while fresh changes and other work are about at the same time";
        latency: Gauge<f64, AtomicU64>, "write_latency" [] seconds,
            "What nine of ten writes took at most, of late; 0: not known, or they were not answered";
        tolerated: Gauge<f64, AtomicU64>, "write_latency_tolerated" [] seconds,
            "What they may take before fewer go side by side; 0: any time";
        pauses: Counter, "pauses" [],
            "Answers of the API server that asked for a pause of all writes";
        waits: Family<WaitLabels, Counter<f64, AtomicU64>>, "write_wait" ["reason"] seconds,
            "Time in which a write could have gone and had to wait, by what for";
    }
}

impl LimiterMetrics {
    pub(super) fn paused(&self) {
        self.pauses.inc();
    }

    pub(super) fn waited(&self, wait: WaitReason, time: Duration) {
        self.waits.get_or_create_owned(&WaitLabels { reason: wait.as_str() }).inc_by(time.as_secs_f64());
    }

    pub(super) fn show(&self, limit: &ConcurrencyLimit, shared: &SharedLimit) {
        let seconds = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64());
        self.concurrency.set(super::signed(limit.current()));
        self.shared.set(super::signed(shared.current().min(limit.current())));
        self.latency.set(seconds(limit.latency()));
        self.tolerated.set(seconds(limit.tolerated()));
    }
}
