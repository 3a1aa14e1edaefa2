//! Services and slices find each other, and lists are sets.

use crate::common::{addresses, at, key, list_nothing, listed, only, service, slice, slice_from};
use gimbal_kubernetes_source::{Flavour, KubernetesIndex, Selection};
use serde_json::json;

#[test]
fn nothing_is_drained_before_both_kinds_are_listed() {
    let mut index = KubernetesIndex::new(Selection::default());
    index.begin_services();
    index.apply_service(service("a", "web"));
    index.end_services();
    index.begin_slices();
    assert!(!index.is_complete());
    assert!(index.drain().is_empty(), "a Service whose slices are not listed must not appear as empty");
    index.apply_slice(slice("a", "web-1", "web", json!([at("10.0.0.1")])));
    index.end_slices();
    assert!(index.is_complete());
    assert_eq!(addresses(&only(&mut index).unwrap()), ["10.0.0.1 rs"]);
}

#[test]
fn slices_before_their_service() {
    let mut index = listed(Flavour::Slices);
    index.apply_slice(slice("a", "web-1", "web", json!([at("10.0.0.1")])));
    assert!(only(&mut index).is_none());
    index.apply_service(service("a", "web"));
    assert_eq!(addresses(&only(&mut index).unwrap()), ["10.0.0.1 rs"]);
    index.delete_service("a", "web");
    assert!(only(&mut index).is_none());
}

#[test]
fn a_name_in_another_namespace_is_another_service() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    index.drain();
    index.apply_slice(slice("b", "web-1", "web", json!([at("10.0.0.1")])));
    assert_eq!(index.drain(), [(key("b/web"), None)]);
}

#[test]
fn a_slice_that_changes_its_service_leaves_the_old_one() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "old"));
    index.apply_service(service("a", "new"));
    index.apply_slice(slice("a", "s", "old", json!([at("10.0.0.1")])));
    index.drain();
    index.apply_slice(slice("a", "s", "new", json!([at("10.0.0.1")])));
    let drained = index.drain();
    let counts: Vec<_> =
        drained.iter().map(|(key, service)| (key.to_string(), service.as_ref().unwrap().endpoint_count())).collect();
    assert_eq!(counts, [("a/new".to_string(), 1), ("a/old".to_string(), 0)]);
    // Without the label it belongs to no Service.
    let mut orphan = slice("a", "s", "new", json!([at("10.0.0.1")]));
    orphan.metadata.labels.clear();
    index.apply_slice(orphan);
    assert_eq!(only(&mut index).unwrap().endpoint_count(), 0);
}

#[test]
fn what_does_not_change_is_not_touched() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    index.apply_slice(slice("a", "s", "web", json!([at("10.0.0.1")])));
    index.drain();
    index.apply_service(service("a", "web"));
    index.apply_slice(slice("a", "s", "web", json!([at("10.0.0.1")])));
    index.delete_slice("a", "other");
    index.delete_service("a", "other");
    assert!(index.drain().is_empty());
}

#[test]
fn a_service_being_deleted_counts_until_it_is_gone() {
    let mut index = listed(Flavour::Slices);
    let mut web = service("a", "web");
    web.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    index.apply_service(web);
    assert!(only(&mut index).is_some());
}

#[test]
fn services_without_ports_or_endpoints_are_offered() {
    let mut index = listed(Flavour::Slices);
    let mut headless = service("a", "headless");
    headless.spec.ports.clear();
    headless.spec.cluster_ip = Some("None".into());
    index.apply_service(headless);
    let offered = only(&mut index).unwrap();
    assert!(offered.groups().is_empty() && offered.header.ports.is_empty());
}

#[test]
fn a_relist_removes_at_its_end_and_only_then() {
    let mut index = listed(Flavour::Slices);
    for name in ["kept", "gone"] {
        index.apply_service(service("a", name));
        index.apply_slice(slice("a", &format!("{name}-1"), name, json!([at("10.0.0.1")])));
    }
    index.drain();
    index.begin_services();
    index.apply_service(service("a", "kept"));
    // A list that breaks off proves nothing.
    index.begin_services();
    assert!(index.drain().is_empty());
    index.apply_service(service("a", "kept"));
    assert!(index.drain().is_empty());
    index.end_services();
    assert_eq!(index.drain(), [(key("a/gone"), None)]);

    index.begin_slices();
    assert!(index.drain().is_empty());
    index.end_slices();
    let drained = index.drain();
    assert_eq!(drained.len(), 2);
    assert_eq!(drained[1].0, key("a/kept"));
    assert_eq!(drained[1].1.as_ref().unwrap().endpoint_count(), 0);
    list_nothing(&mut index);
    assert_eq!(index.drain(), [(key("a/kept"), None)]);
}

#[test]
fn while_slices_are_not_heard_of_a_new_service_waits_and_an_old_one_stays() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "old"));
    index.drain();
    index.set_slices_current(false);
    index.apply_service(service("a", "new"));
    let mut changed = service("a", "old");
    changed.metadata.labels.insert("x".into(), "y".into());
    index.apply_service(changed);
    let drained = index.drain();
    assert_eq!(drained.len(), 1);
    assert_eq!(drained[0].0, key("a/old"));
    index.set_slices_current(true);
    assert!(only(&mut index).is_some());
}

#[test]
fn the_better_of_two_for_one_identity_counts_in_any_order() {
    let ready = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]);
    let serving =
        json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": true, "terminating": true}}]);
    let waiting = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]);
    let leaving = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false, "terminating": true}}]);
    for (worse, better, expected) in [
        (&serving, &ready, "10.0.0.1 rs"),
        (&waiting, &ready, "10.0.0.1 rs"),
        (&serving, &waiting, "10.0.0.1 "),
        (&leaving, &serving, "10.0.0.1 st"),
    ] {
        for (first, second) in [(worse, better), (better, worse)] {
            let mut index = listed(Flavour::Slices);
            index.apply_service(service("a", "web"));
            index.apply_slice(slice("a", "s1", "web", first.clone()));
            index.apply_slice(slice("a", "s2", "web", second.clone()));
            assert_eq!(addresses(&only(&mut index).unwrap()), [expected]);
        }
    }
}

#[test]
fn equal_port_sets_and_details_are_shared() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    let zoned = |address: &str| json!([{"addresses": [address], "zone": "z1"}]);
    index.apply_slice(slice("a", "s1", "web", zoned("10.0.0.1")));
    index.apply_slice(slice("a", "s2", "web", zoned("10.0.0.2")));
    let web = only(&mut index).unwrap();
    let details: Vec<_> = web.endpoints().map(|(_, endpoint)| endpoint.detail.unwrap()).collect();
    assert!(std::sync::Arc::ptr_eq(&details[0], &details[1]));
    assert_eq!(web.groups().len(), 1);
}

#[test]
fn dual_stack_in_two_slices() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    index.apply_slice(slice("a", "s4", "web", json!([at("10.0.0.1")])));
    index.apply_slice(slice_from(json!({
        "metadata": {"namespace": "a", "name": "s6", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv6",
        "ports": [{"name": "", "port": 8080}],
        "endpoints": [at("fd00::1"), at("10.0.0.2")],
    })));
    assert_eq!(addresses(&only(&mut index).unwrap()), ["10.0.0.1 rs", "fd00::1 rs"]);
}
