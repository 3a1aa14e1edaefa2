//! What both ends answered, for people and for programs. No I/O.

use gimbal_backend_summary::{carried, written};
use gimbal_wire::pb;
use serde_json::{Value, json};

use super::ends::{BothEnds, End, FirstDifference};
use crate::services::{heads, json_of, key, row};
use crate::table::columns;

/// A place on the way, and what is there.
struct Place {
    name: &'static str,
    service: String,
    /// Of the address that was asked about.
    address: Option<String>,
}

/// Returns the answers for people.
pub fn text(ends: &BothEnds) -> String {
    let mut text = String::new();
    let status = ends.writer.as_ref().or(ends.discoverer.as_ref()).and_then(|end| end.answer.service.as_ref());
    let status = status.or_else(|| ends.discoverer.as_ref()?.answer.service.as_ref());
    if let Some(status) = status {
        text.push_str(&columns(&[heads(), row(status)]));
    }
    let mut table = vec![["PLACE", "SERVICE"].map(str::to_owned).to_vec()];
    table[0].extend(ends.address.map(|address| address.to_string()));
    table.extend(places(ends).into_iter().map(|Place { name, service, address }| {
        [name.to_owned(), service].into_iter().chain(address).collect::<Vec<_>>()
    }));
    text.push_str(&columns(&table));
    let agent = ends.writer.as_ref().or(ends.discoverer.as_ref()).and_then(|end| end.backend.as_ref());
    let mut lines: Vec<String> = agent.map(agent_line).into_iter().chain(ends.other_agent()).collect();
    for (name, end) in [("discoverer", &ends.discoverer), ("writer", &ends.writer)] {
        lines.extend(end.iter().flat_map(|end| said(name, &end.answer)));
    }
    lines.push(ends.conclusion());
    lines.into_iter().for_each(|line| text.push_str(&columns(&[vec![line]])));
    text
}

/// Returns what one end says, in lines.
fn said(name: &str, answer: &pb::ExplainResponse) -> Vec<String> {
    let mut lines = vec![format!("the {name} says:")];
    lines.extend(answer.reasons.iter().map(|reason| format!("- {reason}")));
    if let Some(address) = &answer.address {
        lines.extend(address.reasons.iter().map(|reason| format!("- {}: {reason}", address.address)));
    }
    for claim in &answer.other_claims {
        lines.push(format!("- {} of backend {} claims the same name", key(claim.key.as_ref()), claim.backend));
    }
    for pb::PlannedChange { verb, kind, namespace, name, diff } in &answer.planned {
        lines.push(format!("would {verb} {kind} {namespace}/{name}"));
        lines.extend(diff.iter().map(|line| format!("    {line}")));
    }
    lines
}

fn agent_line(backend: &pb::Backend) -> String {
    let pb::Backend { name, agent_version, agent_instance, generation, connected, .. } = backend;
    if agent_instance.is_empty() {
        return format!("no agent of backend {name} was heard");
    }
    let connected = if *connected { "connected" } else { "not connected" };
    format!("agent of backend {name}: {agent_version}, instance {agent_instance}, stream {generation}, {connected}")
}

fn places(ends: &BothEnds) -> Vec<Place> {
    let mut places = Vec::new();
    if let Some(End { answer, .. }) = &ends.discoverer {
        let address = ends.address.map(|_| in_objects(answer.address.as_ref()));
        places.push(Place { name: "source", service: at_source(answer), address });
    }
    if let Some(End { answer, .. }) = &ends.writer {
        let sent = answer.address.as_ref().map(|address| endpoint(address.endpoint.as_ref()));
        let sent = ends.address.map(|_| sent.unwrap_or_else(|| "?".to_owned()));
        places.push(Place { name: "writer", service: at_writer(answer), address: sent });
        let published = ends.address.map(|_| in_objects(answer.address.as_ref()));
        places.push(Place { name: "cluster", service: in_cluster(answer), address: published });
    }
    places
}

fn at_source(answer: &pb::ExplainResponse) -> String {
    let Some(status) = &answer.service else { return "not offered".to_owned() };
    with_progress(ready(status), answer, carried)
}

fn at_writer(answer: &pb::ExplainResponse) -> String {
    match &answer.service {
        None => "not known".to_owned(),
        Some(status) if status.digest.is_empty() => "not heard of from an agent".to_owned(),
        Some(status) => with_progress(ready(status), answer, carried),
    }
}

fn in_cluster(answer: &pb::ExplainResponse) -> String {
    let published = match answer.service.as_ref().and_then(|status| status.published_endpoints) {
        Some(1) => "1 endpoint".to_owned(),
        Some(count) => format!("{count} endpoints"),
        None => "not published".to_owned(),
    };
    with_progress(published, answer, written)
}

fn ready(status: &pb::ServiceStatus) -> String {
    format!("{} of {} endpoints ready", status.ready_endpoints, status.endpoints)
}

fn with_progress(first: String, answer: &pb::ExplainResponse, told: fn(&pb::ServiceProgress) -> Vec<String>) -> String {
    let told = answer.progress.iter().flat_map(told);
    std::iter::once(first).chain(told).collect::<Vec<_>>().join(", ")
}

fn endpoint(conditions: Option<&pb::EndpointConditions>) -> String {
    let words = match conditions {
        None => "none",
        Some(pb::EndpointConditions { ready: true, .. }) => "ready",
        Some(pb::EndpointConditions { terminating: true, serving: true, .. }) => "terminating, still serving",
        Some(pb::EndpointConditions { terminating: true, .. }) => "terminating",
        Some(_) => "not ready",
    };
    words.to_owned()
}

fn in_objects(address: Option<&pb::AddressStatus>) -> String {
    // A server of an older version does not say.
    let Some(address) = address else { return "?".to_owned() };
    if address.objects.is_empty() {
        return "none".to_owned();
    }
    let object = |one: &pb::AddressObject| format!("{} {}: {}", one.kind, one.name, endpoint(one.conditions.as_ref()));
    address.objects.iter().map(object).collect::<Vec<_>>().join("; ")
}

/// Returns the answers for programs.
pub fn json(ends: &BothEnds) -> Value {
    let both = ends.writer.is_some();
    let asked = ends.writer.as_ref().or(ends.discoverer.as_ref());
    let mut shown = asked.map(end_json).unwrap_or_default();
    let place =
        |Place { name, service, address }: Place| json!({"place": name, "service": service, "address": address});
    let difference = |FirstDifference { place, kind, what }: FirstDifference| json!({"at": place.name(), "difference": kind.name(), "what": what});
    shown["discoverer"] = ends.discoverer.as_ref().filter(|_| both).map(end_json).unwrap_or_default();
    shown["places"] = places(ends).into_iter().map(place).collect();
    shown["difference"] = ends.first_difference().map(difference).unwrap_or_default();
    shown["conclusion"] = ends.conclusion().into();
    shown
}

fn end_json(End { backend, answer }: &End) -> Value {
    let claim = |claim: &pb::SourceRef| json!({"backend": claim.backend, "source": key(claim.key.as_ref())});
    let planned = |change: &pb::PlannedChange| {
        let pb::PlannedChange { verb, kind, namespace, name, diff } = change;
        json!({"verb": verb, "kind": kind, "namespace": namespace, "name": name, "diff": diff})
    };
    let agent = |backend: &pb::Backend| {
        json!({
            "instance": backend.agent_instance, "version": backend.agent_version, "generation": backend.generation,
            "connected": backend.connected,
        })
    };
    json!({
        "service": answer.service.as_ref().map(json_of),
        "reasons": answer.reasons,
        "otherClaims": answer.other_claims.iter().map(claim).collect::<Vec<_>>(),
        "planned": answer.planned.iter().map(planned).collect::<Vec<_>>(),
        "agent": backend.as_ref().map(agent),
        "progress": answer.progress.as_ref().map(progress_json),
        "address": answer.address.as_ref().map(address_json),
    })
}

fn progress_json(progress: &pb::ServiceProgress) -> Value {
    let write = |write: &pb::WriteAnswer| {
        let pb::WriteAnswer { verb, kind, name, status, answer, age_ms } = write;
        json!({"verb": verb, "kind": kind, "name": name, "status": status, "answer": answer, "ageMs": age_ms})
    };
    json!({
        "generation": progress.generation,
        "seq": progress.seq,
        "reportedMs": progress.reported_ms,
        "carriedMs": progress.carried_ms,
        "acknowledgedMs": progress.acknowledged_ms,
        "lastWrite": progress.last_write.as_ref().map(write),
        "writtenMs": progress.written_ms,
    })
}

fn address_json(address: &pb::AddressStatus) -> Value {
    let conditions = |one: &pb::EndpointConditions| json!({"ready": one.ready, "serving": one.serving, "terminating": one.terminating});
    let object = |one: &pb::AddressObject| json!({"kind": one.kind, "name": one.name, "conditions": one.conditions.as_ref().map(conditions)});
    json!({
        "address": address.address,
        "endpoint": address.endpoint.as_ref().map(conditions),
        "objects": address.objects.iter().map(object).collect::<Vec<_>>(),
        "reasons": address.reasons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> pb::ServiceStatus {
        let key = |namespace: &str, name: &str| Some(pb::ServiceKey { namespace: namespace.into(), name: name.into() });
        pb::ServiceStatus {
            backend: "node02".into(),
            source: key("team1", "web"),
            target: key("team1", "node02-web"),
            state: pb::ServiceState::Synced.into(),
            endpoints: 3,
            ready_endpoints: 2,
            digest: vec![1; 16],
            ..Default::default()
        }
    }

    fn backend() -> pb::Backend {
        pb::Backend {
            name: "node02".into(),
            agent_version: "agent 1".into(),
            agent_instance: "i".into(),
            generation: 7,
            connected: true,
            complete: true,
            ..Default::default()
        }
    }

    fn address(kind: &str, name: &str, ready: bool, reasons: &[&str]) -> Option<pb::AddressStatus> {
        let conditions = Some(pb::EndpointConditions { ready, serving: true, terminating: !ready });
        Some(pb::AddressStatus {
            address: "10.0.0.1".into(),
            endpoint: conditions,
            objects: vec![pb::AddressObject { kind: kind.into(), name: name.into(), conditions }],
            reasons: reasons.iter().map(ToString::to_string).collect(),
        })
    }

    fn ends() -> BothEnds {
        let claim = pb::SourceRef { backend: "node03".into(), key: status().source };
        let change = pb::PlannedChange {
            verb: "create".into(),
            kind: "Service".into(),
            namespace: "team1".into(),
            name: "node02-web".into(),
            diff: vec!["+ port 80".into()],
        };
        let write = pb::WriteAnswer {
            verb: "patch".into(),
            kind: "EndpointSlice".into(),
            name: "node02-web-x".into(),
            status: 409,
            answer: "conflict".into(),
            age_ms: 3000,
        };
        let frame = pb::ServiceProgress { generation: 7, seq: 12, carried_ms: Some(4000), ..Default::default() };
        let writer = pb::ExplainResponse {
            service: Some(pb::ServiceStatus { published_endpoints: Some(3), ..status() }),
            reasons: vec!["a\u{1b}b".into()],
            other_claims: vec![claim],
            planned: vec![change],
            progress: Some(pb::ServiceProgress { last_write: Some(write), written_ms: Some(9000), ..frame }),
            address: address("EndpointSlice", "node02-web-x", false, &["it is published as not ready: why"]),
        };
        let source = pb::ExplainResponse {
            service: Some(status()),
            reasons: vec!["it has 3".into()],
            progress: Some(pb::ServiceProgress { reported_ms: Some(5000), acknowledged_ms: Some(2000), ..frame }),
            address: address("EndpointSlice", "web-a", true, &[]),
            ..Default::default()
        };
        let end = |answer| Some(End { backend: Some(backend()), answer });
        BothEnds {
            address: Some("10.0.0.1".parse().unwrap()),
            writer: end(writer),
            leading: true,
            discoverer: end(source),
        }
    }

    #[test]
    fn both_ends_are_shown_beside_each_other() {
        let shown = text(&ends());
        let expected = "\
            BACKEND  SOURCE     TARGET            STATE   READY  PORTS  MESSAGE\n\
            node02   team1/web  team1/node02-web  synced  2/3\n\
            PLACE  SERVICE  10.0.0.1\n\
            source  2 of 3 endpoints ready, reported 5s ago, sent 4s ago as frame 12 of stream 7, acknowledged 2s ago  \
            EndpointSlice web-a: ready\n\
            writer  2 of 3 endpoints ready, came 4s ago as frame 12 of stream 7  terminating, still serving\n\
            cluster  3 endpoints, last write 3s ago: patch EndpointSlice node02-web-x: conflict (409), the last one that was \
            accepted 9s ago  EndpointSlice node02-web-x: terminating, still serving\n\
            agent of backend node02: agent 1, instance i, stream 7, connected\n\
            the discoverer says:\n\
            - it has 3\n\
            the writer says:\n\
            - ab\n\
            - 10.0.0.1: it is published as not ready: why\n\
            - team1/web of backend node03 claims the same name\n\
            would create Service team1/node02-web\n    + port 80\n\
            first difference: different at the writer: it is published as not ready: why\n";
        let squeezed = |text: &str| -> Vec<String> {
            let cells = |line: &str| {
                line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ")
            };
            text.lines().map(cells).collect()
        };
        assert_eq!(squeezed(&shown), squeezed(expected));
        let without = BothEnds { address: None, discoverer: None, ..ends() };
        let shown = text(&without);
        assert!(shown.contains("\nPLACE    SERVICE\n") && !shown.contains("\nsource "), "{shown}");
    }

    #[test]
    fn a_program_finds_the_writers_answer_where_it_was_and_the_other_one_beside_it() {
        let shown = json(&ends());
        assert_eq!(shown["service"]["source"], "team1/web");
        assert_eq!((&shown["planned"][0]["verb"], &shown["agent"]["generation"]), (&json!("create"), &json!(7)));
        assert_eq!(shown["progress"]["lastWrite"]["status"], 409);
        assert_eq!(shown["address"]["objects"][0]["name"], "node02-web-x");
        assert_eq!(shown["discoverer"]["progress"]["acknowledgedMs"], 2000);
        assert_eq!(shown["places"].as_array().unwrap().len(), 3);
        assert_eq!(
            (&shown["difference"]["at"], &shown["difference"]["difference"]),
            (&json!("writer"), &json!("different"))
        );

        let alone = BothEnds { writer: None, ..ends() };
        let shown = json(&alone);
        assert_eq!((&shown["service"]["source"], &shown["discoverer"]), (&json!("team1/web"), &Value::Null));
        assert_eq!((&shown["difference"], &shown["conclusion"]), (&Value::Null, &json!("the writer was not asked")));
        assert_eq!(json(&BothEnds::default())["places"], json!([]));
    }

    #[test]
    fn what_is_not_there_is_said_so() {
        let nothing = pb::ExplainResponse::default();
        assert_eq!(
            [at_source(&nothing), at_writer(&nothing), in_cluster(&nothing)],
            ["not offered", "not known", "not published"]
        );
        assert_eq!(
            (in_objects(None), in_objects(Some(&pb::AddressStatus::default()))),
            ("?".to_owned(), "none".to_owned())
        );
        let unsent = pb::ExplainResponse {
            service: Some(pb::ServiceStatus { digest: Vec::new(), published_endpoints: Some(1), ..status() }),
            progress: Some(pb::ServiceProgress::default()),
            ..nothing
        };
        assert_eq!(at_writer(&unsent), "not heard of from an agent");
        assert_eq!(in_cluster(&unsent), "1 endpoint, nothing written by this process");
    }
}
