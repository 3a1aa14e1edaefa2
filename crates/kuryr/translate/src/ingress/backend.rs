//! What a rule leads to.

use std::collections::BTreeSet;

use gimbal_kubernetes_objects::{BalancedPort, BalancedService, Ingress, IngressBackend, ServiceBackendPort};
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use super::IngressProblem;
use crate::ServiceIndex;
use crate::finding::shown;

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServicePort {
    pub(crate) service: SourceKey,
    pub(crate) port: u16,
}

/// Where requests go. What has no pool is answered with 503, and never falls to the route of another.
pub(crate) type Destination = Option<ServicePort>;

/// The Services that the backends of an Ingress name.
pub(crate) fn services(ingress: &Ingress) -> BTreeSet<SourceKey> {
    let http = ingress.spec.rules.iter().filter_map(|rule| rule.http.as_ref());
    let backends = http.flat_map(|http| &http.paths).map(|path| &path.backend);
    let named = backends.chain(&ingress.spec.default_backend).filter_map(|backend| backend.service.as_ref());
    let namespace = &ingress.metadata.meta.namespace;
    named.map(|service| SourceKey { namespace: namespace.clone(), name: service.name.clone() }).collect()
}

/// Returns where a backend is, and what is wrong with it. A port with a number has its pool before there is a Service, so that the
/// members find it when they come.
pub(crate) fn resolve(
    namespace: &Text,
    backend: &IngressBackend,
    services: &ServiceIndex,
    place: impl Fn() -> Text,
) -> (Destination, Option<IngressProblem>) {
    let Some(named) = &backend.service else {
        let problem = match &backend.resource {
            Some(resource) => {
                IngressProblem::Resource { place: place(), kind: shown(&resource.kind), name: shown(&resource.name) }
            }
            None => IngressProblem::NoBackend { place: place() },
        };
        return (None, Some(problem));
    };
    let key = SourceKey { namespace: namespace.clone(), name: named.name.clone() };
    let number = named.port.number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
    let name = named.port.name.as_ref().filter(|name| !name.is_empty());
    if named.name.is_empty() || (number.is_none() && name.is_none()) {
        return (None, Some(IngressProblem::NoBackend { place: place() }));
    }
    let by_number = || number.map(|port| ServicePort { service: key.clone(), port });
    let Some(service) = services.service(&key) else {
        return (by_number(), Some(IngressProblem::NoService { service: key.clone() }));
    };
    let service = service.service();
    if is_external_name(&service) {
        return (by_number(), Some(IngressProblem::ExternalName { service: key.clone() }));
    }
    match find(&service, &named.port).and_then(|port| u16::try_from(port.port).ok()) {
        Some(port) => (Some(ServicePort { service: key, port }), None),
        None => {
            let port = number.map_or_else(|| name.map(|name| shown(name)), |number| Some(number.to_string().into()));
            let port = port.unwrap_or_default();
            (by_number(), Some(IngressProblem::NoPort { service: key.clone(), port }))
        }
    }
}

/// The port of a Service with this number, or this name. HTTP goes over TCP.
fn find<'a>(service: &'a BalancedService, port: &ServiceBackendPort) -> Option<&'a BalancedPort> {
    let number = port.number.filter(|number| *number != 0);
    let is_asked = |one: &&BalancedPort| match number {
        Some(number) => one.port == number,
        None => one.name.is_some() && one.name == port.name,
    };
    service.spec.ports.iter().filter(|one| is_tcp(one)).find(is_asked)
}

/// The port of a Service that a pool is of.
pub(crate) fn port_of(service: &BalancedService, number: u16) -> Option<&BalancedPort> {
    service.spec.ports.iter().filter(|one| is_tcp(one)).find(|one| one.port == i32::from(number))
}

/// Whether a Service has no endpoints by its type, whatever slices it has.
pub(crate) fn is_external_name(service: &BalancedService) -> bool {
    service.spec.type_.as_deref() == Some("ExternalName")
}

fn is_tcp(port: &BalancedPort) -> bool {
    port.protocol.as_deref().unwrap_or("TCP") == "TCP"
}
