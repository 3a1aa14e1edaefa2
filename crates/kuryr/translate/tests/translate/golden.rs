//! Whole Services: what is written, what is streamed, what is said.

use std::fmt::Write as _;
use std::path::Path;

use gimbal_kuryr_translate::Nodes;
use serde_json::{Value, json};

use crate::common::{desired_of, facts, joined, pod, service, slice, translated};

fn golden(name: &str, spec: Value, annotations: Value, slices: Vec<gimbal_kubernetes_objects::BalancedSlice>) {
    let translated = translated(&joined(service(spec, annotations), slices), &Nodes::default(), Some(&facts()));
    let mut text = serde_json::to_string_pretty(&translated.spec).unwrap();
    let desired = desired_of(translated.spec.clone());
    for finding in translated.findings.iter().chain(&desired.findings) {
        write!(text, "\n{} ({}, {}): {finding}", finding.condition(), finding.reason(), finding.event()).unwrap();
    }
    writeln!(text, "\n{:#?}", desired.wanted).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/translate/golden/{name}.txt"));
    if std::env::var_os("GIMBAL_WRITE_DOCS").is_some() {
        return std::fs::write(&path, text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == text,
        "{} differs; to write it again:\n  GIMBAL_WRITE_DOCS=1 cargo test -p gimbal-kuryr-translate\n{text}",
        path.display()
    );
}

#[test]
fn plain() {
    golden(
        "plain",
        json!({}),
        json!({}),
        vec![slice("a", json!([pod("10.1.0.4", "web-1"), pod("10.1.0.5", "web-2")]))],
    );
}

#[test]
fn inside() {
    let ports =
        json!([{"port": 53, "protocol": "UDP", "targetPort": 5353}, {"name": "t", "port": 53, "targetPort": 5353}]);
    golden("inside", json!({"type": "ClusterIP", "ports": ports}), json!({}), Vec::new());
}

#[test]
fn everything() {
    let spec = json!({
        "loadBalancerIP": "172.24.4.9", "loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"],
        "sessionAffinity": "ClientIP", "ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.96.0.10", "fd00:96::a"],
    });
    let annotations = json!({
        "openstack.org/kuryr-timeout-client-data": "60000",
        "loadbalancer.openstack.org/class": "fast",
        "loadbalancer.openstack.org/keep-floatingip": "perhaps",
        "loadbalancer.openstack.org/proxy-protocol": "true",
        "loadbalancer.openstack.org/lb-method": "LEAST_CONNECTIONS",
        "loadbalancer.openstack.org/enable-health-monitor": "true",
        "loadbalancer.openstack.org/hostname": "web.example.com",
        "loadbalancer.openstack.org/load-balancer-id": "1b5e",
        "loadbalancer.openstack.org/floating-subnet": "public2",
    });
    let going =
        json!({"addresses": ["10.1.0.6"], "conditions": {"ready": false, "serving": true, "terminating": true}});
    golden("everything", spec, annotations, vec![slice("a", json!([pod("10.1.0.4", "web-1"), going]))]);
}
