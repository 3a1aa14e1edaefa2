//! The canonical byte form that digests are computed over (docs/protocol.md#digests). Every string and list is preceded by
//! its length, so two different values never have the same form.

use sha2::{Digest as _, Sha256};

use crate::{
    Conditions, Detail, Endpoint, EndpointPort, Header, PortSet, Protocol, ServicePort, SourceKey, TargetPort,
};

pub(crate) struct Canonical(Sha256);

impl Canonical {
    /// Starts the form of one value. `kind` makes headers and endpoints differ.
    pub(crate) fn new(kind: u8, key: &SourceKey) -> Self {
        let mut out = Self(Sha256::new());
        out.byte(kind);
        out.text(&key.namespace);
        out.text(&key.name);
        out
    }

    /// Returns the first 16 bytes of the hash, read as big endian.
    pub(crate) fn finish(self) -> u128 {
        let hash = self.0.finalize();
        hash.iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
    }

    fn byte(&mut self, value: u8) {
        self.0.update([value]);
    }

    fn number(&mut self, value: usize) {
        self.0.update((value as u64).to_be_bytes());
    }

    fn text(&mut self, value: &str) {
        self.number(value.len());
        self.0.update(value.as_bytes());
    }

    fn option(&mut self, value: Option<&str>) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            self.text(value);
        }
    }

    fn port(&mut self, value: u16) {
        self.0.update(value.to_be_bytes());
    }

    fn protocol(&mut self, value: Protocol) {
        self.text(value.as_str());
    }

    pub(crate) fn header(&mut self, header: &Header) {
        // No field may be missing from the digest: a change of it would never be sent.
        let Header { labels, annotations, ports } = header;
        for map in [labels, annotations] {
            self.number(map.len());
            for (key, value) in map {
                self.text(key);
                self.text(value);
            }
        }
        self.number(ports.len());
        for ServicePort { name, port, protocol, app_protocol, target_port } in ports {
            self.text(name);
            self.port(*port);
            self.protocol(*protocol);
            self.option(app_protocol.as_deref());
            match target_port {
                None => self.byte(0),
                Some(TargetPort::Number(number)) => {
                    self.byte(1);
                    self.port(*number);
                }
                Some(TargetPort::Name(name)) => {
                    self.byte(2);
                    self.text(name);
                }
            }
        }
    }

    pub(crate) fn ports(&mut self, ports: &PortSet) {
        self.number(ports.ports().len());
        for EndpointPort { name, port, protocol, app_protocol } in ports.ports() {
            self.text(name);
            self.byte(u8::from(port.is_some()));
            self.port(port.unwrap_or(0));
            self.protocol(*protocol);
            self.option(app_protocol.as_deref());
        }
    }

    pub(crate) fn endpoint(&mut self, endpoint: &Endpoint) {
        let Endpoint { address, conditions, detail } = endpoint;
        match address {
            std::net::IpAddr::V4(address) => {
                self.byte(4);
                self.0.update(address.octets());
            }
            std::net::IpAddr::V6(address) => {
                self.byte(6);
                self.0.update(address.octets());
            }
        }
        let Conditions { ready, serving, terminating } = conditions;
        for condition in [ready, serving, terminating] {
            self.byte(u8::from(*condition));
        }
        let none = Detail::default();
        let Detail { hostname, zone, for_zones } = detail.as_deref().unwrap_or(&none);
        self.option(hostname.as_deref());
        self.option(zone.as_deref());
        self.number(for_zones.len());
        for zone in for_zones {
            self.text(zone);
        }
    }
}
