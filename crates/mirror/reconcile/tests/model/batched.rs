//! Changes of one Service that follow each other closely are written together, where that leads few requests astray.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_model::SourceKey;
use gimbal_plan::EndpointsApi;
use gimbal_simulation::server::Luck;
use proptest::prelude::*;

use super::check::{check, come_to_rest};
use super::world::{World, key, service};
use super::{NARROW, OPEN, op, step};

const PERIOD: Duration = Duration::from_millis(400);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns a world in which changes wait, and a Service with these endpoints was just written after a quiet time.
fn just_written(guard: GuardConfig, hosts: &[u8]) -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, guard);
    world.batch(PERIOD);
    world.set(0, &key(0), Some(service(0, 0, &[100])));
    world.settle();
    world.set(0, &key(0), Some(service(0, 0, &[&[100][..], hosts].concat())));
    run(&mut world);
    assert_eq!(published(&world), 1 + hosts.len(), "the first change waits for nothing");
    assert_eq!(world.writer.counters().batched, 0);
    world
}

/// Runs everything that can happen without time passing.
fn run(world: &mut World) {
    loop {
        let moved = [world.speak(0), world.hear(0), world.start_job(), world.finish_job(Luck::Good), world.watch()];
        if !moved.contains(&true) {
            return;
        }
    }
}

fn published(world: &World) -> usize {
    world.slices().map(|slice| slice.endpoints.len()).sum()
}

/// Sets the endpoints of the Service, and returns how many writes follow at once.
fn offer(world: &mut World, hosts: &[u8]) -> usize {
    let before = world.server.writes;
    world.set(0, &key(0), Some(service(0, 0, hosts)));
    run(world);
    world.server.writes - before
}

#[test]
fn what_comes_within_the_period_is_one_write_at_its_end() {
    let mut world = just_written(OPEN, &[1, 2, 3]);
    // A rollout: one after the other is replaced.
    for hosts in [[100, 1, 2, 4], [100, 1, 4, 5], [100, 1, 5, 6]] {
        assert_eq!(offer(&mut world, &hosts), 0);
        world.pass(100 * MILLISECOND);
    }
    assert_eq!(world.writer.counters().batched, 3);
    assert!(world.unacknowledged(0) > 0, "what waits is not said to be done");
    let writes = world.server.writes;
    world.pass(99 * MILLISECOND);
    run(&mut world);
    assert_eq!(world.server.writes, writes, "a millisecond before the end");
    assert_eq!(world.writer.next_deadline(), Some(world.now + MILLISECOND));
    world.pass(MILLISECOND);
    run(&mut world);
    assert_eq!((world.server.writes, world.unacknowledged(0)), (writes + 1, 0));
    check(&world);
    // The period begins anew with that write, and ends.
    assert_eq!(offer(&mut world, &[100, 4, 5]), 0);
    world.pass(PERIOD);
    run(&mut world);
    world.pass(PERIOD);
    assert_eq!(offer(&mut world, &[100, 4, 5, 6]), 1, "the first change after a quiet time");
    check(&world);
}

/// How much of what is published must still be right for a change to wait.
#[test]
fn a_change_waits_only_while_most_requests_go_where_they_should() {
    // Published are 100, 1, 2 and 3.
    let cases: [(&[u8], bool, &str); 7] = [
        (&[100, 1, 2, 3, 4], true, "one more"),
        (&[100, 1, 2], true, "one less"),
        (&[100, 1, 5, 6], true, "half of them replaced"),
        (&[100, 5, 6, 7], false, "more than half of them replaced"),
        (&[100], false, "most of them gone"),
        (&[], false, "the last one gone"),
        (&[5, 6, 7, 8], false, "all of them replaced"),
    ];
    for (hosts, waits, what) in cases {
        let mut world = just_written(OPEN, &[1, 2, 3]);
        assert_eq!(offer(&mut world, hosts) == 0, waits, "{what}");
    }
    let mut world = just_written(OPEN, &[1, 2, 3]);
    offer(&mut world, &[]);
    assert_ne!(offer(&mut world, &[1]), 0, "the first one waits for nothing");
}

#[test]
fn what_is_more_than_a_change_of_a_slice_waits_for_nothing() {
    let hosts = [100, 1, 2, 3];
    for (label, ports) in [(1, 0), (0, 1)] {
        let mut world = just_written(OPEN, &hosts[1..]);
        let writes = world.server.writes;
        world.set(0, &key(0), Some(service(label, ports, &hosts)));
        run(&mut world);
        assert!(world.server.writes > writes, "{label} {ports}");
        check(&world);
    }
    // What waited goes with it.
    let mut world = just_written(OPEN, &hosts[1..]);
    assert_eq!(offer(&mut world, &[100, 1, 2]), 0);
    world.set(0, &key(0), Some(service(1, 0, &[100, 1, 2])));
    run(&mut world);
    check(&world);
    let mut world = just_written(OPEN, &hosts[1..]);
    world.set(0, &key(0), None);
    run(&mut world);
    assert_eq!(world.services().count(), 0, "a Service goes at once");
}

/// The change of another Service is not held up.
#[test]
fn each_service_has_its_own_period() {
    let mut world = just_written(OPEN, &[1, 2, 3]);
    world.set(0, &key(3), Some(service(0, 0, &[7])));
    run(&mut world);
    assert_eq!(published(&world), 5);
    assert_eq!(offer(&mut world, &[100, 1, 2]), 0);
}

/// The frames of other Services that come after it are not acknowledged while a change waits. So it waits no longer when they would
/// use up the credit of its agent.
#[test]
fn what_waits_keeps_no_other_service_from_being_sent() {
    let mut world = just_written(OPEN, &[1, 2, 3]);
    assert_eq!(offer(&mut world, &[100, 1, 2]), 0);
    let writes = world.server.writes;
    run(&mut world);
    assert_eq!(world.server.writes, writes, "there is credit left");
    for n in 0..6 {
        world.set(0, &SourceKey::new("one", format!("s{n}")), Some(service(0, 0, &[n])));
        run(&mut world);
    }
    assert_eq!((world.services().count(), published(&world)), (7, 9), "without any time passing");
    world.pass(PERIOD);
    run(&mut world);
    assert_eq!(world.unacknowledged(0), 0);
    check(&world);
}

/// A write that fails is tried again as without a period, and so is what the answer leaves to do.
#[test]
fn what_failed_waits_for_nothing_more() {
    let mut world = just_written(OPEN, &[1, 2, 3]);
    world.pass(PERIOD);
    world.set(0, &key(0), Some(service(0, 0, &[100, 1, 2])));
    while world.speak(0) || world.hear(0) {}
    assert!(world.start_job());
    // Somebody edits the slice meanwhile, so that the write meets a conflict.
    let slice = world.slices().next().unwrap().clone();
    world.server.put(gimbal_plan::Body::Slice(slice));
    let writes = world.server.writes;
    run(&mut world);
    assert!(world.server.writes > writes, "after a conflict it is written again at once");
    check(&world);
}

/// Whatever happens in whatever order, waiting does not change the end.
#[test]
fn ends_as_the_sources_are_with_batches() {
    gimbal_property::check(32, &(any::<bool>(), proptest::collection::vec(op(), 0..120)), |(narrow, ops)| {
        let mut world = World::new(EndpointsApi::EndpointSlices, if narrow { NARROW } else { OPEN });
        world.batch(PERIOD);
        for op in ops {
            step(&mut world, op);
            prop_assert_eq!(world.writer.audit(), [""; 0]);
        }
        come_to_rest(&mut world);
        check(&world);
        let writes = world.server.writes;
        world.pass(Duration::from_secs(301));
        world.settle();
        prop_assert_eq!(world.server.writes, writes, "at rest nothing is written");
        Ok(())
    });
}
