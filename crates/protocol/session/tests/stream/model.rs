//! Model test: in any order of events nothing is removed without proof, and in the end both ends hold the same.

use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{Service, SourceKey};
use gimbal_session::{Credit, Need};
use proptest::prelude::*;

use crate::common::{endpoint, header, key, ports};
use crate::world::{Harm, World};

#[derive(Debug, Clone)]
enum Op {
    Set(SourceKey, Arc<Service>),
    Remove(SourceKey),
    Hide(Option<&'static str>),
    Read,
    AgentSends(u8),
    WriterReceives(u8),
    WriterSends,
    AgentReceives(u8),
    Harm(Harm),
    Overtake,
    Settle(usize, bool),
    Cut,
    Connect,
    RestartAgent,
    RestartWriter,
    Advance(u64),
    AskForSnapshot,
    Pump(bool),
}

fn keys() -> impl Strategy<Value = SourceKey> {
    ("[xyz]", "[abc]").prop_map(|(namespace, name)| SourceKey::new(namespace, name))
}

fn services() -> impl Strategy<Value = Arc<Service>> {
    let endpoints = proptest::collection::vec((80u16..82, 0u32..6, any::<bool>()), 0..8);
    ("[pq]", endpoints).prop_map(|(tag, endpoints)| {
        let endpoints = endpoints.into_iter().map(|(port, host, ready)| (ports(port), endpoint(host, ready)));
        Arc::new(Service::new(header(&tag), endpoints))
    })
}

fn ops() -> impl Strategy<Value = Op> {
    let harm =
        prop_oneof![Just(Harm::Drop), Just(Harm::Duplicate), Just(Harm::Garble), any::<bool>().prop_map(Harm::Entry)];
    prop_oneof![
        16 => (keys(), services()).prop_map(|(key, service)| Op::Set(key, service)),
        6 => keys().prop_map(Op::Remove),
        2 => prop_oneof![Just(None), Just(Some("x")), Just(Some("y"))].prop_map(Op::Hide),
        4 => Just(Op::Read),
        16 => (1u8..6).prop_map(Op::AgentSends),
        16 => (1u8..6).prop_map(Op::WriterReceives),
        10 => Just(Op::WriterSends),
        10 => (1u8..6).prop_map(Op::AgentReceives),
        3 => harm.prop_map(Op::Harm),
        2 => Just(Op::Overtake),
        12 => (any::<usize>(), proptest::bool::weighted(0.2)).prop_map(|(at, rejected)| Op::Settle(at, rejected)),
        1 => Just(Op::Cut),
        4 => Just(Op::Connect),
        1 => Just(Op::RestartAgent),
        1 => Just(Op::RestartWriter),
        3 => (1u64..12).prop_map(Op::Advance),
        1 => Just(Op::AskForSnapshot),
        3 => any::<bool>().prop_map(Op::Pump),
    ]
}

/// Repeats `step` until it returns false, at most `times`.
fn drain(times: u8, mut step: impl FnMut() -> bool) {
    for _ in 0..times {
        if !step() {
            return;
        }
    }
}

fn run(world: &mut World, op: &Op) {
    match op {
        Op::Set(key, service) => world.set(key.clone(), Some(service.clone())),
        Op::Remove(key) => world.set(key.clone(), None),
        Op::Hide(namespace) => world.hide(namespace.map(Into::into)),
        Op::Read => world.read(),
        Op::AgentSends(times) => drain(*times, || world.agent_sends()),
        Op::WriterReceives(times) => drain(*times, || world.writer_receives()),
        Op::WriterSends => drain(1, || world.writer_sends()),
        Op::AgentReceives(times) => drain(*times, || world.agent_receives()),
        Op::Harm(harm) => world.harm(harm),
        Op::Overtake => world.overtake(),
        Op::Settle(at, rejected) => {
            if let Some(key) = world.unsettled.iter().nth(at % world.unsettled.len().max(1)).cloned() {
                world.settle(&key, *rejected);
            }
        }
        Op::Cut => world.cut(),
        Op::Connect if world.is_connected() && !world.agent.wants_redial() => {}
        Op::Connect => world.connect(),
        Op::RestartAgent => world.restart_agent(),
        Op::RestartWriter => world.restart_writer(),
        Op::Advance(seconds) => {
            world.advance(Duration::from_secs(*seconds));
            world.tick();
        }
        Op::AskForSnapshot => world.writer.request_snapshot(["x", "y", "z"].map(Into::into), "to be sure"),
        Op::Pump(settle) => world.pump(*settle),
    }
}

/// Makes the source readable, and lets time pass without further failures until nothing is left to do.
fn quiesce(world: &mut World) {
    world.read();
    if !world.is_connected() || world.agent.wants_redial() || world.lossy {
        world.connect();
    }
    for _ in 0..40 {
        world.pump(true);
        if !world.is_connected() {
            world.connect();
        }
        world.advance(Duration::from_secs(5));
        world.pump(true);
        world.tick();
    }
    world.pump(true);
}

fn check(world: &mut World) {
    let held: Vec<_> = world.writer.services().map(|(key, service)| (key.clone(), service.clone())).collect();
    let source: Vec<_> = world.source.iter().map(|(key, service)| (key.clone(), service.clone())).collect();
    assert_eq!(held, source);
    assert_eq!(world.writer.tree(), world.agent.tree());
    assert!(world.writer.is_complete(), "everything is known");
    assert_eq!(world.last_ack, world.last_seq, "everything is acknowledged");
    assert_eq!(world.agent.pending(), 0);
    assert_eq!(world.agent.rejects(), world.writer.rejects());
    // Rejected Services are retried.
    let rejected: Vec<_> = world.writer.rejects().keys().cloned().collect();
    rejected.iter().for_each(|key| world.settle(key, false));
    assert!(world.writer.rejects().is_empty(), "{:?}", world.writer.rejects());
    world.pump(true);
    assert!(world.agent.rejects().is_empty(), "{:?}", world.agent.rejects());
    assert!(world.objects.iter().eq(world.source.keys()), "{:?} in the cluster", world.objects);
    world.connect();
    world.pump(true);
    assert_eq!(world.need, Some(Need::Nothing));
    assert_eq!(world.last_seq, 0, "nothing is sent twice");
    assert_eq!(world.agent.pending(), 0);
}

proptest! {
    #[test]
    fn converges_and_never_removes_without_proof(
        (changes, bytes) in (1u32..8, 300u64..6000),
        older in any::<(bool, bool)>(),
        ops in proptest::collection::vec(ops(), 1..150),
    ) {
        let mut world = World::new(Credit { changes, bytes });
        world.older = older;
        for op in &ops {
            run(&mut world, op);
        }
        quiesce(&mut world);
        check(&mut world);
    }

    /// Without failures there is no resync: a snapshot is sent only when one is needed.
    #[test]
    fn deltas_alone_keep_both_ends_equal(
        first in proptest::collection::vec((keys(), services()), 0..8),
        later in proptest::collection::vec((keys(), proptest::option::of(services()), 0usize..3), 1..40),
    ) {
        let mut world = World::new(Credit { changes: 5, bytes: 3000 });
        first.into_iter().for_each(|(key, service)| world.set(key, Some(service)));
        world.read();
        world.connect();
        world.pump(true);
        let begun = world.writer.last_complete().cloned();
        prop_assert!(begun.is_some());
        for (key, service, steps) in later {
            world.set(key, service);
            world.advance(Duration::from_millis(1));
            for _ in 0..steps {
                world.agent_sends();
                world.writer_receives();
            }
        }
        world.pump(true);
        prop_assert_eq!(world.writer.last_complete().cloned(), begun);
        prop_assert!(world.writer.services().eq(world.source.iter()));
        check(&mut world);
    }
}

/// Sequences that once failed. The comment on each gives the rule.
#[test]
fn found_before() {
    let one = |tag: &str| Arc::new(Service::new(header(tag), [(ports(80), endpoint(1, true))]));
    let (a, b) = (key("x/a"), key("y/b"));
    for ops in [
        // A namespace that cannot be read does not keep the others from a new writer.
        vec![
            Op::Set(a.clone(), one("p")),
            Op::Set(b.clone(), one("p")),
            Op::Read,
            Op::Hide(Some("x")),
            Op::Connect,
            Op::Pump(true),
        ],
        // A writer that restarts while a removal is in transit finds the object and removes it.
        vec![
            Op::Set(a.clone(), one("p")),
            Op::Read,
            Op::Connect,
            Op::Pump(true),
            Op::Remove(a.clone()),
            Op::AgentSends(3),
            Op::RestartWriter,
        ],
        // The frame that fills the window is unreadable. The snapshot that repairs this must not wait for an Ack of
        // that frame.
        vec![Op::Read, Op::Connect, Op::Pump(true), Op::Set(a, one("p")), Op::AgentSends(1), Op::Harm(Harm::Garble)],
    ] {
        let mut world = World::new(Credit { changes: 1, bytes: 300 });
        ops.iter().for_each(|op| run(&mut world, op));
        if world.agent.unknown().namespaces().next().is_some() {
            assert_eq!(world.writer.service(&b), Some(&one("p")));
            assert!(world.writer.knows("y") && !world.writer.knows("x"));
        }
        quiesce(&mut world);
        check(&mut world);
    }
}
