//! The definition against the checked-in file, and what a structural schema needs.

use std::path::Path;

use gimbal_backend::BackendResource;
use gimbal_kubernetes_definition::{CustomKind, ServedDefinition, missing_fields, yaml};
use serde_json::{Value, json};

fn definition() -> Value {
    serde_saphyr::from_str(&yaml::<BackendResource>().unwrap()).unwrap()
}

#[test]
fn the_file_is_generated() {
    let name = format!("../../../deploy/crds/{}.yaml", BackendResource::SINGULAR);
    let (path, text) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(name), yaml::<BackendResource>().unwrap());
    if std::env::var_os("GIMBAL_WRITE_DOCS").is_some() {
        return std::fs::write(&path, text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "{} differs from what the types say; run `cargo xtask crds`", path.display());
}

#[test]
fn it_has_the_names_of_the_design_and_stays_without_its_chart() {
    let definition = definition();
    assert_eq!(definition["metadata"]["name"], "backends.gimbal.projectcontour.io");
    assert_eq!(definition["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    assert_eq!(definition["spec"]["scope"], "Cluster");
    let version = &definition["spec"]["versions"][0];
    assert_eq!((&version["name"], &version["subresources"]), (&json!("v1alpha1"), &json!({"status": {}})));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["IDENTITY", "MODE", "CONNECTED", "SYNCED", "SERVICES", "ENDPOINTS", "READY", "Age"]);
}

/// Returns the fields that the definition lacks after a change.
fn missing(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut definition = definition();
    change(&mut definition["spec"]["versions"][0]);
    let served: ServedDefinition = serde_json::from_value(definition).unwrap();
    missing_fields::<BackendResource>(&served).unwrap()
}

#[test]
fn a_definition_that_lacks_a_field_is_told_from_one_that_has_all() {
    assert!(missing(|_| {}).is_empty());
    let drop = |version: &mut Value, pointer: &str, field: &str| {
        let schema = version.pointer_mut(&format!("/schema/openAPIV3Schema/properties/{pointer}")).unwrap();
        assert!(schema.as_object_mut().unwrap().remove(field).is_some());
    };
    let guard = "spec/properties/guard/properties";
    assert_eq!(missing(|version| drop(version, guard, "floors")), ["spec.guard.floors"]);
    let condition = "status/properties/conditions/items/properties";
    assert_eq!(missing(|version| drop(version, condition, "reason")), ["status.conditions[].reason"]);
    assert_eq!(missing(|version| version["schema"] = json!({})), ["spec", "status"]);
    assert_eq!(missing(|version| version["name"] = json!("v1")), ["version v1alpha1"]);
    assert_eq!(missing(|version| version["served"] = json!(false)), ["version v1alpha1"]);
    // One of a later release has more.
    assert!(missing(|version| version["later"] = json!(1)).is_empty());
    assert!(
        missing(|version| version["schema"]["openAPIV3Schema"]["properties"]["spec"] =
            json!({"x-kubernetes-preserve-unknown-fields": true}))
        .is_empty()
    );
}

#[test]
fn every_field_is_described_and_no_text_or_list_is_without_an_end() {
    fn check(schema: &Value, path: &str) {
        assert!(schema["type"].is_string(), "{path} has no type: {schema}");
        let is_element = path.ends_with("[]") || path.is_empty();
        assert!(schema["description"].is_string() || is_element, "{path} has no words");
        schema["properties"].as_object().into_iter().flatten().for_each(|(name, field)| {
            check(field, &format!("{path}.{name}"));
        });
        for element in [&schema["items"], &schema["additionalProperties"]] {
            if !element.is_null() {
                check(element, &format!("{path}[]"));
            }
        }
        // The API server refuses rules that could take long, and reckons with the longest that there may be.
        let end = match schema["type"].as_str().unwrap() {
            "array" => "maxItems",
            "object" if !schema["additionalProperties"].is_null() => "maxProperties",
            "string" if schema["enum"].is_null() => "maxLength",
            _ => return,
        };
        assert!(schema[end].is_u64() || path.starts_with(".status"), "{path} has no {end}");
    }
    check(&definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
}
