//! What is remembered of objects, and for how long.

use std::time::Duration;

use gimbal_kubernetes_objects::Node;
use gimbal_kuryr_model::{CloudFacts, DesiredKey, DesiredKind, MemberMode, Phase, ReportedObjects};
use gimbal_kuryr_resource::Sighting;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::common::{get, served};
use crate::world::{World, facts, service, slice};
use crate::writer::report;

/// Whether the controller keeps anything of the objects of this name.
fn keeps(world: &World, name: &str) -> bool {
    format!("{:?}", world.controller).contains(name)
}

#[test]
fn two_refusals_of_one_object_wait_both() {
    let mut world = served();
    world.patience = Duration::from_secs(20);
    world.api.refuses = Some((Kind::Balancer, "a".into()));
    world.api.edit(Kind::Balancer, "a", |it| drop(it.as_object_mut().unwrap().remove("status")));
    let more = slice("a", 3);
    world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = more["endpoints"].clone());
    world.rest();
    assert_eq!(world.notices.len(), 2, "{:?}", world.notices);
    world.api.refuses = None;
    world.pass(Duration::from_secs(60));
    world.rest();
    world.check();
    assert_eq!(world.controller.counts().failing, 0);
}

#[test]
fn a_refusal_is_forgotten_with_the_objects() {
    let mut world = World::new(true);
    world.patience = Duration::from_secs(20);
    world.api.refuses = Some((Kind::Balancer, "a-refused-one".into()));
    world.api.create(Kind::Service, "a-refused-one", service("LoadBalancer", 80));
    world.rest();
    world.api.delete(Kind::Service, "a-refused-one");
    world.rest();
    assert_eq!(world.api.get(Kind::Service, "a-refused-one"), None);
    assert!(!keeps(&world, "a-refused-one"), "{:?}", world.controller);
}

#[test]
fn a_standby_keeps_only_what_exists() {
    let mut world = served();
    world.lead(false);
    for name in ["a-passing-one", "another-passing-one"] {
        world.api.create(Kind::Slice, name, slice(name, 2));
        world.api.create(Kind::Service, name, service("LoadBalancer", 80));
        world.api.create(Kind::Balancer, name, json!({"spec": {}}));
        for kind in [Kind::Balancer, Kind::Service, Kind::Slice] {
            while world.watch(kind) {}
            world.api.delete(kind, name);
            while world.watch(kind) {}
        }
        world.controller.drain(world.now);
        assert!(!keeps(&world, name), "{:?}", world.controller);
    }
    world.lead(true);
    world.rest();
    world.check();
}

#[test]
fn nodes_of_before_count_no_more() {
    let mut world = World::new(true);
    let by_node = CloudFacts { members: MemberMode::Node, ..facts() };
    world.controller.set_facts(&by_node);
    world.controller.saw::<Node>(Sighting::ListBegan);
    world.controller.saw::<Node>(Sighting::ListDone);
    world.controller.set_facts(&facts());
    world.controller.set_facts(&by_node);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    assert_eq!(get(&world, Kind::Balancer), Value::Null);
    world.controller.saw::<Node>(Sighting::ListBegan);
    world.controller.saw::<Node>(Sighting::ListDone);
    world.rest();
    assert_ne!(get(&world, Kind::Balancer), Value::Null);
}

#[test]
fn the_time_until_a_change_is_there_is_measured_once() {
    let mut world = World::new(true);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.works = false;
    world.patience = Duration::ZERO;
    world.rest();
    // A second change does not begin anew.
    world.pass(Duration::from_secs(2));
    world.api.create(Kind::Slice, "a", slice("a", 1));
    world.rest();
    world.pass(Duration::from_secs(3));
    world.works = true;
    world.rest();
    let times = world.controller.drain_times();
    assert_eq!(times.iter().map(Duration::as_secs).collect::<Vec<_>>(), [5]);
    world.restart(&crate::common::ORDER);
    world.rest();
    assert!(world.controller.drain_times().is_empty(), "it is there already");
    // Of a refusal nothing counts.
    world.works = false;
    world.api.create(Kind::Slice, "b", slice("a", 2));
    world.rest();
    let key = world.offered.keys().next().unwrap().clone();
    world.controller.rejected(&key, "Quota", "no");
    world.pass(Duration::from_secs(30));
    world.controller.resolved(&key, world.now);
    world.pass(Duration::from_secs(4));
    world.works = true;
    world.rest();
    assert_eq!(world.controller.drain_times().iter().map(Duration::as_secs).collect::<Vec<_>>(), [4]);
    world.api.delete(Kind::Service, "a");
    world.rest();
    assert!(world.controller.drain_times().is_empty());
}

#[test]
fn a_load_balancer_that_gets_stuck_counts_once() {
    let mut world = served();
    let key = world.offered.keys().next().unwrap().clone();
    let degraded = report(&"Service-2".into(), 1, Phase::Degraded, ReportedObjects::default());
    world.deliver(&key, &degraded, 101);
    world.deliver(&key, &degraded, 102);
    assert_eq!(world.controller.drain_stuck(), 1);
    assert_eq!(world.controller.report(&key).as_deref(), Some(&degraded));
}

#[test]
fn trouble_ends_where_nothing_is_left_to_write() {
    // Every write is carried out, and its answer is lost.
    let mut world = served();
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("ovn"));
    world.watch(Kind::Balancer);
    assert!(world.plan() && world.answer(0, 7));
    assert_eq!(world.controller.counts().failing, 1);
    world.rest();
    assert_eq!(world.controller.counts().failing, 0, "{:?}", world.explain("a"));
    // Somebody else does what was refused.
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("ovn"));
    world.watch(Kind::Balancer);
    assert!(world.plan() && world.answer(0, 9));
    assert_eq!(world.controller.counts().failing, 1);
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("amphora"));
    world.watch(Kind::Balancer);
    world.rest();
    world.check();
    assert_eq!(world.controller.counts().failing, 0, "{:?}", world.explain("a"));
}

#[test]
fn who_does_not_lead_has_no_trouble() {
    for fate in [9, 11] {
        let mut world = served();
        world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("ovn"));
        world.watch(Kind::Balancer);
        assert!(world.plan() && world.answer(0, fate));
        assert_eq!(world.controller.counts().failing, 1);
        world.lead(false);
        assert_eq!(world.controller.counts().failing, 0);
    }
}

#[test]
fn a_refusal_of_what_is_not_offered_is_kept_no_longer_than_the_stream() {
    let ends: [fn(&mut World, &DesiredKey); 3] = [
        |world, key| world.controller.resolved(key, world.now),
        |world, _| world.break_stream(),
        |world, _| world.lead(false),
    ];
    for end in ends {
        let mut world = served();
        let key = DesiredKey::new(DesiredKind::LoadBalancer, "team", "elsewhere");
        world.controller.rejected(&key, "Quota", "no");
        world.rest();
        assert!(keeps(&world, "elsewhere"));
        end(&mut world, &key);
        world.rest();
        assert!(!keeps(&world, "elsewhere"));
    }
}

#[test]
fn names_that_come_and_go_are_forgotten_while_there_is_no_definition() {
    let mut world = World::new(true);
    world.restart(&[Kind::Service, Kind::Slice]);
    world.unreadable(Kind::Balancer);
    for n in 0..20 {
        let name = format!("a-passing-one-{n}");
        world.api.create(Kind::Slice, &name, slice(&name, 2));
        world.api.create(Kind::Service, &name, service("LoadBalancer", 80));
        while world.watch(Kind::Service) || world.watch(Kind::Slice) {}
        world.api.delete(Kind::Service, &name);
        world.api.delete(Kind::Slice, &name);
        while world.watch(Kind::Service) || world.watch(Kind::Slice) {}
        world.plan();
        world.drain();
    }
    assert!(!keeps(&world, "a-passing-one"), "{:?}", world.controller);
    // What is there when it comes is served.
    world.api.create(Kind::Slice, "a", slice("a", 2));
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    while world.watch(Kind::Service) || world.watch(Kind::Slice) {}
    world.plan();
    world.list(Kind::Balancer);
    world.rest();
    world.check();
}

#[test]
fn labels_of_nodes_matter_to_who_selects_by_them() {
    let node = |label: &str| {
        let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
        let node = json!({"metadata": {"name": "n", "labels": {"l": label}}, "status": {"addresses": addresses}});
        Sighting::Set(serde_json::from_value::<Node>(node).unwrap())
    };
    let mut world = World::new(true);
    world.controller.set_facts(&CloudFacts { members: MemberMode::Node, ..facts() });
    world.controller.saw::<Node>(Sighting::ListBegan);
    world.controller.saw(node("one"));
    world.controller.saw::<Node>(Sighting::ListDone);
    let mut selecting = service("LoadBalancer", 80);
    selecting["metadata"] = json!({"annotations": {"loadbalancer.openstack.org/node-selector": "l=one"}});
    selecting["spec"]["ports"][0]["nodePort"] = json!(30080);
    world.api.create(Kind::Service, "selecting", selecting);
    world.api.create(Kind::Service, "other", service("LoadBalancer", 80));
    world.rest();
    world.controller.saw(node("two"));
    let shown = format!("{:?}", world.controller);
    let dirty = shown.split("leads: true, dirty: ").nth(1).and_then(|rest| rest.split(", fresh").next()).unwrap();
    assert!(dirty.contains("selecting") && !dirty.contains("other"), "{dirty}");
    world.rest();
    let spec = &world.api.get(Kind::Balancer, "selecting").unwrap()["spec"];
    assert_eq!(spec["endpointSlices"][0]["endpoints"].as_array().map_or(0, Vec::len), 0);
}
