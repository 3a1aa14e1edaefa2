//! The objects that a source Service becomes, and what the API server would never accept.

use std::sync::Arc;

use gimbal_kubernetes_objects::{Object as _, keys};
use gimbal_model::{
    AddressRefusal, AddressRules, BackendName, Detail, Endpoint, EndpointPort, Header, PortSet, Protocol, Service,
    ServicePort, TargetKey, TargetPort,
};
use gimbal_plan::{
    Action, AppProtocols, Body, EndpointsApi, Keep, Pattern, Rules, Strip, Unwanted, UnwantedReason, Wanted, left_out,
};
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
    let rules = Rules {
        strip: &strip,
        keep: &Keep::default(),
        app_protocols: &AppProtocols::default(),
        addresses: &addresses,
        api: EndpointsApi::default(),
    };
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

/// Whatever the policy strips, no label or annotation of a source makes its objects another owner's.
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
        (keys::SOURCE_CLUSTER, "other"),
    ];
    let header = Header { labels: map(&forged), annotations: map(&[(keys::SOURCE, "other/other")]), ..header("http") };
    let service = Service::new(Arc::new(header), [(http(), Endpoint::ready(v4(1)))]);
    let strip = Strip { labels: Vec::new(), annotations: Vec::new() };
    let (backend, addresses) = (BackendName::parse("node02").unwrap(), AddressRules::default());
    for api in [EndpointsApi::Endpoints, EndpointsApi::Both] {
        let rules = Rules {
            strip: &strip,
            keep: &Keep::default(),
            app_protocols: &AppProtocols::default(),
            addresses: &addresses,
            api,
        };
        let wanted = Wanted::new(&backend, &source(), &target(), &service, &rules).unwrap();
        let plan = planned(Some(&wanted), &Server::default().observe());
        for action in plan.actions() {
            let Action::Create(body) = action else { panic!("{action:?}") };
            let meta = body.meta();
            let label = |key: &str| meta.labels.get(key).map(|value| &**value);
            assert_eq!(label(keys::BACKEND), Some("node02"));
            assert_eq!(label(keys::SERVICE), Some("web"));
            assert_ne!(label(keys::SOURCE_CLUSTER), Some("other"));
            assert_eq!(meta.annotations.get(keys::SOURCE).map(|value| &**value), Some("team-a/web"));
            let slice = body.kind() == gimbal_kubernetes_objects::EndpointSlice::KIND;
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

/// Returns the bodies that are created under these rules.
fn created(service: &Service, keep: &Keep, app_protocols: &AppProtocols) -> Vec<Body> {
    let (backend, strip, addresses) =
        (BackendName::parse("node02").unwrap(), Strip::default(), AddressRules::default());
    let rules = Rules { strip: &strip, keep, app_protocols, addresses: &addresses, api: EndpointsApi::Both };
    let wanted = Wanted::new(&backend, &source(), &target(), service, &rules).unwrap();
    let plan = planned(Some(&wanted), &Server::default().observe());
    plan.actions()
        .map(|action| match action {
            Action::Create(body) => body.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn whose_it_is_and_that_no_proxy_needs_it_is_written_on_it() {
    for body in created(&web([v4(1)]), &Keep::default(), &AppProtocols::default()) {
        let label = |key: &str| body.meta().labels.get(key).map(|value| &**value);
        assert_eq!(label(keys::HEADLESS), Some(""), "{:?}", body.kind());
        let slice = body.kind() == gimbal_kubernetes_objects::EndpointSlice::KIND;
        assert_eq!(label(keys::SOURCE_CLUSTER), slice.then_some("node02"), "{:?}", body.kind());
    }
}

#[test]
fn where_a_policy_says_what_is_kept_the_rest_is_left_out() {
    let labels = map(&[("app", "web"), ("team", "a"), ("argocd.argoproj.io/instance", "x")]);
    let annotations = map(&[("owner", "yves"), ("projectcontour.io/upstream-protocol.h2", "http"), ("note", "x")]);
    let service =
        Service::new(Arc::new(Header { labels, annotations, ..header("http") }), [(http(), Endpoint::ready(v4(1)))]);
    let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
    let keep = Keep {
        // Keys in the strip list are left out even if they are kept by name.
        labels: Some(patterns(&["app", "argocd.argoproj.io/*"])),
        annotations: Some(patterns(&["projectcontour.io/upstream-protocol.*"])),
    };
    for body in created(&service, &keep, &AppProtocols::default()) {
        let has = |key: &str| body.meta().labels.contains_key(key);
        assert!(has("app") && has(keys::BACKEND) && !has("team") && !has("argocd.argoproj.io/instance"));
        let annotations: Vec<&str> = body.meta().annotations.keys().map(|key| &**key).collect();
        match &body {
            Body::Service(_) => assert_eq!(annotations, [keys::SOURCE, "projectcontour.io/upstream-protocol.h2"]),
            _ => assert_eq!(annotations, [keys::SOURCE]),
        }
    }
    // An empty keep list keeps no annotation.
    let nothing = Keep { annotations: Some(Vec::new()), ..Keep::default() };
    let Some(Body::Service(object)) = created(&service, &nothing, &AppProtocols::default()).into_iter().next() else {
        panic!("the Service comes first")
    };
    assert_eq!(object.metadata.annotations.keys().map(|key| &**key).collect::<Vec<_>>(), [keys::SOURCE]);

    let (strip, addresses) = (Strip::default(), AddressRules::default());
    let app_protocols = &AppProtocols::default();
    let rules = Rules { strip: &strip, keep: &keep, app_protocols, addresses: &addresses, api: EndpointsApi::Both };
    assert_eq!(
        left_out(&service, &rules),
        [
            "labels that are left out, for strip.labels names them: argocd.argoproj.io/instance",
            "labels that are left out, for keep.labels does not name them: team",
            "annotations that are left out, for keep.annotations does not name them: note, owner",
        ]
    );
}

#[test]
fn application_protocols_are_renamed_or_dropped_on_everything() {
    let named = |name: &str, number: u16, app: Option<&str>| EndpointPort {
        app_protocol: app.map(Into::into),
        ..ports(&[(name, number)]).ports()[0].clone()
    };
    let app =
        |name: &str, number: u16, app: &str| ServicePort { app_protocol: Some(app.into()), ..port(name, number, None) };
    let header = Header {
        ports: vec![app("grpc", 80, "grpc"), app("db", 81, "mysql"), app("web", 82, "https")],
        ..Header::default()
    };
    let set = |number, grpc| {
        PortSet::new(vec![named("grpc", number, grpc), named("db", 81, Some("mysql")), named("web", 82, Some("https"))])
    };
    // Once written, the second port set is equal to the first, so one slice holds both.
    let endpoints =
        [(set(80, Some("grpc")), Endpoint::ready(v4(1))), (set(80, Some("kubernetes.io/h2c")), Endpoint::ready(v4(2)))];
    let service = Service::new(Arc::new(header), endpoints);
    let map: AppProtocols = [("grpc", Some("kubernetes.io/h2c")), ("mysql", None), ("unused", None)]
        .into_iter()
        .map(|(from, to)| (from.into(), to.map(Into::into)))
        .collect();
    let bodies = created(&service, &Keep::default(), &map);
    let expected = [("db", None), ("grpc", Some("kubernetes.io/h2c")), ("web", Some("https"))];
    assert_eq!(bodies.len(), 3, "{bodies:?}");
    for body in bodies {
        let mut written: Vec<(String, Option<String>)> = match &body {
            Body::Service(object) => object.spec.ports.iter().map(|p| (&p.name, &p.app_protocol)).map(owned).collect(),
            Body::Slice(object) => object.ports.iter().map(|p| (&p.name, &p.app_protocol)).map(owned).collect(),
            Body::Endpoints(object) => {
                object.subsets.iter().flat_map(|s| &s.ports).map(|p| (&p.name, &p.app_protocol)).map(owned).collect()
            }
        };
        written.sort();
        let expected: Vec<_> =
            expected.iter().map(|(name, app)| ((*name).to_owned(), app.map(str::to_owned))).collect();
        assert_eq!(written, expected);
    }
    let told: Vec<_> = map.changed_ports(&service.header.ports).unwrap().into_iter().map(|p| p.app_protocol).collect();
    assert_eq!(told, [Some("kubernetes.io/h2c".into()), None, Some("https".into())]);
    assert_eq!(map.changed_ports(&service.header.ports[2..]), None, "no value of it is changed");
    let policy = (Strip::default(), Keep::default(), AddressRules::default());
    let rules =
        Rules { strip: &policy.0, keep: &policy.1, app_protocols: &map, addresses: &policy.2, api: EndpointsApi::Both };
    assert_eq!(
        left_out(&service, &rules),
        [
            "appProtocol grpc is written as kubernetes.io/h2c (appProtocol of the backend's policy)",
            "appProtocol mysql is left out (appProtocol of the backend's policy)",
        ]
    );
}

fn owned((name, app): (&Option<Arc<str>>, &Option<Arc<str>>)) -> (String, Option<String>) {
    (name.as_deref().unwrap_or_default().to_owned(), app.as_deref().map(str::to_owned))
}
