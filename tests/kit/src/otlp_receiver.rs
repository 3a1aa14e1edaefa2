//! A collector of OpenTelemetry that keeps the spans it gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A running collector. It ends with this value.
pub struct OtlpReceiver {
    /// Its address, for `--otlp-endpoint`.
    pub url: String,
    spans: Spans,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

/// A span that was received. Numbers of traces and spans are in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// The program that sent it.
    pub program: String,
    /// Its name.
    pub name: String,
    /// The number of its trace.
    pub trace: String,
    /// Its number.
    pub id: String,
    /// The number of the span that it is a part of; empty: it begins the trace.
    pub parent: String,
    /// When it began and ended, in nanoseconds since 1970.
    pub times: (u64, u64),
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<ReceivedSpan>>>);

impl OtlpReceiver {
    /// Starts a collector on a free port of loopback.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let spans = Spans::default();
        let service = TraceServiceServer::new(spans.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        let serving = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Ok(Self { url, spans, serving })
    }

    /// Returns the spans that it has got so far.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.spans.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of_program in request.into_inner().resource_spans {
            let resource = attributes(of_program.resource.map(|resource| resource.attributes).unwrap_or_default());
            let program = resource.get("service.name").cloned().unwrap_or_default();
            kept.extend(of_program.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| ReceivedSpan {
                program: program.clone(),
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                times: (span.start_time_unix_nano, span.end_time_unix_nano),
                attributes: attributes(span.attributes),
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attributes(all: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.into_iter().map(|attribute| (attribute.key, text(attribute.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
