//! Events about Backends: their form, and the queue that they wait in.

use std::time::Instant;

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_events::{EventAuthor, EventQueue, EventQueueCounts, EventSubject, EventText, object_event};
use gimbal_kubernetes_objects::{Event, Object as _};
use gimbal_operator_core::{DiscovererNotice, MANAGER, SourcedBackend};
use jiff::Timestamp;

use crate::metrics::OperatorMetrics;

/// Events that wait to be written, by a client that writes only while this process leads.
pub(crate) struct DiscovererEvents {
    queue: EventQueue<OperatorMetrics>,
    /// Which operator reports.
    identity: String,
    /// Reasons of what was added.
    #[cfg(test)]
    pub(crate) added: Vec<&'static str>,
}

impl DiscovererEvents {
    pub(crate) fn new(cluster: &Cluster, metrics: OperatorMetrics, identity: String) -> Self {
        Self {
            queue: EventQueue::new(cluster, metrics),
            identity,
            #[cfg(test)]
            added: Vec::new(),
        }
    }

    /// Adds the Event for a notice.
    pub(crate) fn push(&mut self, notice: &DiscovererNotice) {
        #[cfg(test)]
        self.added.push(notice.reason);
        self.queue.push(event(notice, &self.identity, Timestamp::now()));
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

    /// Handles the result of [`DiscovererEvents::written`].
    pub(crate) fn handle(&mut self, result: Result<(), ApiError>, now: Instant) {
        self.queue.handle(result, now);
    }
}

fn event(notice: &DiscovererNotice, identity: &str, at: Timestamp) -> Event {
    let subject = EventSubject {
        kind: SourcedBackend::KIND,
        namespace: "".into(),
        name: notice.backend.as_str().into(),
        uid: notice.uid.as_str().into(),
    };
    let text = EventText { is_warning: notice.is_warning, reason: notice.reason, message: &notice.message };
    object_event(&subject, text, EventAuthor { program: MANAGER, instance: identity }, at)
}

impl EventQueueCounts for OperatorMetrics {
    fn event_written(&self, error: Option<&ApiError>) {
        self.event_written(error);
    }

    fn event_dropped(&self) {
        self.event_dropped();
    }

    fn set_events_waiting(&self, waiting: usize) {
        self.set_events_waiting(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_about_a_backend() {
        let notice = DiscovererNotice {
            backend: "node02".into(),
            uid: "u-1".into(),
            is_warning: true,
            reason: "SecretMissing",
            message: "there is no Secret a in here".into(),
        };
        let event = event(&notice, "one", "2026-11-23T03:00:00Z".parse().unwrap());
        let expected = serde_json::json!({
            "metadata": {"name": "node02.secretmissing.u-1", "namespace": "default"},
            "involvedObject": {
                "apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend", "namespace": "", "name": "node02",
                "uid": "u-1", "resourceVersion": "",
            },
            "type": "Warning", "reason": "SecretMissing", "message": "there is no Secret a in here", "count": 1,
            "firstTimestamp": "2026-11-23T03:00:00Z", "lastTimestamp": "2026-11-23T03:00:00Z",
            "source": {"component": "gimbal-operator"},
            "reportingComponent": "gimbal-operator", "reportingInstance": "one",
        });
        assert_eq!(serde_json::to_value(event).unwrap(), expected);
    }
}
