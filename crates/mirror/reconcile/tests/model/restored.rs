//! The store of the Gimbal cluster is restored to an older state while the writer runs: versions that were seen
//! before are issued again, for other content.

use std::time::Duration;

use gimbal_plan::{Action, Body, EndpointsApi};
use gimbal_reconcile::Written;

use super::server::{Luck, id};
use super::world::{INVALID, World, key, service};
use super::{OPEN, check};

impl World {
    /// Restores the API server's store from the backup. Unless the watches go on, everything is listed.
    pub(super) fn restore(&mut self, watches_go_on: bool) {
        self.server.restore(&self.backup, watches_go_on);
        if !watches_go_on {
            self.list();
        }
    }
}

/// Returns a world with Services that were changed, created and removed since the backup, and 50 more versions.
fn changed_since_the_backup() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.set(0, &key(1), Some(service(0, 0, &[2])));
    world.set(0, &key(2), Some(service(0, 0, &[3])));
    world.settle();
    world.backup = world.server.back_up();
    world.set(0, &key(0), Some(service(1, 0, &[1, 4])));
    world.set(0, &key(2), None);
    world.set(0, &key(3), Some(service(0, 0, &[5])));
    world.settle();
    for round in 0..25 {
        world.set(0, &key(1), Some(service(round % 3, 0, &[2, round % 5])));
        world.settle_for(Duration::from_secs(1));
    }
    world
}

#[test]
fn what_changed_since_the_backup_is_made_so_again() {
    let mut world = changed_since_the_backup();
    let writes = world.server.writes;
    world.restore(false);
    world.settle();
    check(&world);
    let written = world.server.writes - writes;
    assert!(written <= 10, "two Services and slices changed, two created and two removed: {written} writes");
    // A change after the restoration is seen, although its version was seen before.
    let edited = world.services().next().cloned().unwrap();
    world.server.remove(&id(Body::Service(edited.clone()).kind(), &edited.metadata));
    world.settle();
    check(&world);
}

/// The records of the backends are in the same store, and no watch shows them.
#[test]
fn what_is_kept_of_the_backends_is_kept_again() {
    let mut world = changed_since_the_backup();
    let kept = std::mem::take(&mut world.kept);
    assert!(kept.values().any(|state| state.incarnation.is_some()), "{kept:?}");
    world.restore(false);
    world.writer.keep_all();
    world.settle();
    assert_eq!(world.kept, kept);
    // A writer that does not lead does not write another leader's record.
    world.lose_lease();
    world.kept.clear();
    world.writer.keep_all();
    world.collect();
    assert!(world.kept.is_empty());
}

/// No watch reports the restoration. The writer learns of it from its own attempts, and makes no more of them than
/// necessary.
#[test]
fn watches_that_hear_nothing_make_no_storm() {
    let mut world = changed_since_the_backup();
    world.restore(true);
    // One object is gone in the cluster, one is older there, and one is unchanged.
    world.set(0, &key(3), Some(service(1, 0, &[5, 4])));
    world.set(0, &key(0), Some(service(2, 0, &[1])));
    world.set(0, &key(1), Some(service(0, 1, &[2])));
    while world.speak(0) | world.hear(0) {}
    let mut tried = 0;
    for _ in 0..200 {
        while world.start_job() {}
        while world.finish_job(Luck::Good) {
            tried += 1;
        }
        world.pass(Duration::from_millis(50));
        world.collect();
    }
    assert!(tried < 20, "{tried} jobs in ten seconds");
    assert_eq!(world.relists, 1, "the first write that meets an older version tells");
    while world.hear(0) {}
    assert_eq!((world.rejects(0), world.untold(0)), (vec![], 0), "what was to be written is written");
    world.settle();
    check(&world);
}

/// A Service that waits for a name and cannot be written does not take over the restored object of an unknown owner.
#[test]
fn what_is_back_and_nobody_wants_goes_though_another_waits_for_its_name() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(1, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    world.backup = world.server.back_up();
    world.set(1, &key(0), None);
    world.set(0, &key(1), Some(service(0, INVALID, &[1])));
    world.settle();
    assert_eq!(world.services().count(), 0);
    world.restore(false);
    world.settle();
    assert_eq!(world.services().count(), 0, "a restart would remove it");
}

/// The first version after the backup is issued twice: for our write and, after the restoration, for somebody's edit.
#[test]
fn a_version_that_was_seen_of_something_else_is_no_echo() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.settle();
    world.backup = world.server.back_up();
    world.set(0, &key(0), Some(service(0, 0, &[1, 3])));
    world.settle();
    let written = world.slices().next().cloned().unwrap();
    world.restore(true);
    let mut edited = world.slices().next().cloned().unwrap();
    edited.endpoints.pop();
    world.server.put(Body::Slice(edited));
    let edited = world.slices().next().unwrap();
    assert_eq!(edited.metadata.resource_version, written.metadata.resource_version);
    assert_ne!(edited.endpoints, written.endpoints);
    world.list();
    world.settle();
    check(&world);
}

/// An answer on its way when a list begins is older than the list, whatever its version.
#[test]
fn an_answer_from_before_the_restoration_is_not_believed() {
    let mut world = changed_since_the_backup();
    world.set(0, &key(3), None);
    while world.speak(0) | world.hear(0) {}
    world.start_job();
    world.carry_out_job(Luck::Good);
    world.restore(false);
    world.finish_job(Luck::Good);
    world.settle();
    check(&world);
}

/// The API server answers 409 forever, as a webhook may.
#[test]
fn a_conflict_without_end_is_told_and_comes_seldom() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    world.set(0, &key(0), Some(service(1, 0, &[1])));
    while world.speak(0) | world.hear(0) {}
    let mut tried = 0;
    for _ in 0..600 {
        while let Some(job) = world.writer.next_job(world.now) {
            tried += 1;
            let written = job.carry_out(|action| match action {
                Action::Replace(body) => {
                    let there = world.server.objects[&id(body.kind(), body.meta())].clone();
                    Written::Conflict { there }
                }
                _ => world.server.write(action, Luck::Good),
            });
            world.writer.finish(&job, written, world.now);
        }
        world.pass(Duration::from_millis(100));
        while world.speak(0) | world.hear(0) {}
    }
    // The Service and its slice are each retried separately.
    assert!(tried < 30, "{tried} jobs in a minute");
    let rejects = world.rejects(0);
    assert!(rejects.iter().any(|reject| reject.retryable && reject.message.contains("409")), "{rejects:?}");
    assert_eq!(world.untold(0), 0, "it is acknowledged");
    world.settle();
    check(&world);
    assert_eq!(world.rejects(0), []);
}
