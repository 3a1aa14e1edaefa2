//! Events about Backends: their form, and the queue that they wait in.

use std::sync::Arc;
use std::time::Instant;

use gimbal_backend::{BackendNotice, BackendResource};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_events::{EventAuthor, EventQueue, EventQueueCounts, EventSubject, EventText, object_event};
use gimbal_kubernetes_objects::{Event, Object as _};
use gimbal_model::BackendName;
use jiff::Timestamp;

use crate::apply::code;
use crate::metrics::Metrics;

/// The name by which the writer reports.
const PROGRAM: &str = "gimbal-writer";

/// Events that wait to be written, by a client that writes only while this process leads.
pub(crate) struct BackendEvents {
    queue: EventQueue<Metrics>,
    /// Which writer reports.
    identity: String,
}

impl BackendEvents {
    pub(crate) fn new(cluster: &Cluster, metrics: Metrics, identity: String) -> Self {
        Self { queue: EventQueue::new(cluster, metrics), identity }
    }

    /// Adds the Event for a notice about the Backend with this UID.
    pub(crate) fn push(&mut self, name: &BackendName, uid: &Arc<str>, notice: &BackendNotice, at: Timestamp) {
        self.queue.push(event(name, uid, notice, &self.identity, at));
    }

    /// Another process leads, and reports by itself from now on.
    pub(crate) fn forget(&mut self) {
        self.queue.clear();
    }

    /// Begins to write the next Event, if one is due.
    pub(crate) fn write_next(&mut self, now: Instant) {
        self.queue.write_next(now);
    }

    /// Waits until an Event was written, or could not be. Cancel safe.
    pub(crate) async fn written(&mut self) -> Result<(), ApiError> {
        self.queue.written().await
    }

    /// Handles the result of [`BackendEvents::written`].
    pub(crate) fn handle(&mut self, result: Result<(), ApiError>, now: Instant) {
        self.queue.handle(result, now);
    }

    /// Returns when [`BackendEvents::write_next`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queue.deadline()
    }
}

fn event(name: &BackendName, uid: &Arc<str>, notice: &BackendNotice, identity: &str, at: Timestamp) -> Event {
    let subject = EventSubject {
        kind: BackendResource::KIND,
        namespace: "".into(),
        name: name.as_str().into(),
        uid: uid.clone(),
    };
    let text = EventText { is_warning: notice.is_warning, reason: notice.reason, message: &notice.message };
    object_event(&subject, text, EventAuthor { program: PROGRAM, instance: identity }, at)
}

impl EventQueueCounts for Metrics {
    fn event_written(&self, error: Option<&ApiError>) {
        self.event_written(error.map_or("ok", code));
    }

    fn event_dropped(&self) {
        self.event_dropped();
    }

    fn set_events_waiting(&self, waiting: usize) {
        self.events_waiting(waiting);
    }
}
