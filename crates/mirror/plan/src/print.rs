//! Fingerprints of everything that we set in an object, computed so that defaults filled in by the server make no
//! difference.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gimbal_kubernetes_objects::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Endpoints, IntOrString, Meta, Service, ServicePort,
    ServiceSpec,
};
use sha2::{Digest as _, Sha256};

use crate::shape;

/// The content of an object in 128 bits: labels, annotations and the rest, without name, UID and version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hashes values. Every text and list is preceded by its length, so that different contents never hash the same bytes.
pub(crate) struct Printer(Sha256);

impl Printer {
    pub(crate) fn new(kind: &str) -> Self {
        let mut printer = Self(Sha256::new());
        printer.text(kind);
        printer
    }

    pub(crate) fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte)))
    }

    pub(crate) fn number(&mut self, value: i64) {
        self.0.update(value.to_be_bytes());
    }

    fn length(&mut self, value: usize) {
        self.0.update((value as u64).to_be_bytes());
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.length(value.len());
        self.0.update(value.as_bytes());
    }

    pub(crate) fn option(&mut self, value: Option<&str>) {
        self.0.update([u8::from(value.is_some())]);
        if let Some(value) = value {
            self.text(value);
        }
    }

    /// Hashes a number where another object could have a text.
    fn optional_number(&mut self, value: i32) {
        self.option(None);
        self.number(value.into());
    }

    fn flag(&mut self, value: Option<bool>) {
        self.0.update([value.map_or(2, u8::from)]);
    }

    fn map(&mut self, map: &BTreeMap<Arc<str>, Arc<str>>) {
        self.length(map.len());
        for (key, value) in map {
            self.text(key);
            self.text(value);
        }
    }
}

/// Returns the fingerprint of labels and annotations.
pub(crate) fn meta(labels: &BTreeMap<Arc<str>, Arc<str>>, annotations: &BTreeMap<Arc<str>, Arc<str>>) -> Fingerprint {
    let mut printer = Printer::new("meta");
    printer.map(labels);
    printer.map(annotations);
    printer.finish()
}

fn begin(kind: &str, of: &Meta) -> Printer {
    let mut printer = Printer::new(kind);
    printer.map(&of.labels);
    printer.map(&of.annotations);
    printer
}

pub(crate) fn service(service: &Service) -> Fingerprint {
    let ServiceSpec {
        type_,
        cluster_ip,
        selector,
        ports,
        external_name,
        external_ips,
        session_affinity,
        publish_not_ready_addresses,
    } = &service.spec;
    let mut printer = begin("Service", &service.metadata);
    printer.text(type_.as_deref().unwrap_or("ClusterIP"));
    printer.option(cluster_ip.as_deref());
    printer.map(selector);
    printer.length(ports.len());
    for port in ports {
        // Named one by one, so that a new field does not compile until it is hashed.
        let ServicePort { name, port, protocol, app_protocol, target_port } = port;
        printer.text(name.as_deref().unwrap_or_default());
        printer.number((*port).into());
        printer.text(protocol.as_deref().unwrap_or("TCP"));
        printer.option(app_protocol.as_deref());
        match target_port {
            Some(IntOrString::String(name)) if !name.is_empty() => printer.option(Some(name)),
            Some(IntOrString::Int(number)) if *number != 0 => printer.optional_number(*number),
            // Without a target port, the server fills in the port.
            _ => printer.optional_number(*port),
        }
    }
    printer.option(external_name.as_deref().filter(|name| !name.is_empty()));
    printer.length(external_ips.len());
    for address in external_ips {
        printer.text(address);
    }
    printer.text(session_affinity.as_deref().unwrap_or("None"));
    printer.flag(Some(publish_not_ready_addresses.unwrap_or_default()));
    printer.finish()
}

/// Returns the fingerprint of a slice. The order of endpoints and ports makes no difference.
pub(crate) fn slice(slice: &EndpointSlice) -> Fingerprint {
    let EndpointSlice { metadata, address_type, endpoints, ports } = slice;
    let mut printer = begin("EndpointSlice", metadata);
    printer.text(address_type);
    let mut ports: Vec<_> = ports.iter().collect();
    ports.sort_by_key(|port| (&port.name, port.port, &port.protocol));
    printer.length(ports.len());
    for port in ports {
        let EndpointPort { name, port, protocol, app_protocol } = port;
        printer.text(name.as_deref().unwrap_or_default());
        printer.number(port.map_or(-1, i64::from));
        printer.text(protocol.as_deref().unwrap_or("TCP"));
        printer.option(app_protocol.as_deref());
    }
    let mut endpoints: Vec<_> = endpoints.iter().collect();
    endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    printer.length(endpoints.len());
    for endpoint in endpoints {
        let Endpoint { addresses, conditions, hostname, zone, hints } = endpoint;
        printer.length(addresses.len());
        for address in addresses {
            printer.text(address);
        }
        let EndpointConditions { ready, serving, terminating } = *conditions;
        for condition in [ready, serving, terminating] {
            printer.flag(condition);
        }
        printer.option(hostname.as_deref());
        printer.option(zone.as_deref());
        printer.number(hints.as_ref().map_or(-1, |hints| hints.for_zones.len() as i64));
        for zone in hints.iter().flat_map(|hints| &hints.for_zones) {
            printer.text(&zone.name);
        }
    }
    printer.finish()
}

/// Returns the fingerprint of an Endpoints object by address and port, because the server may group subsets
/// differently.
pub(crate) fn endpoints(endpoints: &Endpoints) -> Fingerprint {
    let mut printer = begin("Endpoints", &endpoints.metadata);
    let (flat, odd) = shape::flatten(endpoints);
    printer.length(flat.len());
    for ((address, port), state) in flat {
        printer.text(&address.to_string());
        printer.option(port.as_ref().map(|port| &*port.name));
        printer.number(port.as_ref().and_then(|port| port.port).map_or(-1, i64::from));
        printer.option(port.as_ref().map(|port| port.protocol.as_str()));
        printer.option(port.as_ref().and_then(|port| port.app_protocol.as_deref()));
        printer.flag(Some(state.ready));
        printer.option(state.hostname.as_deref());
    }
    for text in odd {
        printer.text(&text);
    }
    printer.finish()
}
