//! Short ways to write objects down.
#![allow(dead_code, clippy::unwrap_used)] // Each test file uses its share, and a panic is its report.

use std::sync::Arc;

use gimbal_kubernetes_objects as objects;
use gimbal_kubernetes_source::{Flavour, KubernetesIndex, Selection};
use gimbal_model::{Service, SourceKey};
use serde_json::{Value, json};

pub fn service(namespace: &str, name: &str) -> objects::Service {
    service_from(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]},
    }))
}

pub fn service_from(json: Value) -> objects::Service {
    serde_json::from_value(json).unwrap()
}

pub fn slice(namespace: &str, name: &str, service: &str, endpoints: Value) -> objects::EndpointSlice {
    slice_from(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    }))
}

pub fn slice_from(json: Value) -> objects::EndpointSlice {
    serde_json::from_value(json).unwrap()
}

pub fn endpoints_from(json: Value) -> objects::Endpoints {
    serde_json::from_value(json).unwrap()
}

/// One endpoint that says nothing but its address.
pub fn at(address: &str) -> Value {
    json!({"addresses": [address]})
}

/// An index that has listed nothing of either kind.
pub fn listed(flavour: Flavour) -> KubernetesIndex {
    let mut index = KubernetesIndex::new(Selection { flavour, ..Selection::default() });
    list_nothing(&mut index);
    index
}

pub fn list_nothing(index: &mut KubernetesIndex) {
    index.begin_services();
    index.end_services();
    index.begin_slices();
    index.end_slices();
}

pub fn key(text: &str) -> SourceKey {
    SourceKey::from_annotation(text).unwrap()
}

/// The one Service that was touched.
pub fn only(index: &mut KubernetesIndex) -> Option<Arc<Service>> {
    let mut drained = index.drain();
    assert_eq!(drained.len(), 1, "{drained:?}");
    drained.remove(0).1
}

/// Addresses in order, each with its conditions as letters (r, s, t).
pub fn addresses(service: &Service) -> Vec<String> {
    let letters = |conditions: gimbal_model::Conditions| {
        [(conditions.ready, 'r'), (conditions.serving, 's'), (conditions.terminating, 't')]
            .into_iter()
            .filter_map(|(set, letter)| set.then_some(letter))
            .collect::<String>()
    };
    service.endpoints().map(|(_, e)| format!("{} {}", e.address, letters(e.conditions))).collect()
}
