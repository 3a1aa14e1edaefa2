//! The writer: frames that are lost, do not match, or cannot be read.

use std::time::Duration;

use gimbal_model::{Digest, EndpointChange};
use gimbal_session::{
    AgentMessage, ChangeAge, Frame, Need, Outcome, PieceChange, Scope, Summary, Unreadable, WriterEnd, WriterMessage,
    WriterOutput,
};

use crate::common::{
    begin, chunk, data, delta, digest, end, hello, holding, key, need, remove, replace, service, some, start, update,
};

/// Returns how many of the writer's messages ask for everything.
fn resyncs(writer: &mut WriterEnd) -> usize {
    let asks = |message: &WriterMessage| matches!(message, WriterMessage::Resync { need: Need::All, .. });
    writer.take_messages().iter().filter(|message| asks(message)).count()
}

fn tag(writer: &WriterEnd, name: &str) -> String {
    writer.service(&key(name)).map_or(String::new(), |service| service.header.labels["tag"].to_string())
}

#[test]
fn after_a_gap_differences_are_not_applied() {
    let now = start();
    let one = [("a", service("1", [])), ("b", service("1", []))];
    let mut writer = holding(&one, now);
    assert!(writer.receive(delta(5, [update("a", "2")]), now).is_empty(), "4 is missing");
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Resync { need: Need::All, .. }, WriterMessage::Ack(5)]));
    assert!(!writer.knows("ns"), "absence proves nothing until the snapshot is complete");
    assert!(writer.receive(delta(6, [update("a", "3")]), now).is_empty());
    assert_eq!(tag(&writer, "a"), "1");
    // Changes that do not depend on earlier ones are applied.
    writer.receive(delta(7, [replace("a", &service("4", [])), remove("b")]), now);
    assert_eq!((tag(&writer, "a"), tag(&writer, "b")), ("4".into(), String::new()));
    writer.receive(begin(8, some(&["ns"])), now);
    writer.receive(delta(9, [update("a", "5")]), now);
    assert_eq!(tag(&writer, "a"), "5", "relative to the view that began");
    writer.receive(end(10, &one), now);
    assert!(!writer.knows("ns"), "that view was another");
}

#[test]
fn a_gap_drops_a_running_snapshot() {
    let now = start();
    let one = [("a", service("1", [])), ("b", service("1", []))];
    let mut writer = holding(&one, now);
    writer.receive(begin(4, Scope::All), now);
    writer.receive(chunk(6, &one), now);
    assert!(writer.receive(end(7, &[]), now).is_empty(), "though nothing came in between");
    writer.receive(chunk(8, &one), now);
    assert_eq!(writer.services().count(), 2);
    assert_eq!(resyncs(&mut writer), 1);
    // The first frame after another gap may be the Begin of the snapshot that was requested.
    writer.receive(begin(10, Scope::All), now);
    assert_eq!(resyncs(&mut writer), 0, "it is on its way already");
    assert_eq!(writer.receive(end(11, &[]), now).len(), 3);
}

#[test]
fn a_gap_drops_what_came_in_part() {
    let now = start();
    let mut writer = holding(&[], now);
    let part = |seq, tag: Option<&str>, more| {
        let mut piece = crate::common::piece("a", &service("1", [seq as u32]));
        piece.header = tag.map(crate::common::header);
        piece.more = more;
        delta(seq, [PieceChange::Replace(piece)])
    };
    writer.receive(part(4, Some("1"), true), now);
    writer.receive(part(6, None, true), now);
    assert!(writer.receive(part(7, None, false), now).is_empty(), "its middle is missing, and that is no fault of a");
    assert!(writer.services().next().is_none() && writer.rejects().is_empty());
}

#[test]
fn a_begin_that_is_lost_is_asked_for_again() {
    let now = start();
    let mut writer = holding(&[], now);
    writer.receive(delta(4, [update("b", "2")]), now);
    assert_eq!(resyncs(&mut writer), 1);
    writer.receive(end(6, &[]), now);
    assert_eq!(resyncs(&mut writer), 0);
    writer.tick(now + Duration::from_secs(1));
    assert_eq!(resyncs(&mut writer), 1);
}

#[test]
fn a_frame_that_comes_twice_counts_once() {
    let now = start();
    let mut writer = holding(&[], now);
    writer.receive(delta(4, [replace("a", &service("1", []))]), now);
    writer.receive(delta(5, [update("a", "2")]), now);
    assert!(writer.receive(delta(4, [replace("a", &service("1", []))]), now).is_empty());
    assert_eq!(tag(&writer, "a"), "2");
    assert_eq!(resyncs(&mut writer), 0);
}

#[test]
fn a_snapshot_that_does_not_match_deletes_nothing() {
    let mut now = start();
    let one = [("a", service("1", [])), ("b", service("1", []))];
    let mut writer = holding(&one, now);
    let mut seq = 4;
    for wait in [0, 1, 2, 4, 8] {
        writer.receive(begin(seq, Scope::All), now);
        writer.receive(chunk(seq + 1, &one[..1]), now);
        let out = writer.receive(end(seq + 2, &one), now);
        assert!(out.is_empty(), "{out:?}");
        assert!(writer.service(&key("b")).is_some() && !writer.knows("ns"));
        if wait > 0 {
            assert_eq!(resyncs(&mut writer), 0);
            assert_eq!(writer.next_deadline(), Some(now + Duration::from_secs(wait)));
            now += Duration::from_secs(wait);
            writer.tick(now);
        }
        assert_eq!(resyncs(&mut writer), 1, "after {wait} s");
        seq += 3;
    }
    assert_eq!(need(&mut writer, &hello(&one), now), Need::All, "equal, but not proven");
}

#[test]
fn a_cut_or_a_new_begin_drops_the_old_snapshot() {
    let now = start();
    let one = [("a", service("1", [])), ("b", service("1", []))];
    let mut writer = holding(&one, now);
    writer.receive(begin(4, Scope::All), now);
    writer.receive(chunk(5, &one[..1]), now);
    writer.receive(begin(6, Scope::All), now);
    writer.receive(chunk(7, &one[1..]), now);
    let out = writer.receive(end(8, &one[1..]), now);
    assert_eq!(out[0], WriterOutput::Removed(key("a")), "the first view counts no more");
    writer.receive(begin(9, Scope::All), now);
    writer.closed();
    writer.open(&hello(&one[1..]), "b", 2, now);
    assert!(writer.receive(end(1, &[]), now).is_empty());
    assert!(writer.service(&key("b")).is_some() && writer.knows("ns"));
}

#[test]
fn a_difference_to_nothing_asks_for_everything() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    assert!(writer.receive(delta(4, [update("b", "2"), update("a", "2")]), now).len() == 1, "a stays");
    assert_eq!(resyncs(&mut writer), 1);
    assert!(!writer.knows("ns") && writer.knows("x"));
    writer.receive(delta(5, [update("b", "2")]), now);
    assert_eq!(resyncs(&mut writer), 0, "asked already");
    writer.request_snapshot([], "guard");
    assert_eq!(resyncs(&mut writer), 0, "asked already");
    writer.receive(begin(6, Scope::All), now);
    writer.request_snapshot([], "guard");
    assert_eq!(resyncs(&mut writer), 1, "this one began too early");
}

/// An agent that cannot read all of its source confirms that a namespace is empty only if it is asked for that
/// namespace.
#[test]
fn what_is_asked_for_and_not_held_is_named() {
    let now = start();
    let mut writer = holding(&[("a", service("1", [])), ("gone/a", service("1", []))], now);
    writer.receive(delta(4, [remove("gone/a")]), now);
    let ask = |writer: &mut WriterEnd, namespaces: &[&str]| {
        writer.take_messages();
        writer.request_snapshot(namespaces.iter().map(|name| (*name).into()), "guard");
        let needs = writer.take_messages().into_iter().filter_map(|message| match message {
            WriterMessage::Resync { need, .. } => Some(need),
            _ => None,
        });
        needs.collect::<Vec<_>>()
    };
    let gone = Need::Namespaces(vec![("gone".into(), Summary::default())]);
    assert_eq!(ask(&mut writer, &["gone", "ns"]), [gone, Need::All]);
    assert_eq!(ask(&mut writer, &["gone"]), [], "asked already");
    writer.receive(begin(5, some(&["gone", "ns"])), now);
    assert_eq!(ask(&mut writer, &["ns"]), [Need::All]);
    writer.receive(begin(6, Scope::All), now);
    let many: Vec<String> = (0..9000).map(|n| format!("n{n}")).collect();
    let many: Vec<&str> = many.iter().map(|name| &**name).collect();
    let asked = ask(&mut writer, &many);
    assert!(matches!(&asked[..], [Need::Namespaces(named), Need::All] if named.len() == 8000));
}

fn unreadable(name: Option<&str>) -> Unreadable {
    Unreadable { key: name.map(key), reason: "bad address".into(), more: false }
}

fn bad_delta(seq: u64, name: Option<&str>) -> AgentMessage {
    let changes = vec![Err(unreadable(name)), Ok(replace("other", &service("1", [])))];
    data(seq, Frame::Delta { changes, age: ChangeAge::default() })
}

#[test]
fn one_unreadable_change_stops_nothing_else() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    let out = writer.receive(bad_delta(4, Some("a")), now);
    let bad = WriterOutput::Unreadable { key: Some(key("a")), reason: "bad address".into() };
    assert_eq!(out, [bad, WriterOutput::Changed(key("other"))]);
    writer.settle(&key("other"), Outcome::Applied);
    let messages = writer.take_messages();
    assert!(matches!(&messages[..], [WriterMessage::Reject(_), WriterMessage::Ack(4)]), "{messages:?}");
    writer.receive(bad_delta(5, Some("a")), now);
    writer.settle(&key("a"), Outcome::Applied);
    assert_eq!(writer.take_messages(), [], "sent once; the older state being applied does not resolve it");
    writer.receive(delta(6, [update("a", "3")]), now);
    assert_eq!(tag(&writer, "a"), "1", "a difference to what could not be read");
    assert_eq!(resyncs(&mut writer), 1);
    writer.receive(delta(7, [replace("a", &service("4", []))]), now);
    writer.settle(&key("a"), Outcome::Applied);
    assert!(writer.take_messages().contains(&WriterMessage::Resolved(key("a"))));
}

#[test]
fn an_unreadable_change_of_nobody_asks_for_everything() {
    let now = start();
    let mut writer = holding(&[], now);
    let out = writer.receive(bad_delta(4, None), now);
    assert_eq!(out.last(), Some(&WriterOutput::Changed(key("other"))), "the others of the frame proceed");
    writer.settle(&key("other"), Outcome::Applied);
    let messages = writer.take_messages();
    let [WriterMessage::Reject(told), WriterMessage::Resync { .. }, WriterMessage::Ack(4)] = &messages[..] else {
        panic!("{messages:?}")
    };
    let words = "an entry could not be read, and its key neither: bad address";
    assert_eq!((&told.key, told.retryable, told.message.as_str()), (&None, false, words));
    assert!(writer.rejects().is_empty());
}

/// Its namespace is empty at both ends, so that nothing else would tell.
#[test]
fn one_that_could_not_be_read_and_went_while_no_stream_was_open_is_rejected_no_more() {
    let now = start();
    let mut writer = holding(&[("x/a", service("1", []))], now);
    let changes = vec![Err(unreadable(Some("y/a")))];
    writer.receive(data(4, Frame::Delta { changes, age: ChangeAge::default() }), now);
    assert!(writer.rejects().contains_key(&key("y/a")));
    let Need::Namespaces(asked) = need(&mut writer, &hello(&[("x/a", service("2", []))]), now) else { panic!("all") };
    assert_eq!(asked.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["x", "y"]);
    writer.receive(begin(1, some(&["y"])), now);
    writer.receive(end(2, &[]), now);
    assert!(writer.rejects().is_empty(), "{:?}", writer.rejects());
}

/// Their names count like those of the others: a message has room for a limited number of bytes.
#[test]
fn names_of_what_could_not_be_read_are_listed_as_far_as_there_is_room() {
    let now = start();
    let asked = |many: usize| {
        let mut writer = holding(&[("x/a", service("1", []))], now);
        let names = (0..many).map(|n| format!("{n:0>200}/a"));
        let changes = names.map(|name| Err(unreadable(Some(&name)))).collect();
        writer.receive(data(4, Frame::Delta { changes, age: ChangeAge::default() }), now);
        need(&mut writer, &hello(&[("x/a", service("2", []))]), now)
    };
    assert!(matches!(asked(10), Need::Namespaces(asked) if asked.len() == 11));
    assert_eq!(asked(7000), Need::All);
}

#[test]
fn an_unreadable_piece_of_nobody_is_told() {
    let now = start();
    let mut writer = holding(&[], now);
    writer.receive(begin(4, Scope::All), now);
    let pieces = vec![Err(unreadable(None)), Err(unreadable(None)), Ok(crate::common::piece("b", &service("2", [])))];
    let out = writer.receive(data(5, Frame::SnapshotChunk { pieces, digest: None, age: None }), now);
    assert_eq!(out.last(), Some(&WriterOutput::Changed(key("b"))));
    let of_nobody = |message: &WriterMessage| matches!(message, WriterMessage::Reject(told) if told.key.is_none());
    assert_eq!(writer.take_messages().iter().filter(|message| of_nobody(message)).count(), 1, "once for a frame");
}

#[test]
fn an_unreadable_message_is_answered_and_may_have_been_a_frame() {
    let now = start();
    let mut writer = holding(&[], now);
    for _ in 0..2 {
        let out = writer.receive(AgentMessage::Unreadable { reason: "eof".into() }, now);
        assert!(matches!(&out[..], [WriterOutput::Unreadable { key: None, .. }]));
    }
    let messages = writer.take_messages();
    assert!(
        matches!(&messages[..], [WriterMessage::Reject(r), WriterMessage::Resync { .. }] if r.key.is_none()),
        "{messages:?}"
    );
}

#[test]
fn an_unreadable_piece_spoils_the_snapshot_but_not_the_others() {
    let now = start();
    let one = [("a", service("1", [])), ("b", service("1", []))];
    let mut writer = holding(&one, now);
    let bad = |seq| {
        let good = crate::common::piece("b", &service("2", []));
        data(seq, Frame::SnapshotChunk { pieces: vec![Err(unreadable(Some("a"))), Ok(good)], digest: None, age: None })
    };
    writer.receive(begin(4, Scope::All), now);
    let out = writer.receive(bad(5), now);
    assert_eq!(out.last(), Some(&WriterOutput::Changed(key("b"))));
    assert!(writer.receive(end(6, &[("b", service("2", []))]), now).is_empty(), "though the rest matches");
    assert_eq!(writer.services().count(), 2);
    assert_eq!(resyncs(&mut writer), 1);
    // `new` leaves the source before it was ever read, so it is never settled. The next snapshot ends its reject.
    writer.receive(delta(7, [remove("a")]), now);
    writer.receive(bad_delta(8, Some("new")), now);
    writer.settle(&key("a"), Outcome::Applied);
    assert!(writer.rejects().keys().eq([&key("new")]));
    let left = [("b", service("2", [])), ("other", service("1", []))];
    writer.receive(begin(9, Scope::All), now);
    writer.receive(chunk(10, &left), now);
    writer.receive(end(11, &left), now);
    assert!(writer.rejects().is_empty() && writer.is_complete());
}

/// The chunk's digest covers the unreadable Services, so the rest of the view is proven and nothing is sent again.
#[test]
fn what_cannot_be_read_leaves_the_rest_proven_where_its_digest_is_told() {
    let now = start();
    let view = [("a", service("1", [1])), ("b", service("2", [])), ("c", service("1", []))];
    let sum = |names: &[usize]| names.iter().fold(Digest::default(), |sum, n| sum + digest(view[*n].0, &view[*n].1));
    let more = |name| Err(Unreadable { more: true, ..unreadable(Some(name)) });
    let last = |name: &str| {
        let piece = crate::common::piece(name, &service("", []));
        Ok(gimbal_session::Piece { header: None, ..piece })
    };
    let good = |n: usize| Ok(crate::common::piece(view[n].0, &view[n].1));
    type Chunk = (Vec<Result<gimbal_session::Piece, Unreadable>>, Option<Digest>);
    let send = |chunks: Vec<Chunk>| {
        let mut writer = holding(&[("a", service("0", [])), ("gone", service("1", []))], now);
        writer.receive(begin(4, Scope::All), now);
        let mut seq = 4;
        for (pieces, digest) in chunks {
            seq += 1;
            writer.receive(data(seq, Frame::SnapshotChunk { pieces, digest, age: None }), now);
        }
        let out = writer.receive(end(seq + 1, &view), now);
        (writer, out)
    };
    for chunks in [
        vec![(vec![Err(unreadable(Some("a"))), good(1), good(2)], Some(sum(&[0, 1, 2])))],
        // The pieces of a Service come in several chunks; its digest counts in the chunk with the last piece.
        vec![(vec![more("a")], Some(sum(&[]))), (vec![last("a"), good(1)], Some(sum(&[0, 1]))), (vec![good(2)], None)],
        vec![(vec![more("a"), more("a"), Err(unreadable(Some("a"))), good(1), good(2)], Some(sum(&[0, 1, 2])))],
    ] {
        let (mut writer, out) = send(chunks);
        assert!(
            matches!(&out[..], [WriterOutput::Removed(gone), WriterOutput::ScopeComplete { .. }] if *gone == key("gone"))
        );
        assert!(writer.is_complete() && writer.knows("ns"));
        assert_eq!(resyncs(&mut writer), 0, "nothing is sent again");
        assert_eq!(tag(&writer, "a"), "0", "what is held of it stays");
        assert!(writer.rejects().keys().eq([&key("a")]) && writer.is_unreadable(&key("a")));
        assert!(!writer.is_unreadable(&key("b")));
    }
    for chunks in [
        vec![(vec![Err(unreadable(Some("a"))), good(1), good(2)], None)],
        vec![(vec![Err(unreadable(Some("a"))), good(1), good(2)], Some(sum(&[1, 2])))],
        vec![(vec![Err(unreadable(None)), good(1), good(2)], Some(sum(&[0, 1, 2])))],
        vec![(vec![more("a"), good(1), good(2)], Some(sum(&[0, 1, 2])))],
    ] {
        let (mut writer, out) = send(chunks);
        assert_eq!(out, [], "an older agent, a wrong sum, no name, or no end: nothing is proven");
        assert_eq!(resyncs(&mut writer), 1);
    }
}

/// An agent that abandons a change in parts sends a view instead. The parts that arrived do not affect later changes.
#[test]
fn what_was_given_up_before_a_view_is_not_applied_after_it() {
    let now = start();
    let mut writer = holding(&[("a", service("1", [1]))], now);
    let update = |seq, host, more| {
        let set = service("1", [host]).endpoints().map(|(ports, e)| EndpointChange::Set(ports.clone(), e)).collect();
        let change = PieceChange::Update { key: key("a"), header: None, parts: set, more };
        data(seq, Frame::Delta { changes: vec![Ok(change)], age: ChangeAge::default() })
    };
    writer.receive(update(4, 9, true), now);
    let view = [("a", service("1", [2]))];
    writer.receive(begin(5, Scope::All), now);
    writer.receive(chunk(6, &view), now);
    writer.receive(end(7, &view), now);
    writer.receive(update(8, 3, false), now);
    assert_eq!(writer.service(&key("a")), Some(&service("1", [2, 3])), "without 9, which was given up");
}

#[test]
fn an_equal_digest_ends_what_could_not_be_read() {
    let now = start();
    let one = [("a", service("1", []))];
    let mut writer = holding(&one, now);
    writer.receive(bad_delta(4, Some("a")), now);
    writer.receive(bad_delta(5, Some("new")), now);
    writer.receive(delta(6, [remove("other")]), now);
    let out = writer.open(&hello(&one), "b", 2, now);
    assert_eq!(out, [WriterOutput::Changed(key("a"))], "to be settled anew");
    writer.settle(&key("a"), Outcome::Applied);
    assert!(writer.rejects().is_empty());
}

#[test]
fn pieces_out_of_scope_or_out_of_order_spoil_the_snapshot() {
    let now = start();
    let mut partial = crate::common::piece("a", &service("1", []));
    partial.more = true;
    let partial = |seq| data(seq, Frame::SnapshotChunk { pieces: vec![Ok(partial.clone())], digest: None, age: None });
    for (frame, held) in [
        (chunk(5, &[("x/a", service("1", []))]), 0),
        (partial(5), 0),
        (data(5, Frame::SnapshotChunk { pieces: vec![Err(unreadable(None))], digest: None, age: None }), 0),
    ] {
        let mut writer = holding(&[("b", service("1", []))], now);
        writer.receive(begin(4, some(&["ns"])), now);
        writer.receive(frame, now);
        let out = writer.receive(end(6, &[]), now);
        assert_eq!(out.len(), held, "{out:?}");
        assert!(writer.service(&key("b")).is_some() && writer.service(&key("x/a")).is_none());
    }
}

#[test]
fn a_key_that_could_not_be_read_and_is_absent_later_is_resolved() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    writer.receive(bad_delta(4, Some("a")), now);
    let left = [("other", service("1", []))];
    writer.receive(begin(5, Scope::All), now);
    writer.receive(chunk(6, &left), now);
    assert_eq!(writer.receive(end(7, &left), now)[0], WriterOutput::Removed(key("a")));
    writer.settle(&key("a"), Outcome::Applied);
    assert!(writer.rejects().is_empty());
}

#[test]
fn after_the_largest_number_the_stream_is_over() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    assert!(writer.receive(delta(u64::MAX, [remove("a")]), now).is_empty(), "the frames before it are missing");
    assert_eq!(writer.receive(delta(1, [remove("a")]), now), [WriterOutput::Close]);
    assert_eq!(tag(&writer, "a"), "1");
    assert!(writer.receive(delta(4, [remove("a")]), now).is_empty(), "nothing more of it counts");
}

/// A Service was removed and came back in a form that this writer cannot read: it exists, in an unknown state.
#[test]
fn what_cannot_be_read_is_back() {
    let now = start();
    let mut writer = holding(&[("a", service("1", []))], now);
    writer.receive(delta(4, [remove("a")]), now);
    assert!(writer.removed_explicitly(&key("a")));
    writer.receive(bad_delta(5, Some("a")), now);
    assert!(!writer.removed_explicitly(&key("a")) && writer.is_unreadable(&key("a")));
}
