//! Rejections as Kubernetes Events on the Services of the source, where `--write-events` asks for it: the only thing that a
//! discoverer writes anywhere.
//!
//! Notes are written one at a time, beside all else that the source's task waits for, so that an API server which is slow or
//! refuses holds up neither the source nor the stream.

mod form;
mod metrics;
mod notes;

use std::time::{Duration, Instant};

use futures::future::pending;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{Event, Service};
use gimbal_model::{BackendName, SourceKey};
use gimbal_session::Reject;
use jiff::Timestamp;
use tokio::sync::mpsc;

use self::form::{again, event, look};
pub(crate) use self::metrics::EventMetrics;
use self::notes::{Note, Notes, Outcome, Verdict};

/// For each of the three or four calls that a note takes.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What came of a note.
pub(crate) type Written = Result<Outcome, (Outcome, ApiError)>;

/// The notes, and the way to who writes them.
pub(crate) struct Events {
    notes: Notes,
    jobs: mpsc::Sender<(SourceKey, Note)>,
    written: BoxStream<'static, Written>,
    metrics: EventMetrics,
    /// Trouble was told of, and not yet its end.
    troubled: bool,
}

impl Events {
    pub(crate) fn start(cluster: &Cluster, backend: BackendName, metrics: EventMetrics) -> Self {
        let (jobs, todo) = mpsc::channel(1);
        let written = write_all(cluster.clone().with_timeout(TIMEOUT), backend, todo).boxed();
        Self { notes: Notes::default(), jobs, written, metrics, troubled: false }
    }

    /// What became of the note that is being written. No answer is lost when this is dropped.
    pub(crate) async fn written(&mut self) -> Written {
        match self.written.next().await {
            Some(written) => written,
            // It ends with the sender of its jobs, which is held here.
            None => pending().await,
        }
    }

    /// Takes what [`Events::written`] gave.
    pub(crate) fn take(&mut self, written: Written, now: Instant) {
        let (outcome, error) = match written {
            Ok(outcome) => (outcome, None),
            Err((outcome, error)) => (outcome, Some(error)),
        };
        self.metrics.came_of_it(outcome);
        match error {
            Some(error) if !self.troubled => {
                tracing::warn!(%error, "cannot write Events on the source's Services (--write-events)");
                self.troubled = true;
            }
            Some(error) => tracing::debug!(%error, "still cannot write Events"),
            None if outcome == Outcome::Written && self.troubled => {
                tracing::info!("Events can be written again");
                self.troubled = false;
            }
            None => {}
        }
        if self.notes.finished(outcome, now) == Verdict::Dropped {
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

    /// A Service is not offered any more.
    pub(crate) fn gone(&mut self, key: &SourceKey) {
        self.notes.gone(key);
    }

    /// It is another source.
    pub(crate) fn clear(&mut self) {
        self.notes.clear();
    }

    /// Hands over the next note, if it is time.
    pub(crate) fn settle(&mut self, now: Instant) {
        if let Some(job) = self.notes.next(now) {
            // Who writes takes one at a time and has none now.
            if let Err(error) = self.jobs.try_send(job) {
                tracing::error!(%error, "an Event was given up before it was begun");
                self.notes.finished(Outcome::Failed, now);
            }
        }
        self.metrics.waiting(self.notes.waiting());
    }

    /// When [`Events::settle`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.notes.deadline()
    }
}

/// Writes what it is given, one after the other. Nothing happens while the stream is not polled.
fn write_all(
    cluster: Cluster,
    backend: BackendName,
    todo: mpsc::Receiver<(SourceKey, Note)>,
) -> impl Stream<Item = Written> + Send {
    stream::unfold((cluster, backend, todo), |(cluster, backend, mut todo)| async move {
        let (key, note) = todo.recv().await?;
        let written = match write(&cluster, &backend, &key, &note).await {
            Ok(()) => Ok(Outcome::Written),
            // The Service, its namespace, or an Event that was just there.
            Err(ApiError::NotFound { .. } | ApiError::NamespaceTerminating { .. }) => Ok(Outcome::Gone),
            Err(error @ ApiError::Forbidden { .. }) => Err((Outcome::Denied, error)),
            Err(error) => Err((Outcome::Failed, error)),
        };
        Some((written, (cluster, backend, todo)))
    })
}

/// Writes a note. The Service is read first: `kubectl describe` asks for the Events of its UID, which is not kept for every
/// Service because of the few that are rejected.
async fn write(cluster: &Cluster, backend: &BackendName, key: &SourceKey, note: &Note) -> Result<(), ApiError> {
    let service: Service = cluster.get(&key.namespace, &key.name).await?;
    let event = event(backend, &service.metadata, note, Timestamp::now());
    match cluster.create(&event).await {
        Err(ApiError::AlreadyExists { .. }) => {}
        created => return created.map(drop),
    }
    let found: Event = cluster.patch(&look(&event)).await?;
    cluster.patch(&again(&found, &event)).await.map(drop)
}
