//! Writes Events, one at a time and at a limited rate, so that a mass of them does not flood the API server.

use std::time::{Duration, Instant};

use futures::future::pending;
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Event;
use gimbal_schedule::TokenBucket;
use tokio::task::JoinSet;

use crate::lines::EventLines;
use crate::write_event;

/// Time-out of each of the calls that an Event takes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Events a second, and for how long a quiet time saves them up.
const RATE: (u64, Duration) = (5, Duration::from_secs(4));
/// How often an Event is tried.
const TRIES: u32 = 3;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// Where a queue counts what it does.
pub trait EventQueueCounts {
    /// An Event was tried; the error, if it was not written.
    fn event_written(&self, error: Option<&ApiError>);

    /// An Event was dropped.
    fn event_dropped(&self);

    /// This number of Events waits to be written.
    fn set_events_waiting(&self, waiting: usize);
}

/// Events that wait, and the one that is being written.
pub struct EventQueue<C> {
    cluster: Cluster,
    waiting: EventLines,
    current: Option<(Event, u32)>,
    task: JoinSet<Result<(), ApiError>>,
    pace: TokenBucket,
    not_before: Option<Instant>,
    counts: C,
    /// A failure was logged, and its end not yet.
    troubled: bool,
}

impl<C: EventQueueCounts> EventQueue<C> {
    /// Creates a queue that writes by this client.
    #[must_use]
    pub fn new(cluster: &Cluster, counts: C) -> Self {
        Self {
            cluster: cluster.clone().with_timeout(TIMEOUT),
            waiting: EventLines::default(),
            current: None,
            task: JoinSet::new(),
            pace: TokenBucket::new(RATE.0, RATE.1),
            not_before: None,
            counts,
            troubled: false,
        }
    }

    /// Adds an Event.
    pub fn push(&mut self, event: Event) {
        if self.waiting.push(event) {
            self.counts.event_dropped();
        }
    }

    /// Forgets all Events: they are of another cluster, or another process leads.
    pub fn clear(&mut self) {
        (self.waiting, self.current) = (EventLines::default(), None);
        self.task = JoinSet::new();
    }

    /// Begins to write the next Event, if none is being written.
    pub fn write_next(&mut self, now: Instant) {
        let paused = self.not_before.is_some_and(|until| now < until);
        self.pace.refill(now);
        if self.current.is_none()
            && !paused
            && self.pace.has_any()
            && let Some((event, tries)) = self.waiting.pop()
        {
            self.pace.take(now);
            let (cluster, sent) = (self.cluster.clone(), event.clone());
            self.task.spawn(async move { write_event(&cluster, &sent).await });
            self.current = Some((event, tries));
        }
        self.counts.set_events_waiting(self.waiting.len());
    }

    /// Returns the result of the Event that is being written. Cancel safe.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn written(&mut self) -> Result<(), ApiError> {
        match self.task.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(ApiError::Transport { message: error.to_string() }),
            None => pending().await,
        }
    }

    /// Handles the result of [`EventQueue::written`].
    pub fn handle(&mut self, result: Result<(), ApiError>, now: Instant) {
        let Some((event, tries)) = self.current.take() else { return };
        self.counts.event_written(result.as_ref().err());
        let error = match result {
            // Its namespace is gone or going.
            Ok(()) | Err(ApiError::NotFound { .. } | ApiError::NamespaceTerminating { .. }) => {
                if std::mem::take(&mut self.troubled) {
                    tracing::info!("Events can be written again");
                }
                return;
            }
            Err(error) => error,
        };
        if std::mem::replace(&mut self.troubled, true) {
            tracing::debug!(%error, "still cannot write Events");
        } else {
            tracing::warn!(%error, "cannot write Events");
        }
        let useless = matches!(error, ApiError::Forbidden { .. } | ApiError::Invalid { .. });
        if useless || tries + 1 == TRIES {
            return self.counts.event_dropped();
        }
        self.not_before = Some(now + error.retry_after().unwrap_or(PAUSE));
        self.waiting.give_back(event, tries + 1);
    }

    /// Returns when [`EventQueue::write_next`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        if self.current.is_some() || self.waiting.is_empty() {
            return None;
        }
        [self.not_before, self.pace.next()].into_iter().flatten().max()
    }
}

#[cfg(test)]
mod tests;
