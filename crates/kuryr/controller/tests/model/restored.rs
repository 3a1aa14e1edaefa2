//! A store that was restored to an older state and whose versions keep growing.

use gimbal_kuryr_resource::ClusterKnowledge;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::common::{get, served};
use crate::went_back::deleting;
use crate::world::{World, service};

const ORDERS: [[Kind; 3]; 3] = [
    [Kind::Service, Kind::Slice, Kind::Balancer],
    [Kind::Balancer, Kind::Slice, Kind::Service],
    [Kind::Slice, Kind::Balancer, Kind::Service],
];

/// Kinds are listed in this order, with everything that follows from each list before the next one.
fn list_in(world: &mut World, order: [Kind; 3]) {
    for kind in order {
        world.watch(kind);
        while world.plan() {
            while world.answer(0, 0) {}
            world.drain();
        }
    }
    world.rest();
}

#[test]
fn what_vanishes_without_us_was_not_deleted() {
    for order in ORDERS {
        let mut world = World::new(true);
        world.api.back_up();
        for name in ["a", "b"] {
            world.api.create(Kind::Service, name, service("LoadBalancer", 80));
        }
        world.rest();
        world.go_back_unnoticed();
        list_in(&mut world, order);
        assert!(!deleting(&world), "{order:?}: {:?}", world.heard);
        assert!(world.offered.is_empty());
        assert_eq!(world.writer.made.len(), 2, "they are left to the search for orphans");
        assert_eq!(
            (get(&world, Kind::Balancer), world.controller.knowledge()),
            (Value::Null, ClusterKnowledge::Complete)
        );
    }
}

#[test]
fn one_of_the_same_name_that_is_back_is_served_and_takes_nothing_away() {
    for order in ORDERS {
        let mut world = served();
        world.api.back_up();
        world.api.delete(Kind::Service, "a");
        world.rest();
        world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
        world.rest();
        world.heard.clear();
        world.go_back_unnoticed();
        list_in(&mut world, order);
        assert!(!deleting(&world), "{order:?}: {:?}", world.heard);
        world.check();
        assert!(world.offered.values().all(|entry| &**entry.owner() == "Service-2"), "{:?}", world.offered);
    }
}

#[test]
fn a_load_balancer_of_its_own_that_vanishes_was_not_deleted() {
    let mut world = World::new(true);
    world.api.back_up();
    let spec = json!({
        "ip": "10.96.0.77", "project_id": "project", "subnet_id": "services", "type": "ClusterIP",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
    });
    world.api.create(Kind::Balancer, "a", json!({ "spec": spec }));
    world.rest();
    world.go_back_unnoticed();
    world.rest();
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!(world.heard.last().map(String::as_str), Some("a gone"));
}

#[test]
fn a_deletion_that_only_a_list_shows_is_a_deletion() {
    let mut world = served();
    world.works = false;
    world.api.delete(Kind::Service, "a");
    world.list(Kind::Service);
    world.rest();
    assert!(deleting(&world));
    // It was going when it was seen last: whoever let it go, the writer still hears of it.
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.forced.insert("Service-2".into());
    world.list(Kind::Service);
    world.works = true;
    world.rest();
    assert!(world.writer.made.is_empty());
}
