//! The Services of backends, and where each is published.

use std::collections::BTreeSet;

use clap::Args;
use gimbal_model::{NamespaceName, is_label, is_subdomain};
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;
use pb::watch_response::Event;
use serde_json::{Value, json};

use crate::backends;
use crate::output::{OutputForm, print, print_pages};
use crate::refusal::failed;
use crate::table::columns;

/// Which Services.
#[derive(Debug, Args)]
pub struct WhichServices {
    /// Of this backend
    #[arg(long, default_value = "", hide_default_value = true)]
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
    let WhichServices { backend, namespace, trouble } = which;
    backends::check(channel.clone(), &backend).await?;
    let mut client = InspectionServiceClient::new(channel);
    let namespace = namespace.map(|name| name.to_string()).unwrap_or_default();
    print_pages(output, heads(), row, json_of, async |page_token| {
        let (backend, namespace) = (backend.clone(), namespace.clone());
        let request = pb::ListServicesRequest { backend, namespace, only_trouble: trouble, page_size: 0, page_token };
        let page = client.list_services(request).await.map_err(failed)?.into_inner();
        Ok((page.services, page.next_page_token))
    })
    .await
}

/// Prints what there is, and then each change.
///
/// # Errors
/// As [`list`]; or the server ends the stream.
pub async fn watch(which: WhichServices, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let WhichServices { backend, namespace, trouble } = which;
    backends::check(channel.clone(), &backend).await?;
    let namespace = namespace.map(|name| name.to_string()).unwrap_or_default();
    let request = pb::WatchRequest { backend, namespace };
    let mut events = InspectionServiceClient::new(channel).watch(request).await.map_err(failed)?.into_inner();
    let mut shown = Shown::new(trouble);
    while let Some(event) = events.message().await.map_err(failed)? {
        let Some(event) = event.event.filter(|event| shown.is_wanted(event)) else { continue };
        print(&match output {
            OutputForm::Table => event_line(&event),
            OutputForm::Json => format!("{}\n", event_json(&event)),
        })?;
    }
    Err(Exit::Failure("the server ended the stream: watch again".to_owned()))
}

/// Which events of a watch are shown.
struct Shown {
    /// Only trouble, and its end.
    trouble: Option<BTreeSet<(String, String)>>,
}

impl Shown {
    fn new(only_trouble: bool) -> Self {
        Self { trouble: only_trouble.then(BTreeSet::new) }
    }

    fn is_wanted(&mut self, event: &Event) -> bool {
        let Some(trouble) = &mut self.trouble else { return true };
        match event {
            Event::Service(status) => {
                let name = (status.backend.clone(), key(status.source.as_ref()));
                match status.state() {
                    pb::ServiceState::Synced => trouble.remove(&name),
                    _ => {
                        trouble.insert(name);
                        true
                    }
                }
            }
            Event::Gone(gone) => trouble.remove(&(gone.backend.clone(), key(gone.source.as_ref()))),
            Event::SnapshotDone(_) | Event::Restarted(_) => true,
        }
    }
}

fn event_line(event: &Event) -> String {
    let line = match event {
        Event::Service(status) => row(status),
        Event::Gone(gone) => vec![gone.backend.clone(), key(gone.source.as_ref()), "gone".to_owned()],
        Event::SnapshotDone(_) => vec!["-- this is what there is; changes follow".to_owned()],
        Event::Restarted(_) => vec!["-- too slow for all changes: everything follows again".to_owned()],
    };
    columns(&[line])
}

fn event_json(event: &Event) -> Value {
    match event {
        Event::Service(status) => json_of(status),
        Event::Gone(gone) => json!({"gone": {"backend": gone.backend, "source": key(gone.source.as_ref())}}),
        Event::SnapshotDone(_) => json!({"snapshotDone": true}),
        Event::Restarted(_) => json!({"restarted": true}),
    }
}

/// Returns the heads of the columns of [`row`].
pub fn heads() -> Vec<String> {
    ["BACKEND", "SOURCE", "TARGET", "STATE", "READY", "PORTS", "MESSAGE"].map(str::to_owned).to_vec()
}

/// Returns a Service as a row of a table.
pub fn row(status: &pb::ServiceStatus) -> Vec<String> {
    vec![
        status.backend.clone(),
        key(status.source.as_ref()),
        key(status.target.as_ref()),
        state(status),
        ready(status).map_or_else(|| "?".to_owned(), |ready| ready.to_string()) + &format!("/{}", status.endpoints),
        status.ports.iter().map(port).collect::<Vec<_>>().join(","),
        message(status),
    ]
}

/// Returns how many endpoints are ready. Of a Service that no source offers, only what is published is known, and not how much of
/// that is ready.
fn ready(status: &pb::ServiceStatus) -> Option<u64> {
    let is_published_only = status.ports.is_empty() && status.ready_endpoints == 0 && status.endpoints > 0;
    (!is_published_only).then_some(status.ready_endpoints)
}

/// Returns a name as it is shown.
pub fn key(key: Option<&pb::ServiceKey>) -> String {
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
pub fn message(status: &pb::ServiceStatus) -> String {
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

/// Returns a Service as JSON.
pub fn json_of(status: &pb::ServiceStatus) -> Value {
    json!({
        "backend": status.backend,
        "source": key(status.source.as_ref()),
        "target": key(status.target.as_ref()),
        "state": state(status),
        "endpoints": status.endpoints,
        "readyEndpoints": ready(status),
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
            ..Default::default()
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
        let held = pb::ServiceStatus { ports: Vec::new(), ready_endpoints: 0, ..status() };
        assert_eq!((&*row(&held)[4], &json_of(&held)["readyEndpoints"]), ("?/8", &Value::Null));
    }

    #[test]
    fn a_watch_of_trouble_shows_its_end() {
        let mut shown = Shown::new(true);
        let of = |state: pb::ServiceState| Event::Service(pb::ServiceStatus { state: state.into(), ..status() });
        let gone = Event::Gone(pb::ServiceGone { backend: "node02".into(), source: status().source });
        let steps = [
            (of(pb::ServiceState::Synced), false),
            (of(pb::ServiceState::Rejected), true),
            (of(pb::ServiceState::Pending), true),
            (of(pb::ServiceState::Synced), true),
            (of(pb::ServiceState::Synced), false),
            (gone.clone(), false),
            (of(pb::ServiceState::Held), true),
            (gone.clone(), true),
            (Event::Restarted(pb::watch_response::Restarted {}), true),
        ];
        for (place, (event, wanted)) in steps.iter().enumerate() {
            assert_eq!(shown.is_wanted(event), *wanted, "{place}");
        }
        let mut all = Shown::new(false);
        assert!(all.is_wanted(&of(pb::ServiceState::Synced)) && all.is_wanted(&gone));
        assert_eq!(event_line(&gone), "node02  team1/web  gone\n");
        assert_eq!(event_json(&gone), json!({"gone": {"backend": "node02", "source": "team1/web"}}));
        let done = Event::SnapshotDone(pb::watch_response::SnapshotDone {});
        assert_eq!(event_json(&done), json!({"snapshotDone": true}));
    }
}
