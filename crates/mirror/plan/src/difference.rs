//! Describes in text what an action would change, one line for each change. Only shown to people; no decision depends
//! on it.

use std::collections::BTreeMap;

use gimbal_kubernetes_objects::{self as objects, IntOrString};
use gimbal_model::{Conditions, Endpoints, PortSet};

use crate::{Action, Body, Observed, shape};

/// The state of each endpoint ("ready", "not ready" or "terminating") by the text that describes it in a line.
type Lines = BTreeMap<String, &'static str>;

/// Describes `action` as lines that begin with `+` (added), `-` (removed) or `~` (changed). For a Service, only its
/// new content is listed, because no more than a fingerprint of the observed one is in memory.
#[must_use]
pub fn difference(action: &Action, observed: &Observed) -> Vec<String> {
    match action {
        Action::Create(body) => compare(&Lines::new(), body, '+', true),
        Action::Replace(body) | Action::Patch(body) => {
            let before = held(observed, body.name(), matches!(body, Body::Endpoints(_)));
            compare(&before, body, '~', matches!(body, Body::Service(_)))
        }
        Action::Delete { kind, name, .. } => {
            let packed = *kind == <objects::Endpoints as objects::Object>::KIND;
            held(observed, name, packed)
                .iter()
                .map(|(endpoint, state)| format!("- endpoint {endpoint} {state}"))
                .collect()
        }
    }
}

fn compare(before: &Lines, body: &Body, sign: char, with_header: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if with_header {
        let meta = body.meta();
        lines.extend(meta.labels.iter().map(|(key, value)| format!("{sign} label {key}={value}")));
        lines.extend(meta.annotations.iter().map(|(key, value)| format!("{sign} annotation {key}={value}")));
    }
    let after = match body {
        Body::Service(service) => {
            lines.extend(service.spec.ports.iter().map(|port| format!("{sign} port {}", service_port(port))));
            return lines;
        }
        Body::Slice(slice) => {
            let (ports, _) = shape::read_ports(&slice.ports);
            let family = match &*slice.address_type {
                "IPv6" => gimbal_model::Family::V6,
                _ => gimbal_model::Family::V4,
            };
            let (endpoints, _) = shape::read_endpoints(&slice.endpoints, Some(family));
            of_group(&ports, &endpoints)
        }
        Body::Endpoints(endpoints) => {
            let groups = shape::group(&shape::flatten(endpoints).0);
            groups.iter().flat_map(|group| of_group(&group.ports, &group.endpoints)).collect()
        }
    };
    for (endpoint, state) in &after {
        match before.get(endpoint) {
            None => lines.push(format!("+ endpoint {endpoint} {state}")),
            Some(was) if was == state => {}
            Some(was) => lines.push(format!("~ endpoint {endpoint} {was} -> {state}")),
        }
    }
    let gone = before.iter().filter(|(endpoint, _)| !after.contains_key(*endpoint));
    lines.extend(gone.map(|(endpoint, state)| format!("- endpoint {endpoint} {state}")));
    if lines.is_empty() {
        lines.push("~ labels, annotations, ports or details of endpoints".to_owned());
    }
    lines
}

fn held(observed: &Observed, name: &str, packed: bool) -> Lines {
    if packed {
        let groups = observed.packed().iter().flat_map(|held| &held.groups).collect::<Vec<_>>();
        return groups.iter().flat_map(|group| of_group(&group.ports, &group.endpoints)).collect();
    }
    let slices = observed.slices().iter().filter(|slice| *slice.name == *name);
    slices.flat_map(|slice| of_group(&slice.ports, &slice.endpoints)).collect()
}

fn of_group(ports: &PortSet, endpoints: &Endpoints) -> Lines {
    let ports: Vec<String> = ports
        .ports()
        .iter()
        .map(|port| {
            let number = port.port.map_or_else(|| "all".to_owned(), |number| number.to_string());
            format!("{number}/{}", port.protocol.as_str())
        })
        .collect();
    let ports = ports.join(",");
    endpoints.iter().map(|endpoint| (format!("{} {ports}", endpoint.address), state(endpoint.conditions))).collect()
}

fn state(conditions: Conditions) -> &'static str {
    match conditions {
        Conditions { terminating: true, .. } => "terminating",
        Conditions { ready: true, .. } => "ready",
        _ => "not ready",
    }
}

fn service_port(port: &objects::ServicePort) -> String {
    let name = port.name.as_deref().filter(|name| !name.is_empty()).map(|name| format!("{name} ")).unwrap_or_default();
    let target = match &port.target_port {
        Some(IntOrString::Int(number)) => format!(" -> {number}"),
        Some(IntOrString::String(name)) => format!(" -> {name}"),
        None => String::new(),
    };
    format!("{name}{}/{}{target}", port.port, port.protocol.as_deref().unwrap_or("TCP"))
}
