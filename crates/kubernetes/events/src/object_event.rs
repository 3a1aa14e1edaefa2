//! An Event about an object, as it is created. Pure.

use std::sync::Arc;

use gimbal_kubernetes_objects::{Event, EventSource, Kind, Meta, ObjectReference};
use jiff::Timestamp;

use crate::short_message;

/// The longest part of an object's name in the name of its Event, which may have 253 characters.
const LONGEST_NAME: usize = 150;
/// The longest name of an instance that the API server takes.
const LONGEST_INSTANCE: usize = 128;
/// Where the API server expects Events about objects that are in no namespace.
const NAMESPACE_OF_CLUSTER_SCOPED: &str = "default";

/// The object that an Event is about.
#[derive(Debug, Clone)]
pub struct EventSubject {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty if it is cluster-scoped.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID, by which `kubectl describe` selects Events.
    pub uid: Arc<str>,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy)]
pub struct EventText<'a> {
    /// Whether it is of the type `Warning`, and not `Normal`.
    pub is_warning: bool,
    /// Machine-readable, in upper camel case.
    pub reason: &'a str,
    /// Human-readable message.
    pub message: &'a str,
}

/// Who reports it.
#[derive(Debug, Clone, Copy)]
pub struct EventAuthor<'a> {
    /// The program.
    pub program: &'a str,
    /// Which one of those programs.
    pub instance: &'a str,
}

/// Returns the Event about an object. Its name has the object's UID and the reason: what happens again is counted in the same
/// Event, and an Event of an object that was deleted is not taken for one of its successor.
#[must_use]
pub fn object_event(subject: &EventSubject, text: EventText<'_>, author: EventAuthor<'_>, now: Timestamp) -> Event {
    let Kind { kind, api_version, .. } = subject.kind;
    // What is before a dot ends with a letter or a number.
    let short = subject.name[..subject.name.floor_char_boundary(LONGEST_NAME)].trim_end_matches(['.', '-']);
    let name = format!("{short}.{}.{}", text.reason.to_ascii_lowercase(), subject.uid);
    let namespace = match subject.namespace.is_empty() {
        true => NAMESPACE_OF_CLUSTER_SCOPED.into(),
        false => subject.namespace.clone(),
    };
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Event {
        metadata: Meta { name: name.into(), namespace, ..Meta::default() },
        involved_object: Some(ObjectReference {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: subject.namespace.clone(),
            name: subject.name.clone(),
            uid: subject.uid.clone(),
            ..ObjectReference::default()
        }),
        type_: Some(if text.is_warning { "Warning" } else { "Normal" }.into()),
        reason: Some(text.reason.into()),
        message: Some(short_message(text.message).into()),
        count: Some(1),
        first_timestamp: Some(at.clone()),
        last_timestamp: Some(at),
        source: Some(EventSource { component: author.program.into() }),
        reporting_component: Some(author.program.into()),
        reporting_instance: Some(author.instance[..author.instance.floor_char_boundary(LONGEST_INSTANCE)].into()),
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::{Object as _, Service};

    use super::*;

    fn subject(namespace: &str, name: &str) -> EventSubject {
        EventSubject { kind: Service::KIND, namespace: namespace.into(), name: name.into(), uid: "u-1".into() }
    }

    const AUTHOR: EventAuthor<'static> = EventAuthor { program: "gimbal-writer", instance: "one" };

    #[test]
    fn an_event_names_the_object_by_its_uid() {
        let text = EventText { is_warning: true, reason: "NotMade", message: "two\nlines" };
        let event = object_event(&subject("team", "web"), text, AUTHOR, "2026-11-23T03:00:00.9Z".parse().unwrap());
        let expected = serde_json::json!({
            "metadata": {"name": "web.notmade.u-1", "namespace": "team"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Service", "namespace": "team", "name": "web", "uid": "u-1",
                "resourceVersion": "",
            },
            "type": "Warning", "reason": "NotMade", "message": "two lines", "count": 1,
            "firstTimestamp": "2026-11-23T03:00:00Z", "lastTimestamp": "2026-11-23T03:00:00Z",
            "source": {"component": "gimbal-writer"},
            "reportingComponent": "gimbal-writer", "reportingInstance": "one",
        });
        assert_eq!(serde_json::to_value(event).unwrap(), expected);
    }

    #[test]
    fn an_object_in_no_namespace_has_its_events_in_default() {
        let text = EventText { is_warning: false, reason: "Made", message: "" };
        let event = object_event(&subject("", "web"), text, AUTHOR, Timestamp::UNIX_EPOCH);
        let about = event.involved_object.unwrap();
        assert_eq!((&*event.metadata.namespace, &*about.namespace), ("default", ""));
    }

    #[test]
    fn a_name_that_is_cut_is_one_that_the_api_server_takes() {
        for end in ["-x", ".x", "-.-x", "x-"] {
            let name = format!("{}{end}", "n".repeat(LONGEST_NAME + 1 - end.len()));
            let text = EventText { is_warning: false, reason: "Made", message: "" };
            let name = object_event(&subject("team", &name), text, AUTHOR, Timestamp::UNIX_EPOCH).metadata.name;
            let short = name.strip_suffix(".made.u-1").unwrap();
            assert!(short.len() <= LONGEST_NAME && short.ends_with(['n', 'x']), "{name}");
        }
    }
}
