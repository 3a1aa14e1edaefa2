//! Writes that meet another version than the one they name. Each is tried again with the present version, and an
//! agent is notified only if conflicts continue.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_plan::{Action, EndpointsApi};
use gimbal_reconcile::Written;
use gimbal_session::RejectReason;

use super::OPEN;
use super::check::check;
use super::policy::quota;
use super::server::{Luck, id};
use super::world::{World, key, service};

/// Executes the pending jobs with a conflict for each slice, and checks that no conflict is reported. Returns the
/// number of conflicts.
fn with_a_conflict_of_each_slice(world: &mut World) -> usize {
    let mut met = BTreeSet::new();
    for _ in 0..100 {
        while world.speak(0) | world.hear(0) | world.watch() {}
        while let Some(job) = world.writer.next_job(world.now) {
            let written = job.carry_out(|action| match action {
                Action::Replace(body) | Action::Patch(body)
                    if action.kind().kind == "EndpointSlice" && met.insert(action.name().clone()) =>
                {
                    let there = world.server.objects[&id(body.kind(), body.meta())].clone();
                    Written::Conflict { there }
                }
                _ => world.server.write(action, Luck::Good),
            });
            world.writer.finish(&job, written, world.now);
            while world.speak(0) | world.hear(0) {}
            assert!(
                world.rejects(0).iter().all(|reject| reject.reason == RejectReason::Quota),
                "{:?}",
                world.rejects(0)
            );
        }
        world.pass(Duration::from_millis(100));
    }
    met.len()
}

#[test]
fn conflicts_of_many_slices_at_once_are_one() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let hosts: Vec<u8> = (0..250).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.settle();
    world.set(0, &key(0), Some(service(1, 0, &hosts)));
    assert_eq!(with_a_conflict_of_each_slice(&mut world), 3);
    world.settle();
    check(&world);
}

#[test]
fn conflicts_of_a_lifetime_are_not_added_up() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(None, Some(2), None)));
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.settle();
    // One endpoint more than the quota allows, so the Service is never written as a whole from here on.
    world.set(0, &key(0), Some(service(0, 0, &[1, 2, 3])));
    world.settle();
    assert_eq!(world.rejects(0).len(), 1);
    for round in 1..6 {
        world.set(0, &key(0), Some(service(round % 3, 0, &[1, 2, 3])));
        assert_eq!(with_a_conflict_of_each_slice(&mut world), 1, "round {round}");
        world.settle();
    }
}
