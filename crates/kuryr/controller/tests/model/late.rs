//! Which load balancers count as late.

use gimbal_kuryr_model::{DesiredKey, DesiredKind, Phase, ReportedObjects};
use gimbal_kuryr_resource::{LATE, LateCounts};

use crate::common::{ORDER, served};
use crate::world::World;
use crate::writer::report;

fn key() -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "team", "a")
}

fn say(world: &mut World, phase: Phase, number: u64) {
    let report = report(&"Service-2".into(), 1, phase, ReportedObjects::default());
    world.deliver(&key(), &report, number);
}

/// Counts now, and once it is late.
fn counts(world: &mut World) -> [LateCounts; 2] {
    [world.now, world.now + LATE].map(|at| world.controller.count_late(at))
}

const NONE: LateCounts = LateCounts { late: 0, blocked: 0 };
const LATE_ONE: LateCounts = LateCounts { late: 1, blocked: 0 };
const BLOCKED_ONE: LateCounts = LateCounts { late: 0, blocked: 1 };

#[test]
fn one_that_is_tried_and_not_ready_for_long_is_late() {
    let mut world = served();
    assert_eq!(counts(&mut world), [NONE, NONE]);
    say(&mut world, Phase::Degraded, 101);
    assert_eq!(counts(&mut world), [NONE, LATE_ONE]);
    // It goes on for as long as it is not ready, whatever else is said.
    say(&mut world, Phase::Blocked, 102);
    assert_eq!(counts(&mut world), [NONE, BLOCKED_ONE]);
    say(&mut world, Phase::Ready, 103);
    assert_eq!(counts(&mut world), [NONE, NONE]);
}

/// An owner's mistake may last. The writer counts what it refuses.
#[test]
fn one_that_the_writer_refuses_is_not_late() {
    let mut world = served();
    say(&mut world, Phase::Making, 101);
    assert_eq!(counts(&mut world), [NONE, LATE_ONE]);
    world.controller.rejected(&key(), "ProjectNotAllowed", "no");
    assert_eq!(counts(&mut world), [NONE, NONE]);
    world.controller.resolved(&key(), world.now);
    assert_eq!(counts(&mut world), [NONE, LATE_ONE], "it is tried from now on");
}

#[test]
fn one_that_was_ready_before_a_restart_is_not_late() {
    let mut world = served();
    world.works = false;
    world.restart(&ORDER);
    world.rest();
    assert_eq!(counts(&mut world), [NONE, NONE]);
}
