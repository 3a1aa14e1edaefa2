//! What another configuration would change is what it changes, and until it is in force nothing is changed.

use gimbal_guard::GuardConfig;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{Mode, NamespacePolicy, Policy, PolicyDifference, Rehearsal};

use super::OPEN;
use super::policy::name;
use super::world::{World, key, service};

const MOST: usize = 3;

/// Two Services of the first backend, in two namespaces, that are written.
fn world(guard: GuardConfig) -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, guard);
    let hosts: Vec<u8> = (1..=30).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.set(0, &key(2), Some(service(0, 0, &hosts[..2])));
    world.settle();
    world
}

/// Returns what would follow if the first backend had this policy, and what it is compared with: the writes that follow.
fn rehearse(world: &mut World, policy: Option<Policy>) -> (Option<Rehearsal>, usize) {
    let mut policies = world.policies.clone();
    match policy.clone() {
        Some(policy) => policies.insert(name(0), policy),
        None => policies.remove(&name(0)),
    };
    let before = world.server.writes;
    let mut rehearsed = world.writer.rehearse(&policies, MOST, world.now);
    world.settle();
    assert_eq!(world.server.writes, before, "a rehearsal writes nothing");
    let own = rehearsed.remove(&name(0));
    assert!(rehearsed.is_empty(), "the other backend does not differ");
    world.configure(0, policy);
    world.settle();
    (own, world.server.writes - before)
}

fn deny(pattern: &str, of: &Policy) -> Policy {
    let namespaces = NamespacePolicy { deny: vec![pattern.parse().unwrap()], ..NamespacePolicy::default() };
    Policy { namespaces, ..of.clone() }
}

#[test]
fn what_is_rehearsed_is_what_follows() {
    let mut world = world(OPEN);
    let admitted = world.policy(0).unwrap().clone();
    assert_eq!(rehearse(&mut world, Some(admitted.clone())), (None, 0), "nothing differs");
    let (denied, writes) = rehearse(&mut world, Some(deny("two", &admitted)));
    let denied = denied.unwrap();
    assert_eq!((denied.difference, denied.tally.deleted, denied.held), (PolicyDifference::Changed, 2, 0));
    assert_eq!((writes, denied.first.len()), (2, 2));
    assert!(denied.first.iter().all(|write| &*write.target.namespace == "two"), "{denied:?}");
    let (back, writes) = rehearse(&mut world, Some(admitted.clone()));
    assert_eq!((back.unwrap().tally.created, writes), (2, 2));
    let quarantine = Policy { mode: Mode::Quarantine, ..deny("two", &admitted) };
    let (quarantined, writes) = rehearse(&mut world, Some(quarantine));
    assert_eq!((quarantined.unwrap().tally, writes), (Default::default(), 0));
    let (refused, writes) = rehearse(&mut world, None);
    let refused = refused.unwrap();
    assert_eq!((refused.difference, refused.tally, writes), (PolicyDifference::Removed, Default::default(), 0));
    let (added, _) = rehearse(&mut world, Some(admitted));
    assert_eq!(added.unwrap().difference, PolicyDifference::Added);
}

#[test]
fn what_the_guard_would_hold_is_said() {
    let mut world = world(GuardConfig::default());
    let denied = deny("one", world.policy(0).unwrap());
    let rehearsed = rehearse(&mut world, Some(denied)).0.unwrap();
    assert_eq!((rehearsed.tally.deleted, rehearsed.held), (2, 30));
}
