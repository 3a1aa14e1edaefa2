//! Random users, delays, conflicts, lost answers and restarts: in the end what is wanted is there and nothing else, nothing has
//! vanished before what was made for it, and nothing is written any more.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::api::{self, INGRESS_FINALIZER, Kind, ROUTER_FINALIZER, text};
use crate::objects::{ingress, secret, set_tls};
use crate::world::{KINDS, SHARED, World};

const ORDERS: [[Kind; 4]; 3] = [
    [Kind::Class, Kind::Ingress, Kind::Router, Kind::Secret],
    [Kind::Secret, Kind::Router, Kind::Ingress, Kind::Class],
    [Kind::Ingress, Kind::Secret, Kind::Router, Kind::Class],
];

const ROUTERS: [&str; 3] = [SHARED, "team/web", "team/a"];

#[derive(Debug, Clone, Copy)]
enum Op {
    Create(u8, u8),
    Delete(u8),
    Class(u8, bool),
    Move(u8, u8),
    Pods(u8),
    Tls(u8, bool),
    Secret(u8, u8),
    DeleteSecret(u8),
    DeleteRouter(u8),
    StripIngress(u8),
    StripRouter(u8),
    EditRouter(u8),
    Wipe(u8),
    Watch(u8),
    List(u8),
    Unreadable(u8),
    Services(bool),
    Plan,
    Answer(u8, u8),
    Late,
    Drain,
    Receive,
    Work,
    Report,
    Restart(u8),
    RestartBehind,
    RestartUnheard,
    BreakStream,
    Lead(bool),
    Facts(bool),
    Refuse(u8, u8),
    BackUp,
    GoBack,
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0..2u8;
    prop_oneof![
        4 => (name.clone(), 0..4u8).prop_map(|(name, router)| Op::Create(name, router)),
        2 => name.clone().prop_map(Op::Delete),
        2 => (name.clone(), any::<bool>()).prop_map(|(name, ours)| Op::Class(name, ours)),
        2 => (name.clone(), 0..4u8).prop_map(|(name, router)| Op::Move(name, router)),
        2 => (0..3u8).prop_map(Op::Pods),
        2 => (name.clone(), prop::bool::weighted(0.7)).prop_map(|(name, on)| Op::Tls(name, on)),
        3 => (name.clone(), 0..4u8).prop_map(|(name, content)| Op::Secret(name, content)),
        1 => name.clone().prop_map(Op::DeleteSecret),
        1 => (0..3u8).prop_map(Op::DeleteRouter),
        1 => name.prop_map(Op::StripIngress),
        1 => (0..3u8).prop_map(Op::StripRouter),
        1 => (0..3u8).prop_map(Op::EditRouter),
        1 => (0..3u8).prop_map(Op::Wipe),
        8 => (0..4u8).prop_map(Op::Watch),
        1 => (0..4u8).prop_map(Op::List),
        1 => (0..4u8).prop_map(Op::Unreadable),
        1 => any::<bool>().prop_map(Op::Services),
        6 => Just(Op::Plan),
        8 => (0..4u8, 0..12u8).prop_map(|(at, fate)| Op::Answer(at, fate)),
        1 => Just(Op::Late),
        5 => Just(Op::Drain),
        4 => Just(Op::Receive),
        5 => Just(Op::Work),
        5 => Just(Op::Report),
        1 => (0..3u8).prop_map(Op::Restart),
        1 => Just(Op::RestartBehind),
        1 => Just(Op::RestartUnheard),
        1 => Just(Op::BreakStream),
        1 => any::<bool>().prop_map(Op::Lead),
        1 => prop::bool::weighted(0.8).prop_map(Op::Facts),
        1 => Just(Op::BackUp),
        1 => Just(Op::GoBack),
        2 => (0..3u8, 0..3u8).prop_map(|(name, words)| Op::Refuse(name, words)),
        2 => (0..4u8).prop_map(Op::Pass),
    ]
}

fn asked(n: u8) -> Option<&'static str> {
    [None, Some("group:web"), Some("own"), None][usize::from(n) % 4]
}

fn play(world: &mut World, op: Op) {
    let name = |n: u8| ["team/a", "team/b"][usize::from(n) % 2];
    let router = |n: u8| ROUTERS[usize::from(n) % 3];
    match op {
        Op::Create(n, of) => drop(world.api.create(
            Kind::Ingress,
            name(n),
            ingress("kuryr", asked(of), ["s1", "s2"][usize::from(n) % 2]),
        )),
        Op::Delete(n) => world.api.delete(Kind::Ingress, name(n)),
        Op::Class(n, ours) => {
            let class = if ours { "kuryr" } else { "nginx" };
            world.api.edit(Kind::Ingress, name(n), |it| it["spec"]["ingressClassName"] = json!(class));
        }
        Op::Move(n, of) => {
            let annotations = asked(of).map_or_else(|| json!({}), |asked| json!({api::ANNOTATION: asked}));
            world.api.edit(Kind::Ingress, name(n), |it| it["metadata"]["annotations"] = annotations);
        }
        Op::Pods(n) => world.pods("s1", n),
        Op::Tls(n, on) => {
            let secret = on.then_some(["cert-a", "cert-b"][usize::from(n) % 2]);
            world.api.edit(Kind::Ingress, name(n), |it| set_tls(it, secret));
        }
        Op::Secret(n, content) => {
            let name = ["team/cert-a", "team/cert-b"][usize::from(n) % 2];
            if world.api.create(Kind::Secret, name, secret(content)).is_none() {
                world.api.edit(Kind::Secret, name, |it| it["spec"]["content"] = json!(content));
            }
        }
        Op::DeleteSecret(n) => world.api.delete(Kind::Secret, ["team/cert-a", "team/cert-b"][usize::from(n) % 2]),
        Op::DeleteRouter(n) => world.api.delete(Kind::Router, router(n)),
        Op::StripIngress(n) => strip(world, Kind::Ingress, name(n), INGRESS_FINALIZER),
        Op::StripRouter(n) => strip(world, Kind::Router, router(n), ROUTER_FINALIZER),
        Op::EditRouter(n) => {
            world.api.edit(Kind::Router, router(n), |it| it["spec"]["provider"] = json!("ovn"));
        }
        Op::Wipe(n) => {
            world.api.edit(Kind::Router, router(n), |it| drop(it.as_object_mut().unwrap().remove("status")));
        }
        Op::Watch(kind) => drop(world.watch(KINDS[usize::from(kind)])),
        Op::List(kind) => world.list(KINDS[usize::from(kind)]),
        Op::Unreadable(kind) => world.unreadable(KINDS[usize::from(kind)]),
        Op::Services(current) => world.services_are_current = current,
        Op::Plan => drop(world.plan()),
        Op::Answer(at, fate) => drop(world.answer(usize::from(at), fate)),
        Op::Late => world.arrive_late(),
        Op::Drain => drop(world.drain()),
        Op::Receive => drop(world.writer.receive()),
        Op::Work => drop(world.writer.work()),
        Op::Report => drop(world.report()),
        Op::Restart(order) => world.restart(&ORDERS[usize::from(order)]),
        Op::RestartBehind => world.restart_behind(),
        // It has no stream yet.
        Op::RestartUnheard => {
            world.enabled = None;
            world.restart(&ORDERS[0]);
        }
        Op::BreakStream => world.break_stream(),
        Op::Lead(leads) => world.lead(leads),
        Op::Facts(enabled) => world.learn_facts(enabled),
        Op::Refuse(n, words) => {
            let name = router(n).rsplit('/').next().unwrap();
            world.writer.refuse(name, [None, Some("not you"), Some("not here")][usize::from(words)]);
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
    world.api.forced.insert(text(object, "/metadata/uid").to_owned());
    world.api.edit(kind, name, |it| {
        if let Some(all) = it["metadata"]["finalizers"].as_array_mut() {
            all.retain(|one| one != finalizer);
        }
    });
}

fn lives(enabled: Option<bool>, ops: &[Op]) {
    let mut world = World::new(enabled);
    for op in ops {
        play(&mut world, *op);
    }
    for name in ROUTERS {
        world.writer.refuse(name.rsplit('/').next().unwrap(), None);
    }
    world.quiet();
    world.check();
    // Nothing else changes any more: what follows is for the Secrets' sake.
    for op in ops.iter().filter(|op| matches!(op, Op::Secret(..) | Op::DeleteSecret(_) | Op::Tls(..))).take(8) {
        play(&mut world, *op);
        world.rest();
        world.check();
    }
    for order in &ORDERS {
        world.check_restart(order);
    }
}

#[test]
fn any_life_ends_well() {
    let enabled = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    gimbal_property::check(256, &(enabled, proptest::collection::vec(op(), 0..150)), |(enabled, ops)| {
        lives(enabled, &ops);
        Ok(())
    });
}

#[test]
fn lives_that_once_went_wrong() {
    use Op::{
        Answer, BackUp, Class, Create, Delete, DeleteSecret, GoBack, Plan, Report, Restart, RestartUnheard, Secret,
        StripRouter, Tls, Watch, Work,
    };
    // A report comes after its entry was withdrawn, and before the writer has heard of that.
    let reported_late = [
        Create(1, 1),
        Create(0, 2),
        Watch(1),
        BackUp,
        Watch(1),
        Plan,
        Answer(2, 0),
        Restart(0),
        Create(0, 0),
        Create(0, 0),
        StripRouter(0),
        GoBack,
        Create(0, 0),
        Create(0, 0),
        Watch(0),
        Watch(2),
        Work,
        Plan,
        Report,
        Delete(1),
    ];
    lives(Some(true), &reported_late);
    // The watch shows that one was deleted, and not yet that there is another one of its name, for which the router was made.
    let made_again =
        [Create(1, 1), RestartUnheard, Delete(1), Create(1, 1), Plan, Answer(0, 0), Watch(1), Plan, Class(0, false)];
    lives(None, &made_again);
    // Two Secrets of a namespace have one certificate, and one of them had it for an Ingress of the shared router.
    let same_certificate = [
        Secret(1, 3),
        Secret(0, 3),
        DeleteSecret(1),
        Tls(0, true),
        DeleteSecret(0),
        Create(1, 3),
        Class(0, false),
        Secret(0, 0),
        Tls(1, true),
        Create(0, 1),
    ];
    lives(None, &same_certificate);
}
