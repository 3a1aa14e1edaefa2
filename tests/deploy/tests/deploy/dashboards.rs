//! Dashboards of deploy/dashboards are what Grafana's own schema says of them, in the version of `tests/assets/go.mod`.

use std::path::{Path, PathBuf};
use std::process::Command;

use gimbal_assets::Asset;
use gimbal_deploy_tests::deploy;
use serde_json::{Value, json};

fn files() -> Vec<PathBuf> {
    std::fs::read_dir(deploy("dashboards")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Returns what is wrong with files, one a line.
fn faults(files: &[PathBuf]) -> String {
    let output = Command::new(Asset::GrafanaDashboards.path().unwrap()).args(files).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

#[test]
fn grafanas_schema_takes_the_dashboards() {
    let files = files();
    assert!(files.len() > 1, "{files:?}");
    assert_eq!(faults(&files), "");
}

/// Returns what is wrong with a dashboard in which the value at `place` is another one, or is not there.
fn fault_of(folder: &Path, mut dashboard: Value, place: &str, value: Option<&Value>) -> String {
    let (parent, key) = place.rsplit_once('/').unwrap();
    let parent = dashboard.pointer_mut(parent).and_then(Value::as_object_mut).expect(place);
    match value {
        Some(value) => drop(parent.insert(key.to_owned(), value.clone())),
        None => drop(parent.remove(key).expect(place)),
    }
    let path = folder.join("dashboard.json");
    std::fs::write(&path, dashboard.to_string()).unwrap();
    faults(&[path])
}

/// Keys that are misspelt are shown in every place where the dashboards have keys, and so are values of another type.
#[test]
fn grafanas_schema_refuses_what_is_misspelt_or_of_another_type() {
    let folder = tempfile::tempdir().unwrap();
    let first = deploy("dashboards").join("discovery.json");
    let whole: Value = serde_json::from_slice(&std::fs::read(first).unwrap()).unwrap();
    let of_type = |name: &str| {
        let at = whole["panels"].as_array().unwrap().iter().position(|panel| panel["type"] == name);
        format!("/panels/{}", at.expect(name))
    };
    let (row, stat, graph) = (of_type("row"), of_type("stat"), of_type("timeseries"));
    let some = json!({});
    for (place, value, fault) in [
        ("/refesh".to_owned(), Some(&some), "unexpected field 'refesh'"),
        ("/templating/list/1/includAll".to_owned(), Some(&some), "unexpected field 'includAll'"),
        (format!("{row}/colapsed"), Some(&some), "unexpected field 'colapsed'"),
        (format!("{stat}/fieldConfg"), Some(&some), "unexpected field 'fieldConfg'"),
        (format!("{stat}/fieldConfig/defaults/unti"), Some(&some), "unexpected field 'unti'"),
        (format!("{stat}/options/colourMode"), Some(&some), "unexpected field 'colourMode'"),
        (format!("{graph}/options/legend/place"), Some(&some), "unexpected field 'place'"),
        (format!("{graph}/targets/0/exp"), Some(&some), "unexpected field 'exp'"),
        (format!("{graph}/gridPos/width"), Some(&some), "unexpected field 'width'"),
        (format!("{graph}/targets/0/expr"), Some(&json!(1)), "cannot unmarshal number"),
        (format!("{graph}/title"), Some(&json!(["a"])), "cannot unmarshal array"),
        (format!("{graph}/gridPos/w"), Some(&json!("8")), "cannot unmarshal string"),
        (format!("{graph}/gridPos/w"), Some(&json!(25)), "gridPos.w: must be <= 24"),
        (format!("{stat}/fieldConfig/defaults/min"), Some(&json!("0")), "cannot unmarshal string"),
        (format!("{stat}/options/graphMode"), None, "graphMode: required field is missing"),
        (format!("{stat}/type"), Some(&json!("stats")), "there are no panels of the type \"stats\""),
        (format!("{graph}/targets/0/datasource/type"), Some(&json!("prometeus")), "a query is of \"prometeus\""),
    ] {
        let said = fault_of(folder.path(), whole.clone(), &place, value);
        assert!(said.contains(fault), "{place}: {said:?} does not say {fault:?}");
    }
}
