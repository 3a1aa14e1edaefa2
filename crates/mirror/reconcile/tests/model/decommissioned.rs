//! What is left of a backend that was removed and configured again.

use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{Mode, NotDecommissioned, Policy, RemovalState, Withdrawal};

use super::OPEN;
use super::before_removal::{WAIT, order, ordered, prepared, ready};
use super::check::check;
use super::server::Luck;
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
        world.writer.decommission(&name, &id).unwrap();
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
    world.writer.decommission(&name, &id).unwrap();
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
    world.writer.decommission(&name, &inventory.id(&name)).unwrap();
    assert!(matches!(world.writer.removal(&name, 5), Some(RemovalState::Ordered { .. })));
    world.collect();
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
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    assert!(world.kept.remove(&name).is_some());
    world.configure(0, None);
    world.restart_writer();
    world.settle();
    let there = world.writer.inventory(&name);
    assert_eq!((there.services, there.endpoints), (1, 1));
    assert_eq!(world.writer.removal(&name, 5), Some(RemovalState::OfAnotherWriter { inventory: there }));
    let refused = world.writer.decommission(&name, &there.id(&name));
    assert_eq!(refused, Err(NotDecommissioned::Unrecorded(name.clone())));
    let writes = world.server.writes;
    world.settle();
    assert_eq!((world.server.writes, world.writer.inventory(&name)), (writes, there));
    let unknown = BackendName::parse("unknown").unwrap();
    assert_eq!(world.writer.removal(&unknown, 5), Some(RemovalState::Over));
    world.writer.lead(None);
    assert_eq!(world.writer.removal(&name, 5), None, "who does not lead does not know");
}

/// A backend that is to leave and has no record, of which nothing would keep its object, publishes nothing any more.
#[test]
fn who_is_to_leave_without_a_record_is_refused() {
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.silent = Some(0);
    world.settle();
    let leaving = Policy { leaving: true, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(leaving));
    assert_eq!(world.writer.removal(&name, 5), Some(RemovalState::Over), "its object may go");
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.connect(0);
    while world.speak(0) | world.hear(0) {}
    assert!(!world.writer.backends()[&name].is_connected());
    world.settle();
    assert_eq!(world.services().count(), 0);
}

/// Three Services of a backend that is to leave, whose removal is ordered, and of which the first is gone.
fn half_removed() -> (World, BackendName, Policy) {
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    for n in [0, 1, 3] {
        world.set(0, &key(n), Some(service(0, 0, &[n])));
    }
    world.settle();
    let admitted = world.policy(0).unwrap().clone();
    world.configure(0, Some(Policy { leaving: true, ..admitted.clone() }));
    world.silent = Some(0);
    let id = world.writer.inventory(&name).id(&name);
    world.writer.decommission(&name, &id).unwrap();
    world.collect();
    for _ in 0..50 {
        if world.writer.inventory(&name).services == 2 {
            break;
        }
        world.pass(Duration::from_millis(100));
        if world.start_job() {
            world.finish_job(Luck::Good);
        }
        while world.watch() {}
    }
    assert_eq!(world.writer.inventory(&name).services, 2);
    (world, name, admitted)
}

/// Nothing more goes, and the agent of the backend is let in again.
fn expect_kept(mut world: World, name: &BackendName) {
    world.settle();
    assert_eq!(world.writer.inventory(name).services, 2, "nothing says that they are gone");
    assert_eq!(world.kept[name].decommission, None);
    assert!(world.kept[name].incarnation.is_some(), "the name is still its source's");
    world.silent = None;
    let mut fewest = 3;
    world.settle_watched(Duration::from_secs(62), |world| fewest = fewest.min(world.services().count()));
    assert!(world.writer.backends()[name].is_connected());
    let [(backend, id, services, why)] = world.withdrawn.as_slice() else { panic!("{:?}", world.withdrawn) };
    let said = (backend, id.starts_with("a-3-"), *services, *why);
    assert_eq!(said, (name, true, 2, Withdrawal::Admitted), "it is reported to who ordered it");
    assert_eq!((world.writer.inventory(name).services, fewest), (3, 3), "only what had gone is written");
    check(&world);
}

/// An order is about the object that was deleted. One that is made anew keeps what is left.
#[test]
fn an_order_ends_with_the_object_that_it_was_about() {
    let (mut world, name, admitted) = half_removed();
    world.configure(0, None);
    world.configure(0, Some(admitted));
    expect_kept(world, &name);
}

#[test]
fn a_writer_that_is_started_later_does_not_follow_an_order_about_an_object_of_before() {
    let (mut world, name, admitted) = half_removed();
    assert!(world.kept[&name].decommission.is_some());
    world.policies.insert(name.clone(), admitted);
    world.restart_writer();
    expect_kept(world, &name);
}

/// Where there is no configuration, an agent that dials takes no order back.
#[test]
fn without_a_configuration_an_order_goes_on() {
    let (mut world, name, admitted) = half_removed();
    world.configure(0, None);
    world.restart_writer();
    world.writer.add_backend(&name, admitted, world.now);
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.writer.inventory(&name).services, 0);
}

/// Two Services of a backend that is an object with this UID and is to leave, and whose removal is ordered.
fn ordered_of(uid: &str, api: EndpointsApi) -> (World, BackendName, Policy) {
    let (mut world, name, admitted) = prepared(api, WAIT, &[key(0), key(3)]);
    world.objects.insert(name.clone(), uid.into());
    world.configure(0, Some(Policy { leaving: true, ..admitted.clone() }));
    order(&mut world, &name);
    (world, name, admitted)
}

/// An order is about the object that somebody has seen, and not about the next one of its name, whatever that says.
#[test]
fn an_order_ends_with_another_object_of_the_name() {
    for (next, is_restarted) in [(None, false), (Some(Mode::Quarantine), false), (Some(Mode::Quarantine), true)] {
        let (mut world, name, admitted) = ordered_of("one", EndpointsApi::EndpointSlices);
        world.settle_for(Duration::from_secs(5));
        assert_eq!(world.kept[&name].decommission.as_ref().unwrap().object.as_deref(), Some("one"));
        // Its finalizer is taken away, so it goes, and the time goes on.
        world.objects.clear();
        world.configure(0, None);
        world.settle_for(Duration::from_secs(5));
        assert!(world.kept[&name].decommission.is_some() && world.withdrawn.is_empty());
        // One of its name whose spec cannot be used, or that is in quarantine.
        world.objects.insert(name.clone(), "two".into());
        match next {
            Some(mode) if is_restarted => {
                world.policies.insert(name.clone(), Policy { mode, ..admitted });
                world.restart_writer();
            }
            next => world.configure(0, next.map(|mode| Policy { mode, ..admitted })),
        }
        world.settle_for(2 * WAIT);
        assert_eq!((ready(&world), world.services().count()), ((2, 0), 2), "{next:?} {is_restarted}");
        assert_eq!(world.kept[&name].decommission, None);
        let withdrawn: Vec<_> = world.withdrawn.iter().map(|told| (told.2, told.3)).collect();
        assert_eq!(withdrawn, [(2, Withdrawal::OtherObject)]);
    }
}

/// The same object goes on to be removed: another spec, or a definition that went, makes no other object of it.
#[test]
fn an_order_goes_on_for_its_object() {
    let (mut world, name, admitted) = ordered_of("one", EndpointsApi::EndpointSlices);
    world.settle_for(Duration::from_secs(5));
    world.configure(0, Some(Policy { mode: Mode::Quarantine, leaving: true, ..admitted }));
    world.settle_for(WAIT);
    assert_eq!((world.services().count(), world.withdrawn.len()), (0, 0));
    // One that was stored by an earlier version names no object.
    let (mut world, _, admitted) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.settle_for(Duration::from_secs(5));
    world.objects.insert(name, "two".into());
    world.configure(0, Some(Policy { mode: Mode::Quarantine, ..admitted }));
    world.settle_for(WAIT);
    assert_eq!((world.services().count(), world.withdrawn.len()), (0, 0));
}

/// Who does not lead knows the configuration, and takes nothing back.
#[test]
fn an_order_is_ended_by_who_leads() {
    let (mut world, name, admitted) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.settle_for(Duration::from_secs(5));
    world.lose_lease();
    let stored = world.kept[&name].clone();
    world.writer.restore(&name, stored, world.now, world.wall);
    world.configure(0, Some(admitted));
    assert!(world.writer.backends()[&name].decommission().is_some());
    assert!(world.kept[&name].decommission.is_some() && world.withdrawn.is_empty());
    world.regain_lease();
    world.settle_for(Duration::from_secs(5));
    assert_eq!((world.kept[&name].decommission.as_ref(), world.withdrawn.len()), (None, 1));
}
