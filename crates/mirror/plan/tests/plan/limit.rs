//! Which endpoints of a Service its quota has room for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::{AddressRules, Conditions, Endpoint, Service};
use gimbal_plan::{EndpointsApi, limited};

use crate::world::{converged, header, ports, v4};

/// A Service with `addresses` at two ports. At the second port, only those in `ready` are ready.
fn two_ports(addresses: &[u16], ready: &[u16]) -> Service {
    let at = |n: &u16| {
        let second = if ready.contains(n) { Conditions::READY } else { Conditions::NOT_READY };
        [("one", 8080, Conditions::READY), ("two", 8081, second)].map(|(name, port, conditions)| {
            (ports(&[(name, port)]), Endpoint { conditions, ..Endpoint::ready(v4(*n)) })
        })
    };
    Service::new(Arc::new(header("http")), addresses.iter().flat_map(at))
}

fn kept(wanted: &Service, before: &Service, most: usize) -> (BTreeSet<IpAddr>, usize) {
    let api = EndpointsApi::Endpoints;
    let observed = converged(before, api).observe();
    let part = limited(wanted, &AddressRules::default(), most, &observed, api);
    (part.endpoints().map(|(_, endpoint)| endpoint.address).collect(), part.endpoint_count())
}

#[test]
fn packed_addresses_stay_with_all_of_their_ports() {
    let there = two_ports(&[2, 3], &[2, 3]);
    assert_eq!(kept(&two_ports(&[1, 2, 3], &[1, 2, 3]), &there, 2), ([v4(2), v4(3)].into(), 4));
    // An address becomes not ready at one of its ports, so it is in two subsets. That is not growth and displaces no
    // other address.
    assert_eq!(kept(&two_ports(&[1, 2, 3], &[1, 3]), &there, 2), ([v4(2), v4(3)].into(), 4));
    // A new address that counts twice does not fit where there is room for one.
    assert_eq!(kept(&two_ports(&[1, 2, 3, 4], &[2, 3, 4]), &there, 3), ([v4(2), v4(3), v4(4)].into(), 6));
}
