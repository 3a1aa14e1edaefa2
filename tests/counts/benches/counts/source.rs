//! The content of a backend, in the sizes that are counted.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use gimbal_model::{Conditions, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey};

/// Returns a Service's key. A hundred Services share a namespace.
pub fn key(n: u32) -> SourceKey {
    SourceKey::new(format!("team-{:03}", n / 100), format!("web-{n:05}"))
}

pub fn address(host: u32) -> IpAddr {
    Ipv4Addr::from(0x0a00_0001 + host).into()
}

pub fn ports() -> PortSet {
    let port = EndpointPort {
        name: "http".into(),
        port: Some(8080),
        protocol: Protocol::Tcp,
        app_protocol: Some("http".into()),
    };
    PortSet::new(vec![port])
}

fn header() -> Header {
    let port = ServicePort {
        name: "http".into(),
        port: 80,
        protocol: Protocol::Tcp,
        app_protocol: Some("http".into()),
        target_port: None,
    };
    let labels = [("app", "web"), ("release", "stable"), ("tier", "front")];
    Header {
        labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
        annotations: [("owner".into(), "team".into())].into(),
        ports: vec![port],
    }
}

/// Returns a Service with `endpoints` ready endpoints.
pub fn service(endpoints: u32) -> Service {
    let ports = ports();
    let ready = (0..endpoints).map(|host| (ports.clone(), Endpoint::ready(address(host))));
    Service::new(Arc::new(header()), ready)
}

/// Returns the Service with the endpoint in the middle not ready.
pub fn with_one_changed(service: &Service) -> Service {
    let mut changed = service.clone();
    let middle = u32::try_from(service.endpoint_count() / 2).unwrap();
    changed.insert(&ports(), unready(middle));
    changed
}

pub fn unready(host: u32) -> Endpoint {
    Endpoint { conditions: Conditions::NOT_READY, ..Endpoint::ready(address(host)) }
}
