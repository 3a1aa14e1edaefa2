//! The difference between two states of one Service, as it travels in a delta.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::net::IpAddr;
use std::sync::Arc;

use crate::digest::{endpoint_digest, header_digest};
use crate::{Digest, Endpoint, Endpoints, Header, PortSet, Service, SourceKey};

/// A change of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointChange {
    /// The endpoint exists with these properties.
    Set(PortSet, Endpoint),
    /// The endpoint does not exist any more.
    Gone(PortSet, IpAddr),
}

/// A change of one Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The whole Service, which replaces the previous state.
    Replace(Service),
    /// A difference to the previous state.
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
    /// Returns the change that leads from `old` to `new`; `None` if they are equal.
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

/// Compares group by group, so that ports are compared once for each group, and equal groups are skipped.
fn endpoint_changes(old: &Service, new: &Service) -> Vec<EndpointChange> {
    let none = Endpoints::default();
    let mut changes = Vec::new();
    let (mut olds, mut news) = (old.groups().iter().peekable(), new.groups().iter().peekable());
    loop {
        let (before, after) = next_of_both(&mut olds, &mut news, |a, b| a.ports.cmp(&b.ports));
        let Some(group) = after.or(before) else { return changes };
        let [old, new] = [before, after].map(|group| group.map_or(&none, |group| &group.endpoints));
        group_changes(&group.ports, old, new, &mut changes);
    }
}

fn group_changes(ports: &PortSet, old: &Endpoints, new: &Endpoints, changes: &mut Vec<EndpointChange>) {
    if old == new {
        return;
    }
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match next_of_both(&mut old, &mut new, |a, b| a.address.cmp(&b.address)) {
            (None, None) => return,
            (before, Some(after)) if before.as_ref() == Some(&after) => {}
            (_, Some(after)) => changes.push(EndpointChange::Set(ports.clone(), after)),
            (Some(before), None) => changes.push(EndpointChange::Gone(ports.clone(), before.address)),
        }
    }
}

/// Returns the lesser of the next items of two sorted sequences; both if they are equal.
fn next_of_both<T, I: Iterator<Item = T>>(
    old: &mut Peekable<I>,
    new: &mut Peekable<I>,
    order: impl Fn(&T, &T) -> Ordering,
) -> (Option<T>, Option<T>) {
    let ordering = match (old.peek(), new.peek()) {
        (Some(a), Some(b)) => order(a, b),
        (_, None) => Ordering::Less,
        (None, _) => Ordering::Greater,
    };
    (if ordering.is_le() { old.next() } else { None }, if ordering.is_ge() { new.next() } else { None })
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
