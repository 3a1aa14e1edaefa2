//! The observed state is right in whatever order answers and events arrive.

use gimbal_kubernetes_objects::{self as objects, EndpointSlice, Endpoints, Meta, Object as _, Service, keys};
use gimbal_model::SourceKey;
use gimbal_plan::{EndpointsApi, Observed, ReportOrder};

use crate::server::observe;
use crate::world::{converged, map, v4, v6, web};

fn meta(name: &str, uid: &str, version: &str) -> Meta {
    Meta { name: name.into(), uid: uid.into(), resource_version: version.into(), ..Meta::default() }
}

fn slice(uid: &str, version: &str) -> EndpointSlice {
    EndpointSlice { metadata: meta("s", uid, version), address_type: "IPv4".into(), ..EndpointSlice::default() }
}

fn versions(observed: &Observed) -> Vec<(String, String)> {
    observed.objects().map(|held| (held.uid.to_string(), held.resource_version.to_string())).collect()
}

fn holds(observed: &Observed, uid: &str, version: &str) -> bool {
    versions(observed) == [(uid.to_string(), version.to_string())]
}

#[test]
fn the_newer_version_stays() {
    let mut observed = Observed::default();
    assert!(observed.set_slice(&slice("a", "9"), ReportOrder::Unordered));
    assert!(observed.set_slice(&slice("a", "10"), ReportOrder::Unordered), "numbers, not texts");
    assert!(!observed.set_slice(&slice("a", "9"), ReportOrder::Unordered));
    assert!(holds(&observed, "a", "10"));
    assert!(!observed.set_slice(&slice("a", "10"), ReportOrder::Unordered), "it is held already");
    assert!(observed.set_slice(&slice("a", "no number"), ReportOrder::Unordered));
    assert!(observed.set_slice(&slice("a", "1"), ReportOrder::Unordered), "nothing is known of the order");
    assert!(holds(&observed, "a", "1"));
}

#[test]
fn deletes_and_sets_may_cross() {
    let mut observed = Observed::default();
    observed.set_slice(&slice("a", "5"), ReportOrder::Unordered);
    // Our delete names the version that it deleted; the event follows with a later one.
    assert!(observed.remove_slice("s", "a", "5"));
    assert!(observed.is_empty());
    assert!(!observed.set_slice(&slice("a", "5"), ReportOrder::Unordered), "an event from before the delete");
    assert!(observed.set_slice(&slice("a", "6"), ReportOrder::Unordered), "a finalizer keeps it");
    assert!(observed.remove_slice("s", "a", "7"));
    // We create an object of the same name, and its answer arrives before the delete event of the old one.
    assert!(observed.set_slice(&slice("b", "8"), ReportOrder::Unordered));
    assert!(!observed.remove_slice("s", "a", "7"));
    assert!(holds(&observed, "b", "8"));
    // The answer to a write that was made before somebody deleted the object.
    assert!(observed.remove_slice("s", "b", "12"));
    assert!(!observed.set_slice(&slice("b", "9"), ReportOrder::Unordered));
    assert!(observed.is_empty());
    // An object that was created and deleted again without being observed.
    assert!(observed.set_slice(&slice("c", "13"), ReportOrder::Unordered));
    assert!(observed.remove_slice("s", "d", "20"));
    assert!(observed.is_empty());
}

/// After the store was restored to an older state, a list overrides what was known before it began.
#[test]
fn a_list_counts_whatever_its_versions() {
    let mut observed = Observed::default();
    observed.set_slice(&slice("a", "90"), ReportOrder::Unordered);
    observed.remove_slice("gone", "b", "80");
    observed.list_begins(EndpointSlice::KIND);
    assert!(observed.set_slice(&slice("a", "20"), ReportOrder::Unordered), "an older version that is stored again");
    assert!(!observed.set_slice(&slice("a", "19"), ReportOrder::Unordered), "among what comes since, versions count");
    let back = EndpointSlice { metadata: meta("gone", "b", "30"), ..slice("", "") };
    assert!(observed.set_slice(&back, ReportOrder::Unordered), "it is there again");
    assert!(!observed.list_ended(EndpointSlice::KIND));

    observed.list_begins(EndpointSlice::KIND);
    assert!(!observed.set_slice(&slice("a", "20"), ReportOrder::Unordered), "as it was");
    assert!(observed.list_ended(EndpointSlice::KIND), "the other one was not listed");
    assert!(holds(&observed, "a", "20"));
    observed.list_begins(Service::KIND);
    assert!(!observed.list_ended(Service::KIND));
    assert!(holds(&observed, "a", "20"), "a list is of one kind");
    observed.list_begins(EndpointSlice::KIND);
    assert!(observed.set_slice(&slice("a", "21"), ReportOrder::Unordered), "the answer to a write");
    assert!(!observed.set_slice(&slice("a", "20"), ReportOrder::Unordered), "the list was made before it");
    assert!(!observed.list_ended(EndpointSlice::KIND));
}

/// The answer to the latest request is newer, whatever its version.
#[test]
fn what_was_asked_last_counts() {
    let mut observed = Observed::default();
    observed.set_slice(&slice("a", "90"), ReportOrder::Unordered);
    assert!(observed.set_slice(&slice("a", "20"), ReportOrder::Latest));
    observed.remove_slice("s", "a", "95");
    assert!(!observed.set_slice(&slice("b", "21"), ReportOrder::Unordered));
    assert!(observed.set_slice(&slice("b", "21"), ReportOrder::Latest));
    assert!(!observed.set_slice(&slice("b", "20"), ReportOrder::Unordered));
    assert!(observed.set_slice(&slice("b", "22"), ReportOrder::Unordered), "the grave is no more");
    assert!(holds(&observed, "b", "22"));
}

#[test]
fn kinds_do_not_mix() {
    let mut observed = Observed::default();
    assert!(observed.remove_service("a", "100"));
    assert!(
        !observed
            .set_service(&Service { metadata: meta("s", "a", "99"), ..Service::default() }, ReportOrder::Unordered)
    );
    assert!(observed.set_slice(&slice("a", "5"), ReportOrder::Unordered));
    assert!(
        observed.set_endpoints(
            &Endpoints { metadata: meta("s", "a", "5"), ..Endpoints::default() },
            ReportOrder::Unordered
        )
    );
    assert!(observed.remove_endpoints("a", "6"));
    assert!(holds(&observed, "a", "5"));
}

/// However many objects come and go, only the latest few deletions are remembered.
#[test]
fn few_graves() {
    let mut observed = Observed::default();
    for n in 1..1000 {
        observed.remove_slice(&format!("s{n}"), "a", &n.to_string());
    }
    let named =
        |name: &str, version: &str| EndpointSlice { metadata: meta(name, "a", version), ..EndpointSlice::default() };
    assert!(!observed.set_slice(&named("s999", "999"), ReportOrder::Unordered));
    assert!(observed.set_slice(&named("s1", "1"), ReportOrder::Unordered));
}

#[test]
fn owner_by_service_else_slice_else_endpoints() {
    let server = converged(&web([v4(1)]), EndpointsApi::Both);
    let mut observed = server.observe();
    let owner = ("node02".into(), SourceKey::new("team-a", "web"));
    assert_eq!(observed.owner(), Some(&owner));
    let held: Vec<_> =
        observed.objects().map(|held| (held.uid.to_string(), held.name.map(ToString::to_string))).collect();
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
        observed.set_service(&Service { metadata, ..Service::default() }, ReportOrder::Unordered);
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
    observed.set_slice(&twice, ReportOrder::Unordered);
    assert_eq!(observed.endpoint_count(), 157);
    for slice in server.slices() {
        observed.remove_slice(&slice.metadata.name, &slice.metadata.uid, "100");
    }
    assert!(observed.remove_slice("copy", &twice.metadata.uid, "100"));
    assert_eq!(observed.endpoint_count(), 157, "the Endpoints object has them all");
}

/// The order in which objects are reported makes no difference.
#[test]
fn events_in_any_order() {
    let server = converged(&web((0..250).map(v4)), EndpointsApi::Both);
    let mut backwards = Observed::default();
    for body in server.objects.values().rev() {
        assert!(observe(&mut backwards, body));
    }
    assert_eq!(versions(&backwards), versions(&server.observe()));
}

#[test]
fn an_address_is_found_in_each_object_that_has_it() {
    let mut observed = Observed::default();
    let endpoint = |address: &str, ready| objects::Endpoint {
        addresses: vec![address.into()],
        conditions: objects::EndpointConditions { ready: Some(ready), ..Default::default() },
        ..Default::default()
    };
    for (name, endpoints) in
        [("a", vec![endpoint("10.0.0.1", true), endpoint("10.0.0.2", true)]), ("b", vec![endpoint("10.0.0.2", false)])]
    {
        let object = EndpointSlice { metadata: meta(name, name, "1"), endpoints, ..slice("", "") };
        assert!(observed.set_slice(&object, ReportOrder::Unordered));
    }
    let subset = |number, ready: &[&str], not_ready: &[&str]| {
        let address = |ip: &&str| objects::EndpointAddress { ip: (*ip).into(), ..Default::default() };
        objects::EndpointSubset {
            addresses: ready.iter().map(address).collect(),
            not_ready_addresses: not_ready.iter().map(address).collect(),
            ports: vec![objects::SubsetPort { port: number, ..Default::default() }],
        }
    };
    let subsets = vec![subset(80, &["10.0.0.2"], &[]), subset(81, &["10.0.0.3"], &["10.0.0.2"])];
    let packed = Endpoints { metadata: meta("web", "c", "1"), subsets };
    assert!(observed.set_endpoints(&packed, ReportOrder::Unordered));

    let found = |address: &str| -> Vec<String> {
        let objects = observed.with_address(address.parse().unwrap(), &"web".into());
        objects.iter().map(|one| format!("{} {} {}", one.kind, one.name, one.conditions.ready)).collect()
    };
    assert_eq!(found("10.0.0.1"), ["EndpointSlice a true"]);
    assert_eq!(found("10.0.0.2"), ["EndpointSlice a true", "EndpointSlice b false", "Endpoints web true"]);
    assert_eq!(found("10.0.0.3"), ["Endpoints web true"]);
    assert!(found("10.0.0.4").is_empty() && found("fd00::1").is_empty());
}
