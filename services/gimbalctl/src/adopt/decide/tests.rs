use serde_json::{Value, json};

use super::*;

/// Returns the Service and the Endpoints that the original makes, since 2020.
fn made(name: &str, addresses: &[&str]) -> (Value, Value) {
    let labels =
        json!({"app": name, "gimbal.projectcontour.io/backend": "node02", "gimbal.projectcontour.io/service": name});
    let metadata = json!({"namespace": "team1", "name": format!("node02-{name}"), "uid": name, "labels": labels});
    let ports = json!([{"name": "http", "port": 80}]);
    let ips: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    (
        json!({"metadata": metadata, "spec": {"type": "ClusterIP", "clusterIP": "None", "ports": ports}}),
        json!({"metadata": metadata, "subsets": [{"addresses": ips, "ports": ports}]}),
    )
}

/// Returns what is there of `web`, with these ready addresses in slices of the writer.
fn found(service: &Value, endpoints: &Value, published: &[&str]) -> FoundObjects {
    let each: Vec<Value> =
        published.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let slice = json!({"endpoints": each, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]});
    let mut its = PublishedEndpoints::default();
    its.add(&serde_json::from_value(slice).unwrap());
    FoundObjects {
        services: vec![serde_json::from_value(service.clone()).unwrap()],
        endpoints: vec![serde_json::from_value(endpoints.clone()).unwrap()],
        published: [(web(), its)].into(),
    }
}

fn web() -> ObjectPlace {
    ("team1".to_owned(), "node02-web".to_owned())
}

fn offers(offer: AdoptionOffer) -> AdoptionOffers {
    [(web(), vec![offer])].into()
}

fn offer() -> AdoptionOffer {
    AdoptionOffer {
        namespace: "team1".to_owned(),
        name: "web".to_owned(),
        refused: None,
        synced: false,
        unknown: None,
        ports: ports(&json!([{"name": "http", "port": 80}])),
    }
}

fn ports(ports: &Value) -> Ports {
    there(&serde_json::from_value::<Vec<gimbal_kubernetes_objects::ServicePort>>(ports.clone()).unwrap())
}

/// The verdict that nothing else changes.
fn take() -> Verdict {
    Verdict::Take(Taking { source: "team1/web".to_owned(), changes: BTreeSet::new() })
}

/// Returns the verdicts about the Service and about the Endpoints.
fn verdicts(found: &FoundObjects, offers: &AdoptionOffers) -> Vec<(&'static str, Verdict)> {
    decide(found, offers, Consent::default()).into_iter().map(|one| (one.kind.kind, one.verdict)).collect()
}

fn with(object: &Value, path: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, key) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = value;
    object
}

const MARK: &str = "gimbal.projectcontour.io/managed-by";

#[test]
fn the_service_is_first_and_its_endpoints_wait_for_the_slices() {
    let (service, endpoints) = made("web", &["10.0.0.1", "10.0.0.2"]);
    let waits = |why: &str| ("Endpoints", Verdict::Wait(why.to_owned()));
    let first = verdicts(&found(&service, &endpoints, &[]), &offers(offer()));
    assert_eq!(first, [("Service", take()), waits("its Service is first")]);
    // Even with all slices, the Service is first: without one of its own the writer does not repair them.
    let first = verdicts(&found(&service, &endpoints, &["10.0.0.1", "10.0.0.2"]), &offers(offer()));
    assert_eq!(first, [("Service", take()), waits("its Service is first")]);

    let mut service = service;
    service["metadata"]["labels"][MARK] = json!("gimbal-writer");
    for (published, lacking) in [(&[][..], "2"), (&["10.0.0.1"][..], "1"), (&["10.0.0.1", "10.0.0.3"][..], "1")] {
        let then = verdicts(&found(&service, &endpoints, published), &offers(offer()));
        let [("Endpoints", Verdict::Wait(why))] = then.as_slice() else { panic!("{published:?}: {then:?}") };
        assert!(why.starts_with(&format!("{lacking} of its 2 ready endpoints are in no slice")), "{why}");
    }
    let then = verdicts(&found(&service, &endpoints, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]), &offers(offer()));
    assert_eq!(then, [("Endpoints", take())]);
    let mut endpoints = endpoints;
    endpoints["metadata"]["labels"][MARK] = json!("gimbal-writer");
    assert_eq!(verdicts(&found(&service, &endpoints, &[]), &offers(offer())), [], "what is the writer's is not named");
}

#[test]
fn labels_of_every_version_of_the_original_are_known() {
    let (service, endpoints) = made("web", &[]);
    let (names, services) = (selectors(&"node02".parse().unwrap()), SERVICE_LABELS);
    assert_eq!(
        names,
        [
            "gimbal.projectcontour.io/backend=node02",
            "gimbal.heptio.com/backend=node02",
            "gimbal.heptio.com/cluster=node02"
        ]
    );
    for (selector, named) in names.iter().zip([services[0], services[1], services[1]]) {
        let (label, backend) = selector.split_once('=').unwrap();
        let labelled = with(&service, "/metadata/labels", json!({label: backend, named: "web"}));
        let then = verdicts(&found(&labelled, &endpoints, &[]), &offers(offer()));
        assert_eq!(then[0], ("Service", take()), "{selector}");
    }
}

#[test]
fn what_the_original_did_not_make_or_no_source_offers_is_left_with_its_endpoints() {
    let (service, endpoints) = made("web", &["10.0.0.1"]);
    let mut other_manager = service.clone();
    other_manager["metadata"]["labels"][MARK] = json!("someone");
    let mut other_service = service.clone();
    other_service["metadata"]["labels"]["gimbal.projectcontour.io/service"] = json!("api");
    let refused = AdoptionOffer { refused: Some("namespace missing".to_owned()), ..offer() };
    let cases = [
        (with(&service, "/spec/selector", json!({"app": "web"})), offers(offer()), "it has a selector"),
        (with(&service, "/spec/clusterIP", json!("10.96.0.7")), offers(offer()), "it is not headless"),
        (with(&service, "/spec/clusterIP", json!(null)), offers(offer()), "it is not headless"),
        (with(&service, "/metadata/deletionTimestamp", json!("now")), offers(offer()), "it is being deleted"),
        (other_manager, offers(offer()), "its label gimbal.projectcontour.io/managed-by names \"someone\""),
        (other_service, offers(offer()), "its labels name another source Service"),
        (service.clone(), AdoptionOffers::new(), "nothing that the backend offers leads to this name"),
        (service, offers(refused), "the writer would not publish it: namespace missing"),
    ];
    for (service, offers, expected) in cases {
        let then = verdicts(&found(&service, &endpoints, &["10.0.0.1"]), &offers);
        let [(_, Verdict::Leave(why)), (_, its)] = then.as_slice() else { panic!("{expected}: {then:?}") };
        assert!(why.starts_with(expected), "{why}");
        assert_eq!(*its, Verdict::Leave("its Service is not taken".to_owned()));
    }
}

/// Two backends, or two Services, could have made it.
#[test]
fn what_two_could_have_made_is_left() {
    let (service, endpoints) = made("web", &["10.0.0.1"]);
    for (label, value, expected) in [
        ("gimbal.heptio.com/backend", "node03", "its labels name two backends, node02 and node03"),
        ("gimbal.heptio.com/cluster", "node03", "its labels name two backends, node02 and node03"),
        ("gimbal.heptio.com/service", "api", "its labels name two source Services, web and api"),
    ] {
        let mut doubtful = service.clone();
        doubtful["metadata"]["labels"][label] = json!(value);
        let then = verdicts(&found(&doubtful, &endpoints, &["10.0.0.1"]), &offers(offer()));
        let (_, Verdict::Leave(why)) = &then[0] else { panic!("{label}: {then:?}") };
        assert!(why.starts_with(expected), "{why}");
        doubtful["metadata"]["labels"][label] = json!(if label.ends_with("service") { "web" } else { "node02" });
        let then = verdicts(&found(&doubtful, &endpoints, &["10.0.0.1"]), &offers(offer()));
        assert_eq!(then[0], ("Service", take()), "both say the same");
    }
}

/// Who orders it has seen that the Service is another one than that of its namespace.
#[test]
fn what_a_mapped_namespace_leads_to_is_named() {
    let (service, endpoints) = made("web", &["10.0.0.1"]);
    let mapped = AdoptionOffer { namespace: "project-a".to_owned(), ..offer() };
    let then = verdicts(&found(&service, &endpoints, &["10.0.0.1"]), &offers(mapped));
    let (_, Verdict::Take(taking)) = &then[0] else { panic!("{then:?}") };
    assert_eq!(taking.source, "project-a/web");
    let named: Vec<_> = taking.changes.iter().collect();
    assert_eq!(named, ["it stands for project-a/web from then on, and is in namespace team1"]);
}

#[test]
fn endpoints_alone_or_of_someone_else_are_left() {
    let (mut service, endpoints) = made("web", &["10.0.0.1"]);
    service["metadata"]["labels"][MARK] = json!("gimbal-writer");
    let mut alone = found(&service, &endpoints, &["10.0.0.1"]);
    alone.services.clear();
    let then = verdicts(&alone, &offers(offer()));
    assert_eq!(then, [("Endpoints", Verdict::Leave("it has no Service with the labels of this backend".to_owned()))]);
    let mut others = endpoints.clone();
    others["metadata"]["labels"][MARK] = json!("someone");
    for endpoints in [others, with(&endpoints, "/metadata/deletionTimestamp", json!("now"))] {
        let then = verdicts(&found(&service, &endpoints, &["10.0.0.1"]), &offers(offer()));
        assert!(matches!(then.as_slice(), [("Endpoints", Verdict::Leave(_))]), "{then:?}");
    }
}

fn marked(service: &Value) -> Value {
    let mut service = service.clone();
    service["metadata"]["labels"][MARK] = json!("gimbal-writer");
    service
}

const DROPPING: Consent = Consent { drop_gone: true, change_app_protocol: false };

/// Only what is known to be published as the source has it shows that an endpoint is gone there.
#[test]
fn endpoints_that_the_source_no_longer_has_go_only_by_order() {
    let (service, endpoints) = made("web", &["10.0.0.1", "10.0.0.2"]);
    let found = found(&marked(&service), &endpoints, &["10.0.0.1"]);
    let synced = AdoptionOffer { synced: true, ..offer() };
    for (offer, consent, takes) in [
        (offer(), Consent::default(), false),
        (offer(), DROPPING, false),
        (synced.clone(), Consent::default(), false),
        (synced, DROPPING, true),
    ] {
        let then = decide(&found, &offers(offer.clone()), consent);
        match &then[0].verdict {
            Verdict::Take(taking) => {
                assert!(takes, "{offer:?} {consent:?}");
                let goes = "10.0.0.2 80/TCP (http) goes: it is in no slice of the writer";
                assert_eq!(taking.changes.iter().collect::<Vec<_>>(), [goes]);
            }
            Verdict::Wait(why) => {
                assert!(!takes && why.contains("--drop-gone") == offer.synced, "{why}");
            }
            Verdict::Leave(why) => panic!("{why}"),
        }
    }
}

/// Else what an agent knew before it was killed would decide which endpoints end.
#[test]
fn endpoints_wait_while_the_writer_does_not_know_the_source() {
    let (service, endpoints) = made("web", &["10.0.0.1", "10.0.0.2"]);
    let unknown = Some("no agent".to_owned());
    let blind = AdoptionOffer { synced: true, unknown, ..offer() };
    for published in [&["10.0.0.1"][..], &["10.0.0.1", "10.0.0.2"]] {
        let found = found(&marked(&service), &endpoints, published);
        for (consent, offer, expected) in [
            (Consent::default(), &blind, "the writer does not know the source now: no agent"),
            (DROPPING, &blind, "the writer does not know the source now: no agent"),
            (DROPPING, &AdoptionOffer { unknown: None, ..blind.clone() }, ""),
        ] {
            let then = decide(&found, &offers(offer.clone()), consent);
            match &then[0].verdict {
                Verdict::Wait(why) => assert_eq!(why, expected),
                other => assert!(matches!(other, Verdict::Take(_)) && expected.is_empty(), "{other:?}"),
            }
        }
        let then = decide(&found, &AdoptionOffers::new(), DROPPING);
        assert!(matches!(then[0].verdict, Verdict::Wait(_)), "{then:?}");
    }
}

#[test]
fn each_way_in_which_endpoints_are_lacking_is_told() {
    let (service, endpoints) = made("web", &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    let mut found = found(&marked(&service), &endpoints, &["10.0.0.1"]);
    for (address, name, ready) in [("10.0.0.2", "http", false), ("10.0.0.3", "web", true)] {
        let endpoint = json!({"addresses": [address], "conditions": {"ready": ready}});
        let slice = json!({"endpoints": [endpoint], "ports": [{"name": name, "port": 80}]});
        found.published.entry(web()).or_default().add(&serde_json::from_value(slice).unwrap());
    }
    let then = verdicts(&found, &offers(offer()));
    let why = "1 of its 4 ready endpoints are in no slice of the writer, as 10.0.0.4 80/TCP (http); \
        1 of its 4 ready endpoints are not ready in the slices of the writer, as 10.0.0.2 80/TCP (http); \
        1 of its 4 ready endpoints are on a port of another name in the slices of the writer, as 10.0.0.3 80/TCP (http)";
    assert_eq!(then, [("Endpoints", Verdict::Wait(why.to_owned()))]);
}

/// In Contour, any `appProtocol` switches off the annotations that the original copied.
#[test]
fn another_protocol_of_a_port_needs_consent() {
    let (service, endpoints) = made("web", &[]);
    let grpc = AdoptionOffer { ports: ports(&json!([{"name": "http", "port": 80, "appProtocol": "grpc"}])), ..offer() };
    let renamed = AdoptionOffer { ports: ports(&json!([{"name": "web", "port": 80}])), ..offer() };
    let agreed = Consent { change_app_protocol: true, ..Consent::default() };
    let gets = "port 80/TCP gets appProtocol grpc";
    for (offer, consent, change, takes) in [
        (&grpc, Consent::default(), gets, false),
        (&grpc, DROPPING, gets, false),
        (&grpc, agreed, gets, true),
        (&renamed, Consent::default(), "port 80/TCP is called \"web\", not \"http\"", true),
    ] {
        let then = decide(&found(&service, &endpoints, &[]), &offers(offer.clone()), consent);
        match &then[0].verdict {
            Verdict::Take(taking) => {
                assert!(takes, "{taking:?}");
                assert_eq!(taking.changes.iter().collect::<Vec<_>>(), [change]);
            }
            Verdict::Leave(why) => assert!(!takes && why.starts_with(change), "{why}"),
            Verdict::Wait(why) => panic!("{why}"),
        }
    }
}

#[test]
fn of_several_source_services_that_lead_to_a_name_it_is_that_of_its_namespace() {
    let (service, endpoints) = made("web", &[]);
    let of = |namespace: &str| AdoptionOffer { namespace: namespace.to_owned(), ..offer() };
    let all = |namespaces: &[&str]| [(web(), namespaces.iter().map(|one| of(one)).collect())].into();
    let found = found(&service, &endpoints, &[]);
    assert_eq!(verdicts(&found, &all(&["a", "team1"]))[0], ("Service", take()));
    let then = verdicts(&found, &all(&["a", "b"]));
    assert_eq!(then[0], ("Service", Verdict::Leave("a/web, b/web all lead to this name".to_owned())));
}
