//! Reports that spans are lost, and gives up on a collector that does not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_transport::Quiet;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;

use crate::waiting::WaitingSpans;

/// An exporter whose failures are logged, once a minute. The SDK would log each batch, or nothing.
///
/// It takes a limited time. Those of the library end with the head of an answer and begin with a connection, so that a collector
/// which accepts a connection and says nothing would hold up all spans for ever.
#[derive(Debug)]
pub(crate) struct Reporting<E> {
    to: Arc<E>,
    limit: Duration,
    waiting: WaitingSpans,
    /// Where the time is measured: the thread that sends is no part of it.
    runtime: Handle,
    lines: Quiet<()>,
}

impl<E> Reporting<E> {
    /// `limit`: what one batch may take. Has to be called in a runtime.
    pub(crate) fn new(to: E, limit: Duration, waiting: WaitingSpans) -> Self {
        Self { to: Arc::new(to), limit, waiting, runtime: Handle::current(), lines: Quiet::default() }
    }
}

impl<E: SpanExporter + 'static> SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.take(spans);
        let (to, limit) = (self.to.clone(), self.limit);
        let sending = self.runtime.spawn(async move { tokio::time::timeout(limit, to.export(batch)).await });
        let result = match sending.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(OTelSdkError::Timeout(limit)),
            Err(error) => Err(OTelSdkError::InternalFailure(error.to_string())),
        };
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
        // It is set before the first span is sent, while nothing else has it.
        if let Some(to) = Arc::get_mut(&mut self.to) {
            to.set_resource(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use gimbal_testkit::CapturedLog;

    use super::*;

    /// A collector that takes nothing.
    #[derive(Debug)]
    struct Away;

    impl SpanExporter for Away {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            Err(OTelSdkError::InternalFailure("no listener".into()))
        }
    }

    /// A collector that says nothing until it answers.
    #[derive(Debug, Default, Clone)]
    struct Silent(Arc<(AtomicBool, AtomicUsize)>);

    impl SpanExporter for Silent {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            if !self.0.0.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            self.0.1.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_is_lost_is_one_line_a_minute() {
        let log = CapturedLog::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        let _logging = tracing::subscriber::set_default(lines);
        let exporter = Reporting::new(Away, Duration::from_secs(60), WaitingSpans::new());
        for _ in 0..5 {
            assert!(exporter.export(Vec::new()).await.is_err());
        }
        let log = log.text();
        assert_eq!(log.matches("traces are lost").count(), 1, "{log}");
        assert!(log.contains("no listener") && log.contains("--otlp-endpoint"), "{log}");
    }

    #[tokio::test]
    async fn a_collector_that_says_nothing_is_given_up_and_tried_again() {
        let log = CapturedLog::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        let _logging = tracing::subscriber::set_default(lines);
        let collector = Silent::default();
        let exporter = Reporting::new(collector.clone(), Duration::from_millis(50), WaitingSpans::new());
        let given_up = tokio::time::timeout(Duration::from_secs(30), exporter.export(Vec::new())).await;
        assert!(given_up.expect("it does not wait for ever").is_err());
        assert!(log.text().contains("traces are lost"), "{}", log.text());
        collector.0.0.store(true, Ordering::SeqCst);
        exporter.export(Vec::new()).await.unwrap();
        assert_eq!(collector.0.1.load(Ordering::SeqCst), 1);
    }
}
