//! Objects that the guard holds stay as they are and keep their owner, whatever else happens to them.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kubernetes_objects::keys;
use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{LossPolicy, Policy};
use gimbal_session::RejectReason;

use super::server::Luck;
use super::world::{BACKENDS, World, key, service};

const SECOND: Duration = Duration::from_secs(1);
const T1: Duration = Duration::from_secs(60);

fn name(agent: usize) -> BackendName {
    BackendName::parse(BACKENDS[agent]).unwrap()
}

/// Returns the backends of the Services in a namespace, and how many of its endpoints are ready and not ready.
fn there(world: &World, namespace: &str) -> (Vec<String>, usize, usize) {
    let services = world.services().filter(|service| *service.metadata.namespace == *namespace);
    let owners = services.map(|service| service.metadata.labels[keys::BACKEND].to_string()).collect();
    let slices = world.slices().filter(|slice| *slice.metadata.namespace == *namespace);
    let (ready, not): (Vec<_>, Vec<_>) =
        slices.flat_map(|slice| &slice.endpoints).partition(|endpoint| endpoint.conditions.ready == Some(true));
    (owners, ready.len(), not.len())
}

fn reasons(world: &World, agent: usize) -> Vec<RejectReason> {
    world.rejects(agent).iter().map(|reject| reject.reason).collect()
}

/// Agent 0 has one/a-b-svc with 40 endpoints, and agent 1 waits for that name.
fn contested() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(1), Some(service(1, 0, &hosts)));
    world.settle();
    world.set(1, &key(0), Some(service(2, 0, &[200, 201, 202])));
    world.settle();
    world
}

fn policy(world: &mut World, agent: usize, change: impl FnOnce(&mut Policy)) {
    let mut policy = world.policy(agent).unwrap().clone();
    change(&mut policy);
    world.configure(agent, Some(policy));
}

/// The Service that has the name moves to a namespace that does not exist yet. If its old name were handed over
/// meanwhile, that would lead to the endpoints of both.
#[test]
fn a_name_is_not_handed_over_while_who_has_it_moves() {
    let mut world = contested();
    policy(&mut world, 0, |policy| drop(policy.namespaces.map.insert("one".into(), "three".into())));
    world.settle_for(5 * SECOND);
    assert_eq!(there(&world, "one"), (vec![BACKENDS[0].to_owned()], 40, 0));
    assert_eq!(reasons(&world, 1), [RejectReason::NameConflict]);
    world.server.set_namespace("three", true);
    world.settle();
    assert_eq!(there(&world, "three"), (vec![BACKENDS[0].to_owned()], 40, 0));
    assert_eq!(there(&world, "one"), (vec![BACKENDS[1].to_owned()], 3, 0));
    assert_eq!((reasons(&world, 0), reasons(&world, 1)), (vec![], vec![]));
}

/// A removal that waits for its record to be stored keeps the name like a held one.
#[test]
fn a_name_is_not_handed_over_while_its_removal_waits_for_a_record() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(1), Some(service(1, 0, &hosts[..10])));
    world.set(0, &SourceKey::new("two", "rest"), Some(service(1, 0, &hosts)));
    world.settle();
    world.set(1, &key(0), Some(service(2, 0, &[200, 201, 202])));
    world.settle();
    world.keeps = false;
    world.set(0, &key(1), None);
    world.settle_for(20 * SECOND);
    assert_eq!(there(&world, "one"), (vec![BACKENDS[0].to_owned()], 10, 0));
    // Nothing can be removed, and both agents are notified why.
    assert_eq!((reasons(&world, 0), reasons(&world, 1)), (vec![RejectReason::Held], vec![RejectReason::NameConflict]));
    let trouble = world.writer.backends()[&name(0)].trouble();
    assert!(trouble.contains("cannot be kept"), "{trouble}");
    world.keeps = true;
    world.settle();
    assert_eq!(there(&world, "one"), (vec![BACKENDS[1].to_owned()], 3, 0));
    assert_eq!((reasons(&world, 0), reasons(&world, 1)), (vec![], vec![]));
    assert_eq!(world.unacknowledged(0), 0);
}

/// Endpoints that the policy forbids and the guard holds are marked not ready with the rest when the backend is lost.
#[test]
fn what_a_policy_forbids_is_not_ready_when_its_backend_is_lost() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(2), Some(service(1, 0, &hosts)));
    world.settle();
    policy(&mut world, 0, |policy| {
        policy.namespaces.deny = vec!["two".parse().unwrap()];
        policy.on_loss = LossPolicy { not_ready_after: Some(T1), drain_after: None, source_stale_after: None };
    });
    world.settle_for(5 * SECOND);
    assert_eq!(there(&world, "two").1, 40, "held");
    world.cut(0);
    world.silent = Some(0);
    world.settle_for(2 * T1);
    assert_eq!(there(&world, "two"), (vec![BACKENDS[0].to_owned()], 0, 40));
}

/// A Service is held, its name is waited for, and its backend is lost, all at once. It is still reported as held.
#[test]
fn what_is_held_and_waited_for_is_told_as_held_though_its_backend_is_lost() {
    let mut world = contested();
    policy(&mut world, 0, |policy| {
        policy.on_loss = LossPolicy { not_ready_after: Some(T1), drain_after: None, source_stale_after: None };
    });
    world.set(0, &key(1), None);
    world.settle_for(5 * SECOND);
    assert_eq!(reasons(&world, 0), [RejectReason::Held]);
    world.cut(0);
    world.silent = Some(0);
    world.settle_for(2 * T1);
    assert_eq!(there(&world, "one"), (vec![BACKENDS[0].to_owned()], 0, 40));
    let rejects = world.writer.backends()[&name(0)].end().rejects();
    assert_eq!(rejects.values().map(|reject| reject.reason).collect::<Vec<_>>(), [RejectReason::Held]);
}

/// Allowed removals were written before the rest was held, so the hold contains only the rest.
#[test]
fn what_was_let_pass_before_a_hold_goes_to_its_end() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..20).collect();
    let services = ["x", "y", "z"].map(|name| SourceKey::new("one", name));
    for key in &services {
        world.set(0, key, Some(service(1, 0, &hosts)));
    }
    world.settle();
    world.set(0, &services[1], None);
    while world.speak(0) {}
    while !world.start_job() {
        world.pass(SECOND);
        world.collect();
    }
    // The slices of one Service are deleted. Before that Service is deleted, the source removes another one.
    assert!(world.finish_job(Luck::Good));
    assert_eq!((there(&world, "one").0.len(), there(&world, "one").1), (3, 40));
    world.set(0, &services[2], None);
    while world.speak(0) {}
    world.pass(SECOND);
    world.settle_for(5 * SECOND);
    assert_eq!((there(&world, "one").0.len(), there(&world, "one").1), (2, 40));
    assert_eq!(reasons(&world, 0), [RejectReason::Held]);
}
