//! A writer that leads and receives data from its agents before it has listed the Gimbal cluster.

use std::time::Duration;

use gimbal_guard::{GuardConfig, HeldDrop};
use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::EndpointsApi;

use super::world::{BACKENDS, World, service};

const SECOND: Duration = Duration::from_secs(1);
/// Few enough to be sent at once.
const SERVICES: usize = 2;

fn source(n: usize) -> SourceKey {
    SourceKey::new("one", format!("s{n}"))
}

fn hosts(count: u8) -> Vec<u8> {
    (0..count).collect()
}

fn held(world: &World) -> Option<HeldDrop> {
    world.writer.backends()[&BackendName::parse(BACKENDS[0]).unwrap()].guards().removals().held()
}

fn endpoints(world: &World) -> usize {
    world.slices().map(|slice| slice.endpoints.len()).sum()
}

fn all_have(world: &mut World, count: u8) {
    for n in 0..SERVICES {
        world.set(0, &source(n), Some(service(0, 0, &hosts(count))));
    }
}

/// Returns a world with Services of 20 endpoints each that shrank to one, and the hold of that drop.
fn shrunk() -> (World, HeldDrop) {
    let guard = GuardConfig { release_all_after: Some(600 * SECOND), ..GuardConfig::default() };
    let mut world = World::new(EndpointsApi::EndpointSlices, guard);
    all_have(&mut world, 20);
    world.settle_for(SECOND);
    all_have(&mut world, 1);
    world.settle_for(SECOND);
    let held = held(&world).expect("38 of 40 are held");
    assert_eq!(endpoints(&world), 40);
    (world, held)
}

/// Restarts the writer and sends it all data of the agent before it has listed the Gimbal cluster.
fn restarted(world: &mut World) {
    world.restart_writer_unlisted();
    world.connect(0);
    while world.speak(0) || world.hear(0) {}
    world.list();
}

#[test]
fn what_agents_want_before_that_is_held_as_before() {
    let (mut world, before) = shrunk();
    restarted(&mut world);
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), held(&world)), (40, Some(before)));
}

/// Endpoints that were lost while the writer was down count, too.
#[test]
fn what_agents_want_before_that_is_judged() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    all_have(&mut world, 20);
    world.settle_for(SECOND);
    all_have(&mut world, 1);
    restarted(&mut world);
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), held(&world).map(|held| held.endpoints_removed)), (40, Some(38)));
}

/// The source recovers: a later loss is another drop and has its own full waiting time.
#[test]
fn a_hold_that_is_none_any_more_lends_its_age_to_nobody() {
    let (mut world, before) = shrunk();
    all_have(&mut world, 20);
    restarted(&mut world);
    world.settle_for(700 * SECOND);
    assert_eq!((endpoints(&world), held(&world)), (40, None));
    all_have(&mut world, 1);
    world.settle_for(30 * SECOND);
    let held = held(&world).expect("held");
    assert_eq!((endpoints(&world), held.endpoints_removed), (40, before.endpoints_removed));
    assert_ne!(held.id, before.id);
}
