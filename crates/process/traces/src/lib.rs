//! Traces of changes, sent to an OpenTelemetry collector by OTLP.
//!
//! An agent begins the trace of a sampled change when it sends it, and passes its [`TraceContext`] on beside the change; the
//! writer continues it when the change is settled. The spans are the legs of `gimbal_propagation_seconds`: times that are
//! known anyway, so a change that is not sampled costs nothing on its way. docs/traces.md describes the spans.
//!
//! Whether traces can be sent is decided when a program is built (the feature `otlp`), and whether they are by
//! `--otlp-endpoint`. Nothing waits for the collector: a thread of its own sends what is finished, and drops what it cannot
//! send.

mod args;
#[cfg(feature = "otlp")]
mod budget;
#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod reporting;
#[cfg(feature = "otlp")]
mod waiting;

use std::time::Duration;

use gimbal_runtime::Exit;
use gimbal_session::{ChangeAge, TraceContext};

pub use args::{OtlpArgs, TraceArgs};
#[cfg(not(feature = "otlp"))]
use off::Collector;
#[cfg(feature = "otlp")]
use otlp::Collector;

/// The changes of a frame that is sent now.
#[derive(Debug, Clone, Copy)]
pub struct SentChange<'a> {
    /// The backend.
    pub backend: &'a str,
    /// Number of entries in the frame.
    pub entries: usize,
    /// Age of the oldest of them, to which the trace belongs.
    pub age: ChangeAge,
}

/// A traced change that is settled now.
#[derive(Debug, Clone, Copy)]
pub struct SettledChange<'a> {
    /// The backend.
    pub backend: &'a str,
    /// Namespace of the Service in the source.
    pub namespace: &'a str,
    /// Name of the Service in the source.
    pub service: &'a str,
    /// What came of it, as in metrics.
    pub outcome: &'static str,
    /// Time from when it came until its first write was handed out, or until it was settled without one.
    pub queue: Duration,
    /// Time from its first write until it was settled; `None`: nothing was written.
    pub writing: Option<Duration>,
    /// What was written to, which names the span of that time.
    pub written_to: WrittenTo,
}

/// What a change is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenTo {
    /// The API server of the Gimbal cluster.
    ApiServer,
    /// The services of an OpenStack cloud.
    OpenStack,
}

impl WrittenTo {
    /// Returns the name of the span.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "apiserver",
            Self::OpenStack => "openstack",
        }
    }
}

/// Sends traces, or does nothing. Clones send to the same collector.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Collector>);

impl Traces {
    /// Sends the traces of a program (its name and version) as its flags say. Has to be called in a runtime.
    ///
    /// # Errors
    /// Returns [`Exit::Usage`], in one line that names the flag, if the address is not usable, or this build sends no traces.
    pub fn start(args: &TraceArgs, program: (&'static str, &'static str)) -> Result<Self, Exit> {
        let endpoint = args.otlp.otlp_endpoint.as_deref();
        Ok(Self(endpoint.map(|url| Collector::connect(url, args.trace_ratio, program)).transpose()?))
    }

    /// As [`Traces::start`], for a program that begins no trace and continues those of others.
    ///
    /// # Errors
    /// As [`Traces::start`].
    pub fn follow(otlp: &OtlpArgs, program: (&'static str, &'static str)) -> Result<Self, Exit> {
        Self::start(&TraceArgs { otlp: otlp.clone(), trace_ratio: 0.0 }, program)
    }

    /// Returns whether anything is sent.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the trace of the oldest change of a frame, if it is sampled. Returns what to send beside the change.
    pub fn sent(&mut self, change: &SentChange<'_>) -> Option<TraceContext> {
        self.0.as_mut()?.sent(change)
    }

    /// Continues the trace of a change. Returns whether the collector gets it.
    pub fn settled(&mut self, trace: TraceContext, change: &SettledChange<'_>) -> bool {
        self.0.as_mut().is_some_and(|collector| collector.settled(trace, change))
    }

    /// Sends what is finished, for two seconds at most. Nothing is sent afterwards, by clones neither.
    pub async fn end(self) {
        if let Some(collector) = self.0 {
            collector.end().await;
        }
    }
}
