//! A notice of the core in the form of an Event. Pure.

use gimbal_kubernetes_events::{EventAuthor, EventSubject, EventText, object_event};
use gimbal_kubernetes_objects::Event;
use gimbal_kuryr_resource::ObjectNotice;
use gimbal_model::BackendName;
use jiff::Timestamp;

use crate::PROGRAM;

/// Returns the Event for a notice.
pub(crate) fn event(cluster: &BackendName, notice: &ObjectNotice, now: Timestamp) -> Event {
    let object = &notice.object;
    let subject = EventSubject {
        kind: object.kind.kind(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: notice.uid.clone(),
    };
    let text =
        EventText { is_warning: notice.told.is_warning, reason: notice.told.reason, message: &notice.told.message };
    object_event(&subject, text, EventAuthor { program: PROGRAM.name, instance: cluster.as_str() }, now)
}

#[cfg(test)]
mod tests {
    use gimbal_kuryr_resource::{ClusterObject, KuryrKind, Told};

    use super::*;

    #[test]
    fn an_event_names_the_object_by_its_uid() {
        let object = ClusterObject { namespace: "team".into(), name: "web".into(), kind: KuryrKind::Service };
        let told = Told::warning("KuryrEnsureLBError", "two\nlines");
        let notice = ObjectNotice { object, uid: "u-1".into(), told };
        let event = event(&"prod1".parse().unwrap(), &notice, "2026-11-23T03:00:00.9Z".parse().unwrap());
        let expected = serde_json::json!({
            "metadata": {"name": "web.kuryrensurelberror.u-1", "namespace": "team"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Service", "namespace": "team", "name": "web", "uid": "u-1",
                "resourceVersion": "",
            },
            "type": "Warning", "reason": "KuryrEnsureLBError", "message": "two lines", "count": 1,
            "firstTimestamp": "2026-11-23T03:00:00Z", "lastTimestamp": "2026-11-23T03:00:00Z",
            "source": {"component": "gimbal-kuryr-controller"},
            "reportingComponent": "gimbal-kuryr-controller", "reportingInstance": "prod1",
        });
        assert_eq!(serde_json::to_value(event).unwrap(), expected);
    }
}
