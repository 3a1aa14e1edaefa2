//! The definitions against the checked-in files and against Kuryr's own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gimbal_kubernetes_definition::{CustomKind, yaml};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrLoadBalancer, KuryrNetwork, KuryrPort};
use serde_json::Value;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares, or writes when `GIMBAL_WRITE_DOCS` is set.
fn same_as_file(path: &str, text: &str) {
    let path = here(path);
    if std::env::var_os("GIMBAL_WRITE_DOCS").is_some() {
        return std::fs::write(&path, text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "{} differs from what the types say; run `cargo xtask crds`", path.display());
}

fn read(path: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(here(path)).unwrap()).unwrap()
}

fn definition_of<K: CustomKind>() -> Value {
    serde_saphyr::from_str(&yaml::<K>().unwrap()).unwrap()
}

fn ours() -> Value {
    definition_of::<KuryrLoadBalancer>()
}

fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn the_files_are_generated() {
    fn check<K: CustomKind>() {
        same_as_file(&format!("../../../deploy/crds/{}.yaml", K::SINGULAR), &yaml::<K>().unwrap());
    }
    check::<KuryrLoadBalancer>();
    check::<KuryrL7Router>();
    check::<KuryrPort>();
    check::<KuryrNetwork>();
}

#[test]
fn a_router_has_the_names_of_the_design_and_stays_without_its_chart() {
    let definition = definition_of::<KuryrL7Router>();
    assert_eq!(definition["metadata"]["name"], "kuryrl7routers.openstack.org");
    assert_eq!(definition["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["subresources"], serde_json::json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["IP", "VIP", "ROUTES", "READY", "Age"]);
    let status = &schema(&definition)["properties"]["status"];
    assert_eq!(status["properties"]["conditions"]["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
}

#[test]
fn names_and_columns_are_those_of_kuryr() {
    let (ours, theirs) = (ours(), read("tests/kuryr/kuryrloadbalancer.yaml"));
    assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
    for field in ["group", "scope", "names"] {
        assert_eq!(ours["spec"][field], theirs["spec"][field], "{field}");
    }
    let columns = |definition: &Value| definition["spec"]["versions"][0]["additionalPrinterColumns"].clone();
    for column in columns(&theirs).as_array().unwrap() {
        assert!(columns(&ours).as_array().unwrap().contains(column), "{column}");
    }
    assert_eq!(ours["spec"]["versions"][0]["subresources"], serde_json::json!({"status": {}}));
    assert_eq!(ours["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    let conditions = &schema(&ours)["properties"]["status"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
}

#[test]
fn every_field_of_kuryr_keeps_name_and_type_and_is_not_required_more_often() {
    let (ours, theirs) = (ours(), read("tests/kuryr/kuryrloadbalancer.yaml"));
    let mut loosened = String::from("# Fields that Kuryr requires and Gimbal does not.\n");
    compare(schema(&theirs), schema(&ours), "", &mut loosened);
    same_as_file("tests/kuryr/loosened.txt", &loosened);
}

fn names(value: &Value) -> BTreeSet<&str> {
    value.as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect()
}

fn compare(theirs: &Value, ours: &Value, path: &str, loosened: &mut String) {
    assert_eq!(theirs["type"], ours["type"], "{path}");
    for bound in ["enum", "minimum", "maximum", "format"] {
        assert_eq!(theirs[bound], ours[bound], "{bound} of {path}");
    }
    let (before, now) = (names(&theirs["required"]), names(&ours["required"]));
    assert!(now.is_subset(&before), "{path} requires {:?} now", now.difference(&before).collect::<Vec<_>>());
    for name in before.difference(&now) {
        writeln!(loosened, "{path}.{name}").unwrap();
    }
    for (name, field) in theirs["properties"].as_object().into_iter().flatten() {
        let ours = &ours["properties"][name];
        assert!(!ours.is_null(), "{path}.{name} is missing");
        compare(field, ours, &format!("{path}.{name}"), loosened);
    }
    if !theirs["items"].is_null() {
        compare(&theirs["items"], &ours["items"], &format!("{path}[]"), loosened);
    }
}

/// The names of the definition, its columns in order, and each field with its type; `*` marks those that are required.
fn assert_says<K: CustomKind>(short: &str, columns: &[&str], fields: &[(&str, &str)]) {
    let definition = definition_of::<K>();
    let names = &definition["spec"]["names"];
    assert_eq!((&names["shortNames"][0], &names["singular"]), (&Value::from(short), &Value::from(K::SINGULAR)));
    assert_eq!(definition["spec"]["scope"], "Namespaced");
    assert_eq!(definition["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["subresources"], serde_json::json!({"status": {}}));
    let shown: Vec<String> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| format!("{} {}", column["name"].as_str().unwrap(), column["jsonPath"].as_str().unwrap()))
        .collect();
    assert_eq!(shown[..columns.len()], *columns);
    for (path, kind) in fields {
        let (parents, field) = path.rsplit_once('.').unwrap_or(("", path));
        let parent = parents.split('.').fold(schema(&definition), |at, name| &at["properties"][name]);
        let (field, required) = field.strip_suffix('*').map_or((field, false), |field| (field, true));
        assert_eq!(parent["properties"][field]["type"], *kind, "{path}");
        assert_eq!(self::names(&parent["required"]).contains(field), required, "{path}");
    }
    let conditions = &schema(&definition)["properties"]["status"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
}

#[test]
fn a_port_has_the_names_and_fields_of_kuryr() {
    assert_says::<KuryrPort>(
        "kp",
        &["PodUID .spec.podUid", "Nodename .spec.podNodeName", "labels .metadata.labels"],
        &[
            ("spec.podUid*", "string"),
            ("spec.podNodeName*", "string"),
            ("spec.podStatic", "boolean"),
            ("spec.projectId", "string"),
            ("status.vifs*", "object"),
            ("status.observedGeneration", "integer"),
        ],
    );
    let definition = definition_of::<KuryrPort>();
    let vifs = &schema(&definition)["properties"]["status"]["properties"]["vifs"];
    let interface = &vifs["additionalProperties"]["properties"];
    assert_eq!(interface["default"]["type"], "boolean", "a field with the name of a keyword");
    let vif = &interface["vif"];
    assert_eq!(vif["x-kubernetes-preserve-unknown-fields"], true, "Kuryr's versioned objects stay");
    assert_eq!(vif["properties"]["active"]["type"], "boolean");
}

#[test]
fn a_network_has_the_names_and_fields_of_kuryr() {
    assert_says::<KuryrNetwork>(
        "kns",
        &["SUBNET-CIDR .status.subnetCIDR"],
        &[
            ("spec.nsName*", "string"),
            ("spec.projectId*", "string"),
            ("spec.nsLabels*", "object"),
            ("spec.nodeName", "string"),
            ("status.netId", "string"),
            ("status.populated", "boolean"),
            ("status.routerId", "string"),
            ("status.subnetCIDR", "string"),
            ("status.subnetId", "string"),
            ("status.nsLabels", "object"),
        ],
    );
}

#[test]
fn every_field_is_described_and_every_schema_is_structural() {
    fn check(schema: &Value, path: &str) {
        assert!(schema["type"].is_string(), "{path} has no type: {schema}");
        assert!(
            schema["description"].is_string() || path.ends_with([']', '}']) || path.is_empty(),
            "{path} has no words"
        );
        let properties = schema["properties"].as_object();
        let values = &schema["additionalProperties"];
        if schema["type"] == "object" {
            let is_kept = schema["x-kubernetes-preserve-unknown-fields"] == true || !values.is_null();
            assert!(properties.is_some() || is_kept, "{path} is pruned");
        }
        if !values.is_null() {
            check(values, &format!("{path}{{}}"));
        }
        properties.into_iter().flatten().for_each(|(name, field)| check(field, &format!("{path}.{name}")));
        if schema["type"] == "array" {
            check(&schema["items"], &format!("{path}[]"));
        }
    }
    check(schema(&definition_of::<KuryrLoadBalancer>()), "");
    check(schema(&definition_of::<KuryrL7Router>()), "");
    check(schema(&definition_of::<KuryrPort>()), "");
    check(schema(&definition_of::<KuryrNetwork>()), "");
}
