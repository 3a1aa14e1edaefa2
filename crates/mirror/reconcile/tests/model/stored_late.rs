//! The order to remove a backend is about what was there when it was given, however late it is stored.

use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{Decommission, Policy, RemovalState, Withdrawal};

use super::before_removal::{LATE, WAIT, order, ordered, prepared, ready};
use super::world::{World, key, service};

/// Nothing of it is removed, so nothing may be kept from it either.
#[test]
fn an_order_that_cannot_be_stored_changes_nothing() {
    let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.keeps = false;
    world.settle_for(LATE);
    assert!(world.writer.backends()[&name].is_connected(), "its agent is still heard");
    assert!(world.kept[&name].decommission.is_none());
    world.set(0, &key(0), Some(service(0, 0, &[0, 7])));
    world.settle_for(Duration::from_secs(5));
    assert_eq!((ready(&world), world.services().count()), ((2, 3), 2), "its source is followed");
    assert!(matches!(world.writer.removal(&name, 5), Some(RemovalState::Ordered { .. })));
    let trouble = world.writer.backends()[&name].trouble();
    assert!(trouble.contains("begins once that is stored") && !trouble.contains("not ready"), "{trouble}");
    world.cut(0);
    world.silent = None;
    world.settle_for(Duration::from_secs(5));
    assert!(world.writer.backends()[&name].is_connected(), "and let in again");
    // It can be stored at last, and everything takes its course.
    world.silent = Some(0);
    world.keeps = true;
    world.writer.keep_decision(&name).unwrap();
    world.settle_for(Duration::from_secs(5));
    assert!(!world.writer.backends()[&name].is_connected());
    assert_eq!((ready(&world), world.services().count()), ((2, 0), 2), "the time that it waited does not count");
    world.settle_for(WAIT);
    assert_eq!(world.services().count(), 0);
}

/// What the source has by then is not what was approved.
#[test]
fn an_order_that_was_stored_late_is_about_what_was_there() {
    let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.keeps = false;
    world.set(0, &key(2), Some(service(0, 0, &[7])));
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.services().count(), 3);
    world.cut(0);
    world.pass(Duration::from_secs(1));
    world.pass(Duration::from_secs(20));
    world.keeps = true;
    world.writer.keep_decision(&name).unwrap();
    world.collect();
    let away = world.writer.backends()[&name].loss().disconnected_for(world.now).unwrap();
    assert!(away >= Duration::from_secs(20), "it is as lost as before: {away:?}");
    world.silent = None;
    world.settle_for(2 * WAIT);
    assert_eq!((ready(&world), world.services().count()), ((3, 3), 3));
    assert_eq!(world.kept[&name].decommission, None);
    assert_eq!(world.withdrawn.iter().map(|told| told.3).collect::<Vec<_>>(), [Withdrawal::OtherFigures]);
}

/// Stores the order as a write does whose answer is lost. The source has another Service by then, and another process leads.
fn store_late(world: &mut World, name: &BackendName) {
    let order = world.writer.backends()[name].state().clone();
    world.keeps = false;
    world.set(0, &key(2), Some(service(0, 0, &[7])));
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.services().count(), 3);
    world.kept.insert(name.clone(), order);
    world.keeps = true;
    world.silent = None;
}

/// Only the next leader can compare what it was about.
#[test]
fn an_order_that_was_stored_late_is_compared_by_the_next_leader() {
    for not_ready_for in [WAIT, Duration::ZERO] {
        for is_listed in [true, false] {
            let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, not_ready_for);
            store_late(&mut world, &name);
            match is_listed {
                true => world.restart_writer(),
                false => {
                    world.restart_writer_unlisted();
                    world.pass(Duration::from_secs(1));
                    world.list();
                }
            }
            let (mut fewest, mut fewest_ready) = (3, 3);
            world.settle_watched(2 * WAIT, |world| {
                fewest = fewest.min(world.services().count());
                fewest_ready = fewest_ready.min(ready(world).1);
            });
            assert_eq!((ready(&world), fewest, fewest_ready), ((3, 3), 3, 3), "{not_ready_for:?} {is_listed}");
            assert_eq!(world.kept[&name].decommission, None);
            let withdrawn: Vec<_> = world.withdrawn.iter().map(|told| (told.2, told.3)).collect();
            assert_eq!(withdrawn, [(3, Withdrawal::OtherFigures)]);
        }
    }
}

/// The store of the Gimbal cluster went back, so that what is there is not known when the order is stored.
#[test]
fn an_order_that_is_stored_while_nothing_is_known_begins_once_that_is() {
    for had_another in [false, true] {
        let (mut world, name, admitted) = prepared(EndpointsApi::EndpointSlices, WAIT, &[key(0), key(2), key(3)]);
        if had_another {
            world.backup = world.server.back_up();
        }
        world.set(0, &key(2), None);
        world.settle();
        if !had_another {
            world.backup = world.server.back_up();
        }
        world.set(0, &key(0), Some(service(1, 0, &[0])));
        world.settle();
        world.configure(0, Some(Policy { leaving: true, ..admitted }));
        order(&mut world, &name);
        world.keeps = false;
        world.collect();
        world.restore(false);
        assert!(!world.writer.has_observed());
        let version = world.writer.keep_decision(&name).unwrap();
        world.kept.insert(name.clone(), world.writer.backends()[&name].state().clone());
        world.writer.take_outputs();
        world.writer.kept(&name, version, world.now);
        assert!(matches!(world.writer.backends()[&name].decommission(), Some(Decommission::Ordered { .. })));
        world.keeps = true;
        world.list();
        world.settle_for(Duration::from_secs(5));
        let expected = if had_another { ((2, 2), 1) } else { ((2, 0), 0) };
        assert_eq!((ready(&world), world.withdrawn.len()), expected, "{had_another}");
    }
}
