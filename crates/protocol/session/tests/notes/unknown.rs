//! Tests what becomes of the entries of a namespace that is unknown.

use std::time::Instant;

use gimbal_session::{AgentEnd, Outcome, Scope, WriterEnd};

use crate::payload::{Note, Notes, key, new_agent, new_writer};
use crate::rules::{ends, exchange, open};

/// The parts of a source that may be unknown, of which one is all of it.
fn scopes() -> [Scope; 2] {
    [Scope::Namespaces(vec!["ns".into()]), Scope::All]
}

/// An agent that knows not all of `unknown`, and these entries of `ns`.
fn knowing_a_part(unknown: Scope, names: &[&str], now: Instant) -> AgentEnd<Notes> {
    let mut agent = new_agent();
    for name in names {
        agent.set(key("ns", name), Some(Note::present(1, "newer", [])), now);
    }
    agent.set_incarnation("uid".into());
    agent.source_complete();
    agent.scope_unknown(unknown, "lost".into());
    agent
}

fn settle(agent: &mut AgentEnd<Notes>, writer: &mut WriterEnd<Notes>, names: &[&str], now: Instant) {
    names.iter().for_each(|name| writer.settle(&key("ns", name), Outcome::Applied));
    exchange(agent, writer, now);
}

/// No snapshot can begin, for there is nothing but what is unknown.
#[test]
fn they_reach_a_new_writer_and_prove_no_absence() {
    let now = crate::world::start();
    for unknown in scopes() {
        let (mut agent, mut writer) = (knowing_a_part(unknown, &["a", "b"], now), new_writer());
        open(&mut agent, &mut writer, 10, now);
        settle(&mut agent, &mut writer, &["a", "b"], now);
        assert_eq!(writer.entries().count(), 2);
        assert!(!writer.knows("ns") && !writer.is_complete());
        assert_eq!((agent.next(now), agent.backlog(), agent.pending()), (None, 0, 0), "they were sent once");
        agent.set(key("ns", "a"), None, now);
        exchange(&mut agent, &mut writer, now);
        settle(&mut agent, &mut writer, &["a"], now);
        assert_eq!(writer.entries().count(), 1);
        agent.source_complete();
        exchange(&mut agent, &mut writer, now);
        assert!(writer.is_complete() && writer.tree() == agent.tree());
    }
}

#[test]
fn a_writer_of_a_former_stream_has_them_as_they_are_now() {
    for unknown in scopes() {
        let (_, mut writer, now) = ends(10);
        let mut agent = knowing_a_part(unknown, &["a", "b"], now);
        open(&mut agent, &mut writer, 10, now);
        settle(&mut agent, &mut writer, &["a", "b"], now);
        for name in ["a", "b"] {
            assert_eq!(writer.entry(&key("ns", name)), Some(&Note::present(1, "newer", [])));
        }
        assert_eq!(
            writer.entry(&key("ns", "c")),
            Some(&Note::present(1, "c", [])),
            "of what is absent nothing is known"
        );
        agent.source_complete();
        exchange(&mut agent, &mut writer, now);
        assert!(writer.is_complete() && writer.entry(&key("ns", "c")).is_none());
    }
}

/// A namespace may get its first entry, and its last one may go.
#[test]
fn what_changes_while_the_whole_source_is_unknown_is_sent() {
    let now = crate::world::start();
    let (mut agent, mut writer) = (knowing_a_part(Scope::All, &["a"], now), new_writer());
    open(&mut agent, &mut writer, 10, now);
    settle(&mut agent, &mut writer, &["a"], now);
    agent.set(key("later", "b"), Some(Note::present(1, "b", [])), now);
    agent.set(key("ns", "a"), None, now);
    exchange(&mut agent, &mut writer, now);
    assert_eq!(writer.entry(&key("later", "b")), Some(&Note::present(1, "b", [])));
    assert!(writer.entry(&key("ns", "a")).is_none() && !writer.knows("ns") && agent.backlog() == 0);
}
