//! A note in the form of an Event. Pure.

use gimbal_kubernetes_events::short_message;
use gimbal_kubernetes_objects::{Event, EventSource, Meta, Object as _, ObjectReference, Service};
use gimbal_model::BackendName;
use jiff::Timestamp;

use super::notes::Note;
use crate::PROGRAM;

/// The Event for a note. A Service has one Event for each reason, by its name: what happens again is counted in
/// it, and an Event of a Service that was deleted is not taken for one of its successor.
pub(super) fn event(backend: &BackendName, service: &Meta, note: &Note, now: Timestamp) -> Event {
    let (type_, reason, message) = match note {
        Note::Rejected(reason, message) => ("Warning", reason.as_str(), short_message(message)),
        Note::Accepted => ("Normal", "Accepted", "the writer no longer rejects this Service".into()),
    };
    let name = format!("{}.{backend}.{}.{}", service.name, reason.to_ascii_lowercase(), service.uid);
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Event {
        metadata: Meta { name: name.into(), namespace: service.namespace.clone(), ..Meta::default() },
        involved_object: Some(ObjectReference {
            api_version: Service::KIND.api_version.into(),
            kind: Service::KIND.kind.into(),
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            uid: service.uid.clone(),
            resource_version: service.resource_version.clone(),
        }),
        type_: Some(type_.into()),
        reason: Some(reason.into()),
        message: Some(message.into()),
        count: Some(1),
        first_timestamp: Some(at.clone()),
        last_timestamp: Some(at),
        source: Some(EventSource { component: PROGRAM.name.into() }),
        reporting_component: Some(PROGRAM.name.into()),
        reporting_instance: Some(backend.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use gimbal_session::RejectReason;

    use super::*;

    fn service(uid: &str) -> Meta {
        Meta {
            name: "web".into(),
            namespace: "team1".into(),
            uid: uid.into(),
            resource_version: "7".into(),
            labels: [("app".into(), "web".into())].into(),
            ..Meta::default()
        }
    }

    fn event_of(uid: &str, note: &Note) -> Event {
        event(&"node02".parse().unwrap(), &service(uid), note, "2026-11-21T12:00:00.987Z".parse().unwrap())
    }

    fn rejected(message: &str) -> Note {
        Note::Rejected(RejectReason::NamespaceMissing, message.to_owned())
    }

    #[test]
    fn a_rejection_is_a_warning_about_the_service() {
        let event = serde_json::to_value(event_of("u-1", &rejected("namespace team1 does not exist"))).unwrap();
        let expected = serde_json::json!({
            "metadata": {"name": "web.node02.namespacemissing.u-1", "namespace": "team1"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Service", "namespace": "team1", "name": "web", "uid": "u-1",
                "resourceVersion": "7",
            },
            "type": "Warning", "reason": "NamespaceMissing", "message": "namespace team1 does not exist", "count": 1,
            "firstTimestamp": "2026-11-21T12:00:00Z", "lastTimestamp": "2026-11-21T12:00:00Z",
            "source": {"component": "gimbal-kubernetes-discoverer"},
            "reportingComponent": "gimbal-kubernetes-discoverer", "reportingInstance": "node02",
        });
        assert_eq!(event, expected);
    }

    #[test]
    fn its_end_is_normal_and_each_reason_and_service_has_its_own_name() {
        let accepted = event_of("u-1", &Note::Accepted);
        assert_eq!((accepted.type_.as_deref(), accepted.reason.as_deref()), (Some("Normal"), Some("Accepted")));
        let quota = Note::Rejected(RejectReason::Quota, String::new());
        let names: Vec<_> =
            [accepted, event_of("u-1", &quota), event_of("u-1", &rejected("")), event_of("u-2", &rejected(""))]
                .into_iter()
                .map(|event| event.metadata.name.to_string())
                .collect();
        let expected = ["accepted.u-1", "quota.u-1", "namespacemissing.u-1", "namespacemissing.u-2"];
        assert_eq!(names, expected.map(|end| format!("web.node02.{end}")));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = event_of("u-1", &rejected(&"\u{e4}".repeat(600).replacen('\u{e4}', "a", 1))).message.unwrap();
        assert_eq!(message.len(), 1023);
        assert!(message.ends_with('\u{e4}'));
    }
}
