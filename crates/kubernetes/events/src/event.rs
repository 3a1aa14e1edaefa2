//! How an Event is written.

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{Event, Meta};

/// Bytes of a message. The newer API for Events takes no longer ones, and readers expect that.
const LONGEST: usize = 1024;

/// Creates an Event. If there is one of its name, counts what happened once more in that one.
///
/// # Errors
/// See [`ApiError`].
pub async fn write_event(cluster: &Cluster, event: &Event) -> Result<(), ApiError> {
    match cluster.create(event).await {
        Err(ApiError::AlreadyExists { .. }) => {}
        created => return created.map(drop),
    }
    let found: Event = cluster.patch(&empty_patch(event)).await?;
    cluster.patch(&count_again(&found, event)).await.map(drop)
}

/// Returns a patch that changes nothing. Its answer is the Event as it is, without the right to read Events.
fn empty_patch(event: &Event) -> Event {
    let Meta { name, namespace, .. } = event.metadata.clone();
    Event { metadata: Meta { name, namespace, ..Meta::default() }, ..Event::default() }
}

/// Returns a patch that counts what happened once more, if the Event is still as it was `found`.
fn count_again(found: &Event, event: &Event) -> Event {
    let patch = empty_patch(event);
    let Meta { uid, resource_version, .. } = found.metadata.clone();
    Event {
        metadata: Meta { uid, resource_version, ..patch.metadata },
        message: event.message.clone(),
        count: Some(found.count.unwrap_or(1).saturating_add(1)),
        last_timestamp: event.last_timestamp.clone(),
        ..Event::default()
    }
}

/// Returns a message as one line that is not longer than an Event may have, for it is shown in a table.
#[must_use]
pub fn short_message(message: &str) -> String {
    message[..message.floor_char_boundary(LONGEST)].replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_changes_the_count_the_time_and_the_message_only() {
        let named = Meta { name: "web.reason.u-1".into(), namespace: "team1".into(), ..Meta::default() };
        let event = Event {
            metadata: named,
            type_: Some("Warning".into()),
            reason: Some("Reason".into()),
            message: Some("now".into()),
            count: Some(1),
            first_timestamp: Some("2026-11-21T12:00:00Z".into()),
            last_timestamp: Some("2026-11-21T12:00:00Z".into()),
            ..Event::default()
        };
        let mut found = event.clone();
        found.metadata.uid = "e".into();
        found.metadata.resource_version = "9".into();
        found.count = Some(4);
        let nothing = serde_json::json!({"metadata": {"name": "web.reason.u-1", "namespace": "team1"}});
        assert_eq!(serde_json::to_value(empty_patch(&event)).unwrap(), nothing);
        let expected = serde_json::json!({
            "metadata": {"name": "web.reason.u-1", "namespace": "team1", "uid": "e", "resourceVersion": "9"},
            "message": "now", "count": 5, "lastTimestamp": "2026-11-21T12:00:00Z",
        });
        assert_eq!(serde_json::to_value(count_again(&found, &event)).unwrap(), expected);
    }
}
