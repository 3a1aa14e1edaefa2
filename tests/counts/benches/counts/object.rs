//! Kubernetes' objects, parsed and serialized as an API server sends them.

use gimbal_kubernetes_objects::{EndpointSlice, List, Service};
use gungraun::{library_benchmark, library_benchmark_group};
use serde_json::{Value, json};

use crate::source::address;

pub fn service() -> Service {
    let labels = json!({"app": "web", "release": "stable", "tier": "front"});
    let object = json!({
        "metadata": {"namespace": "team", "name": "web", "uid": "u", "resourceVersion": "1", "labels": labels},
        "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]},
    });
    serde_json::from_value(object).unwrap()
}

/// Returns a slice with the fields that kube-controller-manager writes and Gimbal does not read.
fn slice_json(n: u32, endpoints: u32) -> Value {
    let endpoint = |host: u32| {
        json!({
            "addresses": [address(host).to_string()],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{:03}", host % 100),
            "targetRef": {"kind": "Pod", "namespace": "team", "name": format!("web-5d8f7c-{host:05}"), "uid": "u"},
            "zone": "zone-a",
        })
    };
    json!({
        "metadata": {
            "namespace": "team", "name": format!("web-{n:03}"), "uid": "u", "resourceVersion": "1",
            "labels": {"kubernetes.io/service-name": "web", "app": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (n * 100..n * 100 + endpoints).map(endpoint).collect::<Vec<_>>(),
    })
}

pub fn slice(n: u32, endpoints: u32) -> EndpointSlice {
    serde_json::from_value(slice_json(n, endpoints)).unwrap()
}

/// Returns slices of a hundred endpoints each.
pub fn slices(endpoints: u32) -> Vec<EndpointSlice> {
    (0..endpoints / 100).map(|n| slice(n, 100)).collect()
}

fn page(slices: u32) -> Vec<u8> {
    let items: Vec<Value> = (0..slices).map(|n| slice_json(n, 100)).collect();
    serde_json::to_vec(&json!({"metadata": {"resourceVersion": "1"}, "items": items})).unwrap()
}

#[library_benchmark(setup = page)]
#[bench::of_20_slices(20)]
fn page_read(bytes: Vec<u8>) -> (List<EndpointSlice>, Vec<u8>) {
    (serde_json::from_slice(&bytes).unwrap(), bytes)
}

fn full() -> EndpointSlice {
    slice(0, 100)
}

#[library_benchmark]
#[bench::of_100(setup = full)]
fn slice_written(slice: EndpointSlice) -> (Vec<u8>, EndpointSlice) {
    (serde_json::to_vec(&slice).unwrap(), slice)
}

library_benchmark_group!(name = objects; benchmarks = page_read, slice_written);
