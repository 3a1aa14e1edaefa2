//! Short constructors of source objects.

use gimbal_kubernetes_objects::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice, IntOrString, Meta, Namespace, Service, ServicePort,
    ServiceSpec, keys,
};

/// Name, Service port, endpoint port, protocol.
pub type Port = (&'static str, u16, u16, &'static str);

/// A Service and its slices.
#[derive(Debug, Clone)]
pub struct Offer {
    pub service: Service,
    pub slices: Vec<EndpointSlice>,
}

impl Offer {
    pub fn new(namespace: &str, name: &str, ports: &[Port]) -> Self {
        let port = |&(name, port, target, protocol): &Port| ServicePort {
            name: Some(name.into()),
            port: port.into(),
            protocol: Some(protocol.into()),
            target_port: Some(IntOrString::Int(target.into())),
            app_protocol: None,
        };
        let spec = ServiceSpec { ports: ports.iter().map(port).collect(), ..ServiceSpec::default() };
        let labels = [("app".into(), name.into())].into();
        let metadata = Meta { name: name.into(), namespace: namespace.into(), labels, ..Meta::default() };
        Self { service: Service { metadata, spec }, slices: Vec::new() }
    }

    /// Makes the Service headless.
    pub fn headless(mut self) -> Self {
        self.service.spec.cluster_ip = Some("None".into());
        self
    }

    pub fn app_protocol(mut self, name: &str) -> Self {
        for port in &mut self.service.spec.ports {
            port.app_protocol = Some(name.into());
        }
        self
    }

    /// Adds a slice whose endpoints have all ports of the Service.
    pub fn slice(mut self, family: &str, endpoints: Vec<Endpoint>) -> Self {
        let meta = &self.service.metadata;
        let labels =
            [(keys::SERVICE_NAME.into(), meta.name.clone()), (keys::SLICE_MANAGED_BY.into(), "gimbal-demo".into())];
        let ports = self.service.spec.ports.iter().map(|port| EndpointPort {
            name: port.name.clone(),
            port: match &port.target_port {
                Some(IntOrString::Int(number)) => Some(*number),
                _ => Some(port.port),
            },
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        });
        let slice = EndpointSlice {
            metadata: Meta {
                name: format!("{}-{}", meta.name, self.slices.len() + 1).into(),
                namespace: meta.namespace.clone(),
                labels: labels.into(),
                ..Meta::default()
            },
            address_type: family.into(),
            endpoints,
            ports: ports.collect(),
        };
        self.slices.push(slice);
        self
    }
}

pub fn namespace(name: &str) -> Namespace {
    Namespace { metadata: Meta { name: name.into(), ..Meta::default() } }
}

pub fn ready(address: &str) -> Endpoint {
    with(address, true, true, false)
}

pub fn not_ready(address: &str) -> Endpoint {
    with(address, false, false, false)
}

/// Returns a terminating endpoint, which still serves but gets no new connections.
pub fn terminating(address: &str) -> Endpoint {
    with(address, false, true, true)
}

fn with(address: &str, ready: bool, serving: bool, terminating: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.into()],
        conditions: EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        ..Endpoint::default()
    }
}

pub fn in_zone(mut endpoint: Endpoint, zone: &str) -> Endpoint {
    endpoint.zone = Some(zone.into());
    endpoint
}

pub fn named(mut endpoint: Endpoint, hostname: &str) -> Endpoint {
    endpoint.hostname = Some(hostname.into());
    endpoint
}
