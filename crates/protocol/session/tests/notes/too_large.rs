//! Tests each rule of entries that fit in no frame.

use std::sync::Arc;

use gimbal_session::{AgentMessage, Credit, Outcome, Reject, Scope, WriterMessage};

use crate::payload::{Note, Refusal, key, new_agent, new_writer};
use crate::rules::{ends, exchange, open};

fn huge() -> Arc<Note> {
    Note::present(1, &"x".repeat(1 << 20), [])
}

#[test]
fn an_entry_that_outgrows_every_frame_stays_as_it_was_until_it_goes() {
    let (mut agent, mut writer, now) = ends(10);
    let (a, huge) = (key("ns", "a"), "x".repeat(1 << 20));
    agent.set(a.clone(), Some(Note::present(1, &huge, [])), now);
    agent.set(key("ns", "d"), Some(Note::present(1, &huge, [])), now);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.entry(&a).is_some_and(|held| *held == Note::present(1, "a", [])));
    let local: Vec<_> = agent.too_large().map(|(key, reject, is_offered)| (key, reject.reason, is_offered)).collect();
    assert_eq!(local, [(&a, Refusal::TooLarge, true), (&key("ns", "d"), Refusal::TooLarge, false)]);
    agent.set(a.clone(), None, now);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.entry(&a).is_none());
    assert_eq!(agent.too_large().count(), 1);
}

/// An agent that restarted never had a state that fits. The writer's is not gone for that.
#[test]
fn an_entry_that_never_fitted_is_not_absent() {
    let (_, mut writer, now) = ends(10);
    let (a, b) = (key("ns", "a"), key("ns", "b"));
    let mut agent = new_agent();
    agent.set(a.clone(), Some(huge()), now);
    agent.set(b.clone(), Some(Note::present(1, "newer", [])), now);
    agent.set(key("other", "d"), Some(Note::present(1, "d", [])), now);
    agent.set_incarnation("uid".into());
    agent.source_complete();
    open(&mut agent, &mut writer, 10, now);
    assert!(writer.entry(&a).is_some(), "it stays as it was");
    assert!(writer.entry(&b).is_some_and(|held| *held == Note::present(1, "newer", [])), "the others are as they are");
    assert!(writer.entry(&key("ns", "c")).is_some(), "of what is absent nothing is known");
    assert!(writer.entry(&key("other", "d")).is_some() && writer.knows("other"));
    assert!(!writer.knows("ns"));
    assert_eq!(agent.next(now), None, "it is announced once");
    for key in [&b, &key("other", "d")] {
        writer.settle(key, Outcome::Applied);
    }
    exchange(&mut agent, &mut writer, now);
    // It fits again: the namespace is known.
    agent.set(a, Some(Note::present(1, "a", [])), now);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.is_complete() && writer.entries().count() == 3 && writer.entry(&key("ns", "c")).is_none());
    assert_eq!(writer.tree(), agent.tree());
}

#[test]
fn an_entry_that_never_fitted_and_goes_is_absent() {
    let (_, mut writer, now) = ends(10);
    let a = key("ns", "a");
    let mut agent = new_agent();
    agent.set(a.clone(), Some(huge()), now);
    agent.set_incarnation("uid".into());
    agent.source_complete();
    open(&mut agent, &mut writer, 10, now);
    assert!(writer.entry(&a).is_some());
    // A new read of the source changes nothing of that.
    agent.source_complete();
    exchange(&mut agent, &mut writer, now);
    assert!(writer.entry(&a).is_some() && !writer.knows("ns"));
    agent.set(a, None, now);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.is_complete() && writer.entries().count() == 0);
}

/// Neither end knows more than the source: the others are served, and nothing of the namespace counts as absent.
#[test]
fn beside_an_entry_that_never_fitted_the_others_reach_a_new_writer() {
    let (mut agent, mut writer, now) = (new_agent(), new_writer(), crate::world::start());
    for name in ["a", "b", "c"] {
        agent.set(key("ns", name), Some(Note::present(1, name, [])), now);
    }
    agent.set(key("ns", "d"), Some(huge()), now);
    agent.set_incarnation("uid".into());
    agent.source_complete();
    open(&mut agent, &mut writer, 10, now);
    let settled = |writer: &mut gimbal_session::WriterEnd<_>| {
        ["a", "b", "c"].iter().for_each(|name| writer.settle(&key("ns", name), Outcome::Applied));
    };
    settled(&mut writer);
    exchange(&mut agent, &mut writer, now);
    assert_eq!(writer.entries().count(), 3);
    assert!(!writer.knows("ns") && !writer.is_complete());
    assert_eq!(agent.next(now), None, "they were sent once");
}

/// One that outgrows the frame while a snapshot of its namespace runs, before this end ever had it.
#[test]
fn a_running_snapshot_does_not_imply_that_it_is_absent() {
    let (_, mut writer, now) = ends(10);
    let a = key("ns", "a");
    let mut agent = new_agent();
    for name in ["b", "c"] {
        agent.set(key("ns", name), Some(Note::present(1, name, [])), now);
    }
    agent.set_incarnation("uid".into());
    agent.source_complete();
    agent.grant_reports(Credit { changes: 10, bytes: 10_000 });
    agent.connected(now);
    let mut say = |agent: &mut gimbal_session::AgentEnd<_>| match agent.next(now) {
        Some(AgentMessage::Hello(hello)) => {
            writer.open(&hello, "b", 1, now);
            for message in writer.take_messages() {
                assert_eq!(agent.receive(message, now), gimbal_session::AgentVerdict::Continue);
            }
            None
        }
        Some(message) => {
            let begins = matches!(&message, AgentMessage::Data(data)
                if matches!(&data.frame, gimbal_session::Frame::SnapshotBegin { scope: Scope::Namespaces(_) }));
            writer.receive(message, now);
            Some(begins)
        }
        None => panic!("no snapshot began"),
    };
    while say(&mut agent) != Some(true) {}
    agent.set(a.clone(), Some(huge()), now);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.entry(&a).is_some() && !writer.knows("ns"));
}

/// The writer rejects what it holds, and says so once a stream.
#[test]
fn what_the_writer_rejects_is_known_when_that_state_is_back() {
    let (mut agent, mut writer, now) = ends(10);
    let a = key("ns", "a");
    let reject = |message: &str| {
        let reject = Reject { key: None, reason: Refusal::Invalid, retryable: true, message: message.into() };
        Outcome::Rejected(reject)
    };
    let reason = |agent: &gimbal_session::AgentEnd<_>| {
        agent.rejects().get(&key("ns", "a")).map(|reject: &Reject<_>| (reject.reason, reject.message.clone()))
    };
    writer.settle(&a, reject("no"));
    exchange(&mut agent, &mut writer, now);
    assert_eq!(reason(&agent), Some((Refusal::Invalid, "no".to_owned())));
    agent.set(a.clone(), Some(huge()), now);
    agent.set(a.clone(), Some(Note::present(1, &"y".repeat(1 << 20), [])), now);
    exchange(&mut agent, &mut writer, now);
    assert_eq!(reason(&agent).map(|(reason, _)| reason), Some(Refusal::TooLarge));
    agent.set(a.clone(), Some(Note::present(1, "a", [])), now);
    assert_eq!(reason(&agent), Some((Refusal::Invalid, "no".to_owned())));
    // What it says meanwhile counts then.
    agent.set(a.clone(), Some(huge()), now);
    writer.settle(&a, reject("still not"));
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert!(matches!(&said[..], [WriterMessage::Reject(_)]), "{said:?}");
    assert_eq!(reason(&agent).map(|(reason, _)| reason), Some(Refusal::TooLarge));
    agent.set(a.clone(), Some(Note::present(1, "a", [])), now);
    assert_eq!(reason(&agent), Some((Refusal::Invalid, "still not".to_owned())));
    agent.set(a.clone(), Some(huge()), now);
    writer.settle(&a, Outcome::Applied);
    exchange(&mut agent, &mut writer, now);
    assert_eq!(reason(&agent).map(|(reason, _)| reason), Some(Refusal::TooLarge));
    agent.set(a, Some(Note::present(1, "a", [])), now);
    assert_eq!(reason(&agent), None);
}
