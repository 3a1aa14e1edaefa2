//! What another configuration of the writer would change.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use pb::admin_service_client::AdminServiceClient;
use serde_json::{Value, json};

use crate::output::{OutputForm, print};
use crate::refusal::failed;
use crate::table::columns;

/// Commands about a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigurationCommand {
    /// Prints what another configuration of the writer would change now, and changes nothing
    Diff(ConfigurationDiff),
}

/// A configuration that is not in force.
#[derive(Debug, Args)]
pub struct ConfigurationDiff {
    /// A configuration file of the writer; where backends are objects, a file of Backends
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Asks the writer, and prints the answer.
///
/// # Errors
/// The file cannot be read, the writer would refuse it, or the connection breaks.
pub async fn diff(what: &ConfigurationDiff, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let text = std::fs::read_to_string(&what.file)
        .map_err(|error| Exit::Usage(format!("{}: cannot be read: {error}", what.file.display())))?;
    let request = pb::PreviewConfigurationRequest { text };
    let answer = AdminServiceClient::new(channel).preview_configuration(request).await.map_err(failed)?.into_inner();
    print(&shown(&answer, output))
}

fn shown(answer: &pb::PreviewConfigurationResponse, output: OutputForm) -> String {
    match output {
        OutputForm::Json => answer.backends.iter().map(|backend| format!("{}\n", json_of(backend))).collect(),
        OutputForm::Table if answer.backends.is_empty() => "no backend would differ\n".to_owned(),
        OutputForm::Table => table(&answer.backends),
    }
}

fn difference(backend: &pb::BackendPreview) -> &'static str {
    match backend.difference() {
        pb::BackendDifference::Added => "added",
        pb::BackendDifference::Changed => "changed",
        pb::BackendDifference::Removed => "refused",
        pb::BackendDifference::Unspecified => "unknown",
    }
}

fn json_of(backend: &pb::BackendPreview) -> Value {
    let planned = backend.planned.unwrap_or_default();
    let first = |write: &pb::PlannedChange| json!({"verb": write.verb, "kind": write.kind, "namespace": write.namespace, "name": write.name, "diff": write.diff});
    json!({
        "backend": backend.name, "difference": difference(backend),
        "created": planned.created, "changed": planned.changed, "deleted": planned.deleted,
        "heldEndpoints": backend.held_endpoints, "first": backend.first.iter().map(first).collect::<Vec<_>>(),
    })
}

fn table(backends: &[pb::BackendPreview]) -> String {
    let title = ["BACKEND", "POLICY", "CREATED", "CHANGED", "DELETED", "HELD"].map(ToOwned::to_owned).to_vec();
    let row = |backend: &pb::BackendPreview| {
        let pb::PlannedCounts { created, changed, deleted } = backend.planned.unwrap_or_default();
        let counts = [created, changed, deleted, backend.held_endpoints].map(|count| count.to_string());
        [backend.name.clone(), difference(backend).to_owned()].into_iter().chain(counts).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(title).chain(backends.iter().map(row)).collect();
    let mut text = columns(&rows);
    for backend in backends {
        if backend.difference() == pb::BackendDifference::Removed {
            text.push_str(&format!("{}: what it published stays until it is decommissioned\n", backend.name));
        }
        for write in &backend.first {
            text.push_str(&format!(
                "{}: {} {} {}/{}\n",
                backend.name, write.verb, write.kind, write.namespace, write.name
            ));
            text.extend(write.diff.iter().map(|line| format!("  {line}\n")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_is_counted_and_the_first_writes_are_listed() {
        let write = pb::PlannedChange {
            verb: "delete".into(),
            kind: "Service".into(),
            namespace: "team1".into(),
            name: "a-web".into(),
            diff: vec!["- web".into()],
        };
        let planned = Some(pb::PlannedCounts { created: 0, changed: 1, deleted: 2 });
        let of = |name: &str, difference: pb::BackendDifference, first| pb::BackendPreview {
            name: name.into(),
            difference: difference.into(),
            planned,
            held_endpoints: 8,
            first,
        };
        let changed = of("a", pb::BackendDifference::Changed, vec![write]);
        let answer = pb::PreviewConfigurationResponse {
            backends: vec![changed, of("b", pb::BackendDifference::Removed, vec![])],
        };
        let text = shown(&answer, OutputForm::Table);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "BACKEND POLICY CREATED CHANGED DELETED HELD",
                "a changed 0 1 2 8",
                "b refused 0 1 2 8",
                "a: delete Service team1/a-web",
                "- web",
                "b: what it published stays until it is decommissioned",
            ]
        );
        assert!(shown(&answer, OutputForm::Json).starts_with(r#"{"backend":"a","changed":1,"#));
        assert_eq!(shown(&pb::PreviewConfigurationResponse::default(), OutputForm::Table), "no backend would differ\n");
    }
}
