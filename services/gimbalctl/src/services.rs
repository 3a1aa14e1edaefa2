//! The Services of backends: where each is published, and why one is not.

use clap::Args;
use gimbal_model::{NamespaceName, is_label, is_subdomain};
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;
use pb::watch_response::Event;
use serde_json::{Value, json};

use crate::output::{OutputForm, print};
use crate::refusal::failed;
use crate::table::columns;

/// Which Services.
#[derive(Debug, Args)]
pub struct WhichServices {
    /// Of this backend
    #[arg(long, default_value = "")]
    backend: String,
    /// In this namespace of the source
    #[arg(short, long)]
    namespace: Option<NamespaceName>,
    /// Only those that are rejected, held or pending
    #[arg(long)]
    trouble: bool,
}

/// A Service as people write it: namespace/name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

/// Reads a Service's name.
///
/// # Errors
/// It is not written so.
pub fn service_name(text: &str) -> Result<ServiceRef, String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_label(namespace) && is_subdomain(name) => {
            Ok(ServiceRef { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("write it as namespace/name".to_owned()),
    }
}

/// Lists Services, page by page.
///
/// # Errors
/// The server's refusal, or a connection that breaks.
pub async fn list(which: WhichServices, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let mut client = InspectionServiceClient::new(channel);
    let WhichServices { backend, namespace, trouble } = which;
    let namespace = namespace.map(|name| name.to_string()).unwrap_or_default();
    let (mut rows, mut page_token) = (vec![heads()], String::new());
    loop {
        let request = pb::ListServicesRequest {
            backend: backend.clone(),
            namespace: namespace.clone(),
            only_trouble: trouble,
            page_size: 0,
            page_token,
        };
        let page = client.list_services(request).await.map_err(failed)?.into_inner();
        for status in &page.services {
            match output {
                OutputForm::Table => rows.push(row(status)),
                OutputForm::Json => print(&format!("{}\n", json_of(status)))?,
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if output == OutputForm::Table { print(&columns(&rows)) } else { Ok(()) }
}

/// Prints what there is, and then each change.
///
/// # Errors
/// As [`list`].
pub async fn watch(which: WhichServices, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let namespace = which.namespace.map(|name| name.to_string()).unwrap_or_default();
    let request = pb::WatchRequest { backend: which.backend, namespace };
    let mut events = InspectionServiceClient::new(channel).watch(request).await.map_err(failed)?.into_inner();
    while let Some(event) = events.message().await.map_err(failed)? {
        match (event.event, output) {
            (Some(Event::Service(status)), _) if which.trouble && status.state() == pb::ServiceState::Synced => {}
            (Some(Event::Service(status)), OutputForm::Table) => print(&columns(&[row(&status)]))?,
            (Some(Event::Service(status)), OutputForm::Json) => print(&format!("{}\n", json_of(&status)))?,
            (Some(Event::Gone(gone)), OutputForm::Table) => {
                print(&columns(&[vec![gone.backend.clone(), key(gone.source.as_ref()), "gone".to_owned()]]))?;
            }
            (Some(Event::Gone(gone)), OutputForm::Json) => {
                print(&format!(
                    "{}\n",
                    json!({"gone": {"backend": gone.backend, "source": key(gone.source.as_ref())}})
                ))?;
            }
            (Some(Event::SnapshotDone(_) | Event::Restarted(_)) | None, _) => {}
        }
    }
    Ok(())
}

/// Says why a Service is as it is. With a backend it is named as in the source, without as in the Gimbal cluster.
///
/// # Errors
/// As [`list`]; or there is no such Service.
pub async fn why(service: ServiceRef, backend: String, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let ServiceRef { namespace, name } = service;
    let missing = match backend.as_str() {
        "" => format!("{namespace}/{name} in the Gimbal cluster is of no backend"),
        backend => format!("backend {backend} has no Service {namespace}/{name}"),
    };
    let key = pb::ServiceKey { namespace, name };
    let object = match backend.as_str() {
        "" => pb::explain_request::Object::Target(key),
        _ => pb::explain_request::Object::Source(pb::SourceRef { backend, key: Some(key) }),
    };
    let request = pb::ExplainRequest { object: Some(object) };
    let answer = InspectionServiceClient::new(channel).explain(request).await.map_err(failed)?.into_inner();
    print(&match output {
        OutputForm::Table => why_lines(&answer),
        OutputForm::Json => format!("{}\n", why_json(&answer)),
    })?;
    // What was printed says what is known; a script has to see that there is no such thing.
    answer.service.map(drop).ok_or(Exit::Failure(missing))
}

/// Returns an explanation for people.
fn why_lines(answer: &pb::ExplainResponse) -> String {
    let mut text = String::new();
    if let Some(status) = &answer.service {
        text.push_str(&columns(&[heads(), row(status)]));
    }
    let mut lines: Vec<String> = answer.reasons.iter().map(|reason| format!("- {reason}")).collect();
    for claim in &answer.other_claims {
        lines.push(format!("- {} of backend {} claims the same name", key(claim.key.as_ref()), claim.backend));
    }
    for pb::PlannedChange { verb, kind, namespace, name, diff } in &answer.planned {
        lines.push(format!("would {verb} {kind} {namespace}/{name}"));
        lines.extend(diff.iter().map(|line| format!("    {line}")));
    }
    lines.into_iter().for_each(|line| text.push_str(&columns(&[vec![line]])));
    text
}

fn why_json(answer: &pb::ExplainResponse) -> Value {
    let claim = |claim: &pb::SourceRef| json!({"backend": claim.backend, "source": key(claim.key.as_ref())});
    let planned = |change: &pb::PlannedChange| {
        let pb::PlannedChange { verb, kind, namespace, name, diff } = change;
        json!({"verb": verb, "kind": kind, "namespace": namespace, "name": name, "diff": diff})
    };
    json!({
        "service": answer.service.as_ref().map(json_of),
        "reasons": answer.reasons,
        "otherClaims": answer.other_claims.iter().map(claim).collect::<Vec<_>>(),
        "planned": answer.planned.iter().map(planned).collect::<Vec<_>>(),
    })
}

fn heads() -> Vec<String> {
    ["BACKEND", "SOURCE", "TARGET", "STATE", "READY", "PORTS", "MESSAGE"].map(str::to_owned).to_vec()
}

fn row(status: &pb::ServiceStatus) -> Vec<String> {
    vec![
        status.backend.clone(),
        key(status.source.as_ref()),
        key(status.target.as_ref()),
        state(status),
        format!("{}/{}", status.ready_endpoints, status.endpoints),
        status.ports.iter().map(port).collect::<Vec<_>>().join(","),
        message(status),
    ]
}

fn key(key: Option<&pb::ServiceKey>) -> String {
    key.map(|key| format!("{}/{}", key.namespace, key.name)).unwrap_or_default()
}

fn state(status: &pb::ServiceStatus) -> String {
    status.state().as_str_name().trim_start_matches("SERVICE_STATE_").to_lowercase()
}

fn reason(status: &pb::ServiceStatus) -> String {
    match status.reject_reason() {
        pb::RejectReason::Unspecified => String::new(),
        reason => reason.as_str_name().trim_start_matches("REJECT_REASON_").to_lowercase().replace('_', " "),
    }
}

/// Returns the message with its reason before it.
fn message(status: &pb::ServiceStatus) -> String {
    match (reason(status), status.message.as_str()) {
        (reason, "") => reason,
        (reason, message) if reason.is_empty() => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn port(port: &pb::ServicePort) -> String {
    let protocol = match port.protocol() {
        pb::Protocol::Udp => "/UDP",
        pb::Protocol::Sctp => "/SCTP",
        _ => "",
    };
    format!("{}{protocol}", port.port)
}

fn json_of(status: &pb::ServiceStatus) -> Value {
    json!({
        "backend": status.backend,
        "source": key(status.source.as_ref()),
        "target": key(status.target.as_ref()),
        "state": state(status),
        "endpoints": status.endpoints,
        "readyEndpoints": status.ready_endpoints,
        "ports": status.ports.iter().map(port).collect::<Vec<_>>(),
        "reason": reason(status),
        "message": status.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> pb::ServiceStatus {
        let key = |namespace: &str, name: &str| Some(pb::ServiceKey { namespace: namespace.into(), name: name.into() });
        let port =
            |port, protocol: pb::Protocol| pb::ServicePort { port, protocol: protocol.into(), ..Default::default() };
        pb::ServiceStatus {
            backend: "node02".into(),
            source: key("team1", "web"),
            target: key("team1", "node02-web"),
            state: pb::ServiceState::Rejected.into(),
            endpoints: 8,
            ready_endpoints: 6,
            ports: vec![port(80, pb::Protocol::Tcp), port(53, pb::Protocol::Udp)],
            reject_reason: pb::RejectReason::NameConflict.into(),
            message: "it is \u{1b}[2Janother's".into(),
        }
    }

    #[test]
    fn a_service_as_a_row_and_as_json() {
        assert_eq!(
            columns(&[heads(), row(&status())]),
            "BACKEND  SOURCE     TARGET            STATE     READY  PORTS      MESSAGE\n\
             node02   team1/web  team1/node02-web  rejected  6/8    80,53/UDP  name conflict: it is [2Janother's\n"
        );
        let json = json_of(&status());
        assert_eq!((&json["state"], &json["reason"]), (&json!("rejected"), &json!("name conflict")));
    }

    #[test]
    fn an_explanation_has_its_sentences_other_claims_and_plan() {
        let claim = pb::SourceRef { backend: "node03".into(), key: status().source };
        let change = pb::PlannedChange {
            verb: "create".into(),
            kind: "Service".into(),
            namespace: "team1".into(),
            name: "node02-web".into(),
            diff: vec!["+ port 80".into()],
        };
        let answer = pb::ExplainResponse {
            service: None,
            reasons: vec!["a\u{1b}b".into()],
            other_claims: vec![claim],
            planned: vec![change],
        };
        assert_eq!(
            why_lines(&answer),
            "- ab\n- team1/web of backend node03 claims the same name\nwould create Service team1/node02-web\n    + port 80\n"
        );
        let json = why_json(&answer);
        assert_eq!((&json["service"], &json["planned"][0]["verb"]), (&Value::Null, &json!("create")));
    }
}
