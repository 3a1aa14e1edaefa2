//! What an administrator decides about a backend: to release what is held, to give its name to another source, to remove it.

use clap::Args;
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use pb::admin_service_client::AdminServiceClient;
use serde_json::json;

use crate::output::{OutputForm, print};
use crate::refusal::failed;
use crate::table::columns;

/// What to remove of a backend.
#[derive(Debug, Args)]
pub struct Removal {
    /// The backend
    #[arg(long)]
    backend: String,
    /// Only print what would be removed, and the id for the second call
    #[arg(long, conflicts_with = "id", required_unless_present = "id")]
    dry_run: bool,
    /// The id that the dry run printed
    #[arg(long)]
    id: Option<String>,
}

/// Releases a removal that the guard holds.
///
/// # Errors
/// The server's refusal, or a connection that breaks.
pub async fn approve(backend: String, id: String, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let request = pb::ApproveRequest { backend, id };
    let answer = AdminServiceClient::new(channel).approve(request).await.map_err(failed)?.into_inner();
    let services = answer.services_released;
    print(&match output {
        OutputForm::Table => format!("released: what was held of {services} Services is done now\n"),
        OutputForm::Json => format!("{}\n", json!({"services": services})),
    })
}

/// Gives the name of a backend to another source.
///
/// # Errors
/// As [`approve`].
pub async fn confirm(backend: String, incarnation: String, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let request = pb::ConfirmIncarnationRequest { backend: backend.clone(), source_incarnation: incarnation.clone() };
    let answer = AdminServiceClient::new(channel).confirm_incarnation(request).await.map_err(failed)?.into_inner();
    print(&confirmed(&backend, &incarnation, &answer.previous, output))
}

fn confirmed(backend: &str, source: &str, previous: &str, output: OutputForm) -> String {
    if output == OutputForm::Json {
        return format!("{}\n", json!({"backend": backend, "source": source, "previous": previous}));
    }
    let line = match previous {
        "" => format!("backend {backend} is source {source} from now on"),
        same if same == source => format!("nothing changed: backend {backend} was source {source} already"),
        previous => format!("backend {backend} is source {source} from now on, and no longer {previous}"),
    };
    // Agents have said what their source is.
    columns(&[vec![line]])
}

/// Removes everything of a backend, or shows what that would be.
///
/// # Errors
/// As [`approve`].
pub async fn decommission(removal: Removal, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let Removal { backend, dry_run, id } = removal;
    let request = pb::DecommissionRequest { backend: backend.clone(), dry_run, id: id.unwrap_or_default() };
    let answer = AdminServiceClient::new(channel).decommission(request).await.map_err(failed)?.into_inner();
    print(&decommissioned(&backend, &answer, dry_run, output))
}

/// Returns what a removal would remove or removes, and what to do next.
fn decommissioned(backend: &str, answer: &pb::DecommissionResponse, dry_run: bool, output: OutputForm) -> String {
    let pb::DecommissionResponse { id, services, endpoint_slices, endpoints, endpoints_objects } = answer;
    if output == OutputForm::Json {
        let objects = json!({
            "id": id, "services": services, "endpointSlices": endpoint_slices, "endpoints": endpoints,
            "endpointsObjects": endpoints_objects,
        });
        return format!("{objects}\n");
    }
    let mut text = format!(
        "to remove: {services} Services, {endpoint_slices} slices with {endpoints} endpoints, {endpoints_objects} Endpoints objects\n"
    );
    if services + endpoint_slices + endpoints_objects == 0 {
        text.push_str(&format!("nothing of backend {backend} is published: gimbalctl backends lists the names\n"));
    }
    let command = format!("gimbalctl decommission --backend {backend}");
    text.push_str(&match dry_run {
        true => format!(
            "dry run: nothing was changed\nnext: {command} --id {id} removes this, while the counts stay the same\n"
        ),
        false => {
            "begun: the writer goes on until all of this is removed; gimbalctl backends shows what is left\n".to_owned()
        }
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads it knows what to do next.
    #[test]
    fn what_a_removal_says() {
        let answer =
            pb::DecommissionResponse { id: "a-1".into(), services: 2, endpoint_slices: 3, ..Default::default() };
        let say = |dry_run| decommissioned("a", &answer, dry_run, OutputForm::Table);
        assert_eq!(
            say(true),
            "to remove: 2 Services, 3 slices with 0 endpoints, 0 Endpoints objects\ndry run: nothing was changed\n\
             next: gimbalctl decommission --backend a --id a-1 removes this, while the counts stay the same\n"
        );
        assert!(say(false).ends_with("gimbalctl backends shows what is left\n"), "{}", say(false));
        let none = decommissioned("b", &pb::DecommissionResponse::default(), true, OutputForm::Table);
        assert!(none.contains("nothing of backend b is published"), "{none}");
    }

    #[test]
    fn what_a_confirmation_says() {
        let say = |previous| confirmed("a", "new", previous, OutputForm::Table);
        assert_eq!(say(""), "backend a is source new from now on\n");
        assert_eq!(say("new"), "nothing changed: backend a was source new already\n");
        assert_eq!(say("o\u{1b}[2Jld"), "backend a is source new from now on, and no longer o[2Jld\n");
    }
}
