//! The backends of the writer: their state, how old and how late it is, and what is rejected and held of it.

use gimbal_backend_summary::{BackendNote, certificate_days, held_endpoints, kind_age, notes, source_age, state};
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;
use serde_json::{Value, json};

use crate::output::{OutputForm, age, print, remark};
use crate::refusal::failed;
use crate::table::columns;

/// The columns of the table.
const HEADS: [&str; 10] =
    ["BACKEND", "STATE", "SOURCE AGE", "LAG p99", "SERVICES", "ENDPOINTS", "REJECTED", "HELD", "CERT DAYS", "TROUBLE"];

/// Lists the backends.
///
/// # Errors
/// The server's refusal, or a connection that breaks.
pub async fn list(channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let answer = ask(channel).await?;
    let writer = answer.writer.as_ref();
    print(&match output {
        OutputForm::Table => table(&answer),
        OutputForm::Json => answer.backends.iter().map(|backend| format!("{}\n", json_of(backend, writer))).collect(),
    })
}

async fn ask(channel: Channel) -> Result<pb::ListBackendsResponse, Exit> {
    let answer = InspectionServiceClient::new(channel).list_backends(pb::ListBackendsRequest {}).await;
    Ok(answer.map_err(failed)?.into_inner())
}

/// Returns the backends, and remarks that the server is a standby, which knows only what the Gimbal cluster holds, before
/// something of it is shown.
///
/// # Errors
/// As [`list`]; or the server has no such backend. An empty name is every backend.
pub async fn check(channel: Channel, backend: &str) -> Result<pb::ListBackendsResponse, Exit> {
    let answer = ask(channel).await?;
    if !backend.is_empty() && !answer.backends.iter().any(|one| one.name == backend) {
        return Err(Exit::Failure(format!("no backend {backend:?} is known here: gimbalctl backends lists them")));
    }
    standby(answer.writer.as_ref()).iter().for_each(|line| remark(line));
    Ok(answer)
}

/// Returns what to know about the answer of a writer that does not lead.
fn standby(writer: Option<&pb::WriterStanding>) -> Option<String> {
    let writer = writer.filter(|writer| !writer.leading)?;
    let leader = if writer.leader.is_empty() { "not known" } else { &writer.leader };
    Some(format!(
        "this writer does not lead, has no streams and knows only what is published; the leader is {leader}: ask that one"
    ))
}

fn table(answer: &pb::ListBackendsResponse) -> String {
    let mut text = String::new();
    standby(answer.writer.as_ref()).into_iter().for_each(|line| text.push_str(&columns(&[vec![line]])));
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    rows.extend(answer.backends.iter().map(row));
    text.push_str(&columns(&rows));
    answer.backends.iter().flat_map(lines).for_each(|line| text.push_str(&columns(&[vec![line]])));
    text
}

/// Returns lines below the table, with what to do.
fn lines(backend: &pb::Backend) -> Vec<String> {
    let lines = |BackendNote { text, command }| {
        let command = command.map(|command| format!("    {command}"));
        std::iter::once(format!("{}: {text}", backend.name)).chain(command).collect::<Vec<_>>()
    };
    notes(backend).into_iter().flat_map(lines).collect()
}

fn row(backend: &pb::Backend) -> Vec<String> {
    let services = backend.held.as_ref().map_or(0, |held| held.count);
    let lag = age(backend.lag.as_ref().map(|lag| lag.p99_ms));
    let mut row = vec![backend.name.clone(), state(backend).to_owned(), source_age(backend), lag];
    row.extend([services, backend.endpoints, backend.rejected, held_endpoints(backend)].map(|count| count.to_string()));
    row.push(certificate_days(backend).map(|days| days.to_string()).unwrap_or_default());
    row.push(backend.trouble.clone());
    row
}

fn json_of(backend: &pb::Backend, writer: Option<&pb::WriterStanding>) -> Value {
    let held = |held: &pb::HeldChange| {
        json!({
            "id": held.id, "endpointsRemoved": held.endpoints_removed, "endpointsBefore": held.endpoints_before,
            "services": held.services, "message": held.message, "heldMs": held.held_ms, "readiness": held.readiness,
        })
    };
    let source = |source: &pb::SourceFreshness| json!({"kind": source.kind, "ageMs": kind_age(backend, source)});
    let removal = |removal: &pb::DecommissionProgress| {
        let pb::DecommissionProgress { id, services, endpoint_slices, endpoints, removed_in_ms } = removal;
        json!({
            "id": id, "services": services, "endpointSlices": endpoint_slices, "endpoints": endpoints,
            "removedInMs": removed_in_ms,
        })
    };
    let unknown = |unknown: &pb::UnknownScope| {
        let namespaces = unknown.scope.as_ref().map(|scope| &scope.namespaces);
        json!({"namespaces": namespaces, "reason": unknown.reason})
    };
    let standing = |writer: &pb::WriterStanding| json!({"leading": writer.leading, "leader": writer.leader});
    json!({
        "backend": backend.name,
        "state": state(backend),
        "connected": backend.connected,
        "complete": backend.complete,
        "generation": backend.generation,
        "agentInstance": backend.agent_instance,
        "agentVersion": backend.agent_version,
        "sourceIncarnation": backend.source_incarnation,
        "lastHeardMs": backend.last_heard_ms,
        "sources": backend.sources.iter().map(source).collect::<Vec<_>>(),
        "unknown": backend.unknown.iter().map(unknown).collect::<Vec<_>>(),
        "services": backend.held.as_ref().map_or(0, |held| held.count),
        "endpoints": backend.endpoints,
        "pending": backend.pending,
        "rejected": backend.rejected,
        "held": backend.held_changes.iter().map(held).collect::<Vec<_>>(),
        "lag": backend.lag.as_ref().map(lag_json),
        "certificateLeftMs": backend.certificate_left_ms,
        "policy": backend.policy.as_ref().map(policy_json),
        "loss": backend.loss.as_ref().map(loss_json),
        "decommission": backend.decommission.as_ref().map(removal),
        "trouble": backend.trouble,
        "writer": writer.map(standing),
    })
}

fn lag_json(lag: &pb::Lag) -> Value {
    let pb::Lag { window_ms, changes, p50_ms, p99_ms, most_ms } = lag;
    json!({"windowMs": window_ms, "changes": changes, "p50Ms": p50_ms, "p99Ms": p99_ms, "mostMs": most_ms})
}

fn policy_json(policy: &pb::BackendPolicy) -> Value {
    let mode = policy.mode().as_str_name().trim_start_matches("BACKEND_MODE_").to_lowercase();
    let quota = |quota: &pb::QuotaUse| json!({"used": quota.used, "limit": quota.limit});
    let planned = |planned: &pb::PlannedCounts| {
        let pb::PlannedCounts { created, changed, deleted } = planned;
        json!({"created": created, "changed": changed, "deleted": deleted})
    };
    json!({
        "listed": policy.listed,
        "mode": mode,
        "services": policy.services.as_ref().map(quota),
        "endpoints": policy.endpoints.as_ref().map(quota),
        "bytes": policy.bytes.as_ref().map(quota),
        "changesPerSecond": policy.changes_per_second,
        "waitingForRoom": policy.waiting_for_room,
        "planned": policy.planned.as_ref().map(planned),
    })
}

fn loss_json(loss: &pb::BackendLoss) -> Value {
    json!({
        "stage": loss.stage().as_str_name().trim_start_matches("LOSS_STAGE_").to_lowercase(),
        "disconnectedMs": loss.disconnected_ms,
        "sourceSilentMs": loss.source_silent_ms,
        "lostMs": loss.lost_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: &str) -> pb::Backend {
        pb::Backend { name: name.into(), connected: true, complete: true, ..pb::Backend::default() }
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
        one.lag = Some(pb::Lag { changes: 12, p50_ms: 20, p99_ms: 350, most_ms: 350, window_ms: 300_000 });
        one.certificate_left_ms = Some(2_591_999_999);
        let writer = Some(pb::WriterStanding { leading: false, leader: "writer-1".into() });
        let shown = table(&pb::ListBackendsResponse { backends: vec![one.clone()], writer: writer.clone() });
        assert_eq!(
            shown,
            "this writer does not lead, has no streams and knows only what is published; the leader is writer-1: ask that one\n\
             BACKEND  STATE  SOURCE AGE  LAG p99  SERVICES  ENDPOINTS  REJECTED  HELD  CERT DAYS  TROUBLE\n\
             a        held   3s          350ms    7         41         0         40    29\n\
             a: held for 2m: 40 of 41 endpoints would go\n    \
             gimbalctl approve 3 --backend a\n"
        );
        let json = json_of(&one, writer.as_ref());
        assert_eq!((&json["state"], &json["held"][0]["id"]), (&json!("held"), &json!("3")));
        assert_eq!(json["writer"], json!({"leading": false, "leader": "writer-1"}));
        assert_eq!((&json["lag"]["p99Ms"], &json["lag"]["changes"]), (&json!(350), &json!(12)));
        assert_eq!(json["certificateLeftMs"], 2_591_999_999_u64);
    }
}
