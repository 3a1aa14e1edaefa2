//! What a backend offers, in the product's own words: a [`Service`] (header and endpoints) by [`SourceKey`], and what
//! is derived from it without I/O: names, digests, differences.
//!
//! Everything here is a plain value. Nothing knows Kubernetes' wire form, protobuf, a clock or a socket.

mod address;
mod canonical;
mod change;
mod digest;
mod endpoint;
mod endpoints;
mod key;
mod name;
mod namespace_pattern;
mod service;

pub use address::{AddressRefusal, AddressRules};
pub use change::{Change, EndpointChange};
pub use digest::{Digest, DigestTree};
pub use endpoint::{Conditions, Detail, Endpoint, EndpointPort, Family, PortGroup, PortSet, Protocol};
pub use endpoints::Endpoints;
pub use key::{BackendName, InvalidBackendName, SourceKey, TargetKey};
pub use name::{label_value, service_name, shorten};
pub use namespace_pattern::{InvalidNamespacePattern, NamespacePattern, wildcard_matches};
pub use service::{Header, Service, ServicePort, TargetPort};
