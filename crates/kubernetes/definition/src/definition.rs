//! The definitions that are applied to a cluster.

use std::collections::BTreeMap;

use gimbal_kubernetes_objects::Object;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition_name;
use crate::schema::{Rule, Structural};

/// A definition could not be generated: a type has something that a structural schema cannot say.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The schema of a type is not structural.
    #[error("no structural schema: {0}")]
    Schema(#[from] serde_json::Error),
    /// It cannot be written as YAML.
    #[error("no YAML: {0}")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

/// A condition in CEL on a whole object.
#[derive(Debug, Clone, Copy)]
pub struct Validation {
    /// The expression, which is to be true of `self`.
    pub rule: &'static str,
    /// What is said if it is not.
    pub message: &'static str,
}

impl From<&Validation> for Rule {
    fn from(validation: &Validation) -> Self {
        Self { rule: validation.rule.into(), message: validation.message.into() }
    }
}

/// Whether objects of a kind have namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ObjectScope {
    /// Each is in a namespace.
    Namespaced,
    /// None is in a namespace.
    Cluster,
}

/// A kind that a definition is generated for.
pub trait CustomKind: Object {
    /// What is wanted.
    type Spec: JsonSchema;
    /// What exists.
    type Status: JsonSchema;
    /// The package whose types it is generated from, as a path from the root of the repository.
    const PACKAGE: &str;
    /// Whether its objects have namespaces.
    const SCOPE: ObjectScope;
    /// The kind in lower case.
    const SINGULAR: &str;
    /// What it is called for short.
    const SHORT: &str;
    /// What it is.
    const DESCRIPTION: &str;
    /// What `kubectl get` shows beside the name, before `READY` and `Age`.
    const COLUMNS: &[Column];
    /// What it means that an object is ready.
    const READY: &str;
    /// Whether an object without a spec is refused.
    const SPEC_IS_REQUIRED: bool = false;
    /// What the API server checks of the whole object.
    const VALIDATIONS: &[Validation] = &[];
}

/// Returns the content of the kind's file in `deploy/crds`.
///
/// # Errors
/// When a type has something that a structural schema cannot say; the tests of this crate would fail first.
pub fn yaml<K: CustomKind>() -> Result<String, DefinitionError> {
    let kind = K::KIND;
    // What has no group is no custom resource, and no API server takes a definition of it.
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
    let mut root = Structural { type_: "object".into(), ..Structural::default() };
    root.description = K::DESCRIPTION.into();
    root.properties.insert("spec".into(), Structural::of::<K::Spec>()?);
    root.properties.insert("status".into(), Structural::of::<K::Status>()?);
    root.required.extend(K::SPEC_IS_REQUIRED.then(|| "spec".into()));
    root.validations = K::VALIDATIONS.iter().map(Rule::from).collect();
    let version = Version {
        name: version,
        served: true,
        storage: true,
        subresources: Subresources { status: BTreeMap::new() },
        additional_printer_columns: K::COLUMNS.iter().copied().chain(Column::last(K::READY)).collect(),
        schema: VersionSchema { open_api_v3_schema: root },
    };
    let definition = Definition {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: DefinitionMeta {
            name: definition_name::<K>(),
            // Helm would remove every object of the cluster with the chart.
            annotations: BTreeMap::from([("helm.sh/resource-policy", "keep")]),
        },
        spec: DefinitionSpec {
            group,
            scope: K::SCOPE,
            names: KindNames { plural: kind.plural, singular: K::SINGULAR, kind: kind.kind, short_names: [K::SHORT] },
            versions: [version],
        },
    };
    Ok(format!("# Generated from the types of {}.\n{}", K::PACKAGE, serde_saphyr::to_string(&definition)?))
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    name: &'static str,
    #[serde(rename = "type")]
    type_: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'static str,
    json_path: &'static str,
}

impl Column {
    /// The columns of every kind, after its own.
    fn last(ready: &'static str) -> [Self; 2] {
        [
            Self::text("READY", ready, r#".status.conditions[?(@.type=="Ready")].status"#),
            Self { type_: "date", ..Self::text("Age", "", ".metadata.creationTimestamp") },
        ]
    }

    /// A column of text.
    #[must_use]
    pub const fn text(name: &'static str, description: &'static str, json_path: &'static str) -> Self {
        Self { name, type_: "string", description, json_path }
    }

    /// A column of whole numbers.
    #[must_use]
    pub const fn number(name: &'static str, description: &'static str, json_path: &'static str) -> Self {
        Self { name, type_: "integer", description, json_path }
    }
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
    scope: ObjectScope,
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
    additional_printer_columns: Vec<Column>,
    schema: VersionSchema,
}

#[derive(Serialize)]
struct Subresources {
    status: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct VersionSchema {
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Structural,
}
