//! The expected plans as text, one for each situation.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Object as _};
use gimbal_model::{Conditions, Detail, Endpoint, Header, Protocol, Service, TargetPort};
use gimbal_plan::{Action, Body, EndpointsApi, Removals, Wanted, plan};
use insta::assert_snapshot;

use crate::render::render;
use crate::server::{Server, to_json};
use crate::world::{converged, header, http, map, planned, port, ports, target, v4, v6, wanted, wanted_by, web};

fn text(server: &Server, wanted: Option<&Wanted>, removals: Removals) -> String {
    let plan = plan(&target(), wanted, &server.observe(), removals, &BTreeSet::new());
    let text = render(&plan, server);
    server.clone().run(&plan);
    text
}

fn allowed(server: &Server, service: &Service) -> String {
    text(server, Some(&wanted(service)), Removals::Allowed)
}

#[test]
fn first_create() {
    assert_snapshot!(allowed(&Server::default(), &web((0..250).map(v4))));
}

#[test]
fn no_difference() {
    let service = web((0..250).map(v4));
    let server = converged(&service, EndpointsApi::EndpointSlices);
    assert_snapshot!(allowed(&server, &service), @"nothing
");
}

#[test]
fn one_endpoint_of_250_unready() {
    let mut service = web((0..250).map(v4));
    let server = converged(&service, EndpointsApi::EndpointSlices);
    service.insert(&http(), Endpoint { conditions: Conditions::NOT_READY, ..Endpoint::ready(v4(120)) });
    assert_snapshot!(allowed(&server, &service));
}

#[test]
fn one_endpoint_of_250_in_place_of_another() {
    let mut service = web((0..250).map(v4));
    let server = converged(&service, EndpointsApi::EndpointSlices);
    service.remove(&http(), v4(120));
    service.insert(&http(), Endpoint::ready(v4(900)));
    assert_snapshot!(allowed(&server, &service));
}

#[test]
fn one_more_endpoint_goes_to_the_fullest_with_room() {
    let server = converged(&web((0..250).map(v4)), EndpointsApi::EndpointSlices);
    assert_snapshot!(allowed(&server, &web((0..251).map(v4))));
}

#[test]
fn many_more_endpoints_fill_new_slices() {
    let server = converged(&web((0..150).map(v4)), EndpointsApi::EndpointSlices);
    assert_snapshot!(allowed(&server, &web((0..380).map(v4))));
}

#[test]
fn a_slice_that_loses_all_goes_last() {
    let server = converged(&web((0..150).map(v4)), EndpointsApi::EndpointSlices);
    assert_snapshot!(allowed(&server, &web((0..99).map(v4))));
}

#[test]
fn port_renamed() {
    let server = converged(&web((0..3).map(v4)), EndpointsApi::EndpointSlices);
    let endpoints = (0..3).map(|n| (ports(&[("web", 8080)]), Endpoint::ready(v4(n))));
    assert_snapshot!(allowed(&server, &Service::new(Arc::new(header("web")), endpoints)));
}

#[test]
fn dual_stack() {
    assert_snapshot!(allowed(&Server::default(), &web((0..2).flat_map(|n| [v4(n), v6(n)]))));
}

#[test]
fn header_only() {
    let service = web((0..250).map(v4));
    let server = converged(&service, EndpointsApi::EndpointSlices);
    let labels = map(&[("app", "web"), ("tier", "front"), ("app.kubernetes.io/name", "web")]);
    let header = Header { labels, annotations: map(&[("owner", "yves")]), ..header("http") };
    let endpoints = service.endpoints().map(|(ports, endpoint)| (ports.clone(), endpoint));
    assert_snapshot!(allowed(&server, &Service::new(Arc::new(header), endpoints)));
}

#[test]
fn delete() {
    let server = converged(&web((0..150).map(v4)), EndpointsApi::Both);
    assert_snapshot!(text(&server, None, Removals::Allowed));
}

#[test]
fn foreign_slice_name_taken() {
    let server = Server::default();
    let wanted = wanted(&web((0..150).map(v4)));
    let first = planned(Some(&wanted), &server.observe());
    let taken = first.actions().filter(|action| action.kind() == EndpointSlice::KIND).take(1);
    let taken = taken.map(|action| action.name().to_string()).collect();
    let plan = plan(&target(), Some(&wanted), &server.observe(), Removals::Allowed, &taken);
    assert_snapshot!(render(&plan, &server));
}

#[test]
fn held_keeps_what_would_go_and_writes_the_rest() {
    let server = converged(&web((0..150).map(v4)), EndpointsApi::Both);
    let mut service = web([v4(0), v4(1000)]);
    service.insert(&http(), Endpoint { conditions: Conditions::NOT_READY, ..Endpoint::ready(v4(0)) });
    service.insert(&ports(&[("metrics", 9090)]), Endpoint::ready(v4(0)));
    let wanted = wanted_by(&service, EndpointsApi::Both);
    assert_snapshot!(text(&server, Some(&wanted), Removals::Held));
    let plan = plan(&target(), Some(&wanted), &server.observe(), Removals::Held, &BTreeSet::new());
    let mut server = server;
    server.run(&plan);
    assert_snapshot!(text(&server, Some(&wanted), Removals::Held), @"nothing
");
}

#[test]
fn held_deletes_nothing() {
    let server = converged(&web((0..150).map(v4)), EndpointsApi::Both);
    assert_snapshot!(text(&server, None, Removals::Held), @"nothing
");
}

#[test]
fn between_the_endpoints_apis() {
    let apis = [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints, EndpointsApi::Both];
    let mut service = web((0..3).map(v4));
    let terminating = Conditions { ready: false, serving: true, terminating: true };
    service.insert(&http(), Endpoint { conditions: terminating, ..Endpoint::ready(v4(3)) });
    service.insert(&http(), Endpoint { conditions: Conditions::NOT_READY, ..Endpoint::ready(v4(4)) });
    let mut all = String::new();
    for from in apis {
        let created = text(&Server::default(), Some(&wanted_by(&service, from)), Removals::Allowed);
        all += &format!("== {from:?}\n{created}");
        for to in apis.into_iter().filter(|to| *to != from) {
            let switched = text(&converged(&service, from), Some(&wanted_by(&service, to)), Removals::Allowed);
            all += &format!("-- {from:?} -> {to:?}\n{switched}");
        }
    }
    assert_snapshot!(all);
}

/// Merges the second slice into the first, as an edit by hand.
fn merged(server: &mut Server) {
    let slices: Vec<_> = server.slices().cloned().collect();
    let mut first = slices[0].clone();
    first.endpoints.extend(slices[1].endpoints.clone());
    server.objects.remove(&("endpointslices", slices[1].metadata.name.to_string()));
    server.put(Body::Slice(first));
}

/// Endpoints that do not fit are written to another slice before they are removed, even if their slice changes in
/// another way too.
#[test]
fn a_slice_too_large_is_split() {
    let mut service = web((0..150).map(v4));
    let mut server = converged(&service, EndpointsApi::EndpointSlices);
    merged(&mut server);
    service.insert(&http(), Endpoint { conditions: Conditions::NOT_READY, ..Endpoint::ready(v4(0)) });
    assert_snapshot!(allowed(&server, &service));
}

#[test]
fn an_endpoint_in_two_slices_stays_in_the_first() {
    let service = web((0..3).map(v4));
    let mut server = converged(&service, EndpointsApi::EndpointSlices);
    let mut copy = server.slices().next().unwrap().clone();
    copy.metadata.name = "another".into();
    copy.metadata.uid = "".into();
    copy.endpoints.truncate(2);
    server.put(Body::Slice(copy));
    assert_snapshot!(allowed(&server, &service));
}

#[test]
fn the_fullest_with_room_takes_what_is_new() {
    // Three slices of 100; the first is left with 50 endpoints, the second with 90.
    let mut server = converged(&web((0..300).map(v4)), EndpointsApi::EndpointSlices);
    let less = web((0..50).chain(100..190).chain(200..300).map(v4));
    server.run(&planned(Some(&wanted(&less)), &server.observe()));
    let few = web((0..50).chain(100..190).chain(200..305).map(v4));
    let many = web((0..50).chain(100..190).chain(200..320).map(v4));
    assert_snapshot!(format!("5 more\n{}20 more\n{}", allowed(&server, &few), allowed(&server, &many)));
}

/// A Service with every field that a source can set.
fn rich() -> Service {
    let labels = map(&[
        ("app", "web"),
        ("app.kubernetes.io/name", "web"),
        ("argocd.argoproj.io/instance", "x"),
        ("service.kubernetes.io/service-proxy-name", "x"),
        ("endpointslice.kubernetes.io/managed-by", "x"),
        ("gimbal.projectcontour.io/managed-by", "x"),
        ("gimbal.projectcontour.io/backend", "other"),
    ]);
    let annotations = map(&[
        ("projectcontour.io/upstream-protocol.h2c", "http"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ("gimbal.projectcontour.io/source", "kube-system/x"),
        ("cert-manager.io/cluster-issuer", "x"),
    ]);
    let mut grpc = port("grpc", 9000, Some(TargetPort::Name("grpc".into())));
    grpc.app_protocol = Some("kubernetes.io/h2c".into());
    let mut dns = port("dns", 53, None);
    dns.protocol = Protocol::Udp;
    let ports_of_service = vec![port("http", 80, Some(TargetPort::Number(8080))), grpc, dns];
    let set = ports(&[("http", 8080), ("grpc", 9000), ("dns", 53)]);
    let detail = Detail {
        hostname: Some("web-0".into()),
        zone: Some("eu-1a".into()),
        for_zones: vec!["eu-1a".into(), "eu-1b".into()],
    };
    let terminating = Conditions { ready: false, serving: true, terminating: true };
    Service::new(
        Arc::new(Header { labels, annotations, ports: ports_of_service }),
        [
            (set.clone(), Endpoint { detail: Some(Arc::new(detail)), ..Endpoint::ready(v4(1)) }),
            (set.clone(), Endpoint { conditions: terminating, ..Endpoint::ready(v4(2)) }),
            (set, Endpoint { conditions: Conditions::NOT_READY, ..Endpoint::ready(v6(1)) }),
        ],
    )
}

#[test]
fn bodies_as_the_server_gets_them() {
    let plan = planned(Some(&wanted_by(&rich(), EndpointsApi::Both)), &Server::default().observe());
    let body = |action: &Action| match action {
        Action::Create(body) => serde_json::to_string_pretty(&to_json(body)).unwrap(),
        other => panic!("{other:?}"),
    };
    let bodies: Vec<_> = plan.actions().map(body).collect();
    assert_snapshot!(bodies.join("\n"));
}
