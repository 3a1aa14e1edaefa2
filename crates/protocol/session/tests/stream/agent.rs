//! The agent: opening, control messages, changes.

use std::time::{Duration, Instant};

use gimbal_session::{
    AgentMessage, AgentVerdict, ChangeAge, Credit, EntryProgress, Frame, Goodbye, GoodbyeReason, HEARTBEAT, Need,
    PieceChange, RejectReason, Scope, StreamState, Welcome, WriterMessage,
};

use crate::common::{
    agent, connect, flowing, frames, key, messages, reject, said, service, some, start, summary, tell, welcome,
    welcome_with,
};

fn scopes(messages: Vec<AgentMessage>) -> Vec<(Scope, String)> {
    let scope = |message| match message {
        AgentMessage::ScopeUnknown { scope, reason } => Some((scope, reason)),
        _ => None,
    };
    messages.into_iter().filter_map(scope).collect()
}

#[test]
fn hello_offers_only_what_is_complete_and_identified() {
    let now = start();
    let mut agent = gimbal_session::AgentEnd::new(gimbal_session::AgentConfig {
        backend: "b".into(),
        instance: "i".into(),
        version: "v".into(),
    });
    agent.set(key("a"), Some(service("1", [1])), now);
    assert_eq!(connect(&mut agent, now).held, None, "not read");
    agent.source_complete();
    assert_eq!(connect(&mut agent, now).held, None, "no incarnation");
    agent.set_incarnation("uid".into());
    let hello = connect(&mut agent, now);
    assert_eq!((hello.held, &*hello.source_incarnation), (Some(summary(&[("a", service("1", [1]))])), "uid"));
    agent.scope_unknown(some(&["ns"]), "gone".into());
    assert!(connect(&mut agent, now).held.is_some(), "a part is unknown");
    agent.scope_unknown(Scope::All, "gone".into());
    assert_eq!(connect(&mut agent, now).held, None, "everything is unknown");
}

#[test]
fn a_dataless_stream_carries_only_signs_of_life() {
    let now = start();
    let mut agent = agent(&[("a", service("1", [1]))]);
    agent.scope_unknown(Scope::All, "forbidden".into());
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    agent.set(key("b"), Some(service("1", [])), now);
    let said = messages(&mut agent, now);
    assert!(matches!(
        &said[..],
        [AgentMessage::ScopeUnknown { scope: Scope::All, .. }, AgentMessage::Heartbeat { backlog: 2, .. }]
    ));
    assert_eq!(agent.stream_state(), StreamState::Dataless);
    assert!(!agent.wants_redial());
    agent.source_complete();
    assert!(agent.wants_redial(), "a new stream could carry data");
    assert!(messages(&mut agent, now).is_empty());
    assert!(connect(&mut agent, now).held.is_some());
    assert!(!agent.wants_redial());
}

#[test]
fn another_source_is_not_sent_on_the_old_ones_stream() {
    let now = start();
    let mut agent = flowing(&[("a", service("1", [1]))], now);
    agent.set_incarnation("another".into());
    agent.set(key("a"), None, now);
    assert!(frames(&mut agent, now).is_empty());
    assert!(agent.wants_redial());
}

#[test]
fn control_goes_before_data() {
    let now = start();
    let mut agent = agent(&[("a", service("1", [1]))]);
    connect(&mut agent, now);
    agent.set(key("a"), None, now);
    agent.scope_unknown(some(&["x"]), "lost".into());
    let before: Vec<_> = messages(&mut agent, now);
    assert!(matches!(&before[..], [AgentMessage::ScopeUnknown { .. }, AgentMessage::Heartbeat { .. }]), "{before:?}");
    tell(&mut agent, welcome(Need::Nothing), now);
    let later = now + HEARTBEAT;
    assert_eq!(agent.next_deadline(now), Some(later));
    assert!(matches!(agent.next(later), Some(AgentMessage::Heartbeat { .. })));
    assert_eq!(said(&mut agent, later), ["delta -a"]);
    agent.set(key("a"), Some(service("1", [])), now);
    agent.goodbye(GoodbyeReason::Shutdown, "bye");
    assert!(matches!(messages(&mut agent, later + HEARTBEAT)[..], [AgentMessage::Goodbye(_)]), "and then nothing");
}

#[test]
fn an_unknown_scope_is_told_once_on_each_stream_and_again_for_another_reason() {
    let now = start();
    let mut agent = flowing(&[], now);
    agent.scope_unknown(some(&["x", "y"]), "lost".into());
    agent.scope_unknown(some(&["z"]), "other".into());
    agent.scope_unknown(some(&["x"]), "lost".into());
    let expected = [(some(&["x", "y"]), "lost".to_owned()), (some(&["z"]), "other".to_owned())];
    assert_eq!(scopes(messages(&mut agent, now)), expected);
    assert!(messages(&mut agent, now).is_empty());
    connect(&mut agent, now);
    assert_eq!(scopes(messages(&mut agent, now)), expected);
    agent.source_complete();
    agent.scope_unknown(some(&["x"]), "again".into());
    assert_eq!(scopes(messages(&mut agent, now)), [(some(&["x"]), "again".into())]);
    agent.scope_unknown(some(&["x"]), "for another reason".into());
    assert_eq!(scopes(messages(&mut agent, now)), [(some(&["x"]), "for another reason".into())]);
    for reason in ["forbidden", "down", "down"] {
        agent.scope_unknown(Scope::All, reason.into());
    }
    assert_eq!(scopes(messages(&mut agent, now)), [(Scope::All, "down".into())]);
    agent.scope_unknown(Scope::All, "forbidden".into());
    assert_eq!(scopes(messages(&mut agent, now)), [(Scope::All, "forbidden".into())]);
    assert!(messages(&mut agent, now).is_empty());
}

#[test]
fn the_newest_state_travels_and_an_undone_change_does_not() {
    let now = start();
    let mut agent = flowing(&[("a", service("1", [1, 2])), ("b", service("1", [1]))], now);
    agent.set(key("a"), Some(service("1", [1, 2, 3])), now);
    agent.set(key("b"), None, now + Duration::from_secs(1));
    agent.set(key("c"), Some(service("1", [])), now);
    agent.set(key("a"), Some(service("2", [2])), now);
    agent.set(key("c"), None, now);
    agent.set(key("b"), Some(service("1", [1])), now);
    let sent = frames(&mut agent, now + Duration::from_secs(3));
    let [Frame::Delta { changes, age }] = &sent[..] else { panic!("{sent:?}") };
    let [Ok(PieceChange::Update { header, parts: endpoints, more: false, .. })] = &changes[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((header.is_some(), endpoints.len()), (true, 1), "1 is gone; 3 came and went");
    assert_eq!(*age, ChangeAge { waited: Duration::from_secs(3), caused: None });
    agent.set(key("a"), Some(service("2", [2])), now);
    assert!(frames(&mut agent, now).is_empty(), "equal to what is held");
}

#[test]
fn changes_between_hello_and_welcome_start_from_what_hello_said() {
    let now = start();
    let mut agent = agent(&[("a", service("1", [1])), ("b", service("1", [1]))]);
    agent.connected(now);
    agent.set(key("b"), None, now);
    assert_eq!(connect(&mut agent, now).held, Some(summary(&[("a", service("1", [1]))])), "as it is when it is asked");
    agent.set(key("a"), Some(service("1", [2])), now);
    agent.set(key("c"), Some(service("1", [3])), now);
    assert!(frames(&mut agent, now).is_empty(), "data waits for Welcome");
    tell(&mut agent, welcome(Need::Nothing), now);
    assert_eq!(said(&mut agent, now), ["delta ~a =c"]);
}

#[test]
fn nothing_is_sent_again_on_a_new_stream() {
    let now = start();
    let mut agent = flowing(&[("a", service("1", [1]))], now);
    agent.set(key("a"), Some(service("1", [2])), now);
    assert_eq!(said(&mut agent, now), ["delta ~a"]);
    assert!(agent.is_pending(&key("a")));
    agent.disconnected();
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::Nothing), now);
    assert!(frames(&mut agent, now).is_empty());
    assert_eq!((agent.pending(), agent.generation(), agent.stream_state()), (0, Some(7), StreamState::Open));
}

#[test]
fn the_window_holds_frames_back_until_they_are_acknowledged() {
    let now = start();
    let mut agent = agent(&[]);
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::Nothing, Credit { changes: 2, bytes: 1 << 20 }), now);
    for name in ["a", "b", "c", "d", "e"] {
        agent.set(key(name), Some(service("1", [1])), now);
    }
    assert_eq!(said(&mut agent, now), ["delta =a =b"]);
    assert_eq!(agent.pending(), 5);
    tell(&mut agent, WriterMessage::Ack(1), now);
    assert!(!agent.is_pending(&key("a")) && agent.is_pending(&key("c")));
    assert_eq!(said(&mut agent, now), ["delta =c =d"]);
    tell(&mut agent, WriterMessage::Credit(Credit { changes: 3, bytes: 1 << 20 }), now);
    assert_eq!(said(&mut agent, now), ["delta =e"]);
    tell(&mut agent, WriterMessage::Ack(3), now);
    assert_eq!(agent.pending(), 0);
    let verdict = agent.receive(WriterMessage::Ack(4), now);
    assert!(matches!(verdict, AgentVerdict::Close { .. }), "never sent");
}

#[test]
fn one_frame_goes_however_small_the_window() {
    let now = start();
    let mut agent = agent(&[]);
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::Nothing, Credit { changes: 0, bytes: 0 }), now);
    agent.set(key("a"), Some(service("1", [])), now);
    agent.set(key("b"), Some(service("1", [])), now);
    assert_eq!(said(&mut agent, now), ["delta =a"]);
    tell(&mut agent, WriterMessage::Ack(1), now);
    assert_eq!(said(&mut agent, now), ["delta =b"]);
}

#[test]
fn rejects_stand_until_resolved_or_the_next_welcome() {
    let now = start();
    let mut agent = flowing(&[("a", service("1", [])), ("b", service("1", []))], now);
    for name in ["a", "b"] {
        let held = gimbal_session::Reject { key: Some(key(name)), ..reject(RejectReason::Held) };
        tell(&mut agent, WriterMessage::Reject(held), now);
    }
    tell(&mut agent, WriterMessage::Reject(reject(RejectReason::Invalid)), now);
    assert_eq!(agent.rejects().len(), 2, "one without a key is about no Service");
    tell(&mut agent, WriterMessage::Resolved(key("a")), now);
    assert!(agent.rejects().keys().eq([&key("b")]));
    agent.disconnected();
    assert_eq!(agent.rejects().len(), 1, "as far as is known");
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::Nothing), now);
    assert!(agent.rejects().is_empty());
}

#[test]
fn superseded_agents_wait_longer_and_longer() {
    let mut now = start();
    let mut agent = agent(&[]);
    let goodbye = |reason, retry_after| WriterMessage::Goodbye(Goodbye { reason, message: "m".into(), retry_after });
    for wait in [30, 60, 120, 240, 480, 600, 600] {
        connect(&mut agent, now);
        tell(&mut agent, welcome(Need::Nothing), now);
        now += Duration::from_secs(600);
        let verdict = agent.receive(goodbye(GoodbyeReason::Superseded, None), now);
        let AgentVerdict::Close { retry_after, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(retry_after, Some(Duration::from_secs(wait)));
    }
    connect(&mut agent, now);
    now += Duration::from_secs(1201);
    let verdict = agent.receive(goodbye(GoodbyeReason::Superseded, None), now);
    assert!(
        matches!(verdict, AgentVerdict::Close { retry_after: Some(wait), .. } if wait.as_secs() == 30),
        "undisturbed"
    );
    for (given, reason) in
        [(None, GoodbyeReason::UnknownBackend), (Some(Duration::from_secs(9)), GoodbyeReason::NotLeader)]
    {
        let verdict = agent.receive(goodbye(reason, given), now);
        assert!(matches!(verdict, AgentVerdict::Close { retry_after, .. } if retry_after == given));
    }
}

#[test]
fn a_writer_that_breaks_the_rules_is_left() {
    let now = start();
    let mut agent = agent(&[]);
    connect(&mut agent, now);
    let closes = |verdict| matches!(verdict, AgentVerdict::Close { retry_after: None, .. });
    assert!(closes(agent.receive(WriterMessage::Ack(0), now)), "before Welcome");
    tell(&mut agent, welcome(Need::Nothing), now);
    assert!(closes(agent.receive(welcome(Need::Nothing), now)), "twice");
    connect(&mut agent, now);
    let WriterMessage::Welcome(newer) = welcome(Need::Nothing) else { unreachable!() };
    let newer = WriterMessage::Welcome(gimbal_session::Welcome { protocol: 2, ..newer });
    assert!(closes(agent.receive(newer, now)), "a protocol that was not offered");
}

/// The frame that carried an entry last, in seconds after `start`: generation, number, sent, acknowledged.
fn progress(agent: &gimbal_session::AgentEnd, name: &str, start: Instant) -> (u64, Option<[u64; 3]>, Option<u64>) {
    let Some(EntryProgress { reported, sent, acknowledged }) = agent.progress(&key(name)) else {
        unreachable!("the entry is known")
    };
    let seconds = |at: Instant| (at - start).as_secs();
    let sent = sent.map(|frame| [frame.generation, frame.seq, seconds(frame.at)]);
    (seconds(reported), sent, acknowledged.map(seconds))
}

#[test]
fn an_entry_knows_the_frame_that_carried_it_and_when_that_was_acknowledged() {
    let start = start();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut agent = agent(&[("a", service("1", [1])), ("b", service("1", [1]))]);
    assert_eq!(agent.progress(&key("none")), None);
    let untouched = agent.progress(&key("a")).unwrap();
    assert_eq!((untouched.sent, untouched.acknowledged), (None, None));
    connect(&mut agent, at(1));
    tell(&mut agent, welcome(Need::All), at(2));
    assert_eq!(said(&mut agent, at(3)).len(), 3, "begin, a chunk, end");
    assert_eq!(progress(&agent, "b", start).1, Some([7, 2, 3]), "the chunk is the second frame");
    tell(&mut agent, WriterMessage::Ack(3), at(4));
    assert_eq!(progress(&agent, "b", start).2, Some(4));

    // A change takes the way again, and another entry's does not.
    agent.set(key("a"), Some(service("2", [1])), at(5));
    assert_eq!(progress(&agent, "a", start), (5, Some([7, 2, 3]), Some(4)), "of the state before");
    assert_eq!(said(&mut agent, at(6)).len(), 1);
    assert_eq!(progress(&agent, "a", start), (5, Some([7, 4, 6]), None));
    tell(&mut agent, WriterMessage::Ack(4), at(7));
    assert_eq!((progress(&agent, "a", start).2, progress(&agent, "b", start).2), (Some(7), Some(4)));

    // An unchanged reconnect sends nothing, so what was sent stays true.
    connect(&mut agent, at(8));
    let WriterMessage::Welcome(again) = welcome(Need::Nothing) else { unreachable!() };
    tell(&mut agent, WriterMessage::Welcome(Welcome { generation: 8, ..again }), at(9));
    assert!(said(&mut agent, at(9)).is_empty());
    assert_eq!(progress(&agent, "a", start), (5, Some([7, 4, 6]), Some(7)));
    agent.set(key("a"), Some(service("3", [1])), at(10));
    said(&mut agent, at(10));
    assert_eq!(progress(&agent, "a", start), (10, Some([8, 1, 10]), None));
    agent.set(key("a"), None, at(11));
    assert_eq!(agent.progress(&key("a")), None);
}
