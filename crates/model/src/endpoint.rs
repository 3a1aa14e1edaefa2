//! Endpoints, their ports, conditions and details.

use std::net::IpAddr;
use std::sync::Arc;

use crate::Endpoints;

/// Transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP, also for HTTP and TLS.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Returns the name that Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Parses the name that Kubernetes uses.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

/// Address family. All endpoints of an `EndpointSlice` have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `IPv4`.
    V4,
    /// `IPv6`.
    V6,
}

impl Family {
    /// Returns the family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Returns the value of `EndpointSlice.addressType`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// A port that endpoints listen on. Consumers match it with the Service's port by `name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointPort {
    /// Name, equal to the Service's port name; empty for a single unnamed port.
    pub name: Arc<str>,
    /// Number; `None` is Kubernetes' "all ports".
    pub port: Option<u16>,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Application protocol.
    pub app_protocol: Option<Arc<str>>,
}

/// The ports of a group of endpoints, sorted and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortSet(Arc<[EndpointPort]>);

impl PortSet {
    /// Returns the set of these ports.
    #[must_use]
    pub fn new(mut ports: Vec<EndpointPort>) -> Self {
        ports.sort();
        ports.dedup();
        Self(ports.into())
    }

    /// Returns the ports in order.
    #[must_use]
    pub fn ports(&self) -> &[EndpointPort] {
        &self.0
    }
}

/// Conditions of an endpoint. Kubernetes' defaults are already applied: unset `ready` means ready, unset `serving` has
/// the value of `ready`, and unset `terminating` means not terminating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions {
    /// Whether new traffic may be sent.
    pub ready: bool,
    /// Whether it answers, even if it is terminating.
    pub serving: bool,
    /// Whether it is being shut down.
    pub terminating: bool,
}

impl Conditions {
    /// Ready, serving, not terminating.
    pub const READY: Self = Self { ready: true, serving: true, terminating: false };
    /// Neither ready nor serving.
    pub const NOT_READY: Self = Self { ready: false, serving: false, terminating: false };

    /// Returns a value that is greater for the better target of traffic.
    #[must_use]
    pub fn rank(self) -> impl Ord {
        (self.ready, !self.terminating, self.serving)
    }

    /// Returns those of the two that are of the better target.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }
}

/// Properties that few endpoints have, in an allocation of their own so that the other endpoints stay small. Equal
/// details are shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Detail {
    /// Host name, a DNS label.
    pub hostname: Option<Arc<str>>,
    /// Topology zone.
    pub zone: Option<Arc<str>>,
    /// `hints.forZones`, sorted.
    pub for_zones: Vec<Arc<str>>,
}

/// One address of a Service. Within the Service it is identified by family, address and port set; the port set is that
/// of its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Address.
    pub address: IpAddr,
    /// Conditions.
    pub conditions: Conditions,
    /// Host name, zone and hints, if there are any.
    pub detail: Option<Arc<Detail>>,
}

impl Endpoint {
    /// Returns a ready endpoint without details.
    #[must_use]
    pub fn ready(address: IpAddr) -> Self {
        Self { address, conditions: Conditions::READY, detail: None }
    }
}

/// Endpoints with the same ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroup {
    /// The ports.
    pub ports: PortSet,
    /// The endpoints.
    pub endpoints: Endpoints,
}
