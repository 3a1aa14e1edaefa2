//! The backends of the writer: their state, how old and how late it is, and what is rejected and held of it.

use std::collections::BTreeMap;

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
const MILLIS_OF_A_DAY: u64 = 24 * 3600 * 1000;

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

/// Remarks that the server is a standby, which knows only what the Gimbal cluster holds, before something of it is shown.
///
/// # Errors
/// As [`list`]; or the server has no such backend. An empty name is every backend.
pub async fn check(channel: Channel, backend: &str) -> Result<(), Exit> {
    let answer = ask(channel).await?;
    if !backend.is_empty() && !answer.backends.iter().any(|one| one.name == backend) {
        return Err(Exit::Failure(format!("no backend {backend:?} is known here: gimbalctl backends lists them")));
    }
    standby(answer.writer.as_ref()).iter().for_each(|line| remark(line));
    Ok(())
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
    answer.backends.iter().flat_map(notes).for_each(|note| text.push_str(&columns(&[vec![note]])));
    text
}

fn row(backend: &pb::Backend) -> Vec<String> {
    let services = backend.held.as_ref().map_or(0, |held| held.count);
    let lag = age(backend.lag.as_ref().map(|lag| lag.p99_ms));
    let mut row = vec![backend.name.clone(), state(backend).to_owned(), source(backend), lag];
    row.extend([services, backend.endpoints, backend.rejected, held(backend)].map(|count| count.to_string()));
    let days = backend.certificate_left_ms.map(|left| left / MILLIS_OF_A_DAY);
    row.push(days.map(|days| days.to_string()).unwrap_or_default());
    row.push(backend.trouble.clone());
    row
}

/// Returns the age of what the agent said last of a kind: since then its clock has gone on.
fn age_of(backend: &pb::Backend, source: &pb::SourceFreshness) -> Option<u64> {
    source.age_ms.map(|age| age.saturating_add(backend.last_heard_ms.unwrap_or_default()))
}

/// Returns how old the view of the source is: the kind that was heard the longest ago says it.
fn source(backend: &pb::Backend) -> String {
    let ages: Option<Vec<u64>> = backend.sources.iter().map(|source| age_of(backend, source)).collect();
    match ages {
        Some(ages) => age(ages.into_iter().max()),
        None => "never".to_owned(),
    }
}

/// Returns the number of endpoints that the guard holds. Both guards may hold the same ones, under one id.
fn held(backend: &pb::Backend) -> u64 {
    let mut by_id = BTreeMap::<&str, u64>::new();
    for held in &backend.held_changes {
        let most = by_id.entry(&held.id).or_default();
        *most = held.endpoints_removed.max(*most);
    }
    by_id.values().sum()
}

/// Returns one word for what a person must know first.
fn state(backend: &pb::Backend) -> &'static str {
    let loss = backend.loss.as_ref();
    let stage = loss.map(pb::BackendLoss::stage);
    let policy = backend.policy.as_ref();
    match () {
        () if backend.decommission.is_some() => "going",
        () if policy.is_some_and(|policy| !policy.listed) => "unlisted",
        () if stage == Some(pb::LossStage::Drained) => "drained",
        () if stage == Some(pb::LossStage::NotReady) => "not-ready",
        () if policy.is_some_and(|policy| policy.mode() == pb::BackendMode::Quarantine) => "quarantine",
        () if !backend.connected => "away",
        () if loss.is_some_and(|loss| loss.source_silent_ms.is_some()) => "silent",
        () if !backend.unknown.is_empty() => "unreadable",
        () if !backend.complete => "syncing",
        () if !backend.held_changes.is_empty() => "held",
        () if !backend.trouble.is_empty() => "trouble",
        () if backend.pending > 0 => "pending",
        () => "synced",
    }
}

/// Returns lines about a backend that have no place in a column, with what to do.
fn notes(backend: &pb::Backend) -> Vec<String> {
    let name = &backend.name;
    let mut lines = Vec::new();
    for (place, pb::HeldChange { id, message, held_ms, .. }) in backend.held_changes.iter().enumerate() {
        lines.push(format!("{name}: held for {}: {message}", age(Some(*held_ms))));
        // One approval is for everything with its id.
        if !backend.held_changes[place + 1..].iter().any(|later| later.id == *id) {
            lines.push(format!("    gimbalctl approve {id} --backend {name}"));
        }
    }
    for unknown in &backend.unknown {
        let namespaces = unknown.scope.as_ref().map(|scope| scope.namespaces.join(", ")).unwrap_or_default();
        let scope = if namespaces.is_empty() { "the source".to_owned() } else { format!("namespace {namespaces}") };
        lines.push(format!("{name}: {scope} cannot be read and stays as it was: {}", unknown.reason));
    }
    let quarantined = |policy: &&pb::BackendPolicy| policy.listed && policy.mode() == pb::BackendMode::Quarantine;
    if let Some(planned) = backend.policy.as_ref().filter(quarantined).and_then(|policy| policy.planned) {
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

fn json_of(backend: &pb::Backend, writer: Option<&pb::WriterStanding>) -> Value {
    let held = |held: &pb::HeldChange| {
        json!({
            "id": held.id, "endpointsRemoved": held.endpoints_removed, "endpointsBefore": held.endpoints_before,
            "services": held.services, "message": held.message, "heldMs": held.held_ms, "readiness": held.readiness,
        })
    };
    let source = |source: &pb::SourceFreshness| json!({"kind": source.kind, "ageMs": age_of(backend, source)});
    let removal = |removal: &pb::DecommissionProgress| {
        let pb::DecommissionProgress { id, services, endpoint_slices, endpoints } = removal;
        json!({"id": id, "services": services, "endpointSlices": endpoint_slices, "endpoints": endpoints})
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

    type Change = fn(&mut pb::Backend);

    #[test]
    fn a_backend_is_called_by_what_matters_most() {
        let loss = |stage: pb::LossStage, source_silent_ms| {
            Some(pb::BackendLoss { stage: stage.into(), source_silent_ms, ..pb::BackendLoss::default() })
        };
        let policy = |listed, mode: pb::BackendMode| {
            Some(pb::BackendPolicy { listed, mode: mode.into(), ..pb::BackendPolicy::default() })
        };
        // Each is what it is called for all that came before it.
        let steps: [(&str, Change); 6] = [
            ("synced", |_| ()),
            ("pending", |one| one.pending = 3),
            ("trouble", |one| one.trouble = "the record of the guard cannot be kept".into()),
            ("held", |one| one.held_changes = vec![pb::HeldChange::default()]),
            ("syncing", |one| one.complete = false),
            ("unreadable", |one| one.unknown = vec![pb::UnknownScope::default()]),
        ];
        let mut one = backend("a");
        for (called, change) in steps {
            change(&mut one);
            assert_eq!(state(&one), called);
        }
        one.loss = loss(pb::LossStage::Hold, Some(90_000));
        assert_eq!(state(&one), "silent");
        one.connected = false;
        assert_eq!(state(&one), "away");
        one.policy = policy(true, pb::BackendMode::Quarantine);
        assert_eq!(state(&one), "quarantine");
        for (stage, called) in [(pb::LossStage::NotReady, "not-ready"), (pb::LossStage::Drained, "drained")] {
            one.loss = loss(stage, None);
            assert_eq!(state(&one), called);
        }
        one.policy = policy(false, pb::BackendMode::Admit);
        assert_eq!(state(&one), "unlisted");
        one.decommission = Some(pb::DecommissionProgress::default());
        assert_eq!(state(&one), "going");
    }

    #[test]
    fn what_was_heard_long_ago_has_grown_older_since() {
        let of = |age_ms| pb::SourceFreshness { kind: "services".into(), age_ms };
        let mut one = pb::Backend { last_heard_ms: Some(7_200_000), sources: vec![of(Some(3000))], ..backend("a") };
        assert_eq!(source(&one), "2h");
        assert_eq!(json_of(&one, None)["sources"][0]["ageMs"], 7_203_000);
        one.sources.push(of(None));
        assert_eq!(source(&one), "never", "one kind was never heard");
        one.sources.clear();
        assert_eq!(source(&one), "");
    }

    #[test]
    fn what_both_guards_hold_is_counted_once_and_approved_once() {
        let held =
            |id: &str, endpoints_removed| pb::HeldChange { id: id.into(), endpoints_removed, ..Default::default() };
        let one = pb::Backend { held_changes: vec![held("1", 40), held("1", 38), held("2", 5)], ..backend("a") };
        assert_eq!(super::held(&one), 45);
        let commands: Vec<String> = notes(&one).into_iter().filter(|line| line.contains("approve")).collect();
        assert_eq!(commands, ["    gimbalctl approve 1 --backend a", "    gimbalctl approve 2 --backend a"]);
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
        one.certificate_left_ms = Some(30 * MILLIS_OF_A_DAY - 1);
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
        assert_eq!(json["certificateLeftMs"], 30 * MILLIS_OF_A_DAY - 1);
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
            policy: Some(pb::BackendPolicy { listed: true, planned, mode: 2, ..Default::default() }),
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
