//! The writer's messages while the agent reads slower than they come.

use std::collections::BTreeSet;

use gimbal_session::{Outcome, RejectReason, WriterEnd, WriterMessage};

use crate::common::{data, delta, hello, holding, key, reject, replace, service, start, summary};

/// Returns a writer that holds this many Services and rejects all of them, on a new stream with data.
fn rejecting(count: u32) -> WriterEnd {
    let now = start();
    let names: Vec<String> = (0..count).map(|n| format!("ns/{n}")).collect();
    let services: Vec<_> = names.iter().map(|name| (&**name, service("1", []))).collect();
    let mut writer = holding(&services, now);
    for (name, _) in &services {
        writer.settle(&key(name), Outcome::Rejected(reject(RejectReason::Quota)));
    }
    writer.take_messages();
    writer.closed();
    writer.open(&gimbal_session::Hello { held: Some(summary(&services)), ..hello(&[]) }, "b", 2, now);
    writer
}

#[test]
fn any_number_of_rejects_is_sent_at_the_pace_of_the_reader() {
    let mut writer = rejecting(1000);
    let mut rejected = BTreeSet::new();
    let first = writer.take_messages_within(7);
    assert!(matches!(first[..], [WriterMessage::Welcome(_), ..]) && first.len() == 7, "{first:?}");
    assert!(writer.take_messages_within(0).is_empty() && writer.has_more());
    let mut messages = first;
    while !messages.is_empty() {
        assert!(messages.len() <= 7);
        for message in messages.drain(..) {
            match message {
                WriterMessage::Reject(reject) => assert!(rejected.insert(reject.key), "sent twice"),
                WriterMessage::Welcome(_) => {}
                other => panic!("{other:?}"),
            }
        }
        messages = writer.take_messages_within(7);
    }
    assert_eq!(rejected.len(), 1000);
    assert!(!writer.has_more());
}

#[test]
fn acknowledgements_and_new_rejects_do_not_wait_for_the_older_ones() {
    let (mut writer, now) = (rejecting(1000), start());
    writer.take_messages_within(1);
    writer.receive(delta(1, [replace("ns/500", &service("2", [])), replace("ns/new", &service("1", []))]), now);
    writer.settle(&key("ns/500"), Outcome::Rejected(reject(RejectReason::Quota)));
    writer.settle(&key("ns/new"), Outcome::Rejected(reject(RejectReason::NameConflict)));
    let keys = |messages: Vec<WriterMessage>| -> Vec<_> {
        let keys = messages.into_iter().map(|message| match message {
            WriterMessage::Reject(reject) => reject.key.map(|key| key.name.to_string()).unwrap_or_default(),
            other => format!("{other:?}"),
        });
        keys.collect()
    };
    assert_eq!(keys(writer.take_messages_within(1)), ["500"], "its newest state is rejected for the same reason");
    assert_eq!(keys(writer.take_messages_within(3)), ["new", "Ack(1)", "0"]);
    // What was resolved before it was sent is not sent at all.
    writer.settle(&key("ns/1"), Outcome::Applied);
    assert_eq!(keys(writer.take_messages_within(2)), ["10", "100"]);
}

#[test]
fn a_stream_that_ends_leaves_nothing_to_send() {
    let mut writer = rejecting(10);
    writer.take_messages_within(3);
    assert!(writer.has_more());
    writer.closed();
    assert!(!writer.has_more() && writer.take_messages_within(3).is_empty());
    // Data that comes late is not acknowledged either.
    writer.receive(data(1, gimbal_session::Frame::SnapshotBegin { scope: gimbal_session::Scope::All }), start());
    assert!(writer.take_messages().is_empty());
}
