//! Model test: after any order of events, any loss and any restart of either end, both ends hold the same and every
//! report has arrived.

use std::time::Duration;

use gimbal_session::Entry;
use proptest::prelude::*;

use crate::payload::{Header, Note, NoteKey, Phase, key};
use crate::world::World;

#[derive(Debug, Clone)]
enum Op {
    Write(NoteKey, u64, Vec<(u32, u32)>),
    Seal(NoteKey, u64, usize),
    Delete(NoteKey),
    Vanish(NoteKey),
    WipeStatus(NoteKey),
    Facts(u64),
    AgentSends(u8),
    WriterReceives(u8),
    Act(u8),
    WriterSends,
    AgentReceives(u8),
    BeginStatus,
    EndStatus(usize),
    Answer,
    Lose(bool),
    Cut,
    Connect,
    RestartAgent,
    Read,
    RestartWriter,
    Advance(u64),
    Pump,
}

fn keys() -> impl Strategy<Value = NoteKey> {
    ("[xy]", "[abc]").prop_map(|(namespace, name)| key(&namespace, &name))
}

fn ops() -> impl Strategy<Value = Op> {
    let lines = proptest::collection::vec((0u32..40, 0u32..3), 0..30);
    prop_oneof![
        12 => (keys(), 1u64..4, lines).prop_map(|(key, uid, lines)| Op::Write(key, uid, lines)),
        10 => (keys(), 1u64..4, 0usize..3).prop_map(|(key, uid, secret)| Op::Seal(key, uid, secret)),
        6 => keys().prop_map(Op::Delete),
        1 => keys().prop_map(Op::Vanish),
        3 => keys().prop_map(Op::WipeStatus),
        2 => (0u64..5).prop_map(Op::Facts),
        12 => (1u8..6).prop_map(Op::AgentSends),
        12 => (1u8..6).prop_map(Op::WriterReceives),
        12 => (1u8..4).prop_map(Op::Act),
        10 => Just(Op::WriterSends),
        12 => (1u8..6).prop_map(Op::AgentReceives),
        8 => Just(Op::BeginStatus),
        8 => any::<usize>().prop_map(Op::EndStatus),
        4 => Just(Op::Answer),
        2 => any::<bool>().prop_map(Op::Lose),
        3 => Just(Op::Cut),
        4 => Just(Op::Connect),
        2 => Just(Op::RestartAgent),
        3 => Just(Op::Read),
        1 => Just(Op::RestartWriter),
        2 => (1u64..20).prop_map(Op::Advance),
        2 => Just(Op::Pump),
    ]
}

fn repeat(times: u8, mut step: impl FnMut() -> bool) {
    for _ in 0..times {
        if !step() {
            return;
        }
    }
}

fn run(world: &mut World, op: Op) {
    match op {
        Op::Write(key, uid, lines) => world.set(key, Some(Note::present(uid, "title", lines))),
        Op::Seal(key, uid, secret) => {
            let hash = world.secrets.keys().nth(secret).copied().unwrap_or_default();
            world.set(key, Some(Note::sealed(uid, hash)));
        }
        Op::Delete(key) => world.delete(&key),
        Op::Vanish(key) => world.set(key, None),
        Op::WipeStatus(key) => world.wipe_status(&key),
        Op::Facts(facts) => world.set_facts(facts),
        Op::AgentSends(times) => repeat(times, || world.agent_sends()),
        Op::WriterReceives(times) => repeat(times, || world.writer_receives()),
        Op::Act(times) => repeat(times, || world.act()),
        Op::WriterSends => repeat(1, || world.writer_sends()),
        Op::AgentReceives(times) => repeat(times, || world.agent_receives()),
        Op::BeginStatus => repeat(1, || world.begin_status()),
        Op::EndStatus(at) => repeat(1, || world.end_status(at)),
        Op::Answer => repeat(1, || world.answer()),
        Op::Lose(up) => world.lose(up),
        Op::Cut => world.cut(),
        Op::Connect if world.is_connected() => {}
        Op::Connect => world.connect(),
        Op::RestartAgent => world.restart_agent(),
        Op::Read => world.read(),
        Op::RestartWriter => world.restart_writer(),
        Op::Advance(seconds) => world.advance(Duration::from_secs(seconds)),
        Op::Pump => world.pump(),
    }
}

/// Lets time pass without further failures, until nothing is left to do.
fn quiesce(world: &mut World) {
    while world.end_status(0) {}
    world.read();
    if !world.is_connected() || world.lossy || world.agent.wants_redial() {
        world.connect();
    }
    for _ in 0..12 {
        world.pump();
        if !world.is_connected() {
            world.connect();
        }
        world.advance(Duration::from_secs(20));
        world.pump();
    }
}

fn check(world: &World) {
    assert!(world.writer.entries().eq(world.source.iter()), "both ends hold the same");
    assert_eq!(world.writer.tree(), world.agent.tree());
    assert_eq!(world.agent.facts(), Some(&world.facts));
    assert!(!world.source.values().any(|note| note.is_deleting()), "what was deleted is gone: {:?}", world.source);
    for (key, note) in &world.source {
        let status = world.statuses.get(key).expect("every note was reported of");
        assert_eq!((status.uid, status.phase, status.lines), (note.uid(), Phase::Made, note.part_count()));
        assert_eq!(world.writer.latest_report(key).map(|kept| &**kept), Some(status));
        assert!(!world.writer.is_report_pending(key), "{key} is acknowledged");
        assert_eq!(world.made.get(key), Some(&(note.uid(), note.part_count())));
        if let Header::Present { sealed: Some(hash), .. } = &*note.header {
            assert_eq!(world.unsealed.get(hash), world.secrets.get(hash));
        }
    }
}

proptest! {
    #[test]
    fn both_ends_agree_whatever_happens(ops in proptest::collection::vec(ops(), 1..150)) {
        let mut world = World::new();
        world.set_facts(1);
        world.read();
        for op in ops {
            run(&mut world, op);
        }
        quiesce(&mut world);
        check(&world);
        // A new stream sends all reports and facts again, but no entries.
        world.sent.clear();
        world.connect();
        world.pump();
        check(&world);
        let sent = |name| world.sent.get(name).copied().unwrap_or_default();
        prop_assert_eq!((sent("data"), sent("facts"), sent("report")), (0, 1, world.source.len()));
        prop_assert_eq!(sent("content"), 0);
    }
}
