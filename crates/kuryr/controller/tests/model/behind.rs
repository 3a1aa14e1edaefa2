//! Watches that are behind, and reports that are out of date.

use gimbal_kuryr_model::Phase;
use serde_json::{Value, json};

use crate::api::{self, BALANCER_FINALIZER, Kind, SERVICE_FINALIZER};
use crate::common::{ORDER, conditions, get, served};
use crate::world::{World, service, slice};

#[test]
fn a_stale_goodbye_removes_no_finalizer() {
    let mut world = served();
    world.works = false;
    let key = world.offered.keys().next().unwrap().clone();
    let gone = |owner: &str| gimbal_kuryr_model::LoadBalancerReport {
        owner: owner.into(),
        generation: 1,
        phase: Phase::Gone,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: Default::default(),
        last_error: None,
        missing: None,
    };
    // About an owner that stays, about another one, and before the deletion was offered.
    world.deliver(&key, &gone("Service-2"), 101);
    world.deliver(&key, &gone("Service-1"), 102);
    world.api.delete(Kind::Service, "a");
    world.watch(Kind::Service);
    world.deliver(&key, &gone("Service-2"), 103);
    // Everything that can be written before the writer hears of it.
    for _ in 0..4 {
        world.plan();
        while world.answer(0, 0) {}
        while world.watch(Kind::Balancer) || world.watch(Kind::Service) {}
    }
    assert!(api::has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    world.rest();
    assert!(api::has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert!(api::has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    assert!(world.writer.unhandled.is_empty(), "{:?}", world.writer.unhandled);
    world.works = true;
    world.rest();
    assert_eq!(get(&world, Kind::Service), Value::Null);
}

#[test]
fn what_the_watch_has_not_shown_is_not_offered() {
    let mut world = World::new(true);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.watch(Kind::Service);
    for _ in 0..2 {
        assert!(world.plan() && world.answer(0, 0));
    }
    assert!(api::has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    assert!(!world.drain(), "from an answer: {:?}", world.heard);
    world.watch(Kind::Balancer);
    assert!(!world.drain(), "the finalizer of the Service is from an answer: {:?}", world.heard);
    world.watch(Kind::Service);
    assert!(world.drain());
}

#[test]
fn a_service_that_the_watch_has_not_shown_is_not_gone() {
    let mut world = served();
    world.restart_behind();
    world.plan();
    world.drain();
    assert_eq!(world.heard, Vec::<String>::new());
    let said = world.explain("a");
    assert!(said.iter().any(|said| said.contains("is asked")), "{said:?}");
    world.rest();
    world.check();
    assert_eq!((world.heard, world.purposes), (vec!["a Service-2 known=true".to_owned()], vec![]));
}

#[test]
fn a_wiped_status_is_not_filled_in_from_memory() {
    let mut world = served();
    world.works = false;
    world.api.edit(Kind::Balancer, "a", |it| drop(it.as_object_mut().unwrap().remove("status")));
    world.rest();
    assert_eq!(world.heard, ["a Service-2 known=false"]);
    assert_eq!(conditions(&world), ["Ready=False WaitingForWriter", "Synced=False Pending"]);
    assert_eq!(get(&world, Kind::Balancer)["status"]["loadbalancer"], Value::Null);
    world.works = true;
    world.rest();
    world.check();
}

#[test]
fn the_owner_before_goes_first_after_a_restart_too() {
    let mut world = served();
    world.collects = false;
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Service, "a");
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.restart(&ORDER);
    world.rest();
    world.check();
    assert_eq!(world.writer.made.iter().collect::<Vec<_>>(), ["Service-4"]);
    assert!(world.heard.contains(&"a deleting Service-2".to_owned()), "{:?}", world.heard);
}

#[test]
fn a_watch_that_is_behind_undoes_nothing() {
    let mut world = served();
    for pods in [3, 4] {
        let slice = slice("a", pods);
        world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = slice["endpoints"].clone());
        world.watch(Kind::Slice);
        assert!(world.plan() && world.answer(0, 0));
    }
    // The watch shows the first of the two writes.
    world.watch(Kind::Balancer);
    assert!(!world.plan(), "{:?}", world.in_flight);
    assert!(!world.drain(), "{:?}", world.heard);
    world.watch(Kind::Balancer);
    assert!(world.drain());
}

#[test]
fn a_service_that_is_proven_gone_does_not_come_back() {
    let mut world = served();
    world.collects = false;
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Service, "a");
    world.restart_behind();
    // The API server is asked, and says so.
    assert!(world.plan() && world.answer(0, 0));
    // The watch is further behind than that, and shows the Service as it was.
    for _ in 0..5 {
        world.watch(Kind::Service);
        world.plan();
        world.drain();
    }
    assert_eq!(world.heard, ["a deleting Service-2"]);
    world.rest();
    assert_eq!(get(&world, Kind::Balancer), Value::Null);
    assert!(world.writer.made.is_empty());
}

#[test]
fn what_was_to_go_for_a_moment_stays() {
    for carried_out in [false, true] {
        let mut world = served();
        world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("NodePort"));
        world.watch(Kind::Service);
        assert!(world.plan() && world.answer(0, 0), "the question whether that is so");
        assert!(world.plan(), "what follows from the answer");
        while carried_out && world.answer(0, 0) {}
        world.watch(Kind::Balancer);
        world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("LoadBalancer"));
        while world.watch(Kind::Service) {}
        assert!(!world.drain(), "{:?}", world.heard);
        world.rest();
        world.check();
        assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
    }
}
