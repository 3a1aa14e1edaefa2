//! A source Service: a header and endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::digest::{Digest, endpoint_digest, header_digest};
use crate::{Conditions, Endpoint, Endpoints, PortGroup, PortSet, Protocol, SourceKey};

/// `targetPort` of a Service port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetPort {
    /// A number.
    Number(u16),
    /// The name of a container port.
    Name(Arc<str>),
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// Name; empty for a single unnamed port.
    pub name: Arc<str>,
    /// Number.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Application protocol.
    pub app_protocol: Option<Arc<str>>,
    /// Port on the endpoints. `None` if the source does not set it.
    pub target_port: Option<TargetPort>,
}

/// A Service without its endpoints. It has all labels and annotations of the source: the writer has the policy, so the
/// writer decides which of them are left out of the Gimbal cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Header {
    /// Labels of the source Service.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations of the source Service.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Ports, in the source's order.
    pub ports: Vec<ServicePort>,
}

/// A source Service with its endpoints, in groups of the same ports. Cheap to clone. Groups are sorted by their ports, and
/// none is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service {
    /// Labels, annotations, ports.
    pub header: Arc<Header>,
    groups: Vec<PortGroup>,
}

impl Service {
    /// Returns a Service of endpoints in any order. If two have the same identity, the last one counts.
    pub fn new(header: Arc<Header>, endpoints: impl IntoIterator<Item = (PortSet, Endpoint)>) -> Self {
        let mut grouped: BTreeMap<PortSet, Vec<Endpoint>> = BTreeMap::new();
        for (ports, endpoint) in endpoints {
            grouped.entry(ports).or_default().push(endpoint);
        }
        let groups = grouped
            .into_iter()
            .map(|(ports, endpoints)| PortGroup { ports, endpoints: endpoints.into_iter().collect() })
            .collect();
        Self { header, groups }
    }

    /// Returns a Service of groups in any order. No two may have the same ports, and none may be empty.
    pub fn of_groups(header: Arc<Header>, groups: impl IntoIterator<Item = PortGroup>) -> Self {
        let mut groups: Vec<PortGroup> = groups.into_iter().collect();
        groups.sort_by(|a, b| a.ports.cmp(&b.ports));
        groups.shrink_to_fit();
        Self { header, groups }
    }

    /// Returns the endpoints by port set.
    #[must_use]
    pub fn groups(&self) -> &[PortGroup] {
        &self.groups
    }

    /// Returns every endpoint with its ports, in order of identity.
    pub fn endpoints(&self) -> impl Iterator<Item = (&PortSet, Endpoint)> {
        self.groups.iter().flat_map(|group| group.endpoints.iter().map(move |endpoint| (&group.ports, endpoint)))
    }

    /// Returns the number of endpoints.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        self.groups.iter().map(|group| group.endpoints.len()).sum()
    }

    /// Returns the conditions of the endpoint with this address: the best, if several sets of ports have one.
    #[must_use]
    pub fn conditions_at(&self, address: IpAddr) -> Option<Conditions> {
        let of_groups = self.groups.iter().filter_map(|group| group.endpoints.get(address));
        of_groups.map(|endpoint| endpoint.conditions).reduce(Conditions::better)
    }

    /// Returns the endpoint of this identity.
    #[must_use]
    pub fn endpoint(&self, ports: &PortSet, address: IpAddr) -> Option<Endpoint> {
        let group = self.groups.binary_search_by(|group| group.ports.cmp(ports)).ok()?;
        self.groups[group].endpoints.get(address)
    }

    /// Adds an endpoint. Returns the endpoint of the same identity that it replaces.
    pub fn insert(&mut self, ports: &PortSet, endpoint: Endpoint) -> Option<Endpoint> {
        let group = match self.groups.binary_search_by(|group| group.ports.cmp(ports)) {
            Ok(at) => at,
            Err(at) => {
                self.groups.insert(at, PortGroup { ports: ports.clone(), endpoints: Endpoints::default() });
                at
            }
        };
        self.groups[group].endpoints.insert(endpoint)
    }

    /// Removes and returns the endpoint of this identity.
    pub fn remove(&mut self, ports: &PortSet, address: IpAddr) -> Option<Endpoint> {
        let group = self.groups.binary_search_by(|group| group.ports.cmp(ports)).ok()?;
        let endpoints = &mut self.groups[group].endpoints;
        let gone = endpoints.remove(address)?;
        if endpoints.is_empty() {
            self.groups.remove(group);
        }
        Some(gone)
    }

    /// Returns the digest of this Service under `key`: the sum of the digests of its header and of each endpoint. When one
    /// endpoint changes, only its digest needs to be computed again.
    #[must_use]
    pub fn digest(&self, key: &SourceKey) -> Digest {
        self.endpoints().fold(header_digest(key, &self.header), |sum, (ports, endpoint)| {
            sum + endpoint_digest(key, ports, &endpoint)
        })
    }
}
