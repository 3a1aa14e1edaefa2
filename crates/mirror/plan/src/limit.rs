//! Reduces a Service to the endpoints that its quota has room for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use gimbal_model::{AddressRules, Endpoint, PortGroup, PortSet, Service};

use crate::{EndpointsApi, Observed, count};

/// Returns the Service with at most `most` of the endpoints that `allowed` permits. Endpoints that are observed come
/// first, then those whose address is observed with other ports, then the others in order, so that the selection is
/// stable while nothing changes.
#[must_use]
pub fn limited(
    service: &Service,
    allowed: &AddressRules,
    most: usize,
    observed: &Observed,
    api: EndpointsApi,
) -> Service {
    let all = || service.endpoints().filter(|(_, endpoint)| allowed.check(endpoint.address).is_ok());
    let with = |endpoints: Vec<(PortSet, Endpoint)>| Service::new(service.header.clone(), endpoints);
    let own = |(ports, endpoint): (&PortSet, Endpoint)| (ports.clone(), endpoint);
    if api.slices() {
        let rank = rank(observed);
        let mut all: Vec<_> = all().map(|(ports, endpoint)| (rank(ports, endpoint.address), ports, endpoint)).collect();
        all.sort_by_key(|(rank, ..)| *rank);
        return with(all.into_iter().take(most).map(|(_, ports, endpoint)| own((ports, endpoint))).collect());
    }
    let chosen = packed_addresses(&count::packed(service, allowed), most, observed);
    with(all().filter(|(_, endpoint)| chosen.contains(&endpoint.address)).map(own).collect())
}

fn rank(observed: &Observed) -> impl Fn(&PortSet, IpAddr) -> u8 {
    let there: BTreeSet<(&PortSet, IpAddr)> = observed.identities().collect();
    let mut addresses: BTreeSet<IpAddr> = there.iter().map(|(_, address)| *address).collect();
    addresses.extend(packed_counts(observed.packed().map_or(&[], |packed| &packed.groups)).into_keys());
    move |ports, address| match () {
        () if there.contains(&(ports, address)) => 0,
        () if addresses.contains(&address) => 1,
        () => 2,
    }
}

/// Selects addresses for an `Endpoints` object, which contains an address with all of its ports or not at all.
fn packed_addresses(wanted: &[PortGroup], most: usize, observed: &Observed) -> BTreeSet<IpAddr> {
    let there = packed_counts(observed.packed().map_or(&[], |packed| &packed.groups));
    let in_slices: BTreeSet<IpAddr> = observed.identities().map(|(_, address)| address).collect();
    let is_there = |address: &IpAddr| there.contains_key(address) || in_slices.contains(address);
    let (first, then): (Vec<_>, Vec<_>) = packed_counts(wanted).into_iter().partition(|(address, _)| is_there(address));
    let mut left = most;
    let mut chosen = BTreeSet::new();
    for (address, count) in first.into_iter().chain(then) {
        // An observed address that has become not ready on some of its ports is in two subsets and counts twice; that
        // is not growth.
        let takes = there.get(&address).map_or(count, |before| count.min(*before));
        if takes <= left {
            left -= takes;
            chosen.insert(address);
        }
    }
    chosen
}

/// Counts how often each address occurs.
fn packed_counts(groups: &[PortGroup]) -> BTreeMap<IpAddr, usize> {
    let mut counts = BTreeMap::new();
    for address in groups.iter().flat_map(|group| group.endpoints.addresses()) {
        *counts.entry(address).or_default() += 1;
    }
    counts
}
