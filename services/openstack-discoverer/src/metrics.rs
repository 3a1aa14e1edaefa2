//! The metrics that only this discoverer has.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gimbal_discoverer::SourceMetrics;
use gimbal_openstack_client::{CallKind, CallOutcome, Calls};
use gimbal_openstack_source::Mode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::poll_state::Summary;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    kind: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabel {
    mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    why: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) source: SourceMetrics,
    calls: Family<Call, Counter>,
    bytes: Family<Kind, Counter>,
    seconds: Family<Kind, Counter<f64, AtomicU64>>,
    retries: Counter,
    tokens_issued: Counter,
    tokens_rejected: Counter,
    polls: Family<PollLabel, Counter>,
    poll_seconds: Seconds,
    poll_calls: Gauge,
    member_lists: Family<Why, Counter>,
    mode: Family<ModeLabel, Gauge>,
    projects: Gauge,
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

impl Metrics {
    pub(crate) fn new(source: SourceMetrics, r: &mut Registry) -> Self {
        let new = Self { source, ..Self::default() };
        r.register("cloud_calls", "Calls to the cloud, by kind and result", new.calls.clone());
        r.register("cloud_bytes", "Bytes of the cloud's answers, by kind of call", new.bytes.clone());
        r.register("cloud_call_seconds", "Time that calls took, added up, by kind", new.seconds.clone());
        r.register("cloud_retries", "Calls that repeated one that was cut off or throttled", new.retries.clone());
        r.register("cloud_tokens", "Tokens that Keystone issued", new.tokens_issued.clone());
        r.register("cloud_tokens_rejected", "Tokens that were refused before their time", new.tokens_rejected.clone());
        r.register("polls", "Polls that ended, by how much they showed", new.polls.clone());
        r.register("poll_seconds", "Time that the last poll took", new.poll_seconds.clone());
        r.register("poll_calls", "Calls of the last poll, tokens included", new.poll_calls.clone());
        r.register(
            "member_lists",
            "Member lists asked for: needed, since something changed, or swept",
            new.member_lists.clone(),
        );
        r.register("mode", "1 for how lists are asked for: bulk, or per-project", new.mode.clone());
        r.register("projects", "Projects in the last list of them", new.projects.clone());
        new
    }

    /// Called when the client was replaced: its counters start at 0.
    pub(crate) fn client_replaced(&mut self) {
        self.counted = Counted::default();
    }

    pub(crate) fn entered(&self, mode: Mode) {
        for (candidate, name) in [(Mode::Bulk, "bulk"), (Mode::PerProject, "per-project")] {
            self.mode.get_or_create_owned(&ModeLabel { mode: name }).set((candidate == mode).into());
        }
    }

    pub(crate) fn projects(&self, count: usize) {
        self.projects.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Adds the growth of the client's counters to the metrics.
    pub(crate) fn count(&mut self, calls: &Calls) {
        for kind in CallKind::ALL {
            for outcome in CallOutcome::ALL {
                let result = outcome.as_str();
                let more = self.counted.growth(kind, result, calls.count(kind, outcome));
                if more > 0 {
                    self.calls.get_or_create_owned(&Call { kind: kind.as_str(), result }).inc_by(more);
                }
            }
            let (sum, label) = (calls.sum(kind), Kind { kind: kind.as_str() });
            let bytes = self.counted.growth(kind, "bytes", sum.bytes);
            let micros = u64::try_from(sum.time.as_micros()).unwrap_or(u64::MAX);
            let time = Duration::from_micros(self.counted.growth(kind, "micros", micros));
            if sum.calls > 0 {
                self.bytes.get_or_create_owned(&label).inc_by(bytes);
                self.seconds.get_or_create_owned(&label).inc_by(time.as_secs_f64());
            }
        }
        self.retries.inc_by(self.counted.growth(CallKind::Token, "retries", calls.retries()));
        self.tokens_issued.inc_by(self.counted.growth(CallKind::Token, "issued", calls.tokens_issued()));
        self.tokens_rejected.inc_by(self.counted.growth(CallKind::Token, "rejected", calls.tokens_rejected()));
    }

    pub(crate) fn polled(&self, summary: &Summary, took: Duration, calls: u64) {
        self.polls.get_or_create_owned(&PollLabel { result: summary.result.as_str() }).inc();
        self.poll_seconds.set(took.as_secs_f64());
        self.poll_calls.set(i64::try_from(calls).unwrap_or(i64::MAX));
        for (why, count) in [("needed", summary.needed), ("swept", summary.swept)] {
            self.member_lists.get_or_create_owned(&Why { why }).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}
