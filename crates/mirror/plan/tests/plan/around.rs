//! What is removed although the API server refuses part of a plan, and what stays until it exists elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Object as _};
use gimbal_model::{Endpoint, PortSet, Service};
use gimbal_plan::{Action, Body, EndpointsApi, Removals};

use crate::server::Server;
use crate::world::{converged, header, http, planned, ports, target, v4, v6, wanted_by, web};

const BOTH: [EndpointsApi; 2] = [EndpointsApi::EndpointSlices, EndpointsApi::Both];

fn of(addresses: impl IntoIterator<Item = IpAddr>, ports: &PortSet) -> Service {
    Service::new(Arc::new(header("http")), addresses.into_iter().map(|at| (ports.clone(), Endpoint::ready(at))))
}

/// Writes everything of a Service that the API server accepts.
fn write_around(server: &mut Server, service: &Service, api: EndpointsApi, refused: impl Fn(&Action) -> bool) {
    let wanted = wanted_by(service, api);
    // Each phase is planned from what the one before it left.
    for _ in 0..8 {
        let observed = server.observe();
        let plan = planned(Some(&wanted), &observed);
        let plan = plan.around(&target(), Some(&wanted), &observed, Removals::Allowed, &refused);
        let Some(phase) = plan.phases.first() else { return };
        for action in phase {
            assert!(!refused(action), "{action:?}");
            server.apply(action).unwrap();
        }
    }
    panic!("it does not come to an end");
}

/// Returns the ports at which each address is in slices.
fn there(server: &Server) -> BTreeMap<String, BTreeSet<i32>> {
    let mut there = BTreeMap::<String, BTreeSet<i32>>::new();
    for slice in server.slices() {
        for address in slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses) {
            there.entry(address.to_string()).or_default().extend(slice.ports.iter().filter_map(|port| port.port));
        }
    }
    there
}

/// Returns each address and port of the `Endpoints` object.
fn packed(server: &Server) -> BTreeSet<(String, i32)> {
    let objects = server.objects.values();
    let packed = objects.filter_map(|body| if let Body::Endpoints(object) = body { Some(object) } else { None });
    let pairs = packed.flat_map(|object| &object.subsets).flat_map(|subset| {
        let ports = || subset.ports.iter().map(|port| port.port);
        subset.addresses.iter().flat_map(move |address| ports().map(|port| (address.ip.to_string(), port)))
    });
    pairs.collect()
}

fn creates(family: &'static str) -> impl Fn(&Action) -> bool {
    move |action| matches!(action, Action::Create(Body::Slice(slice)) if *slice.address_type == *family)
}

/// An address family that exists at the new port leaves the old one, although the other family is refused.
#[test]
fn what_has_its_place_leaves_the_one_before() {
    for api in BOTH {
        let all = || (0..5).map(v4).chain((0..5).map(v6));
        let mut server = converged(&of(all(), &http()), api);
        write_around(&mut server, &of(all(), &ports(&[("http", 9090)])), api, creates("IPv6"));
        let there = there(&server);
        for n in 0..5 {
            assert_eq!(there[&v4(n).to_string()], [9090].into());
            assert_eq!(there[&v6(n).to_string()], [8080].into(), "it waits where it is");
        }
    }
}

/// An address that exists in one of its two new places stays in the old one, because it still waits for the other.
#[test]
fn what_has_one_of_two_places_waits() {
    let two = |addresses: &[u16]| {
        let sets = [ports(&[("http", 9090)]), ports(&[("http", 9091)])];
        let at = |n: &u16| sets.clone().map(|set| (set, Endpoint::ready(v4(*n))));
        Service::new(Arc::new(header("http")), addresses.iter().flat_map(at))
    };
    let mut server = converged(&of([v4(1), v4(2)], &http()), EndpointsApi::EndpointSlices);
    let at_9091 = |action: &Action| {
        let slice = if let Action::Create(Body::Slice(slice)) = action { Some(slice) } else { None };
        slice.is_some_and(|slice| slice.ports[0].port == Some(9091))
    };
    write_around(&mut server, &two(&[1]), EndpointsApi::EndpointSlices, at_9091);
    assert_eq!(there(&server), [(v4(1).to_string(), [8080, 9090].into())].into());
}

/// An endpoint that a plan moves to another slice stays in its slice if the other slice is refused.
#[test]
fn what_moves_to_a_slice_that_is_refused_stays() {
    let mut server = converged(&web((0..80).map(v4)), EndpointsApi::EndpointSlices);
    // By hand, one slice is given more endpoints than we would put into it.
    let name = server.slices().next().unwrap().metadata.name.to_string();
    server.edit(EndpointSlice::KIND, &name, |slice| {
        let endpoints = slice["endpoints"].as_array_mut().unwrap();
        let one = endpoints[0].clone();
        endpoints.extend((80..150).map(|n| {
            let mut other = one.clone();
            other["addresses"][0] = v4(n).to_string().into();
            other
        }));
    });
    let wanted = || web((10..150).map(v4));
    write_around(&mut server, &wanted(), EndpointsApi::EndpointSlices, creates("IPv4"));
    assert_eq!(there(&server).len(), 140, "what is gone goes, and nothing else");
    write_around(&mut server, &wanted(), EndpointsApi::EndpointSlices, |_| false);
    assert_eq!(there(&server).len(), 140);
    assert_eq!(server.slices().count(), 2);
}

/// Where only slices are written from now on, an `Endpoints` object keeps the addresses that no slice has yet: the slices may be
/// refused, and without a Service of ours none is made.
#[test]
fn endpoints_stay_for_what_no_slice_has() {
    let service = |action: &Action| matches!(action, Action::Create(Body::Service(_)));
    let slice = creates("IPv4");
    for given_away in [false, true] {
        let refused = |action: &Action| if given_away { service(action) } else { slice(action) };
        let mut server = converged(&web([v4(1), v4(2), v4(3)]), EndpointsApi::Endpoints);
        if given_away {
            server.objects.retain(|(kind, _), _| *kind != "services");
        }
        let wanted = web([v4(1), v4(2), v4(4)]);
        write_around(&mut server, &wanted, EndpointsApi::EndpointSlices, refused);
        assert_eq!(packed(&server), [(v4(1).to_string(), 8080), (v4(2).to_string(), 8080)].into(), "{given_away}");
        assert!(there(&server).is_empty());
        write_around(&mut server, &wanted, EndpointsApi::EndpointSlices, |_| false);
        assert!(packed(&server).is_empty());
        assert_eq!(there(&server).len(), 3);
    }
}

/// If an `Endpoints` object is refused as wanted, it keeps the addresses that wait, but not the ports that an address
/// has left.
#[test]
fn packed_addresses_leave_the_ports_that_they_have_left() {
    let api = EndpointsApi::Endpoints;
    let service = |sets: &[(&PortSet, &[u16])]| {
        let at = |(set, hosts): &(&PortSet, &[u16])| {
            let set = (*set).clone();
            hosts.iter().map(move |n| (set.clone(), Endpoint::ready(v4(*n)))).collect::<Vec<_>>()
        };
        Service::new(Arc::new(header("http")), sets.iter().flat_map(at))
    };
    let (old, new) = (http(), ports(&[("http", 9090)]));
    let mut server = converged(&service(&[(&old, &[1, 2, 3]), (&new, &[1])]), api);
    let replaces = |action: &Action| matches!(action, Action::Replace(Body::Endpoints(_)));
    write_around(&mut server, &service(&[(&new, &[1, 2])]), api, replaces);
    assert_eq!(packed(&server), [(v4(1).to_string(), 9090), (v4(2).to_string(), 8080)].into());
}
