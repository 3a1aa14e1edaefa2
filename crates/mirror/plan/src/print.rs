//! Fingerprints of objects: of all that we set, in a form in which what a server fills in by itself makes no difference.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, IntOrString, Meta, Service};
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

/// Every text and list carries its length, so no two contents share a form.
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

    /// A number where another value could have a text.
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

/// Of labels and annotations.
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
    let spec = &service.spec;
    let mut printer = begin("Service", &service.metadata);
    printer.text(spec.type_.as_deref().unwrap_or("ClusterIP"));
    printer.option(spec.cluster_ip.as_deref());
    printer.map(&spec.selector);
    printer.length(spec.ports.len());
    for port in &spec.ports {
        printer.text(port.name.as_deref().unwrap_or_default());
        printer.number(port.port.into());
        printer.text(port.protocol.as_deref().unwrap_or("TCP"));
        printer.option(port.app_protocol.as_deref());
        match &port.target_port {
            Some(IntOrString::String(name)) if !name.is_empty() => printer.option(Some(name)),
            Some(IntOrString::Int(number)) if *number != 0 => printer.optional_number(*number),
            // The server writes the port itself where no target is named.
            _ => printer.optional_number(port.port),
        }
    }
    printer.option(spec.external_name.as_deref().filter(|name| !name.is_empty()));
    printer.length(spec.external_ips.len());
    for address in &spec.external_ips {
        printer.text(address);
    }
    printer.text(spec.session_affinity.as_deref().unwrap_or("None"));
    printer.flag(Some(spec.publish_not_ready_addresses.unwrap_or_default()));
    printer.finish()
}

/// Order of endpoints and ports means nothing.
pub(crate) fn slice(slice: &EndpointSlice) -> Fingerprint {
    let mut printer = begin("EndpointSlice", &slice.metadata);
    printer.text(&slice.address_type);
    let mut ports: Vec<_> = slice.ports.iter().collect();
    ports.sort_by_key(|port| (&port.name, port.port, &port.protocol));
    printer.length(ports.len());
    for port in ports {
        printer.text(port.name.as_deref().unwrap_or_default());
        printer.number(port.port.map_or(-1, i64::from));
        printer.text(port.protocol.as_deref().unwrap_or("TCP"));
        printer.option(port.app_protocol.as_deref());
    }
    let mut endpoints: Vec<_> = slice.endpoints.iter().collect();
    endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    printer.length(endpoints.len());
    for endpoint in endpoints {
        printer.length(endpoint.addresses.len());
        for address in &endpoint.addresses {
            printer.text(address);
        }
        let conditions = endpoint.conditions;
        for condition in [conditions.ready, conditions.serving, conditions.terminating] {
            printer.flag(condition);
        }
        printer.option(endpoint.hostname.as_deref());
        printer.option(endpoint.zone.as_deref());
        printer.number(endpoint.hints.as_ref().map_or(-1, |hints| hints.for_zones.len() as i64));
        for zone in endpoint.hints.iter().flat_map(|hints| &hints.for_zones) {
            printer.text(&zone.name);
        }
    }
    printer.finish()
}

/// The server may pack subsets in another way, so their flat form counts.
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
