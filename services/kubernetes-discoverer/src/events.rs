//! Writes rejections as Kubernetes Events on the Services of the source, if `--write-events` is given: the only thing that a
//! discoverer writes.
//!
//! Notes are written one at a time and concurrently with everything else that the source's task waits for, so that a slow API
//! server delays neither the source nor the stream.

mod form;
mod metrics;
mod notes;

use std::time::{Duration, Instant};

use futures::future::pending;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_events::write_event;
use gimbal_kubernetes_objects::Service;
use gimbal_model::{BackendName, SourceKey};
use gimbal_session::Reject;
use jiff::Timestamp;
use tokio::sync::mpsc;

use self::form::event;
pub(crate) use self::metrics::EventMetrics;
use self::notes::{AfterWrite, Note, NoteOutcome, Notes};

/// Time-out of each of the three or four calls that a note takes.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The result of writing a note, with the error if it failed.
pub(crate) type NoteResult = Result<NoteOutcome, (NoteOutcome, ApiError)>;

/// The queue of notes and the stream that writes them.
pub(crate) struct EventWriter {
    notes: Notes,
    jobs: mpsc::Sender<(SourceKey, Note)>,
    written: BoxStream<'static, NoteResult>,
    metrics: EventMetrics,
    /// A failure was logged, and its end not yet.
    troubled: bool,
}

impl EventWriter {
    pub(crate) fn start(cluster: &Cluster, backend: BackendName, metrics: EventMetrics) -> Self {
        let (jobs, todo) = mpsc::channel(1);
        let written = write_all(cluster.clone().with_timeout(TIMEOUT), backend, todo).boxed();
        Self { notes: Notes::default(), jobs, written, metrics, troubled: false }
    }

    /// Returns the result of the note being written. Cancel safe.
    pub(crate) async fn written(&mut self) -> NoteResult {
        match self.written.next().await {
            Some(written) => written,
            // The stream ends when `jobs` is dropped, which is never before `self`.
            None => pending().await,
        }
    }

    /// Handles the result of [`EventWriter::written`].
    pub(crate) fn note_written(&mut self, written: NoteResult, now: Instant) {
        let (outcome, error) = match written {
            Ok(outcome) => (outcome, None),
            Err((outcome, error)) => (outcome, Some(error)),
        };
        self.metrics.count_outcome(outcome);
        match error {
            Some(error) if !self.troubled => {
                tracing::warn!(%error, "cannot write Events on the source's Services (--write-events)");
                self.troubled = true;
            }
            Some(error) => tracing::debug!(%error, "still cannot write Events"),
            None if outcome == NoteOutcome::Written && self.troubled => {
                tracing::info!("Events can be written again");
                self.troubled = false;
            }
            None => {}
        }
        if self.notes.finished(outcome, now) == AfterWrite::Dropped {
            self.metrics.dropped();
        }
    }

    pub(crate) fn rejected(&mut self, key: &SourceKey, reject: &Reject, now: Instant) {
        if !self.notes.rejected(key, reject.reason, &reject.message, now) {
            self.metrics.dropped();
        }
    }

    pub(crate) fn resolved(&mut self, key: &SourceKey, now: Instant) {
        if !self.notes.resolved(key, now) {
            self.metrics.dropped();
        }
    }

    /// Called when a Service is not offered any more.
    pub(crate) fn gone(&mut self, key: &SourceKey) {
        self.notes.gone(key);
    }

    /// Called when another source takes the place of this one.
    pub(crate) fn clear(&mut self) {
        self.notes.clear();
    }

    /// Starts writing the next note, if one is due.
    pub(crate) fn write_next(&mut self, now: Instant) {
        if let Some(job) = self.notes.next(now) {
            // The channel is empty: a note is due only when none is being written.
            if let Err(error) = self.jobs.try_send(job) {
                tracing::error!(%error, "an Event was given up before it was begun");
                self.notes.finished(NoteOutcome::Failed, now);
            }
        }
        self.metrics.waiting(self.notes.waiting());
    }

    /// Returns when [`EventWriter::write_next`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.notes.deadline()
    }
}

/// Writes the notes from the channel one after the other. Does nothing while the stream is not polled.
fn write_all(
    cluster: Cluster,
    backend: BackendName,
    todo: mpsc::Receiver<(SourceKey, Note)>,
) -> impl Stream<Item = NoteResult> + Send {
    stream::unfold((cluster, backend, todo), |(cluster, backend, mut todo)| async move {
        let (key, note) = todo.recv().await?;
        let written = match write(&cluster, &backend, &key, &note).await {
            Ok(()) => Ok(NoteOutcome::Written),
            // The Service, its namespace or the Event was deleted.
            Err(ApiError::NotFound { .. } | ApiError::NamespaceTerminating { .. }) => Ok(NoteOutcome::Gone),
            Err(error @ ApiError::Forbidden { .. }) => Err((NoteOutcome::Denied, error)),
            Err(error) => Err((NoteOutcome::Failed, error)),
        };
        Some((written, (cluster, backend, todo)))
    })
}

/// Writes a note. Reads the Service first, because `kubectl describe` selects Events by its UID. UIDs are not kept in memory,
/// since only a few Services are ever rejected.
async fn write(cluster: &Cluster, backend: &BackendName, key: &SourceKey, note: &Note) -> Result<(), ApiError> {
    let service: Service = cluster.get(&key.namespace, &key.name).await?;
    write_event(cluster, &event(backend, &service.metadata, note, Timestamp::now())).await
}
