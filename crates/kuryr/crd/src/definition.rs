//! The definition that is applied to a cluster.

use std::collections::BTreeMap;

use gimbal_kubernetes_objects::Object as _;
use serde::Serialize;

use crate::schema::Structural;
use crate::{KuryrLoadBalancer, KuryrLoadBalancerSpec, KuryrLoadBalancerStatus, names};

/// The definition could not be generated: a type has something that a structural schema cannot say.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The schema of a type is not structural.
    #[error("no structural schema: {0}")]
    Schema(#[from] serde_json::Error),
    /// It cannot be written as YAML.
    #[error("no YAML: {0}")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

/// Returns the content of `deploy/crds/kuryrloadbalancer.yaml`.
///
/// # Errors
/// When a type has something that a structural schema cannot say; the tests of this crate would fail first.
pub fn yaml() -> Result<String, DefinitionError> {
    let kind = KuryrLoadBalancer::KIND;
    let mut root = Structural { type_: "object".into(), ..Structural::default() };
    root.description = "A load balancer in Octavia for one Service, of the same name and namespace.".into();
    root.properties.insert("spec".into(), Structural::of::<KuryrLoadBalancerSpec>()?);
    root.properties.insert("status".into(), Structural::of::<KuryrLoadBalancerStatus>()?);
    let version = Version {
        name: names::VERSION,
        served: true,
        storage: true,
        subresources: Subresources { status: BTreeMap::new() },
        additional_printer_columns: columns(),
        schema: VersionSchema { open_api_v3_schema: root },
    };
    let definition = Definition {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: DefinitionMeta {
            name: format!("{}.{}", kind.plural, names::GROUP),
            // Helm would remove every load balancer of the cluster with the chart.
            annotations: BTreeMap::from([("helm.sh/resource-policy", "keep")]),
        },
        spec: DefinitionSpec {
            group: names::GROUP,
            scope: "Namespaced",
            names: KindNames {
                plural: kind.plural,
                singular: "kuryrloadbalancer",
                kind: kind.kind,
                short_names: ["klb"],
            },
            versions: [version],
        },
    };
    let header = "# Generated from the types of crates/kuryr/crd.\n";
    Ok(format!("{header}{}", serde_saphyr::to_string(&definition)?))
}

fn columns() -> [Column; 4] {
    let text = |name, description, json_path| Column { name, type_: "string", description, json_path };
    [
        text("PROJECT-ID", "The ID of the PROJECT associated to the loadbalancer", ".spec.project_id"),
        text("IP", "Address of the VIP", ".status.loadbalancer.ip"),
        text("READY", "Whether it is made, and as the spec says", r#".status.conditions[?(@.type=="Ready")].status"#),
        Column { name: "Age", type_: "date", description: "", json_path: ".metadata.creationTimestamp" },
    ]
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    api_version: &'static str,
    kind: &'static str,
    metadata: DefinitionMeta,
    spec: DefinitionSpec,
}

#[derive(Serialize)]
struct DefinitionMeta {
    name: String,
    annotations: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
struct DefinitionSpec {
    group: &'static str,
    scope: &'static str,
    names: KindNames,
    versions: [Version; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KindNames {
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    short_names: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: &'static str,
    served: bool,
    storage: bool,
    subresources: Subresources,
    additional_printer_columns: [Column; 4],
    schema: VersionSchema,
}

#[derive(Serialize)]
struct Subresources {
    status: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Column {
    name: &'static str,
    #[serde(rename = "type")]
    type_: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'static str,
    json_path: &'static str,
}

#[derive(Serialize)]
struct VersionSchema {
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Structural,
}
