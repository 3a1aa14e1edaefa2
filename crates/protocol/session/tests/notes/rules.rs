//! Tests each rule of reports, facts and contents by itself.

use std::time::Instant;

use gimbal_session::{
    AgentEnd, AgentMessage, AgentVerdict, Credit, Goodbye, GoodbyeReason, WriterEnd, WriterMessage, WriterOutput,
};

use crate::payload::{Note, NoteKey, Notes, Phase, Report, Secret, key, new_agent, new_writer};
use crate::world::start;

fn report(lines: usize) -> Report {
    Report { uid: 1, phase: Phase::Made, lines }
}

/// Opens a stream on which the agent grants `credit` reports.
fn open(agent: &mut AgentEnd<Notes>, writer: &mut WriterEnd<Notes>, credit: u32, now: Instant) {
    agent.grant_reports(Credit { changes: credit, bytes: 10_000 });
    agent.connected(now);
    exchange(agent, writer, now);
}

fn ends(credit: u32) -> (AgentEnd<Notes>, WriterEnd<Notes>, Instant) {
    let (mut agent, mut writer, now) = (new_agent(), new_writer(), start());
    agent.set(key("ns", "a"), Some(Note::present(1, "a", [])), now);
    agent.set_incarnation("uid".into());
    agent.source_complete(now);
    open(&mut agent, &mut writer, credit, now);
    (agent, writer, now)
}

/// Exchanges messages until neither end has more. Returns the writer's messages and outputs.
fn exchange(
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

fn reports(said: &[WriterMessage<Notes>]) -> Vec<(NoteKey, usize)> {
    let reports = said.iter().filter_map(|message| match message {
        WriterMessage::Report { key, report, .. } => Some((key.clone(), report.lines)),
        _ => None,
    });
    reports.collect()
}

#[test]
fn the_latest_report_of_a_key_wins_and_is_sent_once() {
    let (mut agent, mut writer, now) = ends(10);
    writer.report(key("ns", "a"), report(1));
    writer.report(key("ns", "b"), report(1));
    writer.report(key("ns", "a"), report(2));
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said), [(key("ns", "a"), 2), (key("ns", "b"), 1)]);
    writer.report(key("ns", "a"), report(2));
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [], "an equal report is no news");
}

#[test]
fn reports_wait_for_the_credit_of_the_agent_and_hold_up_nothing_else() {
    let (mut agent, mut writer, now) = ends(1);
    let keys = ["a", "b", "c"].map(|name| key("ns", name));
    keys.iter().for_each(|key| writer.report(key.clone(), report(1)));
    writer.set_facts(4);
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert_eq!(reports(&said).len(), 1, "one is in flight");
    assert_eq!(agent.facts(), Some(&4));
    writer.settle(&key("ns", "a"), gimbal_session::Outcome::Applied);
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

#[test]
fn without_a_grant_there_are_no_reports() {
    let (mut agent, mut writer, now) = (new_agent(), new_writer(), start());
    agent.set_incarnation("uid".into());
    agent.source_complete(now);
    agent.connected(now);
    writer.report(key("ns", "a"), report(1));
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), []);
}

#[test]
fn a_report_that_was_overtaken_does_not_acknowledge_the_newer_one() {
    let (mut agent, mut writer, now) = ends(10);
    let key = key("ns", "a");
    writer.report(key.clone(), report(1));
    exchange(&mut agent, &mut writer, now);
    let older = agent.take_report().expect("it came");
    writer.report(key.clone(), report(2));
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
    writer.set_facts(1);
    writer.report(key("ns", "a"), report(1));
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
    assert_eq!(reports(&exchange(&mut agent, &mut writer, now).0), [], "what is forgotten is not told again");
}

#[test]
fn a_lost_report_ends_the_stream() {
    let (mut agent, mut writer, now) = ends(10);
    writer.report(key("ns", "a"), report(1));
    writer.take_messages();
    writer.report(key("ns", "b"), report(1));
    for message in writer.take_messages() {
        let AgentVerdict::Close { reason, .. } = agent.receive(message, now) else { panic!("the stream goes on") };
        assert_eq!(reason, "report 1 was expected and 2 came");
    }
}

#[test]
fn an_acknowledgement_of_nothing_ends_the_stream() {
    let (_, mut writer, now) = ends(10);
    let outputs = writer.receive(AgentMessage::ReportAck(1), now);
    assert_eq!(outputs, [WriterOutput::Close]);
    let message = "a report was acknowledged that was never sent".to_owned();
    let goodbye = Goodbye { reason: GoodbyeReason::ProtocolError, message, retry_after: None };
    assert_eq!(writer.take_messages(), [WriterMessage::Goodbye(goodbye)]);
}

#[test]
fn a_content_travels_when_it_is_asked_for_and_has_the_hash() {
    let (mut agent, mut writer, now) = ends(10);
    let secret = Secret(vec![1, 2, 3]);
    let hash = gimbal_session::Content::hash(&secret);
    agent.answer_content(&hash, Some(secret.clone()));
    assert_eq!(agent.next(now), None, "nobody asked");
    writer.want_content(hash);
    writer.want_content(99);
    exchange(&mut agent, &mut writer, now);
    assert!(agent.requested_contents().eq([&99, &hash].iter().copied().collect::<std::collections::BTreeSet<_>>()));
    agent.answer_content(&hash, Some(secret.clone()));
    agent.answer_content(&99, Some(secret.clone()));
    let (_, mut outputs) = exchange(&mut agent, &mut writer, now);
    outputs.sort_by_key(|output| format!("{output:?}"));
    assert_eq!(outputs.len(), 2);
    assert!(outputs.contains(&WriterOutput::Content { hash, content: Some(secret.clone()) }));
    assert!(
        outputs.contains(&WriterOutput::Content { hash: 99, content: None }),
        "the agent has no content of that hash"
    );
    let outputs = writer.receive(AgentMessage::Content { hash, content: Some(secret) }, now);
    assert!(matches!(&outputs[..], [WriterOutput::Unreadable { .. }]), "it was not asked for again: {outputs:?}");
}

#[test]
fn a_content_that_was_not_answered_is_asked_for_again_on_a_new_stream() {
    let (mut agent, mut writer, now) = ends(10);
    writer.want_content(5);
    for _ in 0..2 {
        let (said, _) = exchange(&mut agent, &mut writer, now);
        assert!(said.contains(&WriterMessage::ContentRequest(5)), "{said:?}");
        agent.disconnected();
        agent.connected(now);
    }
    writer.forget_content(&5);
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert!(!said.contains(&WriterMessage::ContentRequest(5)), "{said:?}");
}

#[test]
fn a_content_with_another_hash_is_not_taken() {
    let (_, mut writer, now) = ends(10);
    writer.want_content(99);
    writer.take_messages();
    let outputs = writer.receive(AgentMessage::Content { hash: 99, content: Some(Secret(vec![1])) }, now);
    let reason = "a content came that does not have the hash that was asked for".into();
    assert_eq!(outputs, [WriterOutput::Unreadable { key: None, reason }]);
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
