//! A Service's labels, annotations and ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kubernetes_objects as objects;
use gimbal_model::{Header, Protocol, ServicePort, TargetPort};

use crate::pool::Pools;

/// Returns the header of a Service, and how many of its ports were left out.
pub(crate) fn header(service: objects::Service, pools: &mut Pools) -> (Header, u32) {
    let count = service.spec.ports.len();
    let ports: Vec<_> = service.spec.ports.into_iter().filter_map(|from| port(from, pools)).collect();
    let left_out = u32::try_from(count - ports.len()).unwrap_or(u32::MAX);
    let labels = share_keys(service.metadata.labels, pools);
    let annotations = share_keys(service.metadata.annotations, pools);
    (Header { labels, annotations, ports }, left_out)
}

/// Shares the keys but not the values: keys are the same in many Services, values often are not.
fn share_keys(from: BTreeMap<Arc<str>, Arc<str>>, pools: &mut Pools) -> BTreeMap<Arc<str>, Arc<str>> {
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

/// Parses a protocol. Unset means TCP, in Services, slices and Endpoints alike.
pub(crate) fn protocol(text: Option<&str>) -> Option<Protocol> {
    Protocol::parse(text.unwrap_or("TCP"))
}
