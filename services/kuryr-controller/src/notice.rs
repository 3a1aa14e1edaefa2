//! A notice of the core in the form of an Event. Pure.

use gimbal_kubernetes_agent::short_message;
use gimbal_kubernetes_objects::{Event, EventSource, Kind, Meta, ObjectReference};
use gimbal_kuryr_resource::ObjectNotice;
use gimbal_model::BackendName;
use jiff::Timestamp;

use crate::PROGRAM;

/// The longest part of an object's name in the name of its Event, which may have 253 characters.
const LONGEST_NAME: usize = 150;

/// Returns the Event for a notice. An object has one Event for each reason, by its name: what happens again is counted in it,
/// and an Event of an object that was deleted is not taken for one of its successor.
pub(crate) fn event(cluster: &BackendName, notice: &ObjectNotice, now: Timestamp) -> Event {
    let object = &notice.object;
    let Kind { kind, api_version, .. } = object.kind.kind();
    // What is before a dot ends with a letter or a number.
    let short = object.name[..object.name.floor_char_boundary(LONGEST_NAME)].trim_end_matches(['.', '-']);
    let name = format!("{short}.{}.{}", notice.told.reason.to_ascii_lowercase(), notice.uid);
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Event {
        metadata: Meta { name: name.into(), namespace: object.namespace.clone(), ..Meta::default() },
        involved_object: Some(ObjectReference {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: notice.uid.clone(),
            ..ObjectReference::default()
        }),
        type_: Some(if notice.told.is_warning { "Warning" } else { "Normal" }.into()),
        reason: Some(notice.told.reason.into()),
        message: Some(short_message(&notice.told.message).into()),
        count: Some(1),
        first_timestamp: Some(at.clone()),
        last_timestamp: Some(at),
        source: Some(EventSource { component: PROGRAM.name.into() }),
        reporting_component: Some(PROGRAM.name.into()),
        reporting_instance: Some(cluster.as_str().into()),
    }
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

    #[test]
    fn a_name_that_is_cut_is_one_that_the_api_server_takes() {
        for end in ["-x", ".x", "-.-x", "x-"] {
            let name = format!("{}{end}", "n".repeat(LONGEST_NAME + 1 - end.len()));
            let object = ClusterObject { namespace: "team".into(), name: name.into(), kind: KuryrKind::Service };
            let notice = ObjectNotice { object, uid: "u-1".into(), told: Told::normal("KuryrEnsuredLB", "") };
            let name = event(&"prod1".parse().unwrap(), &notice, Timestamp::UNIX_EPOCH).metadata.name;
            let short = name.strip_suffix(".kuryrensuredlb.u-1").unwrap();
            assert!(short.len() <= LONGEST_NAME && short.ends_with(['n', 'x']), "{name}");
        }
    }
}
