//! Random users, delays, conflicts, lost answers and restarts: in the end what is wanted is there and nothing else, no owner has
//! vanished before what was made for it, and nothing is written any more.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::api::{BALANCER_FINALIZER, Kind, SERVICE_FINALIZER, owner_of, text};
use crate::world::{World, service, slice};

const KINDS: [Kind; 3] = [Kind::Service, Kind::Slice, Kind::Balancer];
const ORDERS: [[Kind; 3]; 3] = [
    [Kind::Service, Kind::Slice, Kind::Balancer],
    [Kind::Balancer, Kind::Slice, Kind::Service],
    [Kind::Slice, Kind::Service, Kind::Balancer],
];

#[derive(Debug, Clone, Copy)]
enum Op {
    Create(u8, u8),
    Delete(u8),
    Type(u8, u8),
    Port(u8, u8),
    Endpoints(u8, u8),
    DeleteBalancer(u8),
    OwnBalancer(u8),
    StripService(u8),
    StripBalancer(u8),
    EditSpec(u8),
    Wipe(u8),
    Collect,
    Watch(u8),
    List(u8),
    Unreadable(u8),
    Plan,
    Answer(u8, u8),
    Late,
    Drain,
    Receive,
    Work,
    Report,
    Restart(u8),
    RestartBehind,
    BreakStream,
    Lead(bool),
    Facts,
    Refuse(u8, u8),
    BackUp,
    GoBack,
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0..2u8;
    prop_oneof![
        4 => (name.clone(), 0..4u8).prop_map(|(name, of)| Op::Create(name, of)),
        2 => name.clone().prop_map(Op::Delete),
        2 => (name.clone(), 0..4u8).prop_map(|(name, of)| Op::Type(name, of)),
        1 => (name.clone(), 0..3u8).prop_map(|(name, port)| Op::Port(name, port)),
        2 => (name.clone(), 0..3u8).prop_map(|(name, pods)| Op::Endpoints(name, pods)),
        1 => name.clone().prop_map(Op::DeleteBalancer),
        1 => name.clone().prop_map(Op::OwnBalancer),
        1 => name.clone().prop_map(Op::StripService),
        1 => name.clone().prop_map(Op::StripBalancer),
        1 => name.clone().prop_map(Op::EditSpec),
        1 => name.prop_map(Op::Wipe),
        1 => Just(Op::Collect),
        8 => (0..3u8).prop_map(Op::Watch),
        1 => (0..3u8).prop_map(Op::List),
        1 => (0..3u8).prop_map(Op::Unreadable),
        6 => Just(Op::Plan),
        8 => (0..4u8, 0..12u8).prop_map(|(at, fate)| Op::Answer(at, fate)),
        1 => Just(Op::Late),
        5 => Just(Op::Drain),
        4 => Just(Op::Receive),
        5 => Just(Op::Work),
        5 => Just(Op::Report),
        1 => (0..3u8).prop_map(Op::Restart),
        1 => Just(Op::RestartBehind),
        1 => Just(Op::BreakStream),
        1 => any::<bool>().prop_map(Op::Lead),
        1 => Just(Op::Facts),
        1 => Just(Op::BackUp),
        1 => Just(Op::GoBack),
        2 => (0..2u8, 0..3u8).prop_map(|(name, words)| Op::Refuse(name, words)),
        2 => (0..4u8).prop_map(Op::Pass),
    ]
}

fn type_of(n: u8) -> &'static str {
    ["LoadBalancer", "LoadBalancer", "ClusterIP", "NodePort"][usize::from(n) % 4]
}

fn play(world: &mut World, op: Op) {
    let name = |n: u8| ["a", "b"][usize::from(n) % 2];
    match op {
        Op::Create(n, of) => drop(world.api.create(Kind::Service, name(n), service(type_of(of), 80))),
        Op::Delete(n) => world.api.delete(Kind::Service, name(n)),
        Op::Type(n, of) => {
            world.api.edit(Kind::Service, name(n), |it| it["spec"]["type"] = json!(type_of(of)));
        }
        Op::Port(n, port) => {
            world.api.edit(Kind::Service, name(n), |it| it["spec"]["ports"][0]["port"] = json!(80 + u16::from(port)));
        }
        Op::Endpoints(n, pods) => {
            let slice = slice(name(n), pods);
            let endpoints = slice["endpoints"].clone();
            if world.api.create(Kind::Slice, name(n), slice).is_none() {
                world.api.edit(Kind::Slice, name(n), |it| it["endpoints"] = endpoints);
            }
        }
        Op::DeleteBalancer(n) => world.api.delete(Kind::Balancer, name(n)),
        Op::OwnBalancer(n) => {
            let spec = json!({
                "ip": "10.96.0.77", "project_id": "project", "subnet_id": "services", "type": "ClusterIP",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
            });
            world.api.create(Kind::Balancer, name(n), json!({ "spec": spec }));
        }
        Op::StripService(n) => strip(world, Kind::Service, name(n), SERVICE_FINALIZER),
        Op::StripBalancer(n) => strip(world, Kind::Balancer, name(n), BALANCER_FINALIZER),
        Op::EditSpec(n) => {
            // An own one is its maker's to edit.
            if world.api.get(Kind::Balancer, name(n)).is_some_and(|it| !text(it, "/spec/service_uid").is_empty()) {
                world.api.edit(Kind::Balancer, name(n), |it| it["spec"]["provider"] = json!("ovn"));
            }
        }
        Op::Wipe(n) => {
            world.api.edit(Kind::Balancer, name(n), |it| drop(it.as_object_mut().unwrap().remove("status")));
        }
        Op::Collect => world.api.collect(),
        Op::Watch(kind) => drop(world.watch(KINDS[usize::from(kind)])),
        Op::List(kind) => world.list(KINDS[usize::from(kind)]),
        Op::Unreadable(kind) => world.unreadable(KINDS[usize::from(kind)]),
        Op::Plan => drop(world.plan()),
        Op::Answer(at, fate) => drop(world.answer(usize::from(at), fate)),
        Op::Late => world.arrive_late(),
        Op::Drain => drop(world.drain()),
        Op::Receive => drop(world.writer.receive()),
        Op::Work => drop(world.writer.work()),
        Op::Report => drop(world.report()),
        Op::Restart(order) => world.restart(&ORDERS[usize::from(order)]),
        Op::RestartBehind => world.restart_behind(),
        Op::BreakStream => world.break_stream(),
        Op::Lead(leads) => world.lead(leads),
        Op::Facts => world.learn_facts(),
        Op::Refuse(n, words) => {
            world.writer.refuse(name(n), [None, Some("not you"), Some("not here")][usize::from(words)])
        }
        Op::BackUp => world.api.back_up(),
        Op::GoBack => world.go_back(),
        Op::Pass(n) => world.pass(Duration::from_secs(1 << n)),
    }
    world.handled();
}

/// Somebody removes a finalizer by hand. What was made for its owner may be left then.
fn strip(world: &mut World, kind: Kind, name: &str, finalizer: &str) {
    let Some(object) = world.api.get(kind, name) else { return };
    let owner = match kind {
        Kind::Balancer => owner_of(object),
        _ => text(object, "/metadata/uid").to_owned(),
    };
    world.api.forced.insert(owner);
    world.api.edit(kind, name, |it| {
        if let Some(all) = it["metadata"]["finalizers"].as_array_mut() {
            all.retain(|one| one != finalizer);
        }
    });
}

fn lives(knows_facts: bool, ops: &[Op]) {
    let mut world = World::new(knows_facts);
    for op in ops {
        play(&mut world, *op);
    }
    world.quiet();
    world.check_refusals();
    for name in ["a", "b"] {
        world.writer.refuse(name, None);
    }
    world.rest();
    world.check();
    for order in &ORDERS {
        world.check_restart(order);
    }
}

#[test]
fn any_life_ends_well() {
    gimbal_property::check(256, &(any::<bool>(), proptest::collection::vec(op(), 0..150)), |(knows_facts, ops)| {
        lives(knows_facts, &ops);
        Ok(())
    });
}

#[test]
fn lives_that_once_went_wrong() {
    use Op::{
        Answer, BackUp, Create, Delete, Facts, GoBack, Late, List, OwnBalancer, Plan, Port, Restart, RestartBehind,
        Type, Watch, Work,
    };
    // A create lands in the store right after it went back, and the process that sent it ends.
    let made_in_a_restored_store = [
        BackUp,
        Create(0, 0),
        Create(1, 0),
        Restart(0),
        Delete(0),
        Plan,
        Answer(1, 0),
        Restart(0),
        Plan,
        GoBack,
        Answer(0, 0),
        Restart(0),
    ];
    lives(true, &made_in_a_restored_store);
    let same_name = [
        BackUp,
        OwnBalancer(0),
        Restart(0),
        Plan,
        Answer(0, 0),
        GoBack,
        Create(0, 0),
        Type(0, 0),
        Port(0, 0),
        Watch(0),
    ];
    lives(true, &same_name);
    // The Service was to take what the restored store lacks.
    let to_be_taken = [Facts, BackUp, OwnBalancer(0), Create(0, 0), RestartBehind, Plan, List(0), Answer(0, 0), GoBack];
    lives(false, &to_be_taken);
    // Another one has its name after that.
    let of_one_name = [
        BackUp,
        OwnBalancer(1),
        Restart(0),
        Facts,
        Plan,
        Restart(0),
        Late,
        Watch(2),
        GoBack,
        Create(0, 0),
        OwnBalancer(1),
        OwnBalancer(0),
    ];
    lives(false, &of_one_name);
    // The restored store has the Service without its finalizer.
    let without_finalizer = [
        Facts,
        Create(1, 0),
        BackUp,
        Watch(0),
        Plan,
        Answer(0, 0),
        Plan,
        Answer(0, 0),
        Restart(0),
        GoBack,
        Delete(1),
        Work,
    ];
    lives(false, &without_finalizer);
    // It has the KuryrLoadBalancer without its finalizer, and a Service takes it.
    let taken = [
        Facts,
        OwnBalancer(1),
        Watch(2),
        Plan,
        BackUp,
        Answer(0, 0),
        Restart(0),
        GoBack,
        Create(1, 0),
        Work,
        Restart(0),
    ];
    lives(false, &taken);
}
