//! What may exist in OpenStack although nothing is offered of it, and what is named by the wrong object.

use std::time::Duration;

use gimbal_kuryr_controller_core::ClusterKnowledge;
use serde_json::{Value, json};

use crate::api::{BALANCER_FINALIZER, Kind, SERVICE_FINALIZER, has};
use crate::common::{ORDER, conditions, get, served};
use crate::world::{World, service};

fn is_complete(world: &World) -> bool {
    world.controller.knowledge() == ClusterKnowledge::Complete
}

#[test]
fn a_namespace_with_a_living_owner_that_is_not_offered_is_unknown() {
    let mut world = served();
    let ip = |ip: &'static str| {
        move |it: &mut Value| {
            it["spec"]["clusterIP"] = json!(ip);
            it["spec"]["clusterIPs"] = json!([ip]);
        }
    };
    world.api.edit(Kind::Service, "a", ip("10.97.0.10"));
    world.rest();
    assert_eq!(conditions(&world)[0], "Ready=False VipOutsideSubnet");
    assert!(is_complete(&world) && world.offered.len() == 1, "what was offered before stays");
    for restarts in [true, false] {
        if restarts {
            world.restart(&ORDER);
        } else {
            world.lead(false);
            world.lead(true);
        }
        assert!(world.offered.is_empty() && !is_complete(&world));
        world.rest();
        assert!(world.offered.is_empty() && !is_complete(&world));
    }
    world.api.edit(Kind::Service, "a", ip("10.96.0.10"));
    world.rest();
    assert!(is_complete(&world) && world.offered.len() == 1);
}

#[test]
fn a_protected_service_without_its_object_makes_its_namespace_unknown() {
    let mut world = served();
    world.patience = Duration::from_secs(20);
    world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Balancer, "a");
    world.api.refuses = Some((Kind::Balancer, "a".into()));
    world.restart(&ORDER);
    world.rest();
    assert!(world.offered.is_empty() && !is_complete(&world));
    world.api.refuses = None;
    world.pass(Duration::from_secs(60));
    world.rest();
    world.check();
}

#[test]
fn a_new_service_leaves_its_namespace_known() {
    let mut world = World::new(true);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    for _ in 0..6 {
        for kind in ORDER {
            while world.watch(kind) {
                world.drain();
                assert!(is_complete(&world));
            }
        }
        world.plan();
        while world.answer(0, 0) {
            world.drain();
            assert!(is_complete(&world));
        }
    }
    world.rest();
    world.check();
}

/// A copy of what belongs to the Service `a`, under another name.
fn copied(world: &mut World) {
    let spec = get(world, Kind::Balancer)["spec"].clone();
    let copy = json!({"metadata": {"finalizers": [BALANCER_FINALIZER]}, "spec": spec});
    world.api.create(Kind::Balancer, "b", copy);
}

#[test]
fn a_copy_removes_nothing_of_the_service_that_it_names() {
    let mut world = served();
    copied(&mut world);
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None);
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
    world.check();
}

#[test]
fn a_copy_removes_nothing_before_the_service_is_seen() {
    let mut world = served();
    copied(&mut world);
    world.restart_behind();
    world.plan();
    // That there is no Service of the copy's name is known first.
    let at = world.in_flight.iter().position(|write| &*write.object.name == "b").unwrap();
    assert!(world.answer(at, 0));
    world.plan();
    world.drain();
    assert!(world.heard.is_empty(), "{:?}", world.heard);
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None);
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
    world.check();
}

#[test]
fn of_two_objects_that_name_a_service_that_is_gone_one_removes_it() {
    let mut world = served();
    copied(&mut world);
    world.collects = false;
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Service, "a");
    world.restart(&ORDER);
    world.rest();
    assert_eq!(world.api.of(Kind::Balancer), Vec::<Value>::new());
    assert!(world.writer.made.is_empty());
    assert_eq!(world.heard.iter().filter(|heard| heard.contains("deleting")).count(), 1, "{:?}", world.heard);
}

/// The writer holds the owner for a name that is not offered any more, or is not offered by this process.
#[test]
fn a_refused_removal_keeps_its_finalizer_until_it_is_taken_up() {
    let mut world = served();
    world.works = false;
    world.api.delete(Kind::Service, "a");
    world.rest();
    let key = world.offered.keys().next().unwrap().clone();
    world.controller.rejected(&key, "OwnerConflict", "team/other has the same owner");
    world.rest();
    assert!(has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    assert!(has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert!(conditions(&world).contains(&"Conflict=True OwnerConflict".to_owned()), "{:?}", conditions(&world));
    assert!(world.notices.iter().any(|notice| notice.reason == "KuryrReleaseLBError"), "{:?}", world.notices);
    world.controller.resolved(&key, world.now);
    world.works = true;
    world.rest();
    assert_eq!((get(&world, Kind::Service), get(&world, Kind::Balancer)), (Value::Null, Value::Null));
    assert!(world.writer.made.is_empty());
}

/// The copy was seen first, and the removal of its owner was streamed before the Service was known.
#[test]
fn a_removal_that_is_refused_for_a_copy_leaves_the_copy_to_go() {
    let mut world = served();
    copied(&mut world);
    // Somebody has removed the original by force, so nothing but the copy names the Service.
    world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Balancer, "a");
    world.api.wanted_since.clear();
    world.works = false;
    world.restart_behind();
    world.plan();
    let at = world.in_flight.iter().position(|write| &*write.object.name == "b").unwrap();
    assert!(world.answer(at, 0));
    world.plan();
    world.drain();
    world.patience = Duration::from_secs(20);
    world.rest();
    let copy = gimbal_kuryr_model::DesiredKey::new(gimbal_kuryr_model::DesiredKind::LoadBalancer, "team", "b");
    if world.offered.contains_key(&copy) {
        world.controller.rejected(&copy, "OwnerConflict", "team/a has the same owner");
    }
    world.works = true;
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None, "{:?}", world.explain("b"));
    world.check();
}
