//! Reports that spans are lost.

use std::time::{Duration, Instant};

use gimbal_transport::Quiet;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// An exporter whose failures are logged, once a minute. The SDK would log each batch, or nothing.
#[derive(Debug)]
pub(crate) struct Reporting<E> {
    to: E,
    lines: Quiet<()>,
}

impl<E> Reporting<E> {
    pub(crate) fn new(to: E) -> Self {
        Self { to, lines: Quiet::default() }
    }
}

impl<E: SpanExporter> SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.to.export(batch).await;
        if let Err(error) = &result
            && let Some(untold) = self.lines.tell((), Instant::now())
        {
            tracing::warn!(%error, spans, untold, "traces are lost: the collector did not take them (--otlp-endpoint)");
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.to.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.to.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.to.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use gimbal_testkit::CapturedLog;
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    /// A collector that takes nothing.
    #[derive(Debug)]
    struct Away;

    impl SpanExporter for Away {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            Err(OTelSdkError::InternalFailure("no listener".into()))
        }
    }

    #[tokio::test]
    async fn what_is_lost_is_one_line_a_minute() {
        let log = CapturedLog::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        let _logging = tracing::subscriber::set_default(lines);
        let exporter = Reporting::new(Away);
        for _ in 0..5 {
            assert!(exporter.export(Vec::new()).await.is_err());
        }
        let log = log.text();
        assert_eq!(log.matches("traces are lost").count(), 1, "{log}");
        assert!(log.contains("no listener") && log.contains("--otlp-endpoint"), "{log}");
    }
}
