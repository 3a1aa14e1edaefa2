//! As much of a Service as there is room for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use gimbal_model::{AddressRules, Endpoint, PortSet, Service};

use crate::Observed;

/// The Service with no more than `most` of the endpoints that `allowed` lets through: those that are there already first,
/// then those that only change their ports, then the others in order. So it stays the same while nothing changes.
#[must_use]
pub fn limited(service: &Service, allowed: &AddressRules, most: usize, observed: &Observed) -> Service {
    let there: BTreeSet<(&PortSet, IpAddr)> = observed.identities().collect();
    let packed = observed.packed().into_iter().flat_map(|packed| &packed.groups);
    let addresses: BTreeSet<IpAddr> = there
        .iter()
        .map(|(_, address)| *address)
        .chain(packed.flat_map(|group| group.endpoints.addresses().collect::<Vec<_>>()))
        .collect();
    let rank = |ports: &PortSet, endpoint: &Endpoint| match endpoint.address {
        address if there.contains(&(ports, address)) => 0,
        address if addresses.contains(&address) => 1,
        _ => 2,
    };
    let all = service.endpoints().filter(|(_, endpoint)| allowed.check(endpoint.address).is_ok());
    let mut all: Vec<(u8, &PortSet, Endpoint)> =
        all.map(|(ports, endpoint)| (rank(ports, &endpoint), ports, endpoint)).collect();
    all.sort_by_key(|(rank, ..)| *rank);
    let chosen = all.into_iter().take(most).map(|(_, ports, endpoint)| (ports.clone(), endpoint));
    Service::new(service.header.clone(), chosen)
}
