//! The NetworkPolicy of a discoverer: the same as its chart makes (deploy/charts) by default.

use serde_json::{Value, json};

use crate::OperatorSettings;
use crate::settings::port_of;
use crate::source::{SourceKind, WantedDiscoverer};
use crate::wanted::selector;

/// Returns the spec of the NetworkPolicy.
pub(crate) fn policy_spec(discoverer: &WantedDiscoverer, settings: &OperatorSettings) -> Value {
    let namespace = |name: &str| {
        let labels = json!({"kubernetes.io/metadata.name": name});
        json!([{"namespaceSelector": {"matchLabels": labels}}])
    };
    let ports = |ports: &[u16]| ports.iter().map(|port| json!({ "port": port })).collect::<Value>();
    let source = match discoverer.source {
        SourceKind::Kubernetes(_) => &settings.api_server_ports,
        SourceKind::Openstack(_) => &settings.openstack_ports,
    };
    let mut policy = json!({
        "podSelector": {"matchLabels": selector(discoverer)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            // The kubelet's probes come from the node itself, which most network plug-ins always let in.
            {"from": namespace(&settings.monitoring_namespace), "ports": [{"port": "admin"}]},
            {"from": [{"podSelector": {}}], "ports": [{"port": "inspection"}]},
        ],
        // Where a source and the writer are is not known here, as in the chart by default.
        "egress": [
            {"to": namespace("kube-system"), "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"ports": ports(source)},
            {"ports": ports(&settings.writer_ports())},
        ],
    });
    if let (Some(port), Some(egress)) = (collector_port(settings), policy["egress"].as_array_mut()) {
        egress.push(json!({ "ports": ports(&[port]) }));
    }
    policy
}

fn collector_port(settings: &OperatorSettings) -> Option<u16> {
    port_of(&settings.traces.as_ref()?.endpoint)
}
