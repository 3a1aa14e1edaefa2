//! The pools that routes lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kubernetes_objects::{BalancedPort, IntOrString};
use gimbal_kuryr_crd::{KlbPort, KlbSlice, KlbSlicePort, KlrPool};
use gimbal_kuryr_model::{MemberMode, Text};
use gimbal_model::{Family, SourceKey};

use super::IngressProblem;
use super::backend::{ServicePort, is_external_name, port_of};
use crate::members::weight;
use crate::{Joined, Nodes, ServiceIndex};

/// Where members come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MembersOf<'a> {
    pub(crate) services: &'a ServiceIndex,
    pub(crate) nodes: &'a Nodes,
    pub(crate) mode: MemberMode,
    pub(crate) family: Family,
}

/// Returns the pool of each of these ports, and the Services that have no members though they have endpoints.
pub(crate) fn pools(ports: &BTreeSet<ServicePort>, members: MembersOf<'_>) -> (Vec<KlrPool>, Vec<ServicePort>) {
    let mut count: BTreeMap<&SourceKey, usize> = BTreeMap::new();
    for port in ports {
        *count.entry(&port.service).or_default() += 1;
    }
    let mut without = Vec::new();
    let pool = |port: &ServicePort| {
        let ServicePort { service, port: number } = port;
        let mut name = format!("{}_{}", service.namespace, service.name);
        // A Service with one port has the name that seed and users know.
        if count.get(service).is_some_and(|count| *count > 1) {
            name = format!("{name}_{number}");
        }
        let endpoint_slices = members.of(port).unwrap_or_else(|| {
            without.push(port.clone());
            Vec::new()
        });
        KlrPool { name: name.into(), service: text(service), port: i64::from(*number), endpoint_slices }
    };
    (ports.iter().map(pool).collect(), without)
}

/// As a route names it.
pub(crate) fn text(key: &SourceKey) -> Text {
    format!("{}/{}", key.namespace, key.name).into()
}

/// Returns what is to be said of a port without a node port.
pub(crate) fn no_node_port(port: &ServicePort) -> IngressProblem {
    IngressProblem::NoNodePort { service: port.service.clone(), port: port.port }
}

impl MembersOf<'_> {
    /// `None` where members are nodes and the port has none there.
    fn of(self, port: &ServicePort) -> Option<Vec<Arc<KlbSlice>>> {
        let Some(joined) = self.services.get(&port.service) else { return Some(Vec::new()) };
        // Kubernetes leaves the slices as they were that it may have from before.
        if is_external_name(&joined.service) {
            return Some(Vec::new());
        }
        let Some(found) = port_of(&joined.service, port.port) else { return Some(Vec::new()) };
        match self.mode {
            MemberMode::Pod => Some(self.pods(&joined, found)),
            MemberMode::Node => {
                let node_port = found.node_port.filter(|number| *number > 0).map(i64::from)?;
                let port = KlbPort { node_port: Some(node_port), protocol: "TCP".into(), ..KlbPort::default() };
                let slice = self.nodes.slice(self.family, None, &[port]);
                Some(if slice.endpoints.is_empty() { Vec::new() } else { vec![Arc::new(slice)] })
            }
        }
    }

    /// The endpoints that serve, each with the one port that they have for this one of the Service.
    fn pods(self, joined: &Joined, of_service: &BalancedPort) -> Vec<Arc<KlbSlice>> {
        let name = of_service.name.as_deref().unwrap_or_default();
        let mut slices = Vec::new();
        for part in joined.slices.iter().filter(|part| part.family == self.family && part.has_endpoints) {
            let slice = part.slice();
            let is_meant = |port: &&KlbSlicePort| {
                port.name.as_deref().unwrap_or_default() == name && port.protocol.as_deref().unwrap_or("TCP") == "TCP"
            };
            let Some(port) = slice.ports.iter().find(is_meant) else { continue };
            // A slice without a number means all ports; the target of the Service says which one is meant.
            let Some(number) = port.port.or_else(|| target(of_service)) else { continue };
            let port = KlbSlicePort { port: Some(number), ..port.clone() };
            let serves = |endpoint: &&gimbal_kuryr_crd::KlbEndpoint| weight(endpoint).is_some();
            if slice.ports.len() == 1 && slice.ports[0] == port && slice.endpoints.iter().all(|one| serves(&one)) {
                slices.push(slice);
                continue;
            }
            let endpoints: Vec<_> = slice.endpoints.iter().filter(serves).cloned().collect();
            if !endpoints.is_empty() {
                slices.push(Arc::new(KlbSlice { endpoints, ports: vec![port] }));
            }
        }
        slices
    }
}

fn target(port: &BalancedPort) -> Option<i64> {
    match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => Some(i64::from(*number)),
        Some(IntOrString::String(name)) if !name.is_empty() => name.parse().ok(),
        _ => Some(i64::from(port.port)),
    }
}
