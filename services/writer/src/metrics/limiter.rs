//! How fast we write, and what holds us back.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use gimbal_schedule::{ConcurrencyLimit, SharedLimit, WaitReason};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    reason: &'static str,
}

#[derive(Debug)]
pub(super) struct LimiterMetrics {
    concurrency: Gauge,
    shared: Gauge,
    latency: Gauge<f64, AtomicU64>,
    tolerated: Gauge<f64, AtomicU64>,
    pauses: Counter,
    waits: Family<WaitLabels, Counter<f64, AtomicU64>>,
}

impl LimiterMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let metrics = Self {
            concurrency: Gauge::default(),
            shared: Gauge::default(),
            latency: Gauge::default(),
            tolerated: Gauge::default(),
            pauses: Counter::default(),
            waits: Family::default(),
        };
        r.register("concurrency", "Writes that may be under way side by side now", metrics.concurrency.clone());
        r.register(
            "concurrency_shared",
            "Writes that may be under way side by side while fresh changes and other work are about at the same time",
            metrics.shared.clone(),
        );
        r.register_with_unit(
            "write_latency",
            "What nine of ten writes took at most, of late; 0: not known, or they were not answered",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        r.register_with_unit(
            "write_latency_tolerated",
            "What they may take before fewer go side by side; 0: any time",
            Unit::Seconds,
            metrics.tolerated.clone(),
        );
        r.register("pauses", "Answers of the API server that asked for a pause of all writes", metrics.pauses.clone());
        r.register_with_unit(
            "write_wait",
            "Time in which a write could have gone and had to wait, by what for",
            Unit::Seconds,
            metrics.waits.clone(),
        );
        metrics
    }

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
