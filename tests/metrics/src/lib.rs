//! The page docs/metrics.md, made from the tables by which each program declares its metrics, with the panels and alerts that are about
//! each; and dashboards of them. Tests compare both with what the repository has.
#![cfg(test)]

mod alerts;
mod dashboards;
mod page;

use gimbal_runtime::MetricDoc;

/// Returns the metrics of each program, and those that several have in common.
fn sections() -> [(&'static str, Vec<MetricDoc>); 8] {
    [
        ("Every program", gimbal_runtime::process_metrics_reference()),
        ("gimbal-writer", gimbal_writer::metrics_reference()),
        ("Both discoverers and gimbal-kuryr-controller", gimbal_discoverer::metrics_reference()),
        ("gimbal-kubernetes-discoverer with --write-events", gimbal_kubernetes_discoverer::metrics_reference()),
        ("gimbal-openstack-discoverer", gimbal_openstack_discoverer::metrics_reference()),
        ("gimbal-kuryr-controller", gimbal_kuryr_controller::metrics_reference()),
        ("gimbal-openstack-writer", gimbal_openstack_writer::metrics_reference()),
        ("gimbal-operator", gimbal_operator::metrics_reference()),
    ]
}

/// Returns the names in a query that metrics and labels can have, without those in texts.
fn names(query: &str) -> Vec<&str> {
    let outside = query.split('"').step_by(2);
    outside.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$')).collect()
}

/// The names of a metric's series.
fn series(metric: &MetricDoc) -> Vec<String> {
    let parts: &[&str] = if metric.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    parts.iter().map(|part| format!("{}{part}", metric.name)).collect()
}
