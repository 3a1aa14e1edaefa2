//! The stored state of a backend is one that only a newer writer may use.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{LossPolicy, Mode, NotDecommissioned};
use gimbal_session::RejectReason;

use super::world::{BACKENDS, World, key, service};
use super::{OPEN, check};

const SECOND: Duration = Duration::from_secs(1);

fn name(agent: usize) -> BackendName {
    BackendName::parse(BACKENDS[agent]).unwrap()
}

/// Returns how many endpoints of a namespace are ready, and how many are not.
fn endpoints(world: &World, namespace: &str) -> (usize, usize) {
    let slices = world.slices().filter(|slice| *slice.metadata.namespace == *namespace);
    let (ready, not): (Vec<_>, Vec<_>) =
        slices.flat_map(|slice| &slice.endpoints).partition(|endpoint| endpoint.conditions.ready == Some(true));
    (ready.len(), not.len())
}

/// Agent 0 has three endpoints in each of two namespaces, and a writer leads that must not use what is stored of it.
fn withheld(guard: GuardConfig) -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, guard);
    world.set(0, &key(0), Some(service(1, 0, &[1, 2, 3])));
    world.set(0, &key(2), Some(service(1, 0, &[1, 2, 3])));
    world.settle();
    world.withheld.insert(name(0));
    world.restart_writer();
    world
}

#[test]
fn nothing_of_it_is_removed_and_what_is_new_is_published() {
    let mut world = withheld(OPEN);
    world.set(1, &SourceKey::new("two", "other"), Some(service(1, 0, &[9])));
    world.settle();
    world.set(0, &key(0), None);
    world.set(0, &key(2), Some(service(1, 0, &[2, 3, 4])));
    world.set(1, &SourceKey::new("two", "other"), None);
    world.settle_for(20 * SECOND);
    assert_eq!((endpoints(&world, "one"), endpoints(&world, "two")), ((3, 0), (4, 0)), "the other backend's goes");
    let rejects = world.rejects(0);
    assert_eq!(rejects.iter().map(|reject| reject.reason).collect::<Vec<_>>(), [RejectReason::Held; 2]);
    assert!(rejects.iter().all(|reject| reject.message.ends_with("stays: its record is for another")), "{rejects:?}");
    let trouble = world.writer.backends()[&name(0)].trouble();
    assert_eq!(trouble, "nothing of it is removed: its record is for another");
    assert_eq!(world.unacknowledged(0), 0, "what is held is acknowledged");
    // Somebody deletes the record. The task that stores states tries again then.
    world.withheld.clear();
    world.writer.keep_all();
    world.settle();
    check(&world);
    assert_eq!((endpoints(&world, "one"), endpoints(&world, "two")), ((0, 0), (3, 0)));
    assert_eq!((world.rejects(0), world.writer.backends()[&name(0)].trouble()), (Vec::new(), String::new()));
}

/// How long it was lost before is in the record.
#[test]
fn its_loss_changes_nothing() {
    let mut world = withheld(OPEN);
    let mut policy = world.policy(0).unwrap().clone();
    policy.on_loss =
        LossPolicy { not_ready_after: Some(120 * SECOND), drain_after: Some(120 * SECOND), source_stale_after: None };
    world.configure(0, Some(policy));
    world.cut(0);
    world.silent = Some(0);
    world.settle_for(600 * SECOND);
    assert_eq!((endpoints(&world, "one"), endpoints(&world, "two")), ((3, 0), (3, 0)));
    world.withheld.clear();
    world.writer.keep_all();
    world.collect();
    world.settle_for(60 * SECOND);
    assert_eq!(endpoints(&world, "one"), (3, 0), "it has the whole time, from now on");
    world.settle_for(600 * SECOND);
    assert_eq!(endpoints(&world, "one"), (0, 0));
}

#[test]
fn its_name_belongs_to_its_source_and_its_removal_is_refused() {
    let mut world = withheld(OPEN);
    assert_eq!(world.writer.backends()[&name(0)].state().incarnation.as_deref(), Some("uid of a"));
    let mut policy = world.policy(0).unwrap().clone();
    policy.mode = Mode::Quarantine;
    world.configure(0, Some(policy));
    let id = world.writer.inventory(&name(0)).id(&name(0));
    let refused = world.writer.decommission(&name(0), &id).unwrap_err();
    let why = "its record is for another".to_owned();
    assert_eq!(refused, NotDecommissioned::Withheld { backend: name(0), why });
}
