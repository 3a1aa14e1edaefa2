//! The metrics that Kuryr has about load balancers, under its names. Dashboards and alerts that were made for it go on.

use std::collections::BTreeMap;

use gimbal_kuryr_model::{DesiredKey, DesiredKind, LoadBalancerReport, Phase};
use gimbal_kuryr_router_core::RouterUp;
use gimbal_runtime::metrics_table;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::state::{Core, RouterCore};

/// The Services without which a cluster does not work: Kuryr's two, and the name of the cluster's DNS outside of OpenShift.
const CRITICAL: [(&str, &str); 3] =
    [("openshift-dns", "dns-default"), ("default", "kubernetes"), ("kube-system", "kube-dns")];

/// The states of Octavia, in Kuryr's order.
const STATES: [&str; 6] = ["ERROR", "ACTIVE", "DELETED", "PENDING_CREATE", "PENDING_UPDATE", "PENDING_DELETE"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CriticalStateLabels {
    lb_name: String,
    kuryr_critical_lb_state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CriticalPoolLabels {
    lb_name: String,
    lb_pool_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouterLabels {
    router: String,
}

metrics_table! {
    /// Metrics under Kuryr's names.
    pub(crate) struct KuryrMetrics("kuryr") {
        stuck: Counter, "load_balancer_readiness" [],
            "How often a load balancer was found in a state in which it does not serve as it should";
        critical_state: Family<CriticalStateLabels, Gauge>, "critical_lb_state" ["lb_name", "kuryr_critical_lb_state"],
            "State of the load balancers of openshift-dns/dns-default, default/kubernetes and kube-system/kube-dns, as the writer last reported: 1 for the one that it is in";
        critical_members: Family<CriticalPoolLabels, Gauge>, "critical_lb_members_count" ["lb_name", "lb_pool_name"],
            "Members of each pool of these load balancers";
        router_up: Family<RouterLabels, Gauge>, "l7_router_up" ["router"],
            "Whether a KuryrL7Router serves, by namespace/name, as the writer last reported; with --ingress";
    }
}

impl KuryrMetrics {
    /// Counts load balancers that were found stuck.
    pub(crate) fn found_stuck(&self, count: u64) {
        self.stuck.inc_by(count);
    }

    /// Sets what the core knows.
    pub(crate) fn show(&self, core: &Core) {
        self.critical_state.clear();
        self.critical_members.clear();
        for (namespace, name) in CRITICAL {
            let key = DesiredKey::new(DesiredKind::LoadBalancer, namespace, name);
            if let Some(report) = core.report(&key) {
                self.show_critical(&format!("{namespace}/{name}"), &report);
            }
        }
    }

    /// Sets which routers serve.
    pub(crate) fn show_routers(&self, routers: &RouterCore) {
        self.router_up.clear();
        routers.routers_up().for_each(|up| self.show_router(&up));
    }

    fn show_router(&self, RouterUp { router, is_up }: &RouterUp) {
        let labels = RouterLabels { router: format!("{}/{}", router.namespace, router.name) };
        self.router_up.get_or_create_owned(&labels).set(i64::from(*is_up));
    }

    fn show_critical(&self, name: &str, report: &LoadBalancerReport) {
        let Some(state) = state_of(report) else { return };
        for one in STATES {
            let labels = CriticalStateLabels { lb_name: name.to_owned(), kuryr_critical_lb_state: one };
            self.critical_state.get_or_create_owned(&labels).set(i64::from(one == state));
        }
        let Some(balancer) = &report.objects.load_balancer else { return };
        let mut counts: BTreeMap<&str, i64> = report.objects.pools.iter().map(|pool| (&*pool.id, 0)).collect();
        for member in &report.objects.members {
            *counts.entry(&member.pool).or_default() += 1;
        }
        for pool in &report.objects.pools {
            let labels = CriticalPoolLabels { lb_name: balancer.name.to_string(), lb_pool_name: pool.name.to_string() };
            let count = counts.get(&*pool.id).copied().unwrap_or_default();
            self.critical_members.get_or_create_owned(&labels).set(count);
        }
    }
}

/// The state of Octavia that comes nearest to a report.
fn state_of(report: &LoadBalancerReport) -> Option<&'static str> {
    let exists = report.objects.load_balancer.is_some();
    match report.phase {
        // It has not looked.
        Phase::Waiting => None,
        Phase::Making if exists => Some("PENDING_UPDATE"),
        Phase::Making => Some("PENDING_CREATE"),
        Phase::Ready | Phase::Held => Some("ACTIVE"),
        Phase::Degraded | Phase::Blocked => Some("ERROR"),
        Phase::Removing => Some("PENDING_DELETE"),
        Phase::Gone => Some("DELETED"),
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kuryr_model::{ReportedLoadBalancer, ReportedMember, ReportedObjects, ReportedPool};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn report(phase: Phase) -> LoadBalancerReport {
        let balancer = ReportedLoadBalancer {
            id: "l".into(),
            name: "kube-system/kube-dns".into(),
            address: [10, 0, 0, 10].into(),
            port: "p".into(),
            subnet: "s".into(),
            project: "project".into(),
            provider: "amphora".into(),
            security_groups: Vec::new(),
        };
        let pool = |id: &str| ReportedPool {
            id: id.into(),
            listener: "listener".into(),
            name: format!("pool-{id}").into(),
            protocol: "UDP".into(),
        };
        let member = ReportedMember {
            id: "m".into(),
            pool: "1".into(),
            name: "member".into(),
            address: [10, 1, 0, 4].into(),
            port: 53,
            subnet: "s".into(),
        };
        LoadBalancerReport {
            owner: "uid".into(),
            generation: 1,
            phase,
            conditions: Vec::new(),
            refused_ports: Vec::new(),
            objects: ReportedObjects {
                load_balancer: Some(balancer),
                pools: vec![pool("1"), pool("2")],
                members: vec![member],
                member_count: 1,
                ..ReportedObjects::default()
            },
            last_error: None,
            missing: None,
        }
    }

    fn exposed(metrics: &KuryrMetrics, registry: &Registry, phase: Phase) -> String {
        metrics.show_critical("kube-system/kube-dns", &report(phase));
        let router = gimbal_model::SourceKey::new("gimbal", "kuryr-l7-router");
        metrics.show_router(&RouterUp { router, is_up: phase == Phase::Ready });
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn names_labels_and_types_stay_as_they_are() {
        let mut registry = Registry::default();
        let metrics = KuryrMetrics::register(&mut registry);
        let text = exposed(&metrics, &registry, Phase::Ready);
        let found = gimbal_testkit::exposition::series(&text).join("\n") + "\n";
        assert_eq!(found, include_str!("kuryr_metrics/exposition.txt"), "{found}");
        assert!(text.contains("kuryr_load_balancer_readiness_total 0"), "{text}");
    }

    #[test]
    fn a_critical_load_balancer_is_in_one_state() {
        let mut registry = Registry::default();
        let metrics = KuryrMetrics::register(&mut registry);
        for (phase, state) in [(Phase::Ready, "ACTIVE"), (Phase::Degraded, "ERROR"), (Phase::Making, "PENDING_UPDATE")]
        {
            let text = exposed(&metrics, &registry, phase);
            let ones: Vec<_> = text
                .lines()
                .filter(|line| line.starts_with("kuryr_critical_lb_state{") && line.ends_with(" 1"))
                .collect();
            assert!(ones.len() == 1 && ones[0].contains(&format!("\"{state}\"")), "{phase:?}: {ones:?}");
            let pool = |name: &str, count: u8| {
                let labels = format!("lb_name=\"kube-system/kube-dns\",lb_pool_name=\"pool-{name}\"");
                format!("kuryr_critical_lb_members_count{{{labels}}} {count}")
            };
            assert!(text.contains(&pool("1", 1)) && text.contains(&pool("2", 0)), "{text}");
        }
        assert_eq!(state_of(&report(Phase::Waiting)), None);
    }

    #[test]
    fn nothing_is_exposed_of_what_is_not_there() {
        let mut registry = Registry::default();
        let metrics = KuryrMetrics::register(&mut registry);
        exposed(&metrics, &registry, Phase::Ready);
        metrics.show(&Core::new(gimbal_kuryr_controller_core::KuryrSettings::default()));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(!text.contains("kube-dns"), "{text}");
    }
}
