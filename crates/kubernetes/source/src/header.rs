//! A Service's labels, annotations and ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kubernetes_objects as objects;
use gimbal_model::{Header, Protocol, ServicePort, TargetPort};

use crate::pool::Pools;

/// The header of a Service, and how many of its ports had to be left out.
pub(crate) fn header(service: objects::Service, pools: &mut Pools) -> (Header, u64) {
    let asked = service.spec.ports.len();
    let ports: Vec<_> = service.spec.ports.into_iter().filter_map(|from| port(from, pools)).collect();
    let left_out = (asked - ports.len()) as u64;
    let labels = texts(service.metadata.labels, pools);
    let annotations = texts(service.metadata.annotations, pools);
    (Header { labels, annotations, ports }, left_out)
}

/// Values are often a Service's own, but keys are the same everywhere.
fn texts(from: BTreeMap<Arc<str>, Arc<str>>, pools: &mut Pools) -> BTreeMap<Arc<str>, Arc<str>> {
    from.into_iter().map(|(key, value)| (pools.text(key), value)).collect()
}

fn port(from: objects::ServicePort, pools: &mut Pools) -> Option<ServicePort> {
    Some(ServicePort {
        name: pools.text(from.name.unwrap_or_default()),
        port: u16::try_from(from.port).ok().filter(|port| *port > 0)?,
        protocol: protocol(from.protocol.as_deref())?,
        app_protocol: from.app_protocol.map(|text| pools.text(text)),
        target_port: from.target_port.and_then(|target| match target {
            objects::IntOrString::Int(number) => {
                u16::try_from(number).ok().filter(|port| *port > 0).map(TargetPort::Number)
            }
            objects::IntOrString::String(name) => Some(TargetPort::Name(pools.text(name))),
        }),
    })
}

/// Unset means TCP, in Services, slices and Endpoints alike.
pub(crate) fn protocol(text: Option<&str>) -> Option<Protocol> {
    Protocol::parse(text.unwrap_or("TCP"))
}
