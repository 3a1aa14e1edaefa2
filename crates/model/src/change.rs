//! The difference between two states of one Service, as it travels in a delta.

use std::net::IpAddr;
use std::sync::Arc;

use crate::digest::{endpoint_digest, header_digest};
use crate::{Digest, Endpoint, Header, PortSet, Service, SourceKey};

/// What becomes of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointChange {
    /// Is there, with these properties.
    Set(PortSet, Endpoint),
    /// Is there no more.
    Gone(PortSet, IpAddr),
}

/// What becomes of one Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The whole Service; whatever was held before is replaced.
    Replace(Service),
    /// A difference to what is held.
    Update {
        /// The new header, if it changed.
        header: Option<Arc<Header>>,
        /// Endpoints added, changed or gone.
        endpoints: Vec<EndpointChange>,
    },
    /// The Service is gone.
    Remove,
}

impl Change {
    /// The change that leads from `old` to `new`; `None` where they are equal.
    #[must_use]
    pub fn between(old: Option<&Service>, new: Option<&Service>) -> Option<Self> {
        match (old, new) {
            (None, None) => None,
            (Some(_), None) => Some(Self::Remove),
            (None, Some(new)) => Some(Self::Replace(new.clone())),
            (Some(old), Some(new)) => {
                let header = (old.header != new.header).then(|| new.header.clone());
                let endpoints = endpoint_changes(old, new);
                (header.is_some() || !endpoints.is_empty()).then_some(Self::Update { header, endpoints })
            }
        }
    }
}

fn endpoint_changes(old: &Service, new: &Service) -> Vec<EndpointChange> {
    let mut changes = Vec::new();
    let mut before = old.endpoints().peekable();
    let mut after = new.endpoints().peekable();
    let order =
        |a: &(&PortSet, Endpoint), b: &(&PortSet, Endpoint)| a.0.cmp(b.0).then_with(|| a.1.address.cmp(&b.1.address));
    loop {
        let ordering = match (before.peek(), after.peek()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => order(a, b),
        };
        let old = if ordering.is_le() { before.next() } else { None };
        let new = if ordering.is_ge() { after.next() } else { None };
        match (old, new) {
            (Some((ports, endpoint)), None) => changes.push(EndpointChange::Gone(ports.clone(), endpoint.address)),
            (Some((_, old)), Some((_, new))) if old == new => {}
            (_, Some((ports, endpoint))) => changes.push(EndpointChange::Set(ports.clone(), endpoint)),
            (None, None) => {}
        }
    }
}

impl Service {
    /// Applies an update (see [`Change::Update`]) and keeps `digest`, this Service's digest under `key`, up to date
    /// at the cost of what changed. A `Gone` for an endpoint that is not held changes nothing.
    pub fn update(
        &mut self,
        key: &SourceKey,
        digest: &mut Digest,
        header: Option<Arc<Header>>,
        endpoints: impl IntoIterator<Item = EndpointChange>,
    ) {
        if let Some(header) = header {
            *digest = *digest - header_digest(key, &self.header) + header_digest(key, &header);
            self.header = header;
        }
        for change in endpoints {
            match change {
                EndpointChange::Set(ports, endpoint) => {
                    *digest = *digest + endpoint_digest(key, &ports, &endpoint);
                    if let Some(old) = self.insert(&ports, endpoint) {
                        *digest = *digest - endpoint_digest(key, &ports, &old);
                    }
                }
                EndpointChange::Gone(ports, address) => {
                    if let Some(old) = self.remove(&ports, address) {
                        *digest = *digest - endpoint_digest(key, &ports, &old);
                    }
                }
            }
        }
    }
}
