//! The backends of the writer: what is connected, how old it is, and what is held of it.

use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;
use serde_json::{Value, json};

use crate::output::{OutputForm, age, print};
use crate::refusal::failed;
use crate::table::columns;

/// Lists the backends.
///
/// # Errors
/// The server's refusal, or a connection that breaks.
pub async fn list(channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let answer = InspectionServiceClient::new(channel).list_backends(pb::ListBackendsRequest {}).await;
    let answer = answer.map_err(failed)?.into_inner();
    print(&match output {
        OutputForm::Table => table(&answer),
        OutputForm::Json => answer.backends.iter().map(|backend| format!("{}\n", json_of(backend))).collect(),
    })
}

fn table(answer: &pb::ListBackendsResponse) -> String {
    let mut text = String::new();
    if let Some(pb::WriterStanding { leading: false, leader }) = &answer.writer {
        let leader = if leader.is_empty() { "unknown" } else { leader };
        let line = format!("this writer does not lead and has no streams; the leader is {leader}");
        text.push_str(&columns(&[vec![line]]));
    }
    let heads =
        ["BACKEND", "STATE", "HEARD", "SOURCE", "SERVICES", "ENDPOINTS", "PENDING", "REJECTED", "HELD", "TROUBLE"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(answer.backends.iter().map(row));
    text.push_str(&columns(&rows));
    answer.backends.iter().flat_map(notes).for_each(|note| text.push_str(&columns(&[vec![note]])));
    text
}

fn row(backend: &pb::Backend) -> Vec<String> {
    let held: u64 = backend.held_changes.iter().map(|held| held.endpoints_removed).sum();
    let services = backend.held.as_ref().map_or(0, |held| held.count);
    let mut row = vec![backend.name.clone(), state(backend).to_owned(), age(backend.last_heard_ms)];
    // The kind that was heard the longest ago says how old the view of the source is.
    row.push(age(backend.sources.iter().filter_map(|source| source.age_ms).max()));
    row.extend([services, backend.endpoints, backend.pending, backend.rejected, held].map(|count| count.to_string()));
    row.push(backend.trouble.clone());
    row
}

/// Returns one word for what a person must know first.
fn state(backend: &pb::Backend) -> &'static str {
    let loss = backend.loss.as_ref().map(pb::BackendLoss::stage);
    let policy = backend.policy.as_ref();
    match () {
        () if backend.decommission.is_some() => "going",
        () if policy.is_some_and(|policy| !policy.listed) => "unlisted",
        () if policy.is_some_and(|policy| policy.mode() == pb::BackendMode::Quarantine) => "quarantine",
        () if loss == Some(pb::LossStage::Drained) => "drained",
        () if loss == Some(pb::LossStage::NotReady) => "not-ready",
        () if !backend.connected => "away",
        () if !backend.complete => "syncing",
        () if !backend.held_changes.is_empty() => "held",
        () if backend.pending > 0 => "pending",
        () => "synced",
    }
}

/// Returns lines about a backend that have no place in a column, with what to do.
fn notes(backend: &pb::Backend) -> Vec<String> {
    let name = &backend.name;
    let mut lines = Vec::new();
    for pb::HeldChange { id, message, held_ms, .. } in &backend.held_changes {
        lines.push(format!("{name}: held for {}: {message}", age(Some(*held_ms))));
        lines.push(format!("    gimbalctl approve {id} --backend {name}"));
    }
    for unknown in &backend.unknown {
        let namespaces = unknown.scope.as_ref().map(|scope| scope.namespaces.join(", ")).unwrap_or_default();
        let scope = if namespaces.is_empty() { "the source".to_owned() } else { format!("namespace {namespaces}") };
        lines.push(format!("{name}: {scope} cannot be read and stays as it was: {}", unknown.reason));
    }
    if let Some(planned) = backend.policy.as_ref().and_then(|policy| policy.planned) {
        let pb::PlannedCounts { created, changed, deleted } = planned;
        lines.push(format!(
            "{name}: admitted now, it would create {created}, change {changed} and delete {deleted} objects"
        ));
    }
    if let Some(pb::DecommissionProgress { id, services, endpoint_slices, .. }) = &backend.decommission {
        lines.push(format!(
            "{name}: is being removed ({id}); {services} Services and {endpoint_slices} slices are left"
        ));
    }
    lines
}

fn json_of(backend: &pb::Backend) -> Value {
    let held = |held: &pb::HeldChange| {
        json!({
            "id": held.id, "endpointsRemoved": held.endpoints_removed, "endpointsBefore": held.endpoints_before,
            "services": held.services, "message": held.message, "heldMs": held.held_ms, "readiness": held.readiness,
        })
    };
    let sources = backend.sources.iter().map(|source| json!({"kind": source.kind, "ageMs": source.age_ms}));
    let removal = |removal: &pb::DecommissionProgress| json!({"id": removal.id, "services": removal.services, "endpointSlices": removal.endpoint_slices});
    let planned = |planned: &pb::PlannedCounts| json!({"created": planned.created, "changed": planned.changed, "deleted": planned.deleted});
    json!({
        "backend": backend.name,
        "state": state(backend),
        "connected": backend.connected,
        "complete": backend.complete,
        "agentVersion": backend.agent_version,
        "sourceIncarnation": backend.source_incarnation,
        "lastHeardMs": backend.last_heard_ms,
        "sources": sources.collect::<Vec<_>>(),
        "services": backend.held.as_ref().map_or(0, |held| held.count),
        "endpoints": backend.endpoints,
        "pending": backend.pending,
        "rejected": backend.rejected,
        "held": backend.held_changes.iter().map(held).collect::<Vec<_>>(),
        "planned": backend.policy.as_ref().and_then(|policy| policy.planned.as_ref()).map(planned),
        "decommission": backend.decommission.as_ref().map(removal),
        "trouble": backend.trouble,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: &str) -> pb::Backend {
        pb::Backend { name: name.into(), connected: true, complete: true, ..pb::Backend::default() }
    }

    #[test]
    fn a_backend_is_called_by_what_matters_most() {
        let loss = |stage: pb::LossStage| pb::BackendLoss { stage: stage.into(), ..pb::BackendLoss::default() };
        let policy =
            |listed, mode: pb::BackendMode| pb::BackendPolicy { listed, mode: mode.into(), ..Default::default() };
        let held_changes = vec![pb::HeldChange::default()];
        let mut one = backend("a");
        let mut states = vec![state(&one)];
        one.pending = 3;
        states.push(state(&one));
        one.held_changes = held_changes;
        states.push(state(&one));
        one.complete = false;
        states.push(state(&one));
        one.connected = false;
        states.push(state(&one));
        for stage in [pb::LossStage::NotReady, pb::LossStage::Drained] {
            one.loss = Some(loss(stage));
            states.push(state(&one));
        }
        one.policy = Some(policy(true, pb::BackendMode::Quarantine));
        states.push(state(&one));
        one.policy = Some(policy(false, pb::BackendMode::Admit));
        states.push(state(&one));
        one.decommission = Some(pb::DecommissionProgress::default());
        states.push(state(&one));
        assert_eq!(
            states,
            ["synced", "pending", "held", "syncing", "away", "not-ready", "drained", "quarantine", "unlisted", "going"]
        );
    }

    #[test]
    fn a_table_says_what_to_do_about_a_hold() {
        let held = pb::HeldChange {
            id: "3".into(),
            endpoints_removed: 40,
            message: "40 of 41 endpoints would go".into(),
            held_ms: 130_000,
            ..pb::HeldChange::default()
        };
        let mut one = pb::Backend { held_changes: vec![held], endpoints: 41, last_heard_ms: Some(900), ..backend("a") };
        one.held = Some(pb::Summary { count: 7, ..pb::Summary::default() });
        one.sources = vec![pb::SourceFreshness { kind: "services".into(), age_ms: Some(3000) }];
        let writer = Some(pb::WriterStanding { leading: false, leader: "writer-1".into() });
        let shown = table(&pb::ListBackendsResponse { backends: vec![one.clone()], writer });
        assert_eq!(
            shown,
            "this writer does not lead and has no streams; the leader is writer-1\n\
             BACKEND  STATE  HEARD  SOURCE  SERVICES  ENDPOINTS  PENDING  REJECTED  HELD  TROUBLE\n\
             a        held   900ms  3s      7         41         0        0         40\n\
             a: held for 2m: 40 of 41 endpoints would go\n    \
             gimbalctl approve 3 --backend a\n"
        );
        let json = json_of(&one);
        assert_eq!((&json["state"], &json["held"][0]["id"]), (&json!("held"), &json!("3")));
    }

    #[test]
    fn what_cannot_be_read_what_is_planned_and_what_goes_have_lines() {
        let unknown = |namespaces: &[&str]| pb::UnknownScope {
            scope: Some(pb::Scope { namespaces: namespaces.iter().map(ToString::to_string).collect() }),
            reason: "403".into(),
        };
        let planned = Some(pb::PlannedCounts { created: 1, changed: 2, deleted: 3 });
        let one = pb::Backend {
            unknown: vec![unknown(&["x", "y"]), unknown(&[])],
            policy: Some(pb::BackendPolicy { listed: true, planned, ..Default::default() }),
            decommission: Some(pb::DecommissionProgress { id: "a-1".into(), services: 4, ..Default::default() }),
            ..backend("a")
        };
        assert_eq!(
            notes(&one),
            [
                "a: namespace x, y cannot be read and stays as it was: 403",
                "a: the source cannot be read and stays as it was: 403",
                "a: admitted now, it would create 1, change 2 and delete 3 objects",
                "a: is being removed (a-1); 4 Services and 0 slices are left",
            ]
        );
    }
}
