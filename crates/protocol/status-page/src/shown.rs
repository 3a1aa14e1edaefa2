//! What the page is sent, as JSON. No I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_backend_summary::{BackendNote, certificate_days, held_endpoints, notes, source_age, state as state_of};
use gimbal_reconcile::Reconciler;
use gimbal_wire::pb;
use serde_json::{Value, json};

use crate::lag::{LagSummary, millis_begun};
use crate::links::Links;

/// The lag of each backend, minute by minute, each with its age.
pub(super) type Histories = BTreeMap<String, Vec<(Duration, LagSummary)>>;

/// Returns the lag of each backend over the last hour.
pub(super) fn histories(state: &Reconciler, links: &Links) -> Histories {
    let now = Instant::now();
    let of = |name: &gimbal_model::BackendName| (name.to_string(), links.lag_by_minute(name, now).collect());
    state.backends().keys().map(of).collect()
}

/// Returns what the page shows of the writer and its backends.
pub(super) fn state(writer: Option<&pb::WriterStanding>, backends: &[pb::Backend], histories: &Histories) -> Value {
    let standing = match writer {
        Some(writer) if writer.leading => format!("This writer leads: {}", writer.leader),
        Some(writer) if writer.leader.is_empty() => "No writer leads, so nothing is written".to_owned(),
        Some(writer) => format!(
            "This writer does not lead, has no streams and knows only what is published. The leader is {}",
            writer.leader
        ),
        None => String::new(),
    };
    let backend = |one| backend(one, histories.get(&one.name).map(Vec::as_slice).unwrap_or_default());
    json!({"standing": standing, "backends": backends.iter().map(backend).collect::<Vec<_>>()})
}

fn backend(backend: &pb::Backend, history: &[(Duration, LagSummary)]) -> Value {
    let note = |BackendNote { text, command }| json!({"text": text, "command": command});
    let lag = |lag: &pb::Lag| json!({"p50Ms": lag.p50_ms, "p99Ms": lag.p99_ms, "changes": lag.changes});
    let minute = |(age, summary): &(Duration, LagSummary)| {
        let (age, p99) = (millis(*age), millis_begun(summary.p99));
        json!({"ageMs": age, "p99Ms": p99, "changes": summary.changes})
    };
    json!({
        "backend": backend.name,
        "state": state_of(backend),
        "sourceAge": source_age(backend),
        "lag": backend.lag.as_ref().map(lag),
        "services": backend.held.as_ref().map_or(0, |held| held.count),
        "endpoints": backend.endpoints,
        "rejected": backend.rejected,
        "held": held_endpoints(backend),
        "certificateDays": certificate_days(backend),
        "trouble": backend.trouble,
        "notes": notes(backend).into_iter().map(note).collect::<Vec<_>>(),
        "history": history.iter().map(minute).collect::<Vec<_>>(),
    })
}

/// Returns one Service of a search.
pub(super) fn service(status: &pb::ServiceStatus) -> Value {
    let key = |key: &pb::ServiceKey| format!("{}/{}", key.namespace, key.name);
    json!({
        "backend": status.backend,
        "source": status.source.as_ref().map(key),
        "target": status.target.as_ref().map(key),
        "state": status.state().as_str_name().trim_start_matches("SERVICE_STATE_").to_lowercase(),
        "ready": format!("{} of {}", status.ready_endpoints, status.endpoints),
    })
}

/// Returns why a Service is as it is.
pub(super) fn explanation(status: Option<&pb::ServiceStatus>, reasons: &[String]) -> Value {
    json!({"service": status.map(service), "reasons": reasons})
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_shown_with_what_to_do_and_its_last_hour() {
        let held = pb::HeldChange { id: "7".into(), endpoints_removed: 40, ..pb::HeldChange::default() };
        let one = pb::Backend {
            name: "node02".into(),
            connected: true,
            complete: true,
            held_changes: vec![held],
            certificate_left_ms: Some(3 * 24 * 3600 * 1000),
            ..pb::Backend::default()
        };
        let time = Duration::from_millis;
        let summary = LagSummary { changes: 3, p50: time(5), p99: time(70), most: time(70) };
        let histories = [("node02".to_owned(), vec![(time(61_000), summary)])].into();
        let writer = pb::WriterStanding { leading: true, leader: "one".into() };
        let shown = state(Some(&writer), &[one], &histories);
        assert_eq!(shown["standing"], "This writer leads: one");
        let backend = &shown["backends"][0];
        assert_eq!(
            (&backend["state"], &backend["held"], &backend["certificateDays"]),
            (&json!("held"), &json!(40), &json!(3))
        );
        assert_eq!(backend["notes"][0]["command"], "gimbalctl approve 7 --backend node02");
        assert_eq!(backend["history"], json!([{"ageMs": 61_000, "p99Ms": 70, "changes": 3}]));
        assert_eq!(backend["lag"], Value::Null);
        let standby = pb::WriterStanding { leading: false, leader: "two".into() };
        let shown = state(Some(&standby), &[], &Histories::new());
        assert!(shown["standing"].as_str().unwrap().ends_with("The leader is two"), "{shown}");
    }
}
