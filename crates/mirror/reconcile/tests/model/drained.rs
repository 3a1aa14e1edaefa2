//! The number of endpoints that were removed because their backend was lost.

use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{LossPolicy, NamespacePolicy, Policy};

use super::OPEN;
use super::server::Luck;
use super::world::{BACKENDS, World, key, service};

const SECOND: Duration = Duration::from_secs(1);
const SILENT: Duration = Duration::from_secs(60);

/// Returns a world in which backend 0 is connected and has endpoints, and whose source is about to count as silent.
fn filled() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2, 3, 4])));
    world.set(0, &key(2), Some(service(0, 0, &[5, 6, 7])));
    world.settle();
    let drain_after = Some(5 * SECOND);
    let on_loss = LossPolicy { drain_after, source_stale_after: Some(SILENT), ..LossPolicy::default() };
    let policy = Policy { on_loss, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy));
    world.say_silent(0, SECOND);
    world
}

/// The backend's endpoints are drained, after everything that the agent said has arrived.
fn drain(world: &mut World) -> u64 {
    while world.speak(0) || world.hear(0) {}
    world.say_silent(0, SILENT);
    for _ in 0..10 {
        world.pass(SECOND);
    }
    for _ in 0..10 {
        while world.start_job() {}
        while world.finish_job(Luck::Good) {}
        world.watch();
        world.pass(SECOND);
    }
    assert_eq!(world.slices().map(|slice| slice.endpoints.len()).sum::<usize>(), 0);
    world.writer.backends()[&BackendName::parse(BACKENDS[0]).unwrap()].drained()
}

#[test]
fn what_the_source_still_has_is_drained() {
    assert_eq!(drain(&mut filled()), 7);
}

#[test]
fn what_the_source_has_removed_is_not_drained() {
    let mut world = filled();
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    assert_eq!(drain(&mut world), 4);
}

#[test]
fn a_whole_service_that_the_source_has_removed_is_not_drained_either() {
    let mut world = filled();
    world.set(0, &key(0), None);
    assert_eq!(drain(&mut world), 3);
}

#[test]
fn what_the_policy_forbids_is_not_drained() {
    let mut world = filled();
    let namespaces = NamespacePolicy { deny: vec!["two".parse().unwrap()], ..NamespacePolicy::default() };
    let policy = Policy { namespaces, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy));
    assert_eq!(drain(&mut world), 4);
}
