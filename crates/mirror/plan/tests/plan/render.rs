//! Plans as text: one line for each action, with what it changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gimbal_plan::{Action, Body, Plan};
use serde_json::Value;

use crate::server::{Server, to_json};

/// Returns the lines `phase verb kind name: what changes`, compared with the objects in `server`.
pub fn render(plan: &Plan, server: &Server) -> String {
    let mut text = String::new();
    for (phase, actions) in plan.phases.iter().enumerate() {
        for action in actions {
            let (kind, name) = (action.kind().kind, action.name());
            let old = server.objects.get(&(action.kind().plural, name.to_string()));
            let (verb, what) = match action {
                Action::Create(body) => ("create", contents(body)),
                Action::Replace(body) => ("replace", changes(old.expect("is there"), body)),
                Action::Patch(body) => ("patch", changes(old.expect("is there"), body)),
                Action::Delete { uid, resource_version, .. } => ("delete", format!("{uid} at {resource_version}")),
            };
            writeln!(text, "{} {verb} {kind} {name}: {what}", phase + 1).unwrap();
        }
    }
    if text.is_empty() { "nothing\n".into() } else { text }
}

fn contents(body: &Body) -> String {
    match body {
        Body::Service(service) => {
            let port = |port: &gimbal_kubernetes_objects::ServicePort| {
                format!("{}:{}", port.name.as_deref().unwrap_or("-"), port.port)
            };
            format!("ports {}", service.spec.ports.iter().map(port).collect::<Vec<_>>().join(","))
        }
        Body::Slice(slice) => {
            let port = |port: &gimbal_kubernetes_objects::EndpointPort| {
                format!("{}:{}", port.name.as_deref().unwrap_or("-"), port.port.unwrap_or_default())
            };
            let ports = slice.ports.iter().map(port).collect::<Vec<_>>().join(",");
            format!("{} {ports} {} endpoints", slice.address_type, slice.endpoints.len())
        }
        Body::Endpoints(endpoints) => {
            let count = |subset: &gimbal_kubernetes_objects::EndpointSubset| {
                format!("{} ready {} not", subset.addresses.len(), subset.not_ready_addresses.len())
            };
            let subsets = endpoints.subsets.iter().map(count).collect::<Vec<_>>().join(", ");
            let skip = endpoints.metadata.labels.contains_key("endpointslice.kubernetes.io/skip-mirror");
            format!("{subsets}{}", if skip { ", skip-mirror" } else { "" })
        }
    }
}

fn changes(old: &Body, new: &Body) -> String {
    let (old, new) = (to_json(old), to_json(new));
    let (old, new) = (flat(&old), flat(&new));
    let gone = old.keys().filter(|path| !new.contains_key(*path) && !is_default(path, &old[*path]));
    let come = new.keys().filter(|path| !old.contains_key(*path));
    let mut changed = outermost('-', gone);
    changed.extend(outermost('+', come));
    for (path, value) in &new {
        if let Some(was) = old.get(path).filter(|was| *was != value) {
            changed.push(format!("{path} {was} -> {value}"));
        }
    }
    if changed.is_empty() { "the same".into() } else { changed.join(" ") }
}

/// Drops the paths below one that is added or removed as a whole, and reduces many items of one list to their number.
fn outermost<'a>(sign: char, paths: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut lists = BTreeMap::<String, Vec<&str>>::new();
    let mut last: Option<&str> = None;
    for path in paths {
        if last.is_none_or(|last| !path.starts_with(&format!("{last}."))) {
            let list = path.strip_suffix(']').and_then(|path| path.rfind('[')).map_or(path.as_str(), |at| &path[..at]);
            lists.entry(list.to_string()).or_default().push(path);
            last = Some(path);
        }
    }
    let brief = |(list, paths): (String, Vec<&str>)| match paths.as_slice() {
        few if few.len() <= 5 => few.iter().map(|path| format!("{sign}{path}")).collect::<Vec<_>>(),
        many => vec![format!("{sign}{} {list}", many.len())],
    };
    lists.into_iter().flat_map(brief).collect()
}

/// Whether the server fills in this value.
fn is_default(path: &str, value: &Value) -> bool {
    path == "spec.sessionAffinity" && value == "None"
}

fn flat(value: &Value) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    flatten("", value, &mut out);
    out
}

/// Identifies list items by their address or name, so that their order makes no difference.
fn flatten(path: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    let join = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if !["uid", "resourceVersion"].contains(&key.as_str()) {
                    flatten(&join(key), value, out);
                }
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                let address = value["addresses"][0].as_str().or_else(|| value["ip"].as_str());
                let name = address.or_else(|| value["name"].as_str());
                let key = name.map_or_else(|| at.to_string(), ToString::to_string);
                out.insert(format!("{path}[{key}]"), Value::Null);
                flatten(&format!("{path}[{key}]"), value, out);
            }
            if list.is_empty() {
                out.insert(path.to_string(), Value::Array(Vec::new()));
            }
        }
        leaf => {
            out.insert(path.to_string(), leaf.clone());
        }
    }
}
