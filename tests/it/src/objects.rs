//! Short constructors of source objects.

use serde_json::{Value, json};

/// Returns a Service with TCP ports `(name, port)`, and label `app: <name>`.
#[must_use]
pub fn svc(namespace: &str, name: &str, ports: &[(&str, u16)]) -> Value {
    let ports: Vec<Value> =
        ports.iter().map(|(name, port)| json!({"name": name, "port": port, "targetPort": port + 8000})).collect();
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {"ports": ports, "selector": {"app": name}},
    })
}

/// An endpoint.
#[derive(Debug, Clone, Copy)]
pub enum Ep<'a> {
    /// Ready.
    Ready(&'a str),
    /// Not ready.
    NotReady(&'a str),
    /// Terminating, and still serving.
    Terminating(&'a str),
}

/// Returns a slice `<service>-<suffix>` of a Service. Its address family is the first endpoint's; endpoints listen on
/// the Service's ports plus 8000.
#[must_use]
pub fn slice(namespace: &str, service: &str, suffix: &str, ports: &[(&str, u16)], endpoints: &[Ep<'_>]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|endpoint| {
            let (address, ready, serving, terminating) = match endpoint {
                Ep::Ready(address) => (address, true, true, false),
                Ep::NotReady(address) => (address, false, false, false),
                Ep::Terminating(address) => (address, false, true, true),
            };
            json!({
                "addresses": [address],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "nodeName": "node-of-the-source",
                "targetRef": {"kind": "Pod", "name": "pod-of-the-source", "namespace": namespace},
            })
        })
        .collect();
    let v6 = endpoints.first().is_some_and(|e| e["addresses"][0].as_str().unwrap_or_default().contains(':'));
    let ports: Vec<Value> =
        ports.iter().map(|(name, port)| json!({"name": name, "port": port + 8000, "protocol": "TCP"})).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": format!("{service}-{suffix}"),
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": if v6 { "IPv6" } else { "IPv4" },
        "endpoints": endpoints, "ports": ports,
    })
}

/// Returns a slice with one port and ready endpoints `10.<a>.<b>.<c>`, counted from `first`.
#[must_use]
pub fn slice_of(namespace: &str, service: &str, suffix: &str, first: u32, count: u32) -> Value {
    let addresses: Vec<String> =
        (first..first + count).map(|n| format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255)).collect();
    let endpoints: Vec<Ep<'_>> = addresses.iter().map(|address| Ep::Ready(address)).collect();
    slice(namespace, service, suffix, &[("http", 80)], &endpoints)
}
