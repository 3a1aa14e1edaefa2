//! What passes data of its own stream that waits at the writer ends as if it had come in order.

use std::sync::Arc;
use std::time::Duration;

use gimbal_model::Service;
use gimbal_session::{AgentEnd, AgentMessage, Credit, Need, Scope, WriterEnd, WriterMessage, WriterOutput};
use proptest::prelude::*;

use crate::common::{agent, begin, chunk, connect, end, hello, key, service, some, start, tell, welcome_with, writer};

const NAMESPACES: [&str; 3] = ["x", "y", "z"];

#[derive(Debug, Clone)]
enum Op {
    Set(String, bool),
    Hide(Option<&'static str>),
    Read,
    Ask,
    Send(u8),
    Wait,
}

fn ops() -> impl Strategy<Value = Op> {
    let hidden = prop_oneof![Just(None), prop::sample::select(NAMESPACES.to_vec()).prop_map(Some)];
    prop_oneof![
        6 => ("[xyz]/[abc]", proptest::bool::weighted(0.7)).prop_map(|(key, there)| Op::Set(key, there)),
        3 => hidden.prop_map(Op::Hide),
        2 => Just(Op::Read),
        1 => Just(Op::Ask),
        8 => (1u8..5).prop_map(Op::Send),
        1 => Just(Op::Wait),
    ]
}

/// Returns what an agent says on one stream whose every frame is acknowledged at once. A chunk has one Service, so that what
/// else it says comes between the beginning and the end of snapshots.
fn said(ops: &[Op]) -> Vec<AgentMessage> {
    let first: Vec<(&str, Arc<Service>)> =
        ["x/a", "x/b", "y/a", "y/b", "z/a"].map(|name| (name, service("1", [1]))).into();
    let (mut agent, mut now) = (agent(&first), start());
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::All, Credit { changes: 2, bytes: 1 << 20 }), now);
    let mut said = Vec::new();
    let mut send = |agent: &mut AgentEnd, most: u8, now| {
        for _ in 0..most {
            let Some(message) = agent.next(now) else { return };
            if let AgentMessage::Data(data) = &message {
                tell(agent, WriterMessage::Ack(data.seq), now);
            }
            said.push(message);
        }
    };
    for (tag, op) in ops.iter().enumerate() {
        match op {
            Op::Set(name, there) => agent.set(key(name), there.then(|| service(&tag.to_string(), [1])), now),
            Op::Hide(None) => agent.scope_unknown(Scope::All, tag.to_string()),
            Op::Hide(Some(namespace)) => agent.scope_unknown(some(&[namespace]), tag.to_string()),
            Op::Read => agent.source_complete(),
            Op::Ask => tell(&mut agent, WriterMessage::Resync { need: Need::All, reason: "test".into() }, now),
            Op::Send(most) => send(&mut agent, *most, now),
            Op::Wait => now += Duration::from_secs(5),
        }
    }
    send(&mut agent, u8::MAX, now);
    said
}

/// Returns what arrives where each message but data passes as many of those before it.
fn overtaken(said: &[AgentMessage], passes: &[usize]) -> Vec<AgentMessage> {
    let mut arriving = Vec::new();
    for ((at, message), passed) in said.iter().enumerate().zip(passes.iter().cycle()) {
        let ahead = 2 * at.saturating_sub(*passed);
        match message {
            AgentMessage::ScopeUnknown { scope, reason } => {
                let early = AgentMessage::ScopeUnknownAhead { scope: scope.clone(), reason: reason.clone() };
                arriving.extend([(ahead, early), (2 * at + 1, message.clone())]);
            }
            AgentMessage::Heartbeat { .. } => arriving.push((ahead, message.clone())),
            _ => arriving.push((2 * at + 1, message.clone())),
        }
    }
    arriving.sort_by_key(|(place, _)| *place);
    arriving.into_iter().map(|(_, message)| message).collect()
}

/// Returns the writer that heard this, and what it had to do.
fn heard(messages: Vec<AgentMessage>) -> (WriterEnd, Vec<WriterOutput>) {
    let (mut writer, now) = (writer(), start());
    writer.open(&hello(&[]), "b", 1, now);
    let mut outputs = Vec::new();
    for message in messages {
        outputs.extend(writer.receive(message, now));
    }
    // When a snapshot began is the same here: no time passed.
    outputs.retain(|output| !matches!(output, WriterOutput::ScopeUnknown | WriterOutput::ScopeComplete { .. }));
    (writer, outputs)
}

proptest! {
    #[test]
    fn what_overtakes_ends_as_in_order(
        ops in proptest::collection::vec(ops(), 1..60),
        passes in proptest::collection::vec(0usize..12, 1..20),
    ) {
        let said = said(&ops);
        let ((in_order, done), (other, done_otherwise)) = (heard(said.clone()), heard(overtaken(&said, &passes)));
        prop_assert_eq!(done, done_otherwise, "the same is changed and removed, in the same order");
        prop_assert!(in_order.services().eq(other.services()));
        prop_assert_eq!(in_order.tree(), other.tree());
        prop_assert_eq!(in_order.unknown(), other.unknown());
        prop_assert_eq!((in_order.is_complete(), in_order.last_complete().map(|(_, scope)| scope)),
            (other.is_complete(), other.last_complete().map(|(_, scope)| scope)));
        for namespace in NAMESPACES {
            prop_assert_eq!(in_order.knows(namespace), other.knows(namespace), "{}", namespace);
        }
    }
}

/// While the data waits, absence proves nothing in that part any more; a snapshot that came whole counts nevertheless.
#[test]
fn an_unknown_scope_is_unknown_before_the_data_that_it_passed_and_after_it() {
    let now = start();
    let one = [("x/a", service("1", [1]))];
    let (mut writer, lost) = (writer(), || "lost".to_owned());
    writer.open(&hello(&one), "b", 1, now);
    writer.receive(begin(1, Scope::All), now);
    writer.receive(AgentMessage::ScopeUnknownAhead { scope: some(&["x"]), reason: lost() }, now);
    assert!(writer.unknown().contains("x") && writer.snapshot_begun().is_some());
    writer.receive(chunk(2, &one), now);
    assert_eq!(writer.services().count(), 1, "what was sent before is held");
    writer.receive(end(3, &one), now);
    assert!(writer.is_complete(), "it was sent while everything was known");
    writer.receive(AgentMessage::ScopeUnknown { scope: some(&["x"]), reason: lost() }, now);
    assert!(!writer.knows("x") && writer.knows("y") && !writer.is_complete());
}
