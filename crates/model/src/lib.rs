//! What a backend offers: [`Service`]s (a header and endpoints) by [`SourceKey`], and what is computed from them: names in
//! the Gimbal cluster, digests and differences.
//!
//! Everything here is a plain value, independent of Kubernetes' JSON and of protobuf, and does no I/O.

mod address;
mod address_place;
mod canonical;
mod change;
mod digest;
mod endpoint;
mod endpoints;
mod key;
mod kubernetes_name;
mod name;
mod namespace_pattern;
mod service;

pub use address::{AddressRefusal, AddressRules};
pub use address_place::{AddressInSource, AddressObject};
pub use change::{Change, EndpointChange};
pub use digest::{Digest, DigestTree};
pub use endpoint::{Conditions, Detail, Endpoint, EndpointPort, Family, PortGroup, PortSet, Protocol};
pub use endpoints::Endpoints;
pub use key::{BackendName, InvalidBackendName, SourceKey, TargetKey};
pub use kubernetes_name::{
    InvalidLoadBalancerClass, InvalidNamespaceName, LoadBalancerClass, NamespaceName, is_label, is_label_value,
    is_qualified_name, is_subdomain,
};
pub use name::{label_value, service_name, shorten};
pub use namespace_pattern::{InvalidNamespacePattern, NamespacePattern, wildcard_matches};
pub use service::{Header, Service, ServicePort, TargetPort};
