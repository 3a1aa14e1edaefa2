//! The writer, and an agent that sends more than its credit.

use gimbal_session::{Credit, GoodbyeReason, Outcome, Scope, WriterEnd, WriterLimits, WriterMessage, WriterOutput};

use crate::common::{TIMEOUT, begin, chunk, delta, hello, key, replace, service, start};

const CREDIT: Credit = Credit { changes: 10, bytes: 64 << 10 };

/// Returns a writer with an open stream that asked for everything, and has the begin of it. The next frame has number 2.
fn asking() -> WriterEnd {
    let now = start();
    let mut writer = WriterEnd::new(WriterLimits { credit: CREDIT, heartbeat_timeout: TIMEOUT });
    writer.open(&hello(&[]), "b", 1, now);
    writer.take_messages();
    assert!(writer.receive(begin(1, Scope::All), now).is_empty());
    writer
}

/// Returns the keys `<first>`, `<first + 1>` ..
fn names(first: u32, count: u32) -> Vec<String> {
    (first..first + count).map(|n| n.to_string()).collect()
}

fn goodbye(writer: &mut WriterEnd) -> String {
    match writer.take_messages().pop() {
        Some(WriterMessage::Goodbye(goodbye)) if goodbye.reason == GoodbyeReason::ProtocolError => goodbye.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_far_beyond_the_credit_ends_the_stream() {
    let (now, mut writer) = (start(), asking());
    let mut held = 0;
    for seq in 2..100 {
        let names = names(seq * 10, 5);
        let services: Vec<_> = names.iter().map(|name| (&**name, service("1", []))).collect();
        if writer.receive(chunk(seq.into(), &services), now) == [WriterOutput::Close] {
            break;
        }
        held += services.len();
    }
    assert_eq!(held, 20, "twice the credit");
    let message = goodbye(&mut writer);
    assert!(message.contains("25 changes") && message.contains("credit is 10 changes"), "{message}");
    assert_eq!(writer.services().count(), 20, "what came before stays, as after any loss of a stream");
    assert!(!writer.is_connected());
}

#[test]
fn bytes_count_as_changes_do() {
    let (now, mut writer) = (start(), asking());
    let large = service("1", 0..3000);
    let sent = (2..100).take_while(|seq| {
        let name = seq.to_string();
        writer.receive(delta(*seq, [replace(&name, &large)]), now) != [WriterOutput::Close]
    });
    assert!((1..8).contains(&sent.count()));
    assert!(goodbye(&mut writer).contains("bytes"));
}

#[test]
fn one_frame_of_any_size_may_wait_and_acknowledgements_give_credit() {
    let (now, mut writer) = (start(), asking());
    for seq in 2..20_u32 {
        let names = names(seq * 1000, 500);
        let services: Vec<_> = names.iter().map(|name| (&**name, service("1", []))).collect();
        assert_eq!(writer.receive(chunk(seq.into(), &services), now).len(), 500);
        for (name, _) in &services {
            writer.settle(&key(name), Outcome::Applied);
        }
        assert_eq!(writer.take_messages(), [WriterMessage::Ack(seq.into())]);
    }
}
