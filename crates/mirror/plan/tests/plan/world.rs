//! The source side of a test: one backend's Service and its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::{
    AddressRules, BackendName, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey,
    TargetKey, TargetPort,
};
use gimbal_plan::{AppProtocols, EndpointsApi, Keep, Observed, Plan, Removals, Rules, Strip, Unwanted, Wanted, plan};

use crate::server::Server;

pub fn target() -> TargetKey {
    TargetKey::new("team-a", "node02-web")
}

pub fn source() -> SourceKey {
    SourceKey::new("team-a", "web")
}

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Arc<str>> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

pub fn port(name: &str, port: u16, target: Option<TargetPort>) -> ServicePort {
    ServicePort { name: name.into(), port, protocol: Protocol::Tcp, app_protocol: None, target_port: target }
}

pub fn header(name: &str) -> Header {
    Header {
        labels: map(&[("app", "web")]),
        annotations: map(&[("owner", "izzy")]),
        ports: vec![port(name, 80, Some(TargetPort::Number(8080)))],
    }
}

pub fn ports(names: &[(&str, u16)]) -> PortSet {
    let port = |(name, port): &(&str, u16)| EndpointPort {
        name: (*name).into(),
        port: Some(*port),
        protocol: Protocol::Tcp,
        app_protocol: None,
    };
    PortSet::new(names.iter().map(port).collect())
}

pub fn http() -> PortSet {
    ports(&[("http", 8080)])
}

pub fn v4(n: u16) -> IpAddr {
    let [high, low] = n.to_be_bytes();
    [10, 0, high, low].into()
}

pub fn v6(n: u16) -> IpAddr {
    [0xfd00, 0, 0, 0, 0, 0, 0, n].into()
}

/// A Service with one port and ready endpoints.
pub fn web(addresses: impl IntoIterator<Item = IpAddr>) -> Service {
    Service::new(Arc::new(header("http")), addresses.into_iter().map(|address| (http(), Endpoint::ready(address))))
}

pub fn wanted_with(service: &Service, api: EndpointsApi, addresses: &AddressRules) -> Result<Wanted, Unwanted> {
    let backend = BackendName::parse("node02").unwrap();
    let strip = Strip::default();
    Wanted::new(
        &backend,
        &source(),
        &target(),
        service,
        &Rules { strip: &strip, keep: &Keep::default(), app_protocols: &AppProtocols::default(), addresses, api },
    )
}

pub fn wanted_by(service: &Service, api: EndpointsApi) -> Wanted {
    wanted_with(service, api, &AddressRules::default()).unwrap()
}

pub fn wanted(service: &Service) -> Wanted {
    wanted_by(service, EndpointsApi::EndpointSlices)
}

pub fn planned(wanted: Option<&Wanted>, observed: &Observed) -> Plan {
    plan(&target(), wanted, observed, Removals::Allowed, &BTreeSet::new())
}

/// Returns a server that holds the objects of `service`, with no writes counted yet.
pub fn converged(service: &Service, api: EndpointsApi) -> Server {
    let mut server = Server::default();
    let wanted = wanted_by(service, api);
    server.run(&planned(Some(&wanted), &server.observe()));
    assert!(planned(Some(&wanted), &server.observe()).is_empty());
    server.writes = 0;
    server
}
