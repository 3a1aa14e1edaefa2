//! What a source Service becomes, and what the API server would never take.

use std::sync::Arc;

use gimbal_model::{
    AddressRefusal, AddressRules, BackendName, Detail, Endpoint, Header, Protocol, Service, ServicePort, TargetKey,
    TargetPort,
};
use gimbal_objects::{Object as _, keys};
use gimbal_plan::{Action, Body, EndpointsApi, Pattern, Rules, Strip, Unwanted, UnwantedReason, Wanted};
use insta::assert_snapshot;

use crate::server::Server;
use crate::world::{header, http, map, planned, port, ports, source, target, v4, wanted_with, web};

fn refusal(service: &Service) -> Unwanted {
    wanted_with(service, EndpointsApi::EndpointSlices, &AddressRules::default()).unwrap_err()
}

fn with_header(header: Header) -> Service {
    Service::new(Arc::new(header), [])
}

fn with_port(port: ServicePort) -> Service {
    with_header(Header { ports: vec![port], ..Header::default() })
}

#[test]
fn what_would_be_refused() {
    let labels = |key: &str, value: &str| with_header(Header { labels: map(&[(key, value)]), ..Header::default() });
    let detail = |detail: Detail| {
        let endpoint = Endpoint { detail: Some(Arc::new(detail)), ..Endpoint::ready(v4(1)) };
        Service::new(Arc::new(header("http")), [(http(), endpoint)])
    };
    let app = |app: &str| ServicePort { app_protocol: Some(app.into()), ..port("http", 80, None) };
    let zones =
        |zones: &[&str]| Detail { for_zones: zones.iter().map(|zone| (*zone).into()).collect(), ..Detail::default() };
    let services = [
        labels("no key", "x"),
        labels("/x", "x"),
        labels("Capital.example/x", "x"),
        labels("x", "-no-value"),
        labels("x", &"x".repeat(64)),
        labels("x", &"x".repeat(100)),
        with_header(Header { annotations: map(&[("a b", "x")]), ..Header::default() }),
        with_header(Header { annotations: map(&[("a", &"x".repeat(256 * 1024))]), ..Header::default() }),
        with_header(Header { ports: vec![port("a", 1, None), port("", 2, None)], ..Header::default() }),
        with_header(Header { ports: vec![port("a", 1, None), port("a", 2, None)], ..Header::default() }),
        with_header(Header { ports: vec![port("a", 1, None), port("b", 1, None)], ..Header::default() }),
        with_port(port("Capital", 80, None)),
        with_port(port(&"x".repeat(64), 80, None)),
        with_port(port("http", 0, None)),
        with_port(port("http", 80, Some(TargetPort::Number(0)))),
        with_port(port("http", 80, Some(TargetPort::Name("longer-than-fifteen".into())))),
        with_port(port("http", 80, Some(TargetPort::Name("8080".into())))),
        with_port(app("no protocol")),
        Service::new(Arc::new(header("http")), [(ports(&[("http", 0)]), Endpoint::ready(v4(1)))]),
        Service::new(Arc::new(header("http")), [(ports(&[("a", 1), ("a", 2)]), Endpoint::ready(v4(1)))]),
        Service::new(Arc::new(header("http")), [(ports(&[("-", 1)]), Endpoint::ready(v4(1)))]),
        detail(Detail { hostname: Some("no.label".into()), ..Detail::default() }),
        detail(zones(&["a", "a"])),
        detail(zones(&["a", "b", "c", "d", "e", "f", "g", "h", "i"])),
    ];
    let lines: Vec<_> =
        services.iter().map(refusal).map(|refusal| format!("{:?}: {refusal}", refusal.reason)).collect();
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_is_taken() {
    for service in [
        with_header(Header::default()),
        with_header(Header { labels: map(&[("a.example/B_c.d", ""), ("x", "Y.z_1")]), ..Header::default() }),
        with_header(Header { annotations: map(&[("Capital.Example/x", "\u{0} anything")]), ..Header::default() }),
        with_port(port("", 65535, Some(TargetPort::Name("http-alt".into())))),
        with_port(port("1-a", 1, None)),
        with_header(Header {
            ports: vec![port("a", 53, None), ServicePort { protocol: Protocol::Udp, ..port("b", 53, None) }],
            ..Header::default()
        }),
    ] {
        let taken = wanted_with(&service, EndpointsApi::Both, &AddressRules::default());
        assert!(taken.is_ok(), "{service:?}: {taken:?}");
    }
}

#[test]
fn targets() {
    let backend = BackendName::parse("node02").unwrap();
    let (strip, addresses) = (Strip::default(), AddressRules::default());
    let rules = Rules { strip: &strip, addresses: &addresses, api: EndpointsApi::default() };
    let new = |namespace: &str, name: &str| {
        Wanted::new(&backend, &source(), &TargetKey::new(namespace, name), &web([]), &rules)
    };
    assert!(new("team-a", "node02-web").is_ok());
    assert!(new("1", &"n".repeat(63)).is_ok());
    let name = new("team-a", "node02-Web").unwrap_err();
    assert_eq!(name.to_string(), "name \"node02-Web\" is no DNS label; rename the source");
    assert_eq!(name.reason, UnwantedReason::Invalid);
    for (namespace, name) in [("", "a"), ("A", "a"), ("a.b", "a"), ("a", ""), ("a", "1a"), ("a", "a.b"), ("a", "a-")] {
        assert!(new(namespace, name).is_err(), "{namespace}/{name}");
    }
    assert!(new("a", &"n".repeat(64)).is_err());
}

#[test]
fn a_refused_address_costs_its_endpoint() {
    let addresses = AddressRules { refused: vec!["10.0.1.0/24".parse().unwrap()], allowed: None };
    let mut service = web([v4(1), v4(256), "127.0.0.1".parse().unwrap()]);
    service.insert(&ports(&[("http", 8081)]), Endpoint::ready(v4(256)));
    for api in [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints, EndpointsApi::Both] {
        let wanted = wanted_with(&service, api, &addresses).unwrap();
        assert_eq!(wanted.endpoint_count(), 1);
        assert_eq!(
            wanted.refused,
            [(v4(256), AddressRefusal::Refused), ("127.0.0.1".parse().unwrap(), AddressRefusal::Loopback),]
        );
    }
}

/// Whatever the policy strips, nothing of a source makes its objects another's.
#[test]
fn no_source_speaks_for_us() {
    let forged = [
        (keys::BACKEND, "other"),
        (keys::SERVICE, "other"),
        (keys::MANAGED_BY, "other"),
        (keys::SLICE_MANAGED_BY, "other"),
        (keys::SERVICE_NAME, "other"),
        (keys::HEADLESS, "other"),
        (keys::SKIP_MIRROR, "other"),
    ];
    let header = Header { labels: map(&forged), annotations: map(&[(keys::SOURCE, "other/other")]), ..header("http") };
    let service = Service::new(Arc::new(header), [(http(), Endpoint::ready(v4(1)))]);
    let strip = Strip { labels: Vec::new(), annotations: Vec::new() };
    let (backend, addresses) = (BackendName::parse("node02").unwrap(), AddressRules::default());
    for api in [EndpointsApi::Endpoints, EndpointsApi::Both] {
        let rules = Rules { strip: &strip, addresses: &addresses, api };
        let wanted = Wanted::new(&backend, &source(), &target(), &service, &rules).unwrap();
        let plan = planned(Some(&wanted), &Server::default().observe());
        for action in plan.actions() {
            let Action::Create(body) = action else { panic!("{action:?}") };
            let meta = body.meta();
            let label = |key: &str| meta.labels.get(key).map(|value| &**value);
            assert_eq!(label(keys::BACKEND), Some("node02"));
            assert_eq!(label(keys::SERVICE), Some("web"));
            assert_eq!(meta.annotations.get(keys::SOURCE).map(|value| &**value), Some("team-a/web"));
            let slice = body.kind() == gimbal_objects::EndpointSlice::KIND;
            assert_eq!(label(keys::MANAGED_BY), (!slice).then_some("gimbal-writer"));
            assert_eq!(label(keys::SLICE_MANAGED_BY), slice.then_some("gimbal-writer"));
            if !matches!(body, Body::Service(_)) {
                assert_eq!(label(keys::HEADLESS), Some(""));
            }
            if slice {
                assert_eq!(label(keys::SERVICE_NAME), Some("node02-web"));
            }
            if let Body::Endpoints(_) = body {
                assert_eq!(label(keys::SKIP_MIRROR), (api == EndpointsApi::Both).then_some("true"));
            }
        }
    }
}

#[test]
fn patterns() {
    for (pattern, key, matches) in [
        ("a/b", "a/b", true),
        ("a/b", "a/bc", false),
        ("a/*", "a/b", true),
        ("a/*", "ab", false),
        ("a/*", "b.a/b", false),
        ("*", "anything", true),
    ] {
        assert_eq!(Pattern::new(pattern).matches(key), matches, "{pattern} {key}");
        assert_eq!(Pattern::new(pattern).to_string(), pattern);
    }
}

#[test]
fn apis_by_name() {
    assert_eq!("endpointslices".parse(), Ok(EndpointsApi::EndpointSlices));
    assert_eq!("endpoints".parse(), Ok(EndpointsApi::Endpoints));
    assert_eq!("both".parse(), Ok(EndpointsApi::Both));
    let error = "Both".parse::<EndpointsApi>().unwrap_err();
    assert_eq!(error.to_string(), "endpoints API \"Both\" is unknown: use endpointslices, endpoints or both");
}
