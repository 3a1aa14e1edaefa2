//! Whatever happens, in whatever order, the Gimbal cluster ends up with what the sources have, no foreign object is
//! touched, and nothing is written any more once nothing changes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod aside;
mod batched;
mod before_removal;
mod check;
mod cold;
mod conflicts;
mod contested;
mod decommissioned;
mod drained;
mod explained;
mod guard;
mod held;
mod listing;
mod lost;
mod missing;
mod moved;
mod policy;
mod quota;
mod ready;
mod refused;
mod rehearsed;
mod restored;
mod settle;
mod stored_late;
mod taken_names;
mod unreadable;
mod withheld;
mod world;

use std::time::Duration;

use check::{check, come_to_rest};
use gimbal_guard::{Floors, GuardConfig};
use gimbal_kubernetes_objects::{Meta, keys};
use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::{Body, EndpointsApi};
use gimbal_session::RejectReason;
use gimbal_simulation::server;
use proptest::prelude::*;
use server::{Luck, is_marked, meta_mut};
use world::{BACKENDS, INVALID, World, key, service};

/// A guard that never holds. The tests of the guard use other configurations.
const OPEN: GuardConfig = GuardConfig {
    max_drop_percent: 100,
    min_endpoints: 0,
    window: Duration::from_secs(60),
    quiet_time: Duration::from_secs(60),
    release_all_after: None,
    floors: Floors { endpoints_per_namespace: 0, endpoints_per_service: 0 },
    readiness: false,
};

#[derive(Debug, Clone)]
enum Op {
    Set {
        agent: usize,
        key: u8,
        label: u8,
        ports: u8,
        hosts: Vec<u8>,
    },
    Remove {
        agent: usize,
        key: u8,
    },
    Connect(usize),
    Cut(usize),
    RestartAgent(usize),
    RestartWriter,
    Speak(usize),
    Hear(usize),
    Watch,
    Relist,
    StartJob,
    CarryOutJob(Luck),
    FinishJob(Luck),
    HandDelete(u8),
    HandEdit(u8),
    GiveAway(u8),
    Namespace(bool),
    Foreign(bool),
    /// A part of an agent's source becomes unknown: a namespace, or all of it.
    Unknown(usize, Option<bool>),
    /// Everything in the agent's source is known again.
    Known(usize),
    LoseLease,
    RegainLease,
    /// An admission policy starts or stops denying Services, or slices, with this label.
    Deny(bool, u8, bool),
    /// A quota starts or stops refusing to create Services, or slices. Last: it answers as if a webhook were down.
    Full(bool, bool, bool),
    Pass(u16),
    BackUp,
    /// The store is restored from the last backup. Whether the watches go on; otherwise everything is listed.
    Restore(bool),
    /// Runs for a while without troubles.
    Run(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let agent = 0usize..2;
    let hosts = proptest::collection::vec(0u8..6, 0..5);
    let luck = || prop_oneof![6 => Just(Luck::Good), 1 => Just(Luck::AnswerLost), 1 => Just(Luck::Refused)];
    prop_oneof![
        6 => (agent.clone(), 0u8..4, 0u8..3, prop_oneof![12 => 0u8..2, 1 => Just(INVALID)], hosts)
            .prop_map(|(agent, key, label, ports, hosts)| Op::Set { agent, key, label, ports, hosts }),
        2 => (agent.clone(), 0u8..4).prop_map(|(agent, key)| Op::Remove { agent, key }),
        3 => agent.clone().prop_map(Op::Connect),
        1 => agent.clone().prop_map(Op::Cut),
        1 => agent.clone().prop_map(Op::RestartAgent),
        1 => Just(Op::RestartWriter),
        10 => agent.clone().prop_map(Op::Speak),
        6 => agent.clone().prop_map(Op::Hear),
        1 => (agent.clone(), any::<Option<bool>>()).prop_map(|(agent, two)| Op::Unknown(agent, two)),
        2 => agent.prop_map(Op::Known),
        6 => Just(Op::Watch),
        2 => Just(Op::Relist),
        8 => Just(Op::StartJob),
        3 => luck().prop_map(Op::CarryOutJob),
        8 => luck().prop_map(Op::FinishJob),
        2 => any::<u8>().prop_map(Op::HandDelete),
        2 => any::<u8>().prop_map(Op::HandEdit),
        1 => any::<u8>().prop_map(Op::GiveAway),
        1 => any::<bool>().prop_map(Op::Namespace),
        1 => any::<bool>().prop_map(Op::Foreign),
        1 => Just(Op::LoseLease),
        2 => Just(Op::RegainLease),
        1 => (any::<bool>(), 0u8..3, any::<bool>()).prop_map(|(services, label, on)| Op::Deny(services, label, on)),
        1 => any::<(bool, bool, bool)>().prop_map(|(services, on, down)| Op::Full(services, on, down)),
        2 => (0u16..3000).prop_map(Op::Pass),
        1 => Just(Op::BackUp),
        1 => any::<bool>().prop_map(Op::Restore),
        8 => (1u8..12).prop_map(Op::Run),
    ]
}

fn foreign() -> (server::Id, Body) {
    let metadata = Meta { name: "a-svc".into(), namespace: "two".into(), ..Meta::default() };
    let body = Body::Service(gimbal_kubernetes_objects::Service { metadata, ..Default::default() });
    (("Service", "two".into(), "a-svc".into()), body)
}

/// Returns an object chosen by a number.
fn some(world: &World, n: u8) -> Option<Body> {
    let all: Vec<&Body> = world.server.objects.values().collect();
    (!all.is_empty()).then(|| all[usize::from(n) % all.len()].clone())
}

fn step(world: &mut World, op: Op) {
    match op {
        Op::Set { agent, key: k, label, ports, hosts } => {
            world.set(agent, &key(k), Some(service(label, ports, &hosts)));
        }
        Op::Remove { agent, key: k } => world.set(agent, &key(k), None),
        Op::Connect(agent) => world.connect(agent),
        Op::Cut(agent) => world.cut(agent),
        Op::RestartAgent(agent) => world.restart_agent(agent),
        Op::RestartWriter => world.restart_writer(),
        Op::Speak(agent) => drop(world.speak(agent)),
        Op::Hear(agent) => drop(world.hear(agent)),
        Op::Watch => drop(world.watch()),
        Op::Relist => world.list(),
        Op::StartJob => drop(world.start_job()),
        Op::CarryOutJob(luck) => drop(world.carry_out_job(luck)),
        Op::FinishJob(luck) => drop(world.finish_job(luck)),
        Op::HandDelete(n) => {
            if let Some(body) = some(world, n).filter(is_marked) {
                world.server.remove(&server::id(body.kind(), body.meta()));
            }
        }
        Op::HandEdit(n) => {
            if let Some(mut body) = some(world, n).filter(is_marked) {
                let labels = &mut meta_mut(&mut body).labels;
                match n % 3 {
                    0 => labels.insert("by".into(), "hand".into()),
                    // A backend that does not exist, or one that wants no name of the other's Services.
                    1 => labels.insert(keys::BACKEND.into(), "zzz".into()),
                    _ => labels.insert(keys::BACKEND.into(), BACKENDS[0].into()),
                };
                if let Body::Slice(slice) = &mut body {
                    slice.endpoints.pop();
                }
                world.server.put(body);
            }
        }
        Op::GiveAway(n) => {
            if let Some(mut body) = some(world, n).filter(|body| is_marked(body) && matches!(body, Body::Slice(_))) {
                meta_mut(&mut body).labels.remove(keys::SLICE_MANAGED_BY);
                world.server.put(body);
            }
        }
        Op::Namespace(there) => world.server.set_namespace("two", there),
        Op::Foreign(there) => {
            let (id, body) = foreign();
            let ours = world.server.objects.get(&id).is_some_and(is_marked);
            if there && !ours && world.server.namespaces.contains("two") && !world.server.objects.contains_key(&id) {
                world.server.put(body);
            } else if !there && !ours {
                world.server.remove(&id);
            }
        }
        Op::BackUp => world.backup = world.server.back_up(),
        Op::Restore(watches_go_on) => world.restore(watches_go_on),
        Op::Unknown(agent, two) => world.scope_unknown(agent, two.map(|two| if two { "two" } else { "one" })),
        Op::Known(agent) => world.source_complete(agent),
        Op::LoseLease => world.lose_lease(),
        Op::RegainLease => world.regain_lease(),
        Op::Deny(services, label, on) => {
            let denied = (kind(services), label.to_string());
            if on {
                world.server.refuses.insert(denied)
            } else {
                world.server.refuses.remove(&denied)
            };
        }
        Op::Full(services, on, down) => {
            world.server.webhook_is_down = down;
            let kind = kind(services);
            if on {
                world.server.full.insert(kind)
            } else {
                world.server.full.remove(kind)
            };
        }
        Op::Pass(ms) => world.pass(Duration::from_millis(ms.into())),
        Op::Run(rounds) => {
            for _ in 0..rounds {
                for agent in 0..BACKENDS.len() {
                    world.speak(agent);
                    world.hear(agent);
                }
                world.start_job();
                world.finish_job(Luck::Good);
            }
        }
    }
}

fn kind(services: bool) -> &'static str {
    if services { "Service" } else { "EndpointSlice" }
}

#[test]
fn ends_as_the_sources_are() {
    gimbal_property::check(64, &proptest::collection::vec(op(), 0..120), |ops| {
        let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
        let mut foreign_before = None;
        for op in ops {
            let restored = matches!(op, Op::Restore(_));
            let by_hand = matches!(op, Op::Foreign(_));
            step(&mut world, op);
            prop_assert_eq!(world.writer.audit(), [""; 0]);
            // The writer changes nothing of a foreign object, and does not delete it.
            let there = world.server.objects.get(&foreign().0).filter(|body| !is_marked(body)).cloned();
            let namespace = world.server.namespaces.contains("two");
            if foreign_before.is_some() && namespace && !restored && !by_hand {
                prop_assert_eq!(&foreign_before, &there);
            }
            foreign_before = there;
        }
        come_to_rest(&mut world);
        check(&world);

        // Comparing, reconnecting and restarting everything causes no write.
        let writes = world.server.writes;
        let differences = world.writer.counters().comparison_differences;
        world.pass(Duration::from_secs(301));
        world.settle();
        prop_assert_eq!(world.writer.counters().comparison_differences, differences);
        world.cut(0);
        world.restart_agent(1);
        world.settle();
        prop_assert_eq!(world.server.writes, writes, "a reconnect wrote");
        world.restart_writer();
        world.settle();
        prop_assert_eq!(world.server.writes, writes, "a restart wrote");
        check(&world);
        Ok(())
    });
}

/// A guard that holds many removals of a few endpoints, and releases all of them a while later.
const NARROW: GuardConfig = GuardConfig {
    max_drop_percent: 50,
    min_endpoints: 1,
    window: Duration::from_secs(5),
    quiet_time: Duration::from_secs(5),
    release_all_after: Some(Duration::from_secs(20)),
    ..OPEN
};

/// The guard delays removals, but does not change the end.
#[test]
fn ends_as_the_sources_are_under_the_guard() {
    gimbal_property::check(32, &proptest::collection::vec(op(), 0..120), |ops| {
        let mut world = World::new(EndpointsApi::EndpointSlices, NARROW);
        for op in ops {
            step(&mut world, op);
            prop_assert_eq!(world.writer.audit(), [""; 0]);
        }
        come_to_rest(&mut world);
        check(&world);
        Ok(())
    });
}

/// The writer restarts while an agent is away: what that agent published stays until the agent removes it.
#[test]
fn absence_of_an_agent_deletes_nothing() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.set(1, &key(3), Some(service(0, 0, &[3])));
    world.settle();
    let held = world.server.objects.len();
    world.restart_writer();
    world.connect(1);
    for _ in 0..1000 {
        world.speak(1);
        world.hear(1);
        world.watch();
        world.start_job();
        world.finish_job(Luck::Good);
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.server.objects.len(), held);
    world.set(0, &key(0), None);
    world.settle();
    check(&world);
    assert!(world.server.objects.len() < held);
}

/// The backend whose object exists keeps the name, in whatever order the agents come back.
#[test]
fn the_name_stays_with_whose_object_stands() {
    for first in [0, 1] {
        let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
        // Backend "a" with "b-svc" and backend "a-b" with "svc" both want one/a-b-svc.
        let keys = [key(1), key(0)];
        world.set(first, &keys[first], Some(service(1, 0, &[1])));
        world.settle();
        let second = 1 - first;
        world.set(second, &keys[second], Some(service(2, 0, &[2])));
        world.settle();
        let owner = |world: &World| world.services().next().unwrap().metadata.labels[keys::BACKEND].to_string();
        assert_eq!(owner(&world), BACKENDS[first]);
        let rejects = world.rejects(second);
        assert_eq!(rejects.iter().map(|r| r.reason).collect::<Vec<_>>(), [RejectReason::NameConflict]);

        world.restart_writer();
        world.connect(second);
        for _ in 0..200 {
            world.speak(second);
            world.hear(second);
            world.start_job();
            world.finish_job(Luck::Good);
            world.watch();
        }
        assert_eq!(owner(&world), BACKENDS[first], "the second came back first");
        world.settle();
        assert_eq!(owner(&world), BACKENDS[first]);

        world.set(first, &keys[first], None);
        world.settle();
        assert_eq!(owner(&world), BACKENDS[second], "the name is free now");
        assert!(world.rejects(second).is_empty(), "and the reject is resolved");
    }
}

/// A backend that loses nearly everything is held; additions are written, and an approval releases the removals.
#[test]
fn a_mass_change_is_held_until_it_is_approved() {
    let guard = GuardConfig::default();
    let mut world = World::new(EndpointsApi::EndpointSlices, guard);
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.set(0, &key(2), Some(service(0, 0, &[50])));
    world.settle();
    world.pass(Duration::from_secs(3600));
    world.set(0, &key(0), None);
    world.set(0, &key(2), Some(service(0, 0, &[50, 51])));
    world.settle_for(Duration::from_secs(10));
    let endpoints = |world: &World| world.slices().map(|slice| slice.endpoints.len()).sum::<usize>();
    assert_eq!(endpoints(&world), 42, "the removal is held, the addition is not");
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let id = world.writer.backends()[&name].guards().removals().held().map(|held| held.id).expect("held");
    world.restart_agent(0);
    world.settle_for(Duration::from_secs(10));
    assert_eq!(endpoints(&world), 42, "a restart of the agent releases nothing");
    assert!(world.writer.approve(&name, "other").is_none());
    assert!(world.writer.approve(&name, &id).is_some());
    world.settle();
    assert_eq!(endpoints(&world), 2);
    check(&world);
}

/// Between two terms of one leader, another writer received what the agents sent.
#[test]
fn a_leader_that_comes_back_does_not_write_what_it_knew_before() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.set(0, &key(3), Some(service(0, 0, &[3])));
    world.settle();
    world.writer.lead(None);
    world.cut(0);
    world.cut(1);
    // The other leader learns that one Service is gone and that the other has another endpoint, and writes both.
    world.set(0, &key(0), None);
    let gone: Vec<_> = world.server.objects.keys().filter(|(_, namespace, _)| namespace == "one").cloned().collect();
    gone.iter().for_each(|id| world.server.remove(id));
    let writes = world.server.writes;
    world.writer.lead(Some(7));
    for _ in 0..100 {
        world.watch();
        world.start_job();
        world.finish_job(Luck::Good);
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.server.writes, writes, "nothing is known of the agents yet");
    world.settle();
    check(&world);
    assert_eq!(world.server.writes, writes);
}

/// Labels and annotations that were edited by hand give a name to no backend.
#[test]
fn an_edit_by_hand_hands_no_name_over() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    // Both want one/a-b-svc.
    world.set(0, &key(1), Some(service(1, 0, &[1])));
    world.settle();
    world.set(1, &key(0), Some(service(2, 0, &[2])));
    world.settle();
    let objects: Vec<Body> = world.server.objects.values().cloned().collect();
    for mut body in objects {
        let meta = meta_mut(&mut body);
        meta.labels.insert(keys::BACKEND.into(), BACKENDS[1].into());
        meta.annotations.insert(keys::SOURCE.into(), key(0).to_string().into());
        world.server.put(body);
    }
    world.settle();
    check(&world);
    let labels = &world.services().next().unwrap().metadata.labels;
    assert_eq!(*labels[keys::BACKEND], *BACKENDS[0], "the edit is overwritten");
}

/// While a port is renamed, old and new endpoints exist side by side; the guard does not count that as a loss.
#[test]
fn a_rename_of_ports_is_no_loss() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..200).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.settle();
    world.set(0, &key(0), Some(service(0, 1, &hosts)));
    world.settle_for(Duration::from_secs(5));
    check(&world);
    // Half of the endpoints remain: no more are removed than the guard allows.
    world.set(0, &key(0), Some(service(0, 1, &hosts[..100])));
    world.settle_for(Duration::from_secs(5));
    check(&world);
    assert!(world.writer.backends().values().all(|backend| backend.guards().removals().held().is_none()));
    // One endpoint fewer, so more than half would be missing.
    world.set(0, &key(0), Some(service(0, 1, &hosts[..99])));
    world.settle_for(Duration::from_secs(5));
    assert!(world.writer.backends().values().any(|backend| backend.guards().removals().held().is_some()));
}

/// Small losses add up: everything that was removed within the window counts.
#[test]
fn a_drip_is_held_like_a_flood() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let one = |n: usize| SourceKey::new("one", format!("s{n}"));
    for n in 0..40 {
        world.set(0, &one(n), Some(service(0, 0, &[1, 2, 3, 4, 5])));
    }
    world.settle();
    for n in 0..40 {
        world.set(0, &one(n), None);
        world.settle_for(Duration::from_millis(500));
    }
    let left = world.slices().map(|slice| slice.endpoints.len()).sum::<usize>();
    assert_eq!(left, 100, "a half of 200 may go within a minute");
    // Allowed removals are forgotten when the window has passed; held removals are not released by time.
    world.settle_for(Duration::from_secs(300));
    let left = world.slices().map(|slice| slice.endpoints.len()).sum::<usize>();
    assert_eq!(left, 100, "a drop to nothing waits for a person");
}
