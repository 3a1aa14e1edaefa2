//! Whether the definition that a cluster has is the one that the types say.

use gimbal_kubernetes_objects::{Kind, Meta, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::Structural;
use crate::{CustomKind, DefinitionError};

/// A `CustomResourceDefinition` of a cluster. Its name is `<plural>.<group>`: [`definition_name`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedDefinition {
    /// Metadata.
    pub metadata: Meta,
    /// The whole of it.
    pub spec: Value,
}

impl Object for ServedDefinition {
    const KIND: Kind = Kind {
        kind: "CustomResourceDefinition",
        api_version: "apiextensions.k8s.io/v1",
        plural: "customresourcedefinitions",
    };

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Returns the name of the definition of a kind.
#[must_use]
pub fn definition_name<K: CustomKind>() -> String {
    let group = K::KIND.api_version.split_once('/').map_or("", |(group, _)| group);
    format!("{}.{group}", K::KIND.plural)
}

/// Returns the fields of a kind that a cluster's definition does not have, as paths from the root of an object. The API server
/// drops these from every object that is written, without a word: a limit would be no limit.
///
/// # Errors
/// When a type has something that a structural schema cannot say; the tests of its crate would fail first.
pub fn missing_fields<K: CustomKind>(served: &ServedDefinition) -> Result<Vec<String>, DefinitionError> {
    let version = K::KIND.api_version.split_once('/').map_or(K::KIND.api_version, |(_, version)| version);
    let versions = served.spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = versions.iter().find(|found| found["name"] == version && found["served"] == true);
    let Some(found) = found else { return Ok(vec![format!("version {version}")]) };
    let root = &found["schema"]["openAPIV3Schema"];
    let mut missing = Vec::new();
    for (name, wanted) in [("spec", Structural::of::<K::Spec>()?), ("status", Structural::of::<K::Status>()?)] {
        compare(&wanted, properties(root).and_then(|fields| fields.get(name)), name.to_owned(), &mut missing);
    }
    Ok(missing)
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

fn compare(wanted: &Structural, served: Option<&Value>, path: String, missing: &mut Vec<String>) {
    let Some(served) = served else { return missing.push(path) };
    // Below this, the cluster keeps what it does not know.
    if served["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, field) in &wanted.properties {
        let found = properties(served).and_then(|fields| fields.get(name));
        compare(field, found, format!("{path}.{name}"), missing);
    }
    for (keyword, element) in [("items", &wanted.items), ("additionalProperties", &wanted.additional_properties)] {
        if let Some(element) = element {
            compare(element, served.get(keyword), format!("{path}[]"), missing);
        }
    }
}
