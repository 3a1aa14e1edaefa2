//! The one byte form that digests are computed over (docs/protocol.md "Digests"): every string and list carries its
//! length, so no two values share a form.

use sha2::{Digest as _, Sha256};

use crate::{Endpoint, Header, PortSet, Protocol, SourceKey, TargetPort};

pub(crate) struct Canonical(Sha256);

impl Canonical {
    /// `kind` keeps headers and endpoints apart.
    pub(crate) fn new(kind: u8, key: &SourceKey) -> Self {
        let mut out = Self(Sha256::new());
        out.byte(kind);
        out.text(&key.namespace);
        out.text(&key.name);
        out
    }

    /// The first 16 bytes of the hash, big endian.
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
        for map in [&header.labels, &header.annotations] {
            self.number(map.len());
            for (key, value) in map {
                self.text(key);
                self.text(value);
            }
        }
        self.number(header.ports.len());
        for port in &header.ports {
            self.text(&port.name);
            self.port(port.port);
            self.protocol(port.protocol);
            self.option(port.app_protocol.as_deref());
            match &port.target_port {
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
        for port in ports.ports() {
            self.text(&port.name);
            self.byte(u8::from(port.port.is_some()));
            self.port(port.port.unwrap_or(0));
            self.protocol(port.protocol);
            self.option(port.app_protocol.as_deref());
        }
    }

    pub(crate) fn endpoint(&mut self, endpoint: &Endpoint) {
        match endpoint.address {
            std::net::IpAddr::V4(address) => {
                self.byte(4);
                self.0.update(address.octets());
            }
            std::net::IpAddr::V6(address) => {
                self.byte(6);
                self.0.update(address.octets());
            }
        }
        let conditions = endpoint.conditions;
        for condition in [conditions.ready, conditions.serving, conditions.terminating] {
            self.byte(u8::from(condition));
        }
        let none = crate::Detail::default();
        let detail = endpoint.detail.as_deref().unwrap_or(&none);
        self.option(detail.hostname.as_deref());
        self.option(detail.zone.as_deref());
        self.number(detail.for_zones.len());
        for zone in &detail.for_zones {
            self.text(zone);
        }
    }
}
