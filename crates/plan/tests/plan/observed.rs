//! What is known of the Gimbal cluster, whichever way answers and events cross.

use gimbal_model::SourceKey;
use gimbal_objects::{EndpointSlice, Endpoints, Meta, Service, keys};
use gimbal_plan::{EndpointsApi, Observed};

use crate::server::observe;
use crate::world::{converged, map, v4, v6, web};

fn meta(name: &str, uid: &str, version: &str) -> Meta {
    Meta { name: name.into(), uid: uid.into(), resource_version: version.into(), ..Meta::default() }
}

fn slice(uid: &str, version: &str) -> EndpointSlice {
    EndpointSlice { metadata: meta("s", uid, version), address_type: "IPv4".into(), ..EndpointSlice::default() }
}

fn versions(observed: &Observed) -> Vec<(String, String)> {
    observed.held().map(|held| (held.uid.to_string(), held.resource_version.to_string())).collect()
}

fn holds(observed: &Observed, uid: &str, version: &str) -> bool {
    versions(observed) == [(uid.to_string(), version.to_string())]
}

#[test]
fn the_newer_version_stays() {
    let mut observed = Observed::default();
    assert!(observed.set_slice(&slice("a", "9")));
    assert!(observed.set_slice(&slice("a", "10")), "numbers, not texts");
    assert!(!observed.set_slice(&slice("a", "9")));
    assert!(holds(&observed, "a", "10"));
    assert!(observed.set_slice(&slice("a", "10")));
    assert!(observed.set_slice(&slice("a", "no number")));
    assert!(observed.set_slice(&slice("a", "1")), "nothing is known of the order");
    assert!(holds(&observed, "a", "1"));
}

#[test]
fn deletes_and_sets_may_cross() {
    let mut observed = Observed::default();
    observed.set_slice(&slice("a", "5"));
    // Our delete names the version that it replaced; the event follows with a later one.
    assert!(observed.remove_slice("s", "a", "5"));
    assert!(observed.is_empty());
    assert!(!observed.set_slice(&slice("a", "5")), "an event from before the delete");
    assert!(observed.set_slice(&slice("a", "6")), "a finalizer keeps it");
    assert!(observed.remove_slice("s", "a", "7"));
    // Another one of that name: created by us, whose answer comes before the old one's delete event.
    assert!(observed.set_slice(&slice("b", "8")));
    assert!(!observed.remove_slice("s", "a", "7"));
    assert!(holds(&observed, "b", "8"));
    // The answer to a write that was made before someone deleted it.
    assert!(observed.remove_slice("s", "b", "12"));
    assert!(!observed.set_slice(&slice("b", "9")));
    assert!(observed.is_empty());
    // One that went and came and went unseen.
    assert!(observed.set_slice(&slice("c", "13")));
    assert!(observed.remove_slice("s", "d", "20"));
    assert!(observed.is_empty());
}

#[test]
fn kinds_do_not_mix() {
    let mut observed = Observed::default();
    assert!(observed.remove_service("a", "100"));
    assert!(!observed.set_service(&Service { metadata: meta("s", "a", "99"), ..Service::default() }));
    assert!(observed.set_slice(&slice("a", "5")));
    assert!(observed.set_endpoints(&Endpoints { metadata: meta("s", "a", "5"), ..Endpoints::default() }));
    assert!(observed.remove_endpoints("a", "6"));
    assert!(holds(&observed, "a", "5"));
}

/// However many objects come and go, few are remembered; the latest are.
#[test]
fn few_graves() {
    let mut observed = Observed::default();
    for n in 1..1000 {
        observed.remove_slice(&format!("s{n}"), "a", &n.to_string());
    }
    let named =
        |name: &str, version: &str| EndpointSlice { metadata: meta(name, "a", version), ..EndpointSlice::default() };
    assert!(!observed.set_slice(&named("s999", "999")));
    assert!(observed.set_slice(&named("s1", "1")));
}

#[test]
fn owner_by_service_else_slice_else_endpoints() {
    let server = converged(&web([v4(1)]), EndpointsApi::Both);
    let mut observed = server.observe();
    let owner = ("node02".into(), SourceKey::new("team-a", "web"));
    assert_eq!(observed.owner(), Some(&owner));
    let held: Vec<_> = observed.held().map(|held| (held.uid.to_string(), held.name.map(ToString::to_string))).collect();
    observed.remove_service(&held[0].0, "100");
    assert_eq!(observed.owner(), Some(&owner));
    observed.remove_slice(held[1].1.as_deref().unwrap(), &held[1].0, "100");
    assert_eq!(observed.owner(), Some(&owner));
    observed.remove_endpoints(&held[2].0, "100");
    assert_eq!(observed.owner(), None);
    assert!(observed.is_empty());
}

#[test]
fn no_owner_without_label_or_annotation() {
    for (labels, annotations) in [
        (map(&[]), map(&[(keys::SOURCE, "a/b")])),
        (map(&[(keys::BACKEND, "x")]), map(&[])),
        (map(&[(keys::BACKEND, "x")]), map(&[(keys::SOURCE, "nonsense")])),
    ] {
        let mut observed = Observed::default();
        let metadata = Meta { labels, annotations, ..meta("s", "a", "1") };
        observed.set_service(&Service { metadata, ..Service::default() });
        assert_eq!(observed.owner(), None);
    }
}

#[test]
fn endpoints_are_counted_once() {
    let server = converged(&web((0..150).map(v4).chain((0..7).map(v6))), EndpointsApi::Both);
    let mut observed = server.observe();
    assert_eq!(observed.endpoint_count(), 157);
    let mut twice = server.slices().next().unwrap().clone();
    twice.metadata.name = "copy".into();
    observed.set_slice(&twice);
    assert_eq!(observed.endpoint_count(), 157);
    for slice in server.slices() {
        observed.remove_slice(&slice.metadata.name, &slice.metadata.uid, "100");
    }
    assert!(observed.remove_slice("copy", &twice.metadata.uid, "100"));
    assert_eq!(observed.endpoint_count(), 157, "the Endpoints object has them all");
}

/// The order in which objects come makes no difference.
#[test]
fn events_in_any_order() {
    let server = converged(&web((0..250).map(v4)), EndpointsApi::Both);
    let mut backwards = Observed::default();
    for body in server.objects.values().rev() {
        assert!(observe(&mut backwards, body));
    }
    assert_eq!(versions(&backwards), versions(&server.observe()));
}
