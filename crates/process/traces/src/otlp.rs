//! Spans of changes, made when their times are known, and sent by OTLP.

use std::time::{Duration, Instant, SystemTime};

use gimbal_runtime::Exit;
use gimbal_session::TraceContext;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    TracerProvider as _,
};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider};

use crate::budget::Budget;
use crate::reporting::Reporting;
use crate::waiting::WaitingSpans;
use crate::{SentChange, SettledChange};

/// How long the last spans may take when the process ends.
const LAST: Duration = Duration::from_secs(2);
/// How long a TLS handshake may take. Without an end, a collector that accepts a connection and says nothing would be waited for for
/// ever, and no other connection tried.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// How long the library tries to send a batch, unless a variable of OpenTelemetry says otherwise.
const SENDING: Duration = Duration::from_secs(10);

/// The connection to a collector.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    budget: Budget,
    waiting: WaitingSpans,
}

impl Collector {
    /// Dials lazily, so that a collector that is away delays no start.
    pub(crate) fn connect(url: &str, ratio: f64, program: (&'static str, &'static str)) -> Result<Self, Exit> {
        let wrong = |problem: String| Exit::Usage(format!("--otlp-endpoint {url}: {problem}"));
        let is_https = check(url).map_err(|problem| wrong(problem.to_owned()))?;
        let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(url);
        if is_https {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots().timeout(HANDSHAKE));
        }
        let exporter = exporter.build().map_err(|error| wrong(error.to_string()))?;
        let waiting = WaitingSpans::new();
        // The last attempt may begin when the time for all of them ends.
        let exporter = Reporting::new(exporter, sending() + HANDSHAKE, waiting.clone());
        let queue = BatchConfigBuilder::default().with_max_queue_size(waiting.most()).build();
        let provider = SdkTracerProvider::builder()
            // A change of another process is traced if that one traces it.
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
            .with_resource(resource(program))
            .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(queue).build())
            .build();
        let tracer = provider.tracer("gimbal");
        Ok(Self { provider, tracer, budget: Budget::new(Instant::now()), waiting })
    }

    pub(crate) fn sent(&mut self, change: &SentChange<'_>) -> Option<TraceContext> {
        if !self.has_room() {
            return None;
        }
        let sent = SystemTime::now();
        let reported = before(sent, change.age.waited);
        let caused = change.age.caused.map(|caused| before(reported, caused));
        let span = SpanBuilder::from_name("change").with_kind(SpanKind::Producer);
        let span = span.with_start_time(caused.unwrap_or(reported));
        let mut span = span.start_with_context(&self.tracer, &Context::new());
        if !span.is_recording() {
            return None;
        }
        self.budget.take();
        span.set_attribute(KeyValue::new("gimbal.backend", change.backend.to_owned()));
        span.set_attribute(KeyValue::new("gimbal.changes", i64::try_from(change.entries).unwrap_or(i64::MAX)));
        let context = span.span_context().clone();
        if let Some(caused) = caused {
            self.leg(&context, "source", caused, reported);
        }
        self.leg(&context, "agent", reported, sent);
        self.waiting.add();
        span.end_with_timestamp(sent);
        TraceContext::new(context.trace_id().to_bytes(), context.span_id().to_bytes())
    }

    pub(crate) fn settled(&mut self, trace: TraceContext, change: &SettledChange<'_>) -> bool {
        if !self.has_room() {
            return false;
        }
        self.budget.take();
        let settled = SystemTime::now();
        let started = before(settled, change.writing.unwrap_or_default());
        let arrived = before(started, change.queue);
        let (trace_id, span_id) = (TraceId::from_bytes(trace.trace_id()), SpanId::from_bytes(trace.span_id()));
        let sent = SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, true, TraceState::NONE);
        let attributes = [
            KeyValue::new("gimbal.backend", change.backend.to_owned()),
            KeyValue::new("gimbal.namespace", change.namespace.to_owned()),
            KeyValue::new("gimbal.service", change.service.to_owned()),
            KeyValue::new("gimbal.outcome", change.outcome),
        ];
        let span = SpanBuilder::from_name("settle").with_kind(SpanKind::Consumer);
        let span = span.with_start_time(arrived).with_attributes(attributes);
        let mut span = span.start_with_context(&self.tracer, &Context::new().with_remote_span_context(sent));
        let context = span.span_context().clone();
        self.leg(&context, "queue", arrived, started);
        if change.writing.is_some() {
            self.leg(&context, change.written_to.as_str(), started, settled);
        }
        self.waiting.add();
        span.end_with_timestamp(settled);
        true
    }

    pub(crate) async fn end(self) {
        // This waits for a thread that may need the runtime for its connection.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(LAST)).await;
        // What is lost is logged where it is lost.
        tracing::debug!(?ended, "no more traces are sent");
    }

    fn has_room(&mut self) -> bool {
        self.budget.has_room(Instant::now()) && self.waiting.has_room()
    }

    /// Adds a span within another one of this process.
    fn leg(&self, of: &SpanContext, name: &'static str, from: SystemTime, to: SystemTime) {
        let within = Context::new().with_remote_span_context(of.clone());
        let span = SpanBuilder::from_name(name).with_start_time(from);
        self.waiting.add();
        span.start_with_context(&self.tracer, &within).end_with_timestamp(to);
    }
}

/// Returns how long the library tries to send a batch, as it reads that itself.
fn sending() -> Duration {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
    let set = names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    set.map_or(SENDING, Duration::from_millis)
}

/// Returns a time before another one. What is too long ago to be a time began when the other one was.
fn before(time: SystemTime, long: Duration) -> SystemTime {
    time.checked_sub(long).filter(|before| *before >= SystemTime::UNIX_EPOCH).unwrap_or(time)
}

/// Checks the address of a collector. Returns whether it is to be reached by TLS.
fn check(url: &str) -> Result<bool, &'static str> {
    let Ok(uri) = url.parse::<http::Uri>() else { return Err("is no URL; write http://host:port") };
    if uri.host().is_none_or(str::is_empty) {
        return Err("names no host; write http://host:port");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("has a path; write http://host:port, for OTLP over gRPC");
    }
    match uri.scheme_str() {
        Some("http") => Ok(false),
        Some("https") => Ok(true),
        _ => Err("has no scheme that is known here; write http://host:port or https://host:port"),
    }
}

/// Returns who sends: the program, unless the variables of OpenTelemetry name it otherwise.
fn resource((name, version): (&'static str, &'static str)) -> Resource {
    const NAME: Key = Key::from_static_str("service.name");
    let resource = Resource::builder().with_attribute(KeyValue::new("service.version", version));
    let by_variables = Resource::builder().build();
    let named = by_variables.get_ref(&NAME).filter(|name| !name.as_str().starts_with("unknown_service"));
    match named {
        Some(_) => resource.build(),
        None => resource.with_service_name(name).build(),
    }
}
