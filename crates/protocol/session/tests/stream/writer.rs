//! The writer: opening, snapshots, deltas, messages to the agent.

use std::time::Duration;

use gimbal_session::{
    Freshness, GoodbyeReason, Hello, Need, Outcome, RejectReason, Scope, WriterMessage, WriterOutput,
};

use crate::common::{
    begin, chunk, delta, digest, end, hello, holding, key, need, reject, remove, replace, service, some, start, update,
    writer,
};
use gimbal_session::AgentMessage::{Goodbye, Heartbeat, ScopeUnknown};
use gimbal_session::Summary;

fn unknown(scope: Scope) -> gimbal_session::AgentMessage {
    ScopeUnknown { scope, reason: "lost".into() }
}

#[test]
fn what_is_needed() {
    let now = start();
    let one = [("a", service("1", [1]))];
    let other = [("a", service("2", [1]))];
    assert_eq!(need(&mut writer(), &hello(&one), now), Need::All, "nothing is known");
    assert_eq!(need(&mut writer(), &hello(&[]), now), Need::All, "equal, but nothing is known");
    let mut writer = holding(&one, now);
    assert_eq!(need(&mut writer, &hello(&one), now), Need::Nothing);
    let mine = Summary { count: 1, digest: digest("a", &one[0].1) };
    assert_eq!(need(&mut writer, &hello(&other), now), Need::Namespaces(vec![("ns".into(), mine)]));
    assert_eq!(need(&mut writer, &Hello { held: None, ..hello(&[]) }, now), Need::Nothing, "no data will come");
    assert!(writer.knows("ns"), "a mere reconnect leaves everything known");
    writer.receive(unknown(some(&["x"])), now);
    assert_eq!(need(&mut writer, &hello(&other), now), Need::All, "a part is unknown");
    assert!(!writer.is_complete());
    assert_eq!(need(&mut writer, &hello(&one), now), Need::Nothing, "equal to what was proven");
    assert!(writer.is_complete());
    assert_eq!(need(&mut holding(&[], now), &hello(&one), now), Need::All, "nothing is held");
}

#[test]
fn so_many_namespaces_are_not_listed() {
    let now = start();
    let names: Vec<String> = (0..8001).map(|n| format!("ns{n}/a")).collect();
    let services: Vec<_> = names.iter().map(|name| (&**name, service("1", []))).collect();
    assert_eq!(need(&mut holding(&services, now), &hello(&[]), now), Need::All);
    let listed = need(&mut holding(&services[..8000], now), &hello(&[]), now);
    assert!(matches!(listed, Need::Namespaces(namespaces) if namespaces.len() == 8000));
}

#[test]
fn an_agent_of_another_protocol_is_refused() {
    let now = start();
    let mut writer = writer();
    let out = writer.open(&Hello { protocol: (2, 3), ..hello(&[]) }, "b", 1, now);
    assert_eq!(out, [WriterOutput::Close]);
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Goodbye(bye)] if bye.reason == GoodbyeReason::Protocol));
    assert!(!writer.is_connected());
}

#[test]
fn data_on_a_dataless_stream_breaks_the_rules() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    writer.open(&Hello { held: None, ..hello(&[]) }, "b", 2, now);
    writer.take_messages();
    assert!(writer.receive(Heartbeat { sources: Vec::new(), backlog: 9 }, now).is_empty());
    writer.request_snapshot([], "guard");
    assert!(writer.take_messages().is_empty(), "no snapshot can come");
    assert_eq!(writer.receive(begin(1, Scope::All), now), [WriterOutput::Close]);
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Goodbye(bye)] if bye.reason == GoodbyeReason::ProtocolError));
    assert!(writer.receive(remove_a(2), now).is_empty(), "what is still under way is not looked at");
    assert!(writer.service(&key("a")).is_some());
}

fn remove_a(seq: u64) -> gimbal_session::AgentMessage {
    delta(seq, [remove("a")])
}

#[test]
fn chunks_count_as_they_come_and_absence_at_the_end() {
    let now = start();
    let kept = [("a", service("1", [1])), ("x/a", service("1", [1]))];
    let mut writer = holding(&[kept[0].clone(), kept[1].clone(), ("b", service("1", [1]))], now);
    let later = now + Duration::from_secs(1);
    writer.receive(begin(4, some(&["ns"])), later);
    assert_eq!(writer.snapshot_begun(), Some(later));
    let new = [("a", service("2", [1]))];
    assert_eq!(writer.receive(chunk(5, &new), now), [WriterOutput::Changed(key("a"))]);
    assert_eq!(writer.service(&key("a")), Some(&new[0].1));
    assert!(writer.service(&key("b")).is_some());
    let complete = WriterOutput::ScopeComplete { scope: some(&["ns"]), seq: 6, begun: later };
    assert_eq!(writer.receive(end(6, &new), now), [WriterOutput::Removed(key("b")), complete]);
    assert!(writer.service(&key("b")).is_none() && !writer.removed_explicitly(&key("b")));
    assert!(writer.service(&key("x/a")).is_some(), "out of scope");
    assert_eq!(writer.last_complete(), Some(&(later, some(&["ns"]))));
    assert_eq!(writer.snapshot_begun(), None);
}

#[test]
fn a_delta_outranks_a_chunk_whichever_comes_first() {
    let now = start();
    let view = [("a", service("1", [1])), ("b", service("1", [1])), ("c", service("1", [1]))];
    let mut writer = holding(&[("old", service("1", [1]))], now);
    writer.receive(begin(4, Scope::All), now);
    writer.receive(delta(5, [replace("a", &service("2", [])), remove("c"), replace("d", &service("1", []))]), now);
    assert_eq!(writer.receive(chunk(6, &view), now), [WriterOutput::Changed(key("b"))]);
    writer.receive(delta(7, [update("b", "2")]), now);
    let out = writer.receive(end(8, &view), now);
    assert_eq!(out[0], WriterOutput::Removed(key("old")));
    assert_eq!(out.len(), 2, "{out:?}");
    let held: Vec<_> = writer.services().map(|(key, service)| format!("{key} {:?}", service.header.labels)).collect();
    assert_eq!(held, [r#"ns/a {"tag": "2"}"#, r#"ns/b {"tag": "2"}"#, r#"ns/d {"tag": "1"}"#]);
}

#[test]
fn removed_by_name() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    let out = writer.receive(delta(4, [remove("a"), remove("never-held")]), now);
    assert_eq!(out, [WriterOutput::Removed(key("a")), WriterOutput::Removed(key("never-held"))]);
    assert!(writer.removed_explicitly(&key("never-held")), "a restart may have left an object of it");
    writer.forget_removed(&key("never-held"));
    assert!(!writer.removed_explicitly(&key("never-held")));
    writer.receive(delta(5, [replace("a", &service("1", []))]), now);
    assert!(!writer.removed_explicitly(&key("a")), "it is back");
}

#[test]
fn what_is_unknown_means_nothing() {
    let now = start();
    let one = [("x/a", service("1", []))];
    let mut writer = holding(&one, now);
    assert!(writer.knows("x") && writer.knows("never-heard-of"));
    writer.receive(begin(4, some(&["x"])), now);
    assert_eq!(writer.receive(unknown(some(&["x"])), now), [WriterOutput::ScopeUnknown]);
    assert!(!writer.knows("x") && writer.knows("y"));
    assert!(writer.receive(end(5, &[]), now).is_empty(), "the snapshot was dropped");
    assert!(writer.service(&key("x/a")).is_some());
    assert_eq!(writer.receive(delta(6, [remove("x/a")]), now), [WriterOutput::Removed(key("x/a"))]);
    assert!(writer.unknown().iter().eq([(some(&["x"]), "lost")]));
    writer.receive(begin(7, some(&["x"])), now);
    writer.receive(end(8, &[]), now);
    assert!(writer.knows("x") && writer.unknown().is_empty());
    writer.receive(begin(9, some(&["z"])), now);
    writer.receive(unknown(Scope::All), now);
    assert!(!writer.knows("y") && writer.snapshot_begun().is_none());
    writer.closed();
    assert!(!writer.knows("y") && writer.unknown().all().is_some(), "losing the stream changes nothing");
}

#[test]
fn acks_wait_for_the_reconciler() {
    let now = start();
    let mut writer = holding(&[], now);
    writer.receive(delta(4, [replace("a", &service("1", [])), replace("b", &service("1", []))]), now);
    writer.receive(delta(5, [update("a", "2")]), now);
    assert!(writer.take_messages().is_empty());
    writer.settle(&key("b"), Outcome::Applied);
    assert_eq!(writer.take_messages(), [WriterMessage::Ack(4)], "the older change of a is superseded");
    writer.settle(&key("a"), Outcome::Rejected(reject(RejectReason::NameConflict)));
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Reject(_), WriterMessage::Ack(5)]), "{messages:?}");
    writer.receive(begin(6, Scope::All), now);
    writer.receive(end(7, &[]), now);
    writer.expect(&key("found"), 7);
    for name in ["a", "b"] {
        writer.settle(&key(name), Outcome::Applied);
    }
    assert_eq!(writer.take_messages(), [WriterMessage::Resolved(key("a")), WriterMessage::Ack(6)]);
    writer.settle(&key("found"), Outcome::Applied);
    assert_eq!(writer.take_messages(), [WriterMessage::Ack(7)]);
}

#[test]
fn rejects_are_sent_when_they_change_and_again_to_a_new_stream() {
    let now = start();
    let one = [("a", service("1", []))];
    let mut writer = holding(&one, now);
    let settle = |writer: &mut gimbal_session::WriterEnd, outcome| {
        writer.settle(&key("a"), outcome);
        writer.take_messages()
    };
    let conflict = || Outcome::Rejected(reject(RejectReason::NameConflict));
    assert_eq!(settle(&mut writer, Outcome::Applied), []);
    let messages = settle(&mut writer, conflict());
    assert!(matches!(&messages[..], [WriterMessage::Reject(r)] if r.key == Some(key("a"))), "{messages:?}");
    assert_eq!(settle(&mut writer, conflict()), [], "the same");
    assert_eq!(settle(&mut writer, Outcome::Rejected(reject(RejectReason::Quota))).len(), 1, "another");
    writer.settle(&key("a"), Outcome::Applied);
    assert_eq!(settle(&mut writer, Outcome::Rejected(reject(RejectReason::Quota))), [], "resolved and back, unsent");
    writer.closed();
    writer.open(&hello(&one), "b", 2, now);
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Welcome(_), WriterMessage::Reject(_)]), "{messages:?}");
    assert_eq!(settle(&mut writer, Outcome::Applied), [WriterMessage::Resolved(key("a"))]);
    assert!(writer.rejects().is_empty());
}

#[test]
fn silence_ends_the_stream() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    let beat = now + Duration::from_secs(10);
    let fresh = vec![Freshness { kind: "services".into(), age: None }];
    writer.receive(Heartbeat { sources: fresh.clone(), backlog: 3 }, beat);
    assert_eq!((writer.freshness(), writer.backlog(), writer.last_heard()), (&*fresh, 3, Some(beat)));
    assert!(writer.tick(now + Duration::from_secs(24)).is_empty());
    assert_eq!(writer.next_deadline(), Some(now + Duration::from_secs(25)));
    assert_eq!(writer.tick(now + Duration::from_secs(25)), [WriterOutput::Close]);
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Goodbye(bye)] if bye.reason == GoodbyeReason::Timeout));
    assert!(writer.service(&key("a")).is_some() && writer.knows("ns"), "hold");
    assert!(writer.tick(now + Duration::from_secs(99)).is_empty());
}

/// A writer that was stopped itself does not say that the agent was silent.
#[test]
fn silence_that_is_excused_counts_anew() {
    let now = start();
    let mut writer = writer();
    writer.open(&hello(&[]), "b", 1, now);
    let timeout = Duration::from_secs(15);
    let stopped = now + 10 * timeout;
    writer.excuse_silence(stopped);
    assert!(writer.tick(stopped).is_empty());
    assert_eq!(writer.next_deadline(), Some(stopped + timeout));
    assert!(writer.tick(stopped + timeout - Duration::from_millis(1)).is_empty());
    assert_eq!(writer.tick(stopped + timeout), [WriterOutput::Close]);
}

#[test]
fn goodbye_ends_the_stream() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    let bye = gimbal_session::Goodbye { reason: GoodbyeReason::Shutdown, message: String::new(), retry_after: None };
    assert_eq!(writer.receive(Goodbye(bye), now), [WriterOutput::Close]);
    assert!(!writer.is_connected() && writer.service(&key("a")).is_some());
}

#[test]
fn an_entry_knows_the_frame_that_carried_it() {
    let start = start();
    let at = |seconds| start + Duration::from_secs(seconds);
    let one = [("a", service("1", [1])), ("b", service("1", [1]))];
    let mut writer = writer();
    writer.open(&hello(&one), "b", 7, start);
    let carried = |writer: &gimbal_session::WriterEnd, name: &str| {
        let frame = writer.carried_by(&key(name))?;
        Some((frame.generation, frame.seq, (frame.at - start).as_secs()))
    };
    writer.receive(begin(1, Scope::All), at(1));
    writer.receive(chunk(2, &one), at(2));
    writer.receive(end(3, &one), at(3));
    assert_eq!((carried(&writer, "a"), carried(&writer, "none")), (Some((7, 2, 2)), None));
    writer.receive(delta(4, [update("a", "2")]), at(4));
    writer.receive(delta(5, [replace("b", &service("2", [1]))]), at(5));
    assert_eq!((carried(&writer, "a"), carried(&writer, "b")), (Some((7, 4, 4)), Some((7, 5, 5))));
    // A duplicate carries nothing, and a new stream none of what it does not send.
    writer.receive(delta(5, [update("a", "3")]), at(6));
    writer.open(&hello(&one), "b", 8, at(7));
    assert_eq!(carried(&writer, "a"), Some((7, 4, 4)));
    writer.receive(delta(1, [update("a", "4")]), at(8));
    assert_eq!(carried(&writer, "a"), Some((8, 1, 8)));
    writer.receive(delta(2, [remove("a")]), at(9));
    assert_eq!(carried(&writer, "a"), None);
}
