//! The agent: snapshots, and changes while they run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::Service;
use gimbal_session::{
    AgentEnd, AgentMessage, ChangeAge, ChangeSince, Credit, Frame, Need, Reject, RejectReason, Scope, Summary,
    WriterMessage,
};

use crate::common::{
    agent, connect, data, digest, flowing, frames, key, said, service, short, some, start, summary, tell, welcome,
    welcome_with,
};

fn resync(need: Need) -> WriterMessage {
    WriterMessage::Resync { need, reason: "test".into() }
}

/// Returns the next data frame, in short form.
fn next(agent: &mut AgentEnd, now: Instant) -> String {
    loop {
        match agent.next(now) {
            Some(AgentMessage::Data(sent)) => return short(&sent.frame),
            Some(_) => {}
            None => return String::new(),
        }
    }
}

/// A window in which a chunk holds one Service: two changes may be unacknowledged, and a snapshot may use three
/// quarters of that, which is one.
const NARROW: Credit = Credit { changes: 2, bytes: 1 << 20 };

fn ack(agent: &mut AgentEnd, seq: u64, now: Instant) {
    tell(agent, WriterMessage::Ack(seq), now);
}

fn three() -> [(&'static str, Arc<Service>); 3] {
    [("a", service("1", [1])), ("b", service("1", [1])), ("c", service("1", [1]))]
}

/// Returns an agent whose snapshot has begun. Each chunk holds one of a, b and c.
fn snapshotting(now: Instant) -> AgentEnd {
    let mut agent = agent(&three());
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::All, NARROW), now);
    assert_eq!(next(&mut agent, now), "begin *");
    ack(&mut agent, 1, now);
    agent
}

#[test]
fn everything() {
    let now = start();
    let mut agent = agent(&three());
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    assert_eq!(agent.backlog(), 3);
    assert_eq!(said(&mut agent, now), ["begin *", "chunk a b c", "end 3"]);
    ack(&mut agent, 3, now);
    assert_eq!(agent.pending(), 0);
}

/// While the source may have unlisted parts, the agent does not confirm that a namespace is gone, whether the writer
/// needs everything or names the namespace.
#[test]
fn nothing_is_said_of_a_rest_that_is_unknown() {
    let now = start();
    let x = service("1", [1]);
    let gone = Need::Namespaces(vec![("gone".into(), Summary { count: 1, digest: digest("gone/a", &x) })]);
    for (need, while_unknown, later) in [
        (Need::All, vec!["begin x y", "chunk a b", "end 2"], vec!["begin *", "chunk a b", "end 2"]),
        (gone, vec!["begin x y", "chunk a b", "end 2"], vec!["begin gone", "end 0"]),
    ] {
        let mut agent = agent(&[("x/a", x.clone()), ("y/b", x.clone())]);
        agent.set_rest_unknown(true);
        connect(&mut agent, now);
        tell(&mut agent, welcome(need.clone()), now);
        assert_eq!(said(&mut agent, now), while_unknown, "{need:?}");
        // Other changes are still sent.
        agent.set(key("x/a"), Some(service("2", [1])), now);
        assert_eq!(said(&mut agent, now), ["delta ~a"]);
        agent.set_rest_unknown(false);
        assert_eq!(said(&mut agent, now), later, "{need:?}");
    }
}

#[test]
fn a_snapshot_of_everything_is_given_up_when_a_rest_turns_unknown() {
    let now = start();
    let mut agent = snapshotting(now);
    agent.set_rest_unknown(true);
    let sent = said(&mut agent, now);
    assert!(!sent.iter().any(|frame| frame.starts_with("end")), "{sent:?}");
}

#[test]
fn only_namespaces_that_differ() {
    let now = start();
    let (x, y) = (service("1", [1]), service("1", [2]));
    let offered = [("x/a", x.clone()), ("y/a", y), ("new/a", x.clone())];
    let held = |y_digest| {
        let one = |digest| Summary { count: 1, digest };
        let same = ("x".into(), one(digest("x/a", &x)));
        Need::Namespaces(vec![same, ("y".into(), y_digest), ("gone".into(), one(digest("gone/a", &x)))])
    };
    let mut agent = agent(&offered);
    connect(&mut agent, now);
    // A change after Hello is a delta, not a reason to send the namespace.
    agent.set(key("x/a"), Some(service("2", [1])), now);
    let need = held(Summary { count: 1, digest: digest("y/a", &x) });
    tell(&mut agent, welcome(need), now);
    let sent = said(&mut agent, now);
    assert_eq!(sent, ["begin gone new y", "delta ~a", "chunk a a", "end 2"]);
    agent.set(key("y/a"), None, now);
    agent.set(key("new/a"), None, now);
    let all_equal =
        Need::Namespaces(vec![("x".into(), Summary { count: 1, digest: digest("x/a", &service("2", [1])) })]);
    tell(&mut agent, resync(all_equal), now);
    assert_eq!(said(&mut agent, now), ["delta -a -a"], "no snapshot where nothing differs");
}

#[test]
fn the_view_is_frozen_and_changes_go_first() {
    let now = start();
    let mut agent = snapshotting(now);
    assert_eq!(next(&mut agent, now), "chunk a");
    for name in ["a", "b"] {
        agent.set(key(name), Some(service("2", [2])), now);
    }
    assert_eq!(next(&mut agent, now), "delta ~a", "its chunk is out: a difference to that");
    ack(&mut agent, 3, now);
    assert_eq!(next(&mut agent, now), "delta =b", "its chunk is not");
    agent.set(key("b"), Some(service("3", [3])), now);
    assert_eq!(next(&mut agent, now), "delta ~b", "a difference to the delta, which outranks the chunk");
    ack(&mut agent, 5, now);
    agent.set(key("d"), Some(service("1", [])), now);
    agent.set(key("c"), None, now);
    assert_eq!(next(&mut agent, now), "delta =d -c");
    ack(&mut agent, 6, now);
    let Some(AgentMessage::Data(chunk)) = agent.next(now) else { panic!("a chunk") };
    let Frame::SnapshotChunk { pieces, .. } = &chunk.frame else { panic!("{chunk:?}") };
    let piece = pieces[0].as_ref().unwrap();
    assert_eq!((&piece.key, piece.header.as_deref()), (&key("b"), Some(&*service("1", []).header)), "as it was frozen");
    ack(&mut agent, 7, now);
    assert_eq!(next(&mut agent, now), "chunk c");
    ack(&mut agent, 8, now);
    let Some(end) = agent.next(now) else { panic!("the end") };
    assert_eq!(end, data(9, Frame::SnapshotEnd { summary: summary(&three()) }));
    agent.set(key("b"), None, now);
    agent.set(key("d"), Some(service("2", [])), now);
    assert_eq!(next(&mut agent, now), "delta -b ~d");
}

/// A removal that is pending when a view is frozen is sent before the view ends.
#[test]
fn a_removal_that_waited_is_told_by_name_before_the_view() {
    let now = start();
    let mut agent = flowing(&three(), now);
    agent.set(key("b"), None, now);
    agent.set(key("c"), Some(service("2", [1])), now);
    tell(&mut agent, resync(Need::All), now);
    assert_eq!(said(&mut agent, now), ["begin *", "delta -b", "chunk c", "chunk a", "end 2"]);
    // The same if the view is abandoned before its end.
    agent.set(key("a"), None, now);
    tell(&mut agent, resync(Need::All), now);
    assert_eq!(next(&mut agent, now), "begin *");
    agent.scope_unknown(some(&["ns"]), "forbidden".into());
    assert_eq!(said(&mut agent, now), ["delta -a"]);
}

/// A writer that could not read a Service cannot apply an update to it.
#[test]
fn what_was_not_read_is_sent_whole_when_it_changes() {
    let now = start();
    let mut agent = flowing(&three(), now);
    let reject = |reason| Reject { key: Some(key("a")), reason, retryable: false, message: "test".into() };
    tell(&mut agent, WriterMessage::Reject(reject(RejectReason::Invalid)), now);
    agent.set(key("a"), Some(service("1", [2])), now);
    tell(&mut agent, WriterMessage::Reject(reject(RejectReason::Quota)), now);
    assert_eq!(said(&mut agent, now), ["delta =a"]);
    agent.set(key("a"), Some(service("1", [3])), now);
    assert_eq!(said(&mut agent, now), ["delta ~a"]);
}

#[test]
fn a_change_and_its_undo_before_the_chunk_send_nothing() {
    let now = start();
    let mut agent = snapshotting(now);
    agent.set(key("c"), None, now);
    agent.set(key("d"), Some(service("1", [])), now);
    agent.set(key("c"), Some(service("1", [1])), now);
    agent.set(key("d"), None, now);
    assert_eq!(next(&mut agent, now), "chunk a");
}

#[test]
fn a_change_that_a_snapshot_overtakes_is_a_difference_to_it() {
    let now = start();
    let mut agent = agent(&three()[..1]);
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::All, Credit { changes: 9, bytes: 4000 }), now);
    assert_eq!(next(&mut agent, now), "begin *");
    ack(&mut agent, 1, now);
    agent.set(key("wide"), Some(service(&"w".repeat(1500), [])), now);
    assert_eq!(next(&mut agent, now), "delta =wide");
    // There is credit for the chunk, but not for this change.
    agent.set(key("a"), Some(service(&"v".repeat(2600), [1])), now);
    assert_eq!(said(&mut agent, now), ["chunk a", "end 1"]);
    ack(&mut agent, 2, now);
    assert_eq!(next(&mut agent, now), "delta ~a");
}

#[test]
fn bulk_leaves_a_quarter_of_the_window_to_changes() {
    let now = start();
    let services: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| (name, service("1", [1]))).into();
    let mut agent = agent(&services);
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::All, Credit { changes: 4, bytes: 1 << 20 }), now);
    assert_eq!(said(&mut agent, now), ["begin *", "chunk a b c"]);
    agent.set(key("new"), Some(service("1", [])), now);
    assert_eq!(said(&mut agent, now), ["delta =new"]);
    ack(&mut agent, 2, now);
    assert_eq!(said(&mut agent, now), ["chunk d e"]);
}

#[test]
fn a_resync_restarts_the_snapshot() {
    let now = start();
    let mut agent = snapshotting(now);
    assert_eq!(next(&mut agent, now), "chunk a");
    tell(&mut agent, resync(Need::All), now);
    tell(&mut agent, WriterMessage::Credit(Credit { changes: 100, bytes: 1 << 20 }), now);
    assert_eq!(said(&mut agent, now), ["begin *", "chunk a b c", "end 3"]);
    tell(&mut agent, resync(Need::Nothing), now);
    assert!(said(&mut agent, now).is_empty());
}

#[test]
fn what_is_unknown_is_not_snapshotted() {
    let now = start();
    let mut agent = agent(&[("x/a", service("1", [1])), ("y/b", service("1", [1]))]);
    agent.scope_unknown(some(&["x"]), "lost".into());
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    assert_eq!(said(&mut agent, now), ["begin y", "chunk b", "end 1"], "the others do not wait for it");
    agent.set(key("x/a"), Some(service("2", [1])), now);
    agent.set(key("y/b"), Some(service("2", [1])), now);
    assert_eq!(said(&mut agent, now), ["delta =a ~b"], "what the writer holds of x is not known");
    agent.source_complete();
    assert_eq!(said(&mut agent, now), ["begin *", "chunk a b", "end 2"], "all of it was asked for");
}

/// The writer lists namespaces of which it holds nothing and needs proof. The agent confirms that one is empty only if
/// it knows that.
#[test]
fn a_namespace_that_is_asked_for_by_name_is_told_to_be_empty_if_that_is_known() {
    let now = start();
    let ask = |agent: &mut AgentEnd| {
        let named = ["lost", "never", "y"].map(|name| (name.into(), Summary::default()));
        tell(agent, resync(Need::Namespaces(named.into())), now);
        tell(agent, resync(Need::All), now);
        said(agent, now)
    };
    let x = service("1", [1]);
    let mut agent = flowing(&[("x/a", x.clone()), ("y/a", x.clone()), ("lost/a", x)], now);
    agent.set(key("y/a"), None, now);
    agent.set(key("lost/a"), None, now);
    assert_eq!(said(&mut agent, now), ["delta -a -a"]);
    assert_eq!(ask(&mut agent), ["begin *", "chunk a", "end 1"], "nothing is unknown");
    agent.scope_unknown(some(&["lost"]), "forbidden".into());
    assert_eq!(ask(&mut agent), ["begin x never y", "chunk a", "end 1"]);
    assert!(said(&mut agent, now).is_empty(), "once");
    // An unlisted part may be in a namespace that was never read.
    agent.set_rest_unknown(true);
    assert_eq!(ask(&mut agent), ["begin x y", "chunk a", "end 1"]);
    agent.source_complete();
    assert_eq!(said(&mut agent, now), ["begin lost", "end 0"], "it was read before, and again");
    agent.scope_unknown(Scope::All, "away".into());
    assert!(ask(&mut agent).is_empty());
}

#[test]
fn a_running_snapshot_of_what_becomes_unknown_is_abandoned() {
    let now = start();
    let mut agent = snapshotting(now);
    assert_eq!(next(&mut agent, now), "chunk a");
    tell(&mut agent, WriterMessage::Credit(Credit { changes: 100, bytes: 1 << 20 }), now);
    agent.scope_unknown(Scope::Namespaces(Vec::new()), "everything".into());
    assert!(agent.unknown().all().is_some(), "an empty list is everything");
    assert_eq!(next(&mut agent, now), "");
    agent.set(key("a"), Some(service("2", [1])), now);
    agent.set(key("b"), None, now);
    assert_eq!(next(&mut agent, now), "delta =a -b", "changes still go");
    agent.source_complete();
    assert_eq!(said(&mut agent, now), ["begin *", "chunk a c", "end 2"]);
}

#[test]
fn a_scope_that_is_known_again_is_snapshotted_unasked() {
    let now = start();
    let mut agent = flowing(&[("x/a", service("1", [1])), ("y/b", service("1", [1]))], now);
    agent.scope_unknown(some(&["x"]), "lost".into());
    assert!(said(&mut agent, now).is_empty());
    agent.set(key("x/a"), None, now);
    agent.source_complete();
    assert_eq!(said(&mut agent, now), ["begin x", "delta -a", "end 0"], "what is gone is named");
    agent.source_complete();
    assert!(said(&mut agent, now).is_empty());
}

#[test]
fn what_waited_goes_first() {
    let now = start();
    let mut agent = agent(&three());
    connect(&mut agent, now);
    agent.set(key("c"), Some(service("2", [1])), now);
    tell(&mut agent, welcome(Need::All), now);
    assert_eq!(said(&mut agent, now), ["begin *", "chunk c", "chunk a b", "end 3"]);
}

#[test]
fn a_begin_that_was_asked_for_does_not_wait_for_frames_that_may_be_lost() {
    let now = start();
    let mut agent = flowing(&[], now);
    tell(&mut agent, WriterMessage::Credit(Credit { changes: 1, bytes: 300 }), now);
    agent.set(key("a"), Some(service("1", [])), now);
    assert_eq!(said(&mut agent, now), ["delta =a"]);
    tell(&mut agent, resync(Need::All), now);
    assert_eq!(said(&mut agent, now), ["begin *"]);
    agent.scope_unknown(some(&["ns"]), "lost".into());
    agent.source_complete();
    assert!(said(&mut agent, now).is_empty(), "one that it did not ask for waits");
}

/// A window for one change. A Service of 200 endpoints takes several parts in it.
const TIGHT: Credit = Credit { changes: 1, bytes: 8 << 10 };

#[test]
fn what_the_writer_may_have_lost_of_an_unknown_scope_is_sent_whole() {
    let now = start();
    let mut agent = flowing(&[("x/a", service("1", [1])), ("x/b", service("1", [1]))], now);
    agent.scope_unknown(some(&["x"]), "lost".into());
    tell(&mut agent, WriterMessage::Credit(TIGHT), now);
    agent.set(key("x/a"), Some(service("1", 0..200)), now);
    agent.set(key("x/b"), Some(service("2", [1])), now);
    assert_eq!(said(&mut agent, now), ["delta ~a+"]);
    tell(&mut agent, resync(Need::All), now);
    ack(&mut agent, 1, now);
    assert_eq!(next(&mut agent, now), "delta =b", "no snapshot can tell what it is now");
    tell(&mut agent, WriterMessage::Credit(Credit { changes: 9, bytes: 1 << 20 }), now);
    assert_eq!(next(&mut agent, now), "delta =a", "the change that was under way begins anew");
}

#[test]
fn no_view_is_frozen_in_the_middle_of_a_change() {
    let now = start();
    let mut agent = agent(&[("x/a", service("1", [1])), ("y/b", service("1", [1]))]);
    agent.scope_unknown(some(&["x"]), "lost".into());
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::All, TIGHT), now);
    assert_eq!(next(&mut agent, now), "begin y");
    ack(&mut agent, 1, now);
    assert_eq!(next(&mut agent, now), "chunk b");
    ack(&mut agent, 2, now);
    agent.set(key("z/c"), Some(service("1", 0..60)), now);
    assert_eq!(said(&mut agent, now), ["delta =c+", "end 1"], "z is owed, but its change has begun");
    ack(&mut agent, 4, now);
    assert_eq!(said(&mut agent, now), ["delta =c", "begin z"]);
}

#[test]
fn what_began_earlier_is_older_though_it_was_reported_later() {
    let (start, second) = (start(), Duration::from_secs(1));
    let first = ChangeSince::now(start);
    let caused = ChangeSince { reported: start + second, caused: Some(3 * second) };
    assert_eq!((first.older(caused), caused.older(first)), (caused, caused));
    assert_eq!(first.older(ChangeSince::now(start + second)), first);
    assert_eq!(caused.age(start + 2 * second), ChangeAge { waited: second, caused: Some(3 * second) });
}

/// Returns the age of each frame that has one.
fn ages(agent: &mut AgentEnd, now: Instant) -> Vec<ChangeAge> {
    frames(agent, now).iter().filter_map(Frame::age).collect()
}

#[test]
fn a_snapshot_says_how_old_the_changes_are_that_no_stream_could_carry() {
    let (now, second) = (start(), Duration::from_secs(1));
    let mut agent = agent(&three());
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    assert_eq!(ages(&mut agent, now + second), [], "what was read first is no change");
    // One waits when the stream ends, and one comes while there is none. Two are gone again before there is one.
    tell(&mut agent, WriterMessage::Credit(Credit { changes: 0, bytes: 0 }), now);
    agent.set(key("a"), Some(service("2", [1])), now + 3 * second);
    agent.disconnected();
    let since = ChangeSince { reported: now + 4 * second, caused: Some(2 * second) };
    agent.set_since(key("b"), Some(service("2", [1])), since);
    agent.set(key("d"), Some(service("1", [1])), now);
    agent.set(key("d"), None, now);
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    let expected = |waited| [ChangeAge { waited: waited * second, caused: Some(2 * second) }];
    assert_eq!(ages(&mut agent, now + 10 * second), expected(6), "the one that began first");
    // The writer may have ended before it wrote what it was sent.
    agent.disconnected();
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    assert_eq!(ages(&mut agent, now + 20 * second), expected(16));
    tell(&mut agent, WriterMessage::Ack(3), now);
    agent.disconnected();
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    assert_eq!(ages(&mut agent, now + 30 * second), [], "it has");
}

/// An agent that ran for hours before its backend was admitted has entries that changed meanwhile, and many that did not.
#[test]
fn what_did_not_change_has_not_the_age_of_what_did() {
    let (now, second) = (start(), Duration::from_secs(1));
    let mut agent = agent(&three());
    agent.set(key("b"), Some(service("2", [1])), now);
    agent.set(key("large"), Some(service("2", 0..200)), now + 4 * second);
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::All), now);
    let (mut with_age, mut without) = (Vec::new(), Vec::new());
    for frame in frames(&mut agent, now + 10 * second) {
        if let Frame::SnapshotChunk { pieces, age, .. } = &frame {
            let keys = pieces.iter().map(|piece| piece.as_ref().unwrap().key.name.to_string());
            if age.is_some() { with_age.extend(keys) } else { without.extend(keys) }
        }
    }
    with_age.dedup();
    assert_eq!((with_age, without), (vec!["b".to_owned(), "large".into()], vec!["a".to_owned(), "c".into()]));
}

/// The writer has a change once it has all of it, so that is the frame whose age counts.
#[test]
fn the_last_piece_of_an_entry_has_its_age() {
    let (now, second) = (start(), Duration::from_secs(1));
    let mut agent = agent(&three());
    agent.set(key("large"), Some(service("2", 0..200)), now);
    connect(&mut agent, now);
    tell(&mut agent, welcome_with(Need::All, TIGHT), now);
    let mut chunks = Vec::new();
    for seq in 1.. {
        let sent = frames(&mut agent, now + second);
        if sent.is_empty() {
            break;
        }
        for frame in sent {
            if let Frame::SnapshotChunk { pieces, age, .. } = &frame
                && let Some(piece) = pieces.iter().flatten().find(|piece| *piece.key.name == *"large")
            {
                chunks.push((piece.more, age.is_some()));
            }
        }
        ack(&mut agent, seq, now);
    }
    let (last, others) = chunks.split_last().unwrap();
    assert!(
        *last == (false, true) && !others.is_empty() && others.iter().all(|chunk| *chunk == (true, false)),
        "{chunks:?}"
    );
}

#[test]
fn what_the_writer_has_by_now_was_no_change() {
    let (now, second) = (start(), Duration::from_secs(1));
    let mut agent = flowing(&three(), now);
    agent.disconnected();
    agent.set(key("a"), Some(service("2", [1])), now);
    agent.set(key("a"), Some(service("1", [1])), now);
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::Nothing), now);
    agent.set(key("b"), Some(service("2", [1])), now + 5 * second);
    assert_eq!(ages(&mut agent, now + 6 * second), [ChangeAge { waited: second, caused: None }]);
    tell(&mut agent, resync(Need::All), now);
    assert_eq!(ages(&mut agent, now + 9 * second), []);
}
