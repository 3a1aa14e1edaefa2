//! What is left of a backend that was removed and configured again.

use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{Policy, RemovalState};

use super::OPEN;
use super::world::{BACKENDS, World, key, service};

/// A state of the removed backend that is stored late is not a state of the next backend of its name.
#[test]
fn a_late_answer_is_not_for_the_next_backend_of_the_name() {
    for listed in [true, false] {
        let name = BackendName::parse(BACKENDS[0]).unwrap();
        let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
        world.set(0, &key(0), Some(service(0, 0, &[1])));
        world.settle();
        for _ in 0..5 {
            world.writer.keep_decision(&name).unwrap();
        }
        let policy = world.policy(0).cloned();
        if !listed {
            world.configure(0, None);
        }
        world.silent = Some(0);
        let id = world.writer.inventory(&name).id(&name);
        world.writer.decommission(&name, &id, world.now).unwrap();
        let late = world.writer.keep_decision(&name).unwrap();
        world.settle_for(Duration::from_secs(5));
        assert!(!world.kept.contains_key(&name), "it is removed");
        assert!(world.writer.is_kept(&name, late), "what was stored of it is over");
        world.configure(0, policy);
        world.keeps = false;
        let version = world.writer.keep_decision(&name).unwrap();
        world.collect();
        world.writer.kept(&name, late, world.now);
        assert!(!world.writer.is_kept(&name, version), "listed: {listed}");
        world.writer.kept(&name, version, world.now);
        assert!(world.writer.is_kept(&name, version));
        // Nothing was stored of it but this decision.
        world.writer.keep_all();
        world.keeps = true;
        world.collect();
        assert!(world.kept.contains_key(&name));
    }
}

/// A backend of which nothing was stored is not stored just because its predecessor was.
#[test]
fn a_new_backend_of_an_old_name_has_nothing_to_store() {
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    world.silent = Some(0);
    let id = world.writer.inventory(&name).id(&name);
    world.writer.decommission(&name, &id, world.now).unwrap();
    world.settle_for(Duration::from_secs(5));
    world.writer.keep_all();
    world.collect();
    assert!(!world.kept.contains_key(&name));
}

/// A backend that is to leave is as it was until its removal is ordered, and is not back before it has left.
#[test]
fn who_is_to_leave_stays_until_that_is_ordered_and_then_does_not_come_back() {
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    let admitted = world.policy(0).unwrap().clone();
    world.configure(0, Some(Policy { leaving: true, ..admitted.clone() }));
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.settle();
    let Some(RemovalState::Awaited { inventory, first }) = world.writer.removal(&name, 5) else {
        panic!("not awaited")
    };
    assert_eq!((inventory.services, inventory.endpoints, first.len()), (1, 2, 1), "its source is still followed");
    world.silent = Some(0);
    world.writer.decommission(&name, &inventory.id(&name), world.now).unwrap();
    assert!(matches!(world.writer.removal(&name, 5), Some(RemovalState::UnderWay { .. })));
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.writer.removal(&name, 5), Some(RemovalState::Over));
    world.connect(0);
    while world.speak(0) | world.hear(0) {}
    assert!(!world.writer.backends()[&name].is_connected(), "its agent is refused");
    assert!(world.kept[&name].decommission.is_some(), "the next leader knows of the order");
    world.configure(0, None);
    world.settle_for(Duration::from_secs(5));
    assert!(!world.kept.contains_key(&name) && !world.writer.backends().contains_key(&name));
    // Another one of its name is a new one.
    world.configure(0, Some(admitted));
    world.silent = None;
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.writer.inventory(&name).services, 1);
}

/// Of a backend without a record, nothing is removed: another writer's objects stay, and without any there is nothing to do.
#[test]
fn without_a_record_nothing_is_removed() {
    let name = BackendName::parse("unknown").unwrap();
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.settle();
    assert_eq!(world.writer.removal(&name, 5), Some(RemovalState::Over));
    world.writer.lead(None);
    assert_eq!(world.writer.removal(&name, 5), None, "who does not lead does not know");
}
