//! What waits to be sent. The SDK drops what has no room in its queue and says nothing, so room is looked for before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gimbal_transport::Quiet;

/// Spans that may wait, unless a variable of OpenTelemetry says otherwise.
const MOST: usize = 2048;
/// Most spans that one change has in a process, for each of which there has to be room.
const OF_A_CHANGE: usize = 3;

/// The spans that wait. Clones count the same ones.
#[derive(Debug, Clone)]
pub(crate) struct WaitingSpans {
    spans: Arc<AtomicUsize>,
    lines: Arc<Quiet<()>>,
    most: usize,
}

impl WaitingSpans {
    pub(crate) fn new() -> Self {
        let set = std::env::var("OTEL_BSP_MAX_QUEUE_SIZE").ok().and_then(|most| most.parse().ok());
        Self::of(set.unwrap_or(MOST))
    }

    fn of(most: usize) -> Self {
        Self { spans: Arc::default(), lines: Arc::default(), most: most.max(OF_A_CHANGE) }
    }

    /// Returns how many may wait.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns whether there is room for a change. What has none is lost, which is logged once a minute.
    pub(crate) fn has_room(&self) -> bool {
        let waiting = self.spans.load(Ordering::Relaxed);
        let has_room = waiting + OF_A_CHANGE <= self.most;
        if !has_room && let Some(untold) = self.lines.tell((), Instant::now()) {
            tracing::warn!(waiting, untold, "traces are lost: more wait than there is room for (--otlp-endpoint)");
        }
        has_room
    }

    /// A span is finished.
    pub(crate) fn add(&self) {
        self.spans.fetch_add(1, Ordering::Relaxed);
    }

    /// Spans are taken out of the queue to be sent.
    pub(crate) fn take(&self, spans: usize) {
        self.spans.fetch_sub(spans, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use gimbal_testkit::CapturedLog;

    use super::*;

    #[test]
    fn what_has_no_room_is_told_and_the_rest_is_not() {
        let log = CapturedLog::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        let _logging = tracing::subscriber::set_default(lines);
        let waiting = WaitingSpans::of(5);
        let sending = waiting.clone();
        (0..2).for_each(|_| waiting.add());
        assert!(waiting.has_room() && log.text().is_empty());
        waiting.add();
        assert!(!waiting.has_room() && !waiting.has_room());
        assert_eq!(log.text().matches("traces are lost").count(), 1, "{}", log.text());
        sending.take(3);
        assert!(waiting.has_room());
    }
}
