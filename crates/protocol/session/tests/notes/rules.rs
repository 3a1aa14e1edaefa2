//! Tests each rule of reports and facts by itself.

use std::time::{Duration, Instant};

use gimbal_session::{
    AgentEnd, AgentMessage, AgentVerdict, Credit, Goodbye, GoodbyeReason, Outcome, Reject, ReportError, TooLarge,
    WriterEnd, WriterLimits, WriterMessage, WriterOutput,
};

use crate::payload::{Note, NoteKey, Notes, Phase, Refusal, Report, key, new_agent, new_writer};
use crate::world::start;

pub fn report(lines: usize) -> Report {
    Report { uid: 1, phase: Phase::Made, lines }
}

/// Opens a stream on which the agent grants `credit` reports.
pub fn open(agent: &mut AgentEnd<Notes>, writer: &mut WriterEnd<Notes>, credit: u32, now: Instant) {
    agent.grant_reports(Credit { changes: credit, bytes: 10_000 });
    agent.connected(now);
    exchange(agent, writer, now);
}

pub fn ends(credit: u32) -> (AgentEnd<Notes>, WriterEnd<Notes>, Instant) {
    let (mut agent, mut writer, now) = (new_agent(), new_writer(), start());
    for name in ["a", "b", "c"] {
        agent.set(key("ns", name), Some(Note::present(1, name, [])), now);
    }
    agent.set_incarnation("uid".into());
    agent.source_complete();
    open(&mut agent, &mut writer, credit, now);
    for name in ["a", "b", "c"] {
        writer.settle(&key("ns", name), Outcome::Applied);
    }
    exchange(&mut agent, &mut writer, now);
    (agent, writer, now)
}

/// Exchanges messages until neither end has more. Returns the writer's messages and outputs.
pub fn exchange(
    agent: &mut AgentEnd<Notes>,
    writer: &mut WriterEnd<Notes>,
    now: Instant,
) -> (Vec<WriterMessage<Notes>>, Vec<WriterOutput<Notes>>) {
    let (mut said, mut outputs) = (Vec::new(), Vec::new());
    loop {
        let mut busy = false;
        while let Some(message) = agent.next(now) {
            busy = true;
            outputs.extend(match message {
                AgentMessage::Hello(hello) => writer.open(&hello, "b", 1, now),
                message => writer.receive(message, now),
            });
        }
        for message in writer.take_messages() {
            busy = true;
            said.push(message.clone());
            assert_eq!(agent.receive(message, now), AgentVerdict::Continue);
        }
        if !busy {
            return (said, outputs);
        }
    }
}

pub fn reports(said: &[WriterMessage<Notes>]) -> Vec<(NoteKey, usize)> {
    let reports = said.iter().filter_map(|message| match message {
        WriterMessage::Report { key, report, .. } => Some((key.clone(), report.lines)),
        _ => None,
    });
    reports.collect()
}

#[test]
fn the_latest_report_of_a_key_wins_and_is_sent_once() {
    let (mut agent, mut writer, now) = ends(10);
    writer.report(key("ns", "a"), report(1)).unwrap();
    writer.report(key("ns", "b"), report(1)).unwrap();
    writer.report(key("ns", "a"), report(2)).unwrap();
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said), [(key("ns", "a"), 2), (key("ns", "b"), 1)]);
    writer.report(key("ns", "a"), report(2)).unwrap();
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [], "an equal report is no news");
}

#[test]
fn reports_wait_for_the_credit_of_the_agent_and_hold_up_nothing_else() {
    let (mut agent, mut writer, now) = ends(1);
    let keys = ["a", "b", "c"].map(|name| key("ns", name));
    keys.iter().for_each(|key| writer.report(key.clone(), report(1)).unwrap());
    writer.set_facts(4).unwrap();
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said).len(), 1, "one is in flight");
    assert_eq!(agent.facts(), Some(&4));
    agent.set(key("ns", "d"), Some(Note::present(1, "d", [])), now);
    exchange(&mut agent, &mut writer, now);
    writer.settle(&key("ns", "d"), Outcome::Applied);
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert!(matches!(said[..], [WriterMessage::Ack(_)]), "{said:?}");
    for key in &keys {
        assert!(writer.is_report_pending(key));
        let received = agent.take_report().expect("the window has room for the next one");
        assert_eq!(received.key, *key);
        agent.report_done(&received);
        let (_, outputs) = exchange(&mut agent, &mut writer, now);
        assert_eq!(outputs, [WriterOutput::ReportDone { key: key.clone(), report: report(1) }]);
        assert!(!writer.is_report_pending(key));
    }
}

/// Neither reports that were never handled nor those that cross the removal stay, and their credit is free.
#[test]
fn nothing_is_kept_of_an_entry_that_is_gone() {
    let (mut agent, mut writer, now) = ends(2);
    for name in ["a", "b", "c"] {
        writer.report(key("ns", name), report(1)).unwrap();
    }
    let crossing = writer.take_messages();
    for name in ["a", "b"] {
        agent.set(key("ns", name), None, now);
    }
    // One came before its removal was sent, and waits; the other one comes after.
    let [first, second] = &crossing[..] else { panic!("{crossing:?}") };
    assert_eq!(agent.receive(first.clone(), now), AgentVerdict::Continue);
    let removals: Vec<_> = std::iter::from_fn(|| agent.next(now)).collect();
    assert_eq!(agent.receive(second.clone(), now), AgentVerdict::Continue);
    for removal in removals {
        writer.receive(removal, now);
    }
    for name in ["a", "b"] {
        writer.settle(&key("ns", name), Outcome::Applied);
    }
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said), [(key("ns", "c"), 1)], "there is room for it");
    let kept = format!("{agent:?}");
    let of = |name: &str| kept.contains(&format!("{:?}", key("ns", name)));
    assert_eq!((of("a"), of("b"), of("c")), (false, false, true), "{kept}");
    assert_eq!(agent.take_report().map(|received| received.key), Some(key("ns", "c")));
}

#[test]
fn without_a_grant_there_are_no_reports() {
    let (mut agent, mut writer, now) = (new_agent(), new_writer(), start());
    agent.set(key("ns", "a"), Some(Note::present(1, "a", [])), now);
    agent.set_incarnation("uid".into());
    agent.source_complete();
    agent.connected(now);
    exchange(&mut agent, &mut writer, now);
    writer.report(key("ns", "a"), report(1)).unwrap();
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), []);
}

#[test]
fn a_report_that_was_overtaken_does_not_acknowledge_the_newer_one() {
    let (mut agent, mut writer, now) = ends(10);
    let key = key("ns", "a");
    writer.report(key.clone(), report(1)).unwrap();
    exchange(&mut agent, &mut writer, now);
    let older = agent.take_report().expect("it came");
    writer.report(key.clone(), report(2)).unwrap();
    exchange(&mut agent, &mut writer, now);
    agent.report_done(&older);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.is_report_pending(&key), "the newer one is not dealt with");
    let newer = agent.take_report().expect("it came");
    agent.report_done(&newer);
    let (_, outputs) = exchange(&mut agent, &mut writer, now);
    assert_eq!(outputs, [WriterOutput::ReportDone { key, report: report(2) }]);
}

#[test]
fn a_new_stream_tells_everything_again_and_takes_no_acknowledgement_of_the_old_one() {
    let (mut agent, mut writer, now) = ends(10);
    writer.set_facts(1).unwrap();
    writer.report(key("ns", "a"), report(1)).unwrap();
    exchange(&mut agent, &mut writer, now);
    let old = agent.take_report().expect("it came");
    agent.disconnected();
    assert_eq!(agent.facts(), Some(&1), "facts outlive the stream");
    agent.connected(now);
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said), [(key("ns", "a"), 1)]);
    assert!(said.contains(&WriterMessage::Facts(1)));
    agent.report_done(&old);
    exchange(&mut agent, &mut writer, now);
    assert!(writer.is_report_pending(&key("ns", "a")));
    writer.forget_report(&key("ns", "a"));
    agent.disconnected();
    agent.connected(now);
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [], "what is forgotten is not sent again");
}

#[test]
fn a_new_stream_tells_what_is_rejected_before_it_reports() {
    let (mut agent, mut writer, now) = ends(10);
    for name in ["a", "b"] {
        writer.report(key("ns", name), report(1)).unwrap();
    }
    let reject = Reject { key: None, reason: Refusal::Invalid, retryable: true, message: "no".into() };
    writer.settle(&key("ns", "b"), Outcome::Rejected(reject));
    writer.set_facts(1).unwrap();
    exchange(&mut agent, &mut writer, now);
    agent.disconnected();
    agent.connected(now);
    let (said, _) = exchange(&mut agent, &mut writer, now);
    let words = said.iter().filter_map(|message| match message {
        WriterMessage::Facts(_) => Some("facts".to_owned()),
        WriterMessage::Reject(reject) => reject.key.as_ref().map(|key| format!("reject of {key:?}")),
        WriterMessage::Report { key, .. } => Some(format!("report of {key:?}")),
        _ => None,
    });
    let (a, b) = (key("ns", "a"), key("ns", "b"));
    let expected =
        ["facts".to_owned(), format!("reject of {b:?}"), format!("report of {a:?}"), format!("report of {b:?}")];
    assert_eq!(words.collect::<Vec<_>>(), expected);
}

#[test]
fn a_lost_report_ends_the_stream() {
    let (mut agent, mut writer, now) = ends(10);
    writer.report(key("ns", "a"), report(1)).unwrap();
    writer.take_messages();
    writer.report(key("ns", "b"), report(1)).unwrap();
    for message in writer.take_messages() {
        let AgentVerdict::Close { reason, .. } = agent.receive(message, now) else { panic!("the stream goes on") };
        assert_eq!(reason, "report 1 was expected and 2 came");
    }
}

#[test]
fn an_acknowledgement_of_nothing_ends_the_stream() {
    let unreadable = AgentMessage::ReportUnreadable { seq: 1, reason: String::new() };
    for message in [AgentMessage::ReportAck(1), AgentMessage::ReportsDone(vec![1]), unreadable] {
        let (_, mut writer, now) = ends(10);
        assert_eq!(writer.receive(message, now), [WriterOutput::Close]);
        let message = "a report was acknowledged that was never sent".to_owned();
        let goodbye = Goodbye { reason: GoodbyeReason::ProtocolError, message, retry_after: None };
        assert_eq!(writer.take_messages(), [WriterMessage::Goodbye(goodbye)]);
    }
}

#[test]
fn an_entry_that_is_being_deleted_is_known_after_a_restart_of_the_writer() {
    use gimbal_session::Entry as _;
    let (mut agent, _, now) = ends(10);
    agent.set(key("ns", "a"), Some(Note::deleting(1)), now);
    let mut writer = new_writer();
    agent.disconnected();
    open(&mut agent, &mut writer, 10, now);
    assert!(writer.entry(&key("ns", "a")).is_some_and(|note| note.is_deleting()));
}

/// The agent's user may have lost what was reported, and sends the entry again to say so.
#[test]
fn an_equal_report_is_sent_again_after_the_entry_was_sent_again() {
    let (mut agent, mut writer, now) = ends(10);
    let key = key("ns", "a");
    writer.report(key.clone(), report(1)).unwrap();
    exchange(&mut agent, &mut writer, now);
    agent.send_again(&key, now);
    let (_, outputs) = exchange(&mut agent, &mut writer, now);
    assert!(outputs.contains(&WriterOutput::Changed(key.clone())), "{outputs:?}");
    writer.report(key.clone(), report(1)).unwrap();
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [(key.clone(), 1)]);
    writer.settle(&key, Outcome::Applied);
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [], "once");
    // A writer that has nothing new to report only settles the key.
    agent.set(key.clone(), Some(Note::present(1, "wiped", [])), now);
    exchange(&mut agent, &mut writer, now);
    writer.settle(&key, Outcome::Applied);
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [(key.clone(), 1)]);
    writer.settle(&key, Outcome::Applied);
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [], "once");
}

/// A snapshot carries the same entry, before or after it is sent again.
#[test]
fn an_entry_is_sent_again_whatever_a_snapshot_carries() {
    let (mut agent, mut writer, now) = ends(10);
    let key = key("ns", "a");
    writer.request_snapshot([], "test");
    writer.take_messages().into_iter().for_each(|message| {
        assert_eq!(agent.receive(message, now), AgentVerdict::Continue);
    });
    for _ in 0..2 {
        let message = agent.next(now).expect("the snapshot");
        writer.receive(message, now);
    }
    agent.send_again(&key, now);
    let (_, outputs) = exchange(&mut agent, &mut writer, now);
    assert!(outputs.contains(&WriterOutput::Changed(key)), "{outputs:?}");
}

#[test]
fn what_fits_in_no_message_is_refused() {
    let (mut agent, mut writer, now) = ends(10);
    writer.report(key("ns", "a"), report(1)).unwrap();
    let refused = writer.report(key("ns", "a"), report(1 << 20));
    assert!(matches!(refused, Err(ReportError::TooLarge(TooLarge { len })) if len > 1 << 20), "{refused:?}");
    writer.set_facts(7).unwrap();
    assert_eq!(writer.set_facts(1 << 20), Err(TooLarge { len: 1 << 20 }));
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said), [(key("ns", "a"), 1)], "the one before stays");
    assert_eq!(agent.facts(), Some(&7));
}

#[test]
fn a_report_that_cannot_be_parsed_is_skipped() {
    let (mut agent, mut writer, now) = ends(2);
    for name in ["a", "b", "c"] {
        writer.report(key("ns", name), report(1)).unwrap();
    }
    for message in writer.take_messages() {
        let message = match message {
            WriterMessage::Report { seq: 1, .. } => {
                WriterMessage::Unreadable { report: Some(1), reason: "phase is 9".into() }
            }
            message => message,
        };
        assert_eq!(agent.receive(message, now), AgentVerdict::Continue);
    }
    let (said, outputs) = exchange(&mut agent, &mut writer, now);
    let unreadable =
        WriterOutput::ReportUnreadable { key: key("ns", "a"), report: report(1), reason: "phase is 9".into() };
    assert_eq!(outputs, [unreadable]);
    assert_eq!(reports(&said), [(key("ns", "c"), 1)], "its place is free");
    assert!(!writer.is_report_pending(&key("ns", "a")) && writer.is_report_pending(&key("ns", "b")));
    assert_eq!(agent.take_report().map(|received| received.key), Some(key("ns", "b")));
    let facts = WriterMessage::Unreadable { report: None, reason: "facts of a newer version".into() };
    assert_eq!(agent.receive(facts, now), AgentVerdict::Continue);
    assert_eq!(agent.skipped_messages(), 2);
    // An agent that was updated meanwhile may be able to parse it.
    agent.disconnected();
    agent.connected(now);
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0).len(), 2);
}

/// An agent that restarted and has not read its source knows of no entry. It would take the report that a deletion is
/// complete as one of something unknown, and the entry would wait for that report for ever.
#[test]
fn reports_and_requests_wait_until_the_agent_has_read_its_source() {
    let (mut agent, mut writer, now) = ends(10);
    agent.set(key("ns", "a"), Some(Note::deleting(1)), now);
    exchange(&mut agent, &mut writer, now);
    writer.report(key("ns", "a"), Report { uid: 1, phase: Phase::Gone, lines: 0 }).unwrap();
    writer.want_content(5);
    writer.set_facts(3).unwrap();
    let mut agent = new_agent();
    open(&mut agent, &mut writer, 10, now);
    assert_eq!((agent.take_report(), agent.requested_contents().count(), agent.facts()), (None, 0, Some(&3)));
    // A writer that sends reports before they are granted changes nothing.
    writer.receive(AgentMessage::ReportCredit(Credit { changes: 10, bytes: 10_000 }), now);
    assert_eq!(reports(&writer.take_messages()), []);
    agent.set(key("ns", "a"), Some(Note::deleting(1)), now);
    agent.set_incarnation("uid".into());
    agent.source_complete();
    assert!(agent.wants_redial());
    open(&mut agent, &mut writer, 10, now);
    let received = agent.take_report().expect("it was kept");
    assert_eq!((received.key.clone(), received.report.phase), (key("ns", "a"), Phase::Gone));
    assert!(agent.requested_contents().eq([&5]));
    // The source is replaced: what was reported is about the older one.
    writer.report(key("ns", "a"), report(2)).unwrap();
    exchange(&mut agent, &mut writer, now);
    agent.set_incarnation("another".into());
    assert_eq!(agent.take_report(), None);
}

#[test]
fn a_window_without_measure_is_clamped() {
    let (mut agent, now) = (new_agent(), start());
    let credit = Credit { changes: 10_000, bytes: 1 << 20 };
    let mut writer = WriterEnd::<Notes>::new(WriterLimits { credit, heartbeat_timeout: Duration::from_secs(60) });
    let keys: Vec<_> = (0..3000).map(|n| key("ns", &n.to_string())).collect();
    keys.iter().for_each(|key| agent.set(key.clone(), Some(Note::present(1, "", [])), now));
    agent.set_incarnation("uid".into());
    agent.source_complete();
    agent.grant_reports(Credit { changes: u32::MAX, bytes: u64::MAX });
    agent.connected(now);
    exchange(&mut agent, &mut writer, now);
    keys.iter().for_each(|key| writer.report(key.clone(), report(1)).unwrap());
    assert_eq!(reports(&writer.take_messages()).len(), 1024);
}

#[test]
fn reports_that_are_never_done_stop_no_others() {
    let (mut agent, mut writer, now) = ends(1);
    for name in ["a", "b", "c"] {
        writer.report(key("ns", name), report(1)).unwrap();
    }
    exchange(&mut agent, &mut writer, now);
    let mut stuck = Vec::new();
    for name in ["a", "b", "c"] {
        let received = agent.take_report().expect("the window has room for the next one");
        assert_eq!(received.key, key("ns", name));
        stuck.push(received);
        exchange(&mut agent, &mut writer, now);
    }
    // In any order, and a newer one of a key that is stuck too.
    agent.report_done(&stuck[2]);
    let (_, outputs) = exchange(&mut agent, &mut writer, now);
    assert_eq!(outputs, [WriterOutput::ReportDone { key: key("ns", "c"), report: report(1) }]);
    writer.report(key("ns", "a"), report(2)).unwrap();
    exchange(&mut agent, &mut writer, now);
    let newer = agent.take_report().expect("it came");
    assert_eq!((newer.key.clone(), newer.report), (key("ns", "a"), report(2)));
    assert!(writer.is_report_pending(&key("ns", "b")));
}

/// The key that is first in order changes all the time.
#[test]
fn reports_are_taken_in_the_order_in_which_they_came() {
    let (mut agent, mut writer, now) = ends(1);
    for (name, lines) in [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)] {
        writer.report(key("ns", name), report(lines)).unwrap();
        exchange(&mut agent, &mut writer, now);
    }
    let mut taken = Vec::new();
    while let Some(received) = agent.take_report() {
        taken.push((received.key.name.to_string(), received.report.lines));
        writer.report(key("ns", "a"), report(10 + taken.len().min(3))).unwrap();
        exchange(&mut agent, &mut writer, now);
    }
    let expected = [("a", 1), ("b", 1), ("a", 12), ("c", 1), ("a", 13)];
    assert_eq!(taken, expected.map(|(name, lines)| (name.to_owned(), lines)));
    let (mut agent, mut writer, now) = ends(10);
    for name in ["b", "a"] {
        writer.report(key("ns", name), report(1)).unwrap();
    }
    exchange(&mut agent, &mut writer, now);
    assert_eq!(agent.take_report().map(|received| received.key), Some(key("ns", "b")));
}

#[test]
fn a_removed_entry_has_no_report() {
    let (mut agent, mut writer, now) = ends(10);
    let keys = ["a", "b"].map(|name| key("ns", name));
    keys.iter().for_each(|key| writer.report(key.clone(), report(1)).unwrap());
    exchange(&mut agent, &mut writer, now);
    agent.set(keys[0].clone(), None, now);
    exchange(&mut agent, &mut writer, now);
    // The writer learns by a snapshot that the other one is absent.
    agent.disconnected();
    agent.set(keys[1].clone(), None, now);
    agent.connected(now);
    exchange(&mut agent, &mut writer, now);
    for key in keys {
        assert!(writer.latest_report(&key).is_none() && !writer.is_report_pending(&key));
        assert_eq!(writer.report(key, report(2)), Err(ReportError::NoEntry), "a late result of work on it");
    }
}
