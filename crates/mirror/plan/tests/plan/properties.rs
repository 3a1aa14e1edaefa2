//! Properties of every sequence of states, on a server with arbitrary content.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Meta, Object as _, keys};
use gimbal_model::{Conditions, Endpoint, PortSet, Service};
use gimbal_plan::{Action, Body, EndpointsApi, MAX_ENDPOINTS, Removals, plan};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::server::Server;
use crate::world::{converged, header, map, planned, ports, target, v4, v6, wanted, wanted_by, web};

type Union = BTreeMap<(PortSet, IpAddr), (bool, bool, bool)>;

fn groups() -> [PortSet; 3] {
    [ports(&[("http", 8080)]), ports(&[("http", 8080), ("metrics", 9090)]), ports(&[("http", 8081)])]
}

fn conditions(n: u8) -> Conditions {
    match n % 4 {
        0 => Conditions::NOT_READY,
        1 => Conditions { ready: false, serving: true, terminating: true },
        _ => Conditions::READY,
    }
}

/// Port group, number of the address, family, conditions.
type Spec = (usize, u16, bool, u8);

fn specs(most: usize) -> impl Strategy<Value = Vec<Spec>> {
    vec(
        (
            prop_oneof![8 => Just(0_usize), 1 => Just(1), 1 => Just(2)],
            0..400_u16,
            prop::bool::weighted(0.2),
            any::<u8>(),
        ),
        0..most,
    )
}

fn endpoint((_, address, six, condition): Spec) -> Endpoint {
    Endpoint { conditions: conditions(condition), ..Endpoint::ready(if six { v6(address) } else { v4(address) }) }
}

fn service(specs: &[Spec]) -> Service {
    let endpoints = specs.iter().map(|spec| (groups()[spec.0].clone(), endpoint(*spec)));
    Service::new(Arc::new(header("http")), endpoints)
}

fn union_of(service: &Service) -> Union {
    let state = |conditions: Conditions| (conditions.ready, conditions.serving, conditions.terminating);
    service.endpoints().map(|(ports, e)| ((ports.clone(), e.address), state(e.conditions))).collect()
}

/// The endpoints that a reader of all slices sees.
fn union(server: &Server) -> Union {
    let mut union = Union::new();
    for slice in server.slices() {
        let set: Vec<_> = slice.ports.iter().map(|p| (&**p.name.as_ref().unwrap(), p.port.unwrap() as u16)).collect();
        for endpoint in &slice.endpoints {
            let c = endpoint.conditions;
            let state = (c.ready.unwrap(), c.serving.unwrap(), c.terminating.unwrap());
            for address in &endpoint.addresses {
                union.insert((ports(&set), address.parse().unwrap()), state);
            }
        }
    }
    union
}

/// Whether each address and port is ready, according to the Endpoints object.
fn packed(server: &Server) -> BTreeMap<(IpAddr, String), bool> {
    let mut flat = BTreeMap::new();
    if let Some(Body::Endpoints(object)) = server.objects.get(&("endpoints", target().name.to_string())) {
        for subset in &object.subsets {
            let ready = subset.addresses.iter().map(|address| (address, true));
            for (address, ready) in ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false))) {
                for port in &subset.ports {
                    let name = format!("{}:{}", port.name.as_deref().unwrap_or_default(), port.port);
                    flat.insert((address.ip.parse().unwrap(), name), ready);
                }
            }
        }
    }
    flat
}

fn packed_of(service: &Service) -> BTreeMap<(IpAddr, String), bool> {
    let mut flat = BTreeMap::new();
    for (ports, endpoint) in service.endpoints() {
        let Conditions { ready, terminating, .. } = endpoint.conditions;
        for port in ports.ports() {
            let name = format!("{}:{}", port.name, port.port.unwrap());
            if ready || !terminating {
                let both = flat.entry((endpoint.address, name)).or_insert(ready);
                *both &= ready;
            }
        }
    }
    flat
}

/// Adds slices that somebody else made with our marks: with duplicates, too many endpoints, wrong labels, in no
/// order.
fn chaos(server: &mut Server, slices: &[(Vec<Spec>, bool)]) {
    for (n, (specs, labelled)) in slices.iter().enumerate() {
        let mut by_address = BTreeMap::new();
        for spec in specs.iter().filter(|spec| !spec.2) {
            by_address.insert(spec.1, *spec);
        }
        let group = specs.first().map_or(0, |spec| spec.0);
        let endpoints = by_address.into_values().map(|spec| (groups()[group].clone(), endpoint(spec)));
        let source = wanted(&Service::new(Arc::new(header("http")), endpoints));
        let plan = planned(Some(&source), &Server::default().observe());
        let mut merged: Option<EndpointSlice> = None;
        for action in plan.actions() {
            if let Action::Create(Body::Slice(slice)) = action {
                let mut slice = slice.clone();
                slice.endpoints.reverse();
                merged = match merged {
                    Some(mut merged) => {
                        merged.endpoints.extend(slice.endpoints);
                        Some(merged)
                    }
                    None => Some(slice),
                };
            }
        }
        if let Some(mut slice) = merged {
            slice.metadata.name = format!("by-hand-{n}").into();
            if !labelled {
                slice.metadata.labels = map(&[(keys::SLICE_MANAGED_BY, keys::MANAGER)]);
            }
            server.put(Body::Slice(slice));
        }
    }
}

/// Executes a plan one action at a time, those of one phase in the order of `seed`, and calls `check` after each.
fn run(server: &mut Server, plan: &gimbal_plan::Plan, seed: usize, mut check: impl FnMut(&Server)) {
    for phase in &plan.phases {
        for at in 0..phase.len() {
            let action = &phase[(at + seed) % phase.len()];
            server.apply(action).unwrap();
            check(server);
        }
    }
}

fn apis() -> impl Strategy<Value = EndpointsApi> {
    prop_oneof![3 => Just(EndpointsApi::EndpointSlices), 1 => Just(EndpointsApi::Endpoints), 1 => Just(EndpointsApi::Both)]
}

#[test]
fn one_plan_converges_and_breaks_nothing() {
    gimbal_property::check(
        32,
        &(vec((specs(160), any::<bool>()), 0..3), vec((specs(330), apis(), any::<usize>()), 1..5), any::<bool>()),
        |(hand, states, repacks)| {
            let mut server = Server { repacks, ..Server::default() };
            chaos(&mut server, &hand);
            let mut slices_before = true;
            for (specs, api, seed) in states {
                let service = service(&specs);
                let wanted = wanted_by(&service, api);
                let plan = planned(Some(&wanted), &server.observe());
                prop_assert!(plan.phases.len() <= 3);
                let slices = api != EndpointsApi::Endpoints;
                // Endpoints that exist before and are wanted exist all the time.
                let stays: BTreeSet<_> = if slices && slices_before {
                    union(&server).into_keys().filter(|key| union_of(&service).contains_key(key)).collect()
                } else {
                    BTreeSet::new()
                };
                run(&mut server, &plan, seed, |server| {
                    let now = union(server);
                    assert!(stays.iter().all(|key| now.contains_key(key)), "an endpoint was away");
                });
                slices_before = slices;
                prop_assert_eq!(union(&server), if slices { union_of(&service) } else { Union::new() });
                let expected = if api == EndpointsApi::EndpointSlices { BTreeMap::new() } else { packed_of(&service) };
                prop_assert_eq!(packed(&server), expected);
                let placed: usize = server.slices().map(|slice| slice.endpoints.len()).sum();
                prop_assert_eq!(placed, union(&server).len(), "an endpoint is in two slices");
                prop_assert!(server.slices().all(|slice| (1..=MAX_ENDPOINTS).contains(&slice.endpoints.len())));
                let observed = server.observe();
                prop_assert!(planned(Some(&wanted), &observed).is_empty());
                prop_assert_eq!(observed.endpoint_count(), wanted.endpoint_count());
            }
            let gone = planned(None, &server.observe());
            prop_assert!(gone.phases.len() <= 2);
            server.run(&gone);
            prop_assert!(server.objects.is_empty());
            Ok(())
        },
    );
}

#[test]
fn one_change_writes_one_slice() {
    gimbal_property::check(32, &(specs(350), 0..400_u16, 0..3_u8), |(specs, address, what)| {
        let mut service = service(&specs);
        let server = converged(&service, EndpointsApi::EndpointSlices);
        let group = &groups()[0];
        let old = service.remove(group, v4(address));
        let expected = match (what, old.as_ref()) {
            (0, None) => 0,
            (0, Some(_)) => 1,
            (1, Some(old)) if old.conditions == Conditions::READY => {
                service.insert(group, Endpoint::ready(v4(address)));
                0
            }
            _ => {
                service.insert(group, Endpoint::ready(v4(address)));
                usize::from(old != Some(Endpoint::ready(v4(address))))
            }
        };
        let plan = planned(Some(&wanted(&service)), &server.observe());
        prop_assert_eq!(plan.actions().count(), expected);
        Ok(())
    });
}

#[test]
fn held_takes_nothing_away() {
    gimbal_property::check(
        32,
        &(specs(330), specs(330), any::<usize>(), any::<bool>()),
        |(before, after, seed, both)| {
            let api = if both { EndpointsApi::Both } else { EndpointsApi::EndpointSlices };
            let mut server = converged(&service(&before), api);
            let (was, was_packed) = (union(&server), packed(&server));
            let service = service(&after);
            let wanted = wanted_by(&service, api);
            let plan = plan(&target(), Some(&wanted), &server.observe(), Removals::Held, &BTreeSet::new());
            run(&mut server, &plan, seed, |server| {
                let now = union(server);
                assert!(was.keys().all(|key| now.contains_key(key)), "an endpoint went");
            });
            let mut expected = was.clone();
            expected.extend(union_of(&service));
            prop_assert_eq!(union(&server), expected);
            let now = packed(&server);
            prop_assert!(was_packed.keys().all(|key| now.contains_key(key)));
            prop_assert!(packed_of(&service).iter().all(|(key, ready)| !both || now.get(key) == Some(ready)));
            let again =
                gimbal_plan::plan(&target(), Some(&wanted), &server.observe(), Removals::Held, &BTreeSet::new());
            prop_assert!(again.is_empty());
            // Once the removals are allowed, the rest follows.
            server.run(&planned(Some(&wanted), &server.observe()));
            prop_assert_eq!(union(&server), union_of(&service));
            Ok(())
        },
    );
}

/// The names of slices depend on the target and its ports alone, not on what other slices exist.
#[test]
fn names_depend_on_target_and_ports_alone() {
    let names = |server: &Server| server.slices().map(|slice| slice.meta().name.clone()).collect::<Vec<_>>();
    let mut other = Server::default();
    other.put(Body::Slice(EndpointSlice {
        metadata: Meta { name: "x".into(), ..Meta::default() },
        ..EndpointSlice::default()
    }));
    let wanted = wanted(&web((0..150).map(v4)));
    other.run(&planned(Some(&wanted), &other.observe()));
    assert_eq!(names(&other), names(&converged(&web((0..150).map(v4)), EndpointsApi::EndpointSlices)));
    assert_eq!(names(&other), ["node02-web-8f5a304c98-0".into(), "node02-web-8f5a304c98-1".into()]);
}
