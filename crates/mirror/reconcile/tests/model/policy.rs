//! Policies that change at any moment: removals that they require pass through the guard, newly allowed Services are
//! published, mapped ones move, and Services that are only slowed or shown lose nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kubernetes_objects::{Meta, keys};
use gimbal_model::{BackendName, SourceKey, service_name};
use gimbal_plan::{Body, EndpointsApi};
use gimbal_reconcile::{Claim, Mode, NamespacePolicy, Policy, Quota, Tally};
use gimbal_session::RejectReason;
use proptest::prelude::*;

use super::check::{check, come_to_rest, names_its_source};
use super::server::{Luck, is_marked, meta_mut};
use super::world::{BACKENDS, World, is_valid, key, service};
use super::{OPEN, Op, op, step};

pub(super) fn open() -> Policy {
    Policy { guard: OPEN, ..Policy::default() }
}

fn namespaces(namespaces: NamespacePolicy) -> Policy {
    Policy { namespaces, ..open() }
}

fn deny(pattern: &str) -> Policy {
    namespaces(NamespacePolicy { deny: vec![pattern.parse().unwrap()], ..NamespacePolicy::default() })
}

pub(super) fn map(from: &str, to: &str, create: bool) -> Policy {
    let map = [(from.to_owned(), to.to_owned())].into();
    namespaces(NamespacePolicy { map, create, ..NamespacePolicy::default() })
}

pub(super) fn quota(services: Option<u64>, endpoints: Option<u64>, changes_per_second: Option<u64>) -> Policy {
    Policy { quota: Quota { services, endpoints, bytes: None, changes_per_second }, ..open() }
}

fn quarantine() -> Policy {
    Policy { mode: Mode::Quarantine, ..open() }
}

/// Returns one of the policies that a configuration could change to; `None` removes the backend from the file.
fn some_policy(n: u8) -> Option<Policy> {
    Some(match n % 10 {
        0 => open(),
        1 => deny("two"),
        2 => map("one", "two", false),
        3 => map("two", "three", true),
        4 => quarantine(),
        5 => quota(Some(1), None, None),
        6 => quota(None, Some(3), None),
        7 => quota(None, None, Some(3)),
        8 => {
            let mut policy = open();
            policy.addresses.allowed = Some(vec!["10.0.0.0/30".parse().unwrap()]);
            policy.strip.labels.push(gimbal_plan::Pattern::new("by"));
            policy
        }
        _ => return None,
    })
}

pub(super) fn name(agent: usize) -> BackendName {
    BackendName::parse(BACKENDS[agent]).unwrap()
}

pub(super) fn claim(meta: &Meta) -> Option<(usize, SourceKey)> {
    let agent = BACKENDS.iter().position(|name| **name == *meta.labels[keys::BACKEND])?;
    Some((agent, SourceKey::from_annotation(&meta.annotations[keys::SOURCE])?))
}

fn object<'a>(world: &'a World, namespace: &str, name: &str) -> Option<&'a Body> {
    world.server.objects.get(&("Service", namespace.to_owned(), name.to_owned()))
}

pub(super) fn endpoints(world: &World) -> usize {
    world.slices().map(|slice| slice.endpoints.len()).sum()
}

fn marked(world: &World) -> impl Iterator<Item = &Body> {
    world.server.objects.values().filter(|body| is_marked(body))
}

/// Returns namespace and name of the Service that an object belongs to.
fn target_of(meta: &Meta) -> (String, String) {
    (meta.namespace.to_string(), meta.labels.get(keys::SERVICE_NAME).unwrap_or(&meta.name).to_string())
}

/// Counts the Services and endpoints that may belong to an agent's backend, because the writer knows their owner even
/// if their labels were edited by hand. A slice whose Service was deleted by hand counts as a Service too.
fn existing(world: &World, agent: usize) -> (u64, usize) {
    let may_be = |body: &&Body| {
        let source = SourceKey::from_annotation(&body.meta().annotations[keys::SOURCE]).unwrap();
        service_name(&name(agent), &source.name) == target_of(body.meta()).1
    };
    let services: BTreeSet<_> = marked(world).filter(may_be).map(|body| target_of(body.meta())).collect();
    let endpoints = |body: &Body| if let Body::Slice(slice) = body { slice.endpoints.len() } else { 0 };
    (services.len() as u64, marked(world).filter(may_be).map(endpoints).sum())
}

/// Checks what must hold under any policies when everything is at rest: each Service of an admitted backend is where
/// its policy wants it or its agent knows why not, and no object of an admitted backend is where it may not be.
pub(super) fn check_policies(world: &World) {
    for agent in 0..BACKENDS.len() {
        let Some(policy) = world.policy(agent).filter(|policy| policy.mode == Mode::Admit) else { continue };
        let rejects: BTreeMap<SourceKey, RejectReason> =
            world.rejects(agent).into_iter().map(|reject| (reject.key.unwrap(), reject.reason)).collect();
        for (key, service) in &world.agents[agent].source {
            let Ok(target) = policy.target(&name(agent), key, None) else {
                assert_eq!(rejects.get(key), Some(&RejectReason::NamespaceForbidden), "{key}");
                continue;
            };
            let there = object(world, &target.namespace, &target.name);
            let ours = there.filter(|body| is_marked(body)).and_then(|body| claim(body.meta()));
            match rejects.get(key) {
                None | Some(RejectReason::AddressRefused) => {
                    assert_eq!(ours, Some((agent, key.clone())), "{key} is not in {target}");
                    let held: usize = world
                        .slices()
                        .filter(|s| is_marked(&Body::Slice((*s).clone())))
                        .filter(|s| *s.metadata.namespace == *target.namespace)
                        .filter(|s| *s.metadata.labels[keys::SERVICE_NAME] == *target.name)
                        .map(|s| s.endpoints.len())
                        .sum();
                    let allowed = service.endpoints().filter(|(_, e)| policy.addresses.check(e.address).is_ok());
                    assert_eq!(held, allowed.count(), "{key}");
                }
                Some(RejectReason::NamespaceMissing) => {
                    assert!(!policy.namespaces.create && !world.server.namespaces.contains(&*target.namespace));
                }
                Some(RejectReason::NameConflict) => assert_ne!(ours, Some((agent, key.clone())), "{key}"),
                Some(RejectReason::Quota) => {
                    let (services, held) = existing(world, agent);
                    let more = u64::from(ours != Some((agent, key.clone())));
                    let over = policy.quota.services.is_some_and(|limit| services + more > limit)
                        || policy.quota.endpoints.is_some_and(|limit| (held + service.endpoint_count()) as u64 > limit);
                    assert!(over, "{key} waits although there is room: {services} services, {held} endpoints");
                }
                Some(RejectReason::Invalid) => assert!(!is_valid(service), "{key}"),
                Some(other) => panic!("{key} is rejected as {other:?}"),
            }
        }
    }
    for service in world.services().filter(|s| is_marked(&Body::Service((*s).clone())) && names_its_source(&s.metadata))
    {
        let meta = &service.metadata;
        let Some((agent, key)) = claim(meta) else { continue };
        let Some(policy) = world.policy(agent).filter(|policy| policy.mode == Mode::Admit) else { continue };
        // A label that was edited by hand is no proof: all objects must name the owner.
        let target = target_of(meta);
        let mut all = marked(world).filter(|body| target_of(body.meta()) == target);
        let sure = all.all(|body| claim(body.meta()) == Some((agent, key.clone())));
        let permitted = policy.namespaces.permits(&meta.namespace).is_ok();
        assert!(permitted || !sure, "{}/{} is forbidden", meta.namespace, meta.name);
        if !permitted {
            continue;
        }
        assert!(world.agents[agent].source.contains_key(&key), "{}/{} is left", meta.namespace, meta.name);
        let target = policy.target(&name(agent), &key, None).unwrap();
        if *target.namespace != *meta.namespace {
            let arrived = object(world, &target.namespace, &target.name)
                .filter(|body| is_marked(body))
                .and_then(|body| claim(body.meta()));
            let rejected = world.rejects(agent).iter().any(|reject| reject.key.as_ref() == Some(&key));
            assert!(rejected || arrived != Some((agent, key.clone())), "{key} is in two places");
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum PolicyOp {
    Configure(usize, u8),
    Other(Op),
}

fn policy_op() -> impl Strategy<Value = PolicyOp> {
    prop_oneof![
        1 => (0usize..2, any::<u8>()).prop_map(|(agent, n)| PolicyOp::Configure(agent, n)),
        8 => op().prop_map(PolicyOp::Other),
    ]
}

/// Executes the operations and comes to rest. Then the policies must be fulfilled, and a comparison, a reconnect or a
/// restart must write nothing.
pub(super) fn ends_as_its_policies_say(ops: Vec<PolicyOp>) {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let edited = ops.iter().any(|op| matches!(op, PolicyOp::Other(Op::HandEdit(_) | Op::HandDelete(_))));
    for op in ops {
        match op {
            PolicyOp::Configure(agent, n) => world.configure(agent, some_policy(n)),
            PolicyOp::Other(op) => step(&mut world, op),
        }
        assert_eq!(world.writer.audit(), [""; 0]);
    }
    // Services that wait for room and whose creation is refused are tried in turn, forever.
    if world.policies.values().any(|policy| policy.quota != Quota::default()) {
        world.server.full.clear();
    }
    come_to_rest(&mut world);
    check_policies(&world);
    let writes = world.server.writes;
    let differences = world.writer.counters().comparison_differences;
    world.pass(Duration::from_secs(301));
    world.settle();
    assert_eq!(world.writer.counters().comparison_differences, differences);
    for agent in 0..BACKENDS.len() {
        let same = world.policy(agent).cloned();
        world.configure(agent, same);
    }
    world.restart_agent(1);
    world.settle();
    assert_eq!(world.server.writes, writes, "nothing changed, and something was written");
    // After a restart only the objects name their owner. Objects that were edited or deleted by hand, and that no
    // backend may repair or has room to repair, no longer prove that.
    let repaired = (0..BACKENDS.len())
        .all(|n| world.policy(n).is_some_and(|policy| policy.mode == Mode::Admit) && world.rejects(n).is_empty());
    world.restart_writer();
    world.settle();
    if repaired || !edited {
        assert_eq!(world.server.writes, writes, "a restart wrote");
    }
    check_policies(&world);

    // Whatever happened before, the same policies lead to the same state as if there had been no others. A Service that
    // leaves a namespace needs the other one to exist.
    world.server.set_namespace("two", true);
    for agent in 0..BACKENDS.len() {
        world.configure(agent, Some(open()));
    }
    world.settle();
    check_policies(&world);
    // A Service that lost its name to another stays where it was before, because it has no other place.
    if world.rejects(0).is_empty() && world.rejects(1).is_empty() {
        check(&world);
    }
}

#[test]
fn ends_as_the_policies_say() {
    gimbal_property::check(64, &proptest::collection::vec(policy_op(), 0..120), |ops| {
        ends_as_its_policies_say(ops);
        Ok(())
    });
}

/// Removing what a policy forbids needs neither an agent nor the writer's memory, and the guard counts all of it.
#[test]
fn what_a_policy_forbids_is_removed_through_the_guard() {
    for restart in [false, true] {
        let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
        let hosts: Vec<u8> = (0..40).collect();
        world.set(0, &key(0), Some(service(0, 0, &hosts)));
        for k in [2, 3] {
            world.set(0, &key(k), Some(service(0, 0, &hosts)));
        }
        world.set(1, &key(3), Some(service(0, 0, &[1])));
        world.settle();
        world.pass(Duration::from_secs(3600));
        let forbidding = Policy { guard: GuardConfig::default(), ..deny("two") };
        world.cut(0);
        if restart {
            world.policies.insert(name(0), forbidding.clone());
            world.restart_writer();
        } else {
            world.configure(0, Some(forbidding.clone()));
        }
        let alone = |world: &mut World| {
            for _ in 0..100 {
                while world.watch() | world.start_job() | world.finish_job(Luck::Good) {}
                world.pass(Duration::from_millis(500));
            }
        };
        alone(&mut world);
        assert_eq!(endpoints(&world), 121, "80 of 120 are held (restart: {restart})");
        let held = world.writer.backends()[&name(0)].guards().removals().held().expect("held");
        assert_eq!((held.endpoints_removed, held.targets), (80, 2));
        assert!(world.writer.approve(&name(0), &held.id).is_some());
        alone(&mut world);
        assert_eq!(endpoints(&world), 41, "the agent was never there, and the other backend has what it had");
        world.settle();
        let reasons: Vec<_> = world.rejects(0).iter().map(|reject| reject.reason).collect();
        assert_eq!(reasons, [RejectReason::NamespaceForbidden; 2]);

        world.configure(0, Some(Policy { guard: GuardConfig::default(), ..open() }));
        world.settle();
        assert_eq!((endpoints(&world), world.rejects(0).len()), (121, 0), "allowed again, without a word of the agent");
    }
}

/// A changed map moves a Service: the old objects are removed when the new ones exist, and that is no loss.
#[test]
fn what_is_mapped_elsewhere_moves() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..200).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.settle();
    let policy = Policy { guard: GuardConfig::default(), ..map("one", "three", false) };
    world.configure(0, Some(policy));
    world.settle();
    assert!(object(&world, "one", "a-svc").is_some(), "it stays while the new place is not there");
    assert_eq!(world.rejects(0)[0].reason, RejectReason::NamespaceMissing);
    world.server.set_namespace("three", true);
    let mut both = false;
    for _ in 0..1000 {
        let (old, new) = (object(&world, "one", "a-svc").is_some(), object(&world, "three", "a-svc").is_some());
        assert!(old || new, "it is nowhere");
        both |= old && new;
        let _moved = world.watch() | world.start_job() | world.finish_job(Luck::Good);
        world.pass(Duration::from_millis(100));
    }
    assert!(both);
    world.settle();
    assert!(object(&world, "one", "a-svc").is_none());
    assert_eq!((endpoints(&world), world.rejects(0).len()), (200, 0));
    assert!(world.writer.backends()[&name(0)].guards().removals().held().is_none());

    // A restart while a Service should move and its agent is away does not remove it from its old place.
    world.cut(0);
    world.configure(0, Some(Policy { guard: GuardConfig::default(), ..open() }));
    world.restart_writer();
    for _ in 0..200 {
        while world.watch() | world.start_job() | world.finish_job(Luck::Good) {}
        world.pass(Duration::from_millis(500));
    }
    assert!(object(&world, "three", "a-svc").is_some(), "what belongs into the other place is unknown");
    world.settle();
    assert!(object(&world, "three", "a-svc").is_none() && object(&world, "one", "a-svc").is_some());

    // The Service is removed from its source while it should move, so it stays in neither place.
    world.server.set_namespace("three", false);
    let policy = Policy { guard: OPEN, ..map("one", "three", false) };
    world.configure(0, Some(policy));
    world.settle();
    world.set(0, &key(0), None);
    world.settle();
    assert_eq!(world.server.objects.len(), 0);
    assert!(world.rejects(0).is_empty());
}

#[test]
fn a_missing_namespace_is_created_once_if_the_policy_says_so() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(map("two", "three", true)));
    for k in [2, 3] {
        world.set(0, &key(k), Some(service(0, 0, &[1])));
    }
    world.set(1, &key(3), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!((endpoints(&world), &world.created), (3, &vec!["three".to_owned()]));
    world.server.set_namespace("three", false);
    world.settle();
    assert_eq!((endpoints(&world), world.created.len()), (3, 2), "somebody deleted it");
}

#[test]
fn a_backend_in_quarantine_is_planned_and_shown_until_it_is_admitted() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quarantine()));
    world.set(0, &key(1), Some(service(0, 0, &[1, 2])));
    world.set(0, &key(3), Some(service(0, 0, &[3])));
    world.settle();
    assert_eq!(world.server.objects.len(), 0);
    assert_eq!(world.rejects(0).iter().map(|r| r.reason).collect::<Vec<_>>(), [RejectReason::Quarantined; 2]);
    assert_eq!(world.writer.preview(&name(0)), Tally { created: 4, changed: 0, deleted: 0 });
    let claim = Claim { backend: name(0), key: key(3) };
    let planned = world.writer.explain_source(&claim).planned;
    let diff: Vec<&str> = planned.iter().flat_map(|(_, diff)| diff.iter().map(String::as_str)).collect();
    assert!(diff.contains(&"+ port p0 80/TCP") && diff.contains(&"+ endpoint 10.0.0.4 8080/TCP ready"), "{diff:?}");
    // A backend in quarantine keeps no name from an admitted one: both want one/a-b-svc.
    world.set(1, &key(0), Some(service(0, 0, &[9])));
    world.settle();
    assert_eq!(endpoints(&world), 1);
    world.set(1, &key(0), None);
    world.configure(0, Some(open()));
    world.settle();
    assert_eq!((endpoints(&world), world.rejects(0).len()), (3, 0));
    check(&world);

    // Quarantined while it runs: its objects stay, whatever its agent sends, until it is admitted again.
    world.configure(0, Some(quarantine()));
    world.set(0, &key(1), None);
    world.set(0, &key(3), Some(service(1, 0, &[4, 5])));
    world.set(1, &key(0), Some(service(0, 0, &[9])));
    let before = world.server.writes;
    world.settle();
    world.restart_agent(0);
    world.settle();
    assert_eq!((world.server.writes, endpoints(&world)), (before, 3));
    assert_eq!(world.writer.preview(&name(0)), Tally { created: 0, changed: 2, deleted: 2 });
    assert_eq!(world.rejects(1)[0].reason, RejectReason::NameConflict, "the name is not free");
    world.configure(0, Some(open()));
    world.settle();
    assert!(world.rejects(0).is_empty() && world.rejects(1).is_empty());
    check(&world);
}

/// A backend that leaves the configuration loses its stream and keeps its objects. When it is back, nothing is
/// written.
#[test]
fn a_backend_that_leaves_the_configuration_keeps_its_objects() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.set(1, &key(3), Some(service(0, 0, &[3])));
    world.settle();
    let writes = world.server.writes;
    for restart in [false, true] {
        world.configure(0, None);
        if restart {
            world.restart_writer();
        }
        world.settle();
        let backend = &world.writer.backends()[&name(0)];
        assert!(!backend.is_listed() && !backend.is_connected() && backend.endpoints() == 2, "it is still shown");
        world.speak(0);
        assert_eq!(world.server.writes, writes);
        world.configure(0, Some(open()));
        world.settle();
        assert_eq!(world.server.writes, writes);
        check(&world);
    }
}

/// The backend that does not get a name is notified that it is taken, but not by which backend.
#[test]
fn a_name_conflict_tells_nothing_of_another_backend() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(1), Some(service(1, 0, &[1])));
    world.settle();
    world.set(1, &key(0), Some(service(2, 0, &[2])));
    world.settle();
    assert_eq!(world.rejects(1)[0].message, "the name one/a-b-svc is taken");
    // The first backend is away, and its Service may still exist.
    world.restart_writer();
    world.connect(1);
    for _ in 0..200 {
        let _moved = world.speak(1) | world.hear(1) | world.watch() | world.start_job() | world.finish_job(Luck::Good);
    }
    assert_eq!(world.rejects(1)[0].message, "the name one/a-b-svc is taken");
}

/// A label that was edited by hand is no proof: if only one object of several says so, nothing is deleted as
/// forbidden.
#[test]
fn an_edit_by_hand_makes_nothing_forbidden() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(deny("one")));
    // An object of backend a-b, with a name that backend a's "b-svc" would have.
    world.set(1, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!(service_name(&name(0), "b-svc"), service_name(&name(1), "svc"));
    let mut edited = object(&world, "one", "a-b-svc").unwrap().clone();
    meta_mut(&mut edited).labels.insert(keys::BACKEND.into(), BACKENDS[0].into());
    meta_mut(&mut edited).annotations.insert(keys::SOURCE.into(), key(1).to_string().into());
    world.server.put(edited);
    world.cut(1);
    world.restart_writer();
    let writes = world.server.writes;
    for _ in 0..50 {
        while world.watch() | world.start_job() | world.finish_job(Luck::Good) {}
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.server.writes, writes);
    world.settle();
    check(&world);
}
