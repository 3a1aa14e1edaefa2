use serde_json::{Value, json};

use super::*;
use crate::adopt::ready::in_slice;

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
    FoundObjects {
        services: vec![serde_json::from_value(service.clone()).unwrap()],
        endpoints: vec![serde_json::from_value(endpoints.clone()).unwrap()],
        published: [(web(), in_slice(&serde_json::from_value(slice).unwrap()))].into(),
    }
}

fn web() -> ObjectPlace {
    ("team1".to_owned(), "node02-web".to_owned())
}

fn offers(offer: AdoptionOffer) -> AdoptionOffers {
    [(web(), vec![offer])].into()
}

fn offer() -> AdoptionOffer {
    AdoptionOffer { name: "web".to_owned(), refused: None, synced: false }
}

/// Returns the verdicts about the Service and about the Endpoints.
fn verdicts(found: &FoundObjects, offers: &AdoptionOffers) -> Vec<(&'static str, Verdict)> {
    decide(found, offers, false).into_iter().map(|one| (one.kind.kind, one.verdict)).collect()
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
    assert_eq!(first, [("Service", Verdict::Take), waits("its Service is first")]);
    // Even with all slices, the Service is first: without one of its own the writer does not repair them.
    let first = verdicts(&found(&service, &endpoints, &["10.0.0.1", "10.0.0.2"]), &offers(offer()));
    assert_eq!(first, [("Service", Verdict::Take), waits("its Service is first")]);

    let mut service = service;
    service["metadata"]["labels"][MARK] = json!("gimbal-writer");
    for (published, lacking) in [(&[][..], "2"), (&["10.0.0.1"][..], "1"), (&["10.0.0.1", "10.0.0.3"][..], "1")] {
        let then = verdicts(&found(&service, &endpoints, published), &offers(offer()));
        let [("Endpoints", Verdict::Wait(why))] = then.as_slice() else { panic!("{published:?}: {then:?}") };
        assert!(why.starts_with(&format!("{lacking} of its 2 ready endpoints are in no slice")), "{why}");
    }
    let then = verdicts(&found(&service, &endpoints, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]), &offers(offer()));
    assert_eq!(then, [("Endpoints", Verdict::Take)]);
    let mut endpoints = endpoints;
    endpoints["metadata"]["labels"][MARK] = json!("gimbal-writer");
    assert_eq!(verdicts(&found(&service, &endpoints, &[]), &offers(offer())), [], "what is the writer's is not named");
}

#[test]
fn labels_of_every_version_of_the_original_are_known() {
    let (service, endpoints) = made("web", &[]);
    let old = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["labels"] =
            json!({"gimbal.heptio.com/backend": "node02", "gimbal.heptio.com/service": "web"});
        object
    };
    let then = verdicts(&found(&old(&service), &old(&endpoints), &[]), &offers(offer()));
    assert_eq!(then[0], ("Service", Verdict::Take));
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

/// Only what is known to be published as the source has it shows that an endpoint is gone there.
#[test]
fn endpoints_that_the_source_no_longer_has_go_only_by_order() {
    let (mut service, endpoints) = made("web", &["10.0.0.1", "10.0.0.2"]);
    service["metadata"]["labels"][MARK] = json!("gimbal-writer");
    let found = found(&service, &endpoints, &["10.0.0.1"]);
    let synced = AdoptionOffer { synced: true, ..offer() };
    for (offer, drop_gone, takes) in
        [(offer(), false, false), (offer(), true, false), (synced.clone(), false, false), (synced, true, true)]
    {
        let then = decide(&found, &offers(offer.clone()), drop_gone);
        assert_eq!(then[0].verdict == Verdict::Take, takes, "{offer:?} {drop_gone}: {then:?}");
        if let Verdict::Wait(why) = &then[0].verdict {
            assert_eq!(why.contains("--drop-gone"), offer.synced, "{why}");
        }
    }
}
