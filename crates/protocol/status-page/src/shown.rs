//! What the page is sent, as JSON. No I/O.

use std::collections::BTreeMap;

use gimbal_backend_summary::{
    BackendNote, carried, certificate_days, held_endpoints, notes, source_age, state as state_of, written,
};
use gimbal_wire::pb;
use serde_json::{Value, json};

/// The lag of each backend, minute by minute.
pub type Histories = BTreeMap<String, Vec<LagMinute>>;

/// The lag of what was written within a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagMinute {
    /// Milliseconds since then.
    pub age_ms: u64,
    /// 99 of 100 changes took no more than these milliseconds.
    pub p99_ms: u64,
    /// Number of changes.
    pub changes: u64,
}

/// Returns what the page shows of a program and its backends.
pub(super) fn state(title: &str, standing: &str, backends: &[pb::Backend], histories: Option<&Histories>) -> Value {
    let backend = |one: &pb::Backend| {
        let history = histories.map(|all| all.get(&one.name).map(Vec::as_slice).unwrap_or_default());
        backend(one, history)
    };
    json!({"title": title, "standing": standing, "backends": backends.iter().map(backend).collect::<Vec<_>>()})
}

fn backend(backend: &pb::Backend, history: Option<&[LagMinute]>) -> Value {
    let note = |BackendNote { text, command }| json!({"text": text, "command": command});
    let lag = |lag: &pb::Lag| json!({"p50Ms": lag.p50_ms, "p99Ms": lag.p99_ms, "changes": lag.changes});
    let minute = |LagMinute { age_ms, p99_ms, changes }: &LagMinute| json!({"ageMs": age_ms, "p99Ms": p99_ms, "changes": changes});
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
        "history": history.map(|minutes| minutes.iter().map(minute).collect::<Vec<_>>()),
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
pub(super) fn explanation(answer: &pb::ExplainResponse) -> Value {
    let pb::ExplainResponse { service: status, reasons, progress, .. } = answer;
    let told = progress.iter().flat_map(|progress| carried(progress).into_iter().chain(written(progress)));
    let reasons: Vec<String> = reasons.iter().cloned().chain(told).collect();
    json!({"service": status.as_ref().map(service), "reasons": reasons})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_says_how_far_the_service_has_come_too() {
        let progress = pb::ServiceProgress { generation: 7, seq: 12, carried_ms: Some(4000), ..Default::default() };
        let answer = pb::ExplainResponse {
            reasons: vec!["because".into()],
            progress: Some(progress),
            ..pb::ExplainResponse::default()
        };
        let expected = ["because", "came 4s ago as frame 12 of stream 7", "nothing written by this process"];
        assert_eq!(explanation(&answer), json!({"service": null, "reasons": expected}));
        let unknown = pb::ExplainResponse { progress: None, ..answer };
        assert_eq!(explanation(&unknown)["reasons"], json!(["because"]));
    }

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
        let minute = LagMinute { age_ms: 61_000, p99_ms: 70, changes: 3 };
        let histories = [("node02".to_owned(), vec![minute])].into();
        let shown = state("Gimbal writer", "It leads", std::slice::from_ref(&one), Some(&histories));
        assert_eq!((&shown["title"], &shown["standing"]), (&json!("Gimbal writer"), &json!("It leads")));
        let backend = &shown["backends"][0];
        assert_eq!(
            (&backend["state"], &backend["held"], &backend["certificateDays"]),
            (&json!("held"), &json!(40), &json!(3))
        );
        assert_eq!(backend["notes"][0]["command"], "gimbalctl approve 7 --backend node02");
        assert_eq!(backend["history"], json!([{"ageMs": 61_000, "p99Ms": 70, "changes": 3}]));
        assert_eq!(backend["lag"], Value::Null);
        let shown = state("", "", &[one], None);
        assert_eq!(shown["backends"][0]["history"], Value::Null, "a program that measures none shows none");
    }
}
