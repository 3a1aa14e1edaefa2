//! A leader that cannot write for long closes its streams, and continues where it was when it can write again.

use std::time::Duration;

use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{LossPolicy, Policy, Stage};

use super::OPEN;
use super::check::check;
use super::policy::name;
use super::world::{World, key, service};

const T1: Duration = Duration::from_secs(60);

/// Lets time pass second by second while nothing can be written.
fn pass(world: &mut World, time: Duration) {
    for _ in 0..time.as_secs() {
        world.pass(Duration::from_secs(1));
        while world.speak(0) | world.hear(0) {}
    }
}

fn stage(world: &World) -> Stage {
    world.writer.backends()[&name(0)].loss().stage()
}

#[test]
fn who_cannot_write_for_long_has_no_streams_and_makes_nothing_of_it() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let on_loss = LossPolicy { not_ready_after: Some(T1), ..LossPolicy::default() };
    let policy = Policy { on_loss, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy));
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.settle();
    let writes = world.server.writes;

    world.writer.stand_aside(true);
    world.collect();
    assert!(!world.writer.is_leading() && !world.writer.backends()[&name(0)].is_connected());
    // An agent that dials it nevertheless is refused each time.
    for _ in 0..20 {
        world.connect(0);
        pass(&mut world, T1 / 4);
        assert!(!world.writer.backends()[&name(0)].is_connected());
    }
    assert_eq!(stage(&world), Stage::Hold, "that its agents are away is its own doing");

    world.writer.stand_aside(false);
    pass(&mut world, Duration::from_secs(20));
    assert_eq!(stage(&world), Stage::Hold, "they need time to come back");
    world.connect(0);
    world.settle();
    check(&world);
    assert_eq!((world.server.writes, stage(&world)), (writes, Stage::Hold), "nothing is forgotten, nothing is new");
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    check(&world);
}

/// A backend that was lost before is still lost, but the loss takes effect only after it had time to come back.
#[test]
fn a_loss_from_before_goes_on_after_a_grace() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let on_loss = LossPolicy { not_ready_after: Some(T1), ..LossPolicy::default() };
    let policy = Policy { on_loss, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy));
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.settle();
    world.cut(0);
    pass(&mut world, T1 / 2);
    world.writer.stand_aside(true);
    pass(&mut world, T1);
    world.writer.stand_aside(false);
    pass(&mut world, Duration::from_secs(25));
    assert_eq!(stage(&world), Stage::Hold);
    pass(&mut world, Duration::from_secs(10));
    assert_eq!(stage(&world), Stage::NotReady);
}
