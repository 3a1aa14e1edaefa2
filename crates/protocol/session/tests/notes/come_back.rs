//! Tests what becomes of the report of an entry that goes and comes back before the writer learned that.

use gimbal_session::{Outcome, WriterMessage, WriterOutput};

use crate::payload::{Note, key};
use crate::rules::{ends, exchange, report};

/// The window is full of changes that the writer does not acknowledge.
#[test]
fn a_report_stays_while_the_removal_of_its_entry_waits() {
    let (mut agent, mut writer, now) = ends(10);
    let a = key("ns", "a");
    writer.report(a.clone(), report(1)).unwrap();
    exchange(&mut agent, &mut writer, now);
    for number in 0..4 {
        agent.set(key("other", &number.to_string()), Some(Note::present(1, "unsettled", [])), now);
    }
    exchange(&mut agent, &mut writer, now);
    assert_eq!(agent.backlog(), 0, "all were sent");
    agent.set(a.clone(), None, now);
    assert_eq!(agent.next(now), None, "the window is full");
    agent.set(a.clone(), Some(Note::present(1, "a", [])), now);
    let received = agent.take_report().expect("its entry did not go");
    assert_eq!(received.key, a);
    agent.report_done(&received);
    let (_, outputs) = exchange(&mut agent, &mut writer, now);
    assert_eq!(outputs, [WriterOutput::ReportDone { key: a.clone(), report: report(1) }]);
    assert!(!writer.is_report_pending(&a));
}

/// What was reported of it may have been dropped as out of date. So it is sent whole, and reported of again.
#[test]
fn an_entry_that_comes_back_unchanged_is_reported_of_again() {
    let present = || Some(Note::present(1, "a", []));
    for meanwhile in [None, Some(Note::deleting(1)), Some(Note::present(2, "other", []))] {
        let (mut agent, mut writer, now) = ends(10);
        let a = key("ns", "a");
        writer.report(a.clone(), report(1)).unwrap();
        exchange(&mut agent, &mut writer, now);
        let received = agent.take_report().expect("it came");
        agent.set(a.clone(), meanwhile, now);
        agent.report_done(&received);
        agent.set(a.clone(), present(), now);
        let (_, outputs) = exchange(&mut agent, &mut writer, now);
        assert!(outputs.contains(&WriterOutput::Changed(a.clone())), "{outputs:?}");
        writer.settle(&a, Outcome::Applied);
        let (said, _) = exchange(&mut agent, &mut writer, now);
        let again = said.iter().any(|message| matches!(message, WriterMessage::Report { key, .. } if *key == a));
        assert!(again, "{said:?}");
    }
}
