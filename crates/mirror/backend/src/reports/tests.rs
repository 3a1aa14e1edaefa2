//! What is said in a status, and when.
#![allow(clippy::disallowed_methods)] // A moment to begin with.

use gimbal_reconcile::Stage;

use super::*;
use crate::status::Standing;
use crate::{BackendProblem, InvalidSpec};

/// A connected backend, of which everything is written.
fn well() -> Standing {
    Standing { services: 2, endpoints: 5, ..Standing::example() }
}

struct Writer {
    reports: StatusReports,
    there: Option<BackendResourceStatus>,
    /// The object's version, and whether the watch shows what was written.
    version: u64,
    shows: bool,
    now: Instant,
    seconds: u64,
    writes: usize,
    answers: Vec<BackendAnswer>,
}

impl Writer {
    fn new() -> Self {
        let (reports, now) = (StatusReports::default(), Instant::now());
        Self { reports, there: None, version: 1, shows: true, now, seconds: 0, writes: 0, answers: Vec::new() }
    }

    /// Lets a second pass, and writes what is due then.
    fn second(&mut self, generation: i64, problem: Option<&BackendProblem>, standing: Option<&Standing>) {
        let (name, wall) = (BackendName::parse("a").unwrap(), format!("at {}", self.seconds));
        let answers = &self.answers.clone();
        let facts = StatusFacts { generation, problem, standing, answers, removal: None };
        let now = self.now + Duration::from_secs(self.seconds);
        let version = self.version.to_string();
        let there = ReadStatus { uid: "uid", version: &version, status: self.there.as_ref() };
        if let Some(status) = self.reports.due(&name, there, &facts, now, &wall) {
            let written = self.version + 1;
            self.reports.wrote(&name, status.clone(), &written.to_string(), now);
            if self.shows {
                (self.there, self.version) = (Some(status), written);
            }
            self.writes += 1;
        }
        self.seconds += 1;
    }

    /// Returns what is to be known of the status, and the version to write to.
    fn said(&self) -> (BackendResourceStatus, String) {
        let (name, version) = (BackendName::parse("a").unwrap(), self.version.to_string());
        let there = ReadStatus { uid: "uid", version: &version, status: self.there.as_ref() };
        (self.reports.said_and_answered(&name, there), self.reports.version(&name, there))
    }

    fn seconds(&mut self, count: usize, standing: &Standing) {
        (0..count).for_each(|_| self.second(1, None, Some(standing)));
    }

    /// Returns status and reason of a condition, and since when it is so.
    fn says(&self, type_: ConditionType) -> String {
        let conditions = &self.there.as_ref().unwrap().conditions;
        let found = conditions.iter().find(|condition| condition.type_ == type_);
        found.map_or_else(String::new, |c| format!("{} {} {}", c.status, c.reason, c.last_transition_time))
    }
}

#[test]
fn what_is_well_is_said_once() {
    let mut writer = Writer::new();
    writer.seconds(200, &well());
    assert_eq!(writer.writes, 1);
    for (type_, says) in [
        (ConditionType::Ready, "True InForce at 0"),
        (ConditionType::Reconciling, "False Settled at 0"),
        (ConditionType::Stalled, "False NotStalled at 0"),
        (ConditionType::Connected, "True AgentConnected at 0"),
        (ConditionType::SourceFresh, "True SourceHeard at 0"),
        (ConditionType::Synced, "True Written at 0"),
        (ConditionType::Held, "False NothingHeld at 0"),
        (ConditionType::Lost, "False NotLost at 0"),
        (ConditionType::QuotaExceeded, "False Room at 0"),
    ] {
        assert_eq!(writer.says(type_), says);
    }
    let status = writer.there.as_ref().unwrap();
    assert_eq!((status.observed_generation, status.services, status.endpoints), (1, 2, 5));
    // Another leader, or this one after a restart, finds it said.
    writer.reports.forget();
    writer.seconds(10, &well());
    assert_eq!(writer.writes, 1);
}

#[test]
fn what_does_not_last_is_not_said() {
    let mut writer = Writer::new();
    writer.seconds(2, &well());
    // An agent that dials again, and changes that are written at once.
    for _ in 0..30 {
        writer.seconds(3, &Standing { connected: false, ..well() });
        writer.seconds(1, &well());
        writer.seconds(3, &Standing { pending: true, ..well() });
        writer.seconds(1, &well());
    }
    assert_eq!(writer.writes, 1);
    let gone = writer.seconds;
    writer.seconds(10, &Standing { connected: false, ..well() });
    assert_eq!(writer.writes, 2);
    assert_eq!(writer.says(ConditionType::Connected), format!("False NoAgent at {}", gone + 5));
    assert_eq!(writer.says(ConditionType::Ready), format!("False NoAgent at {}", gone + 5));
    assert_eq!(writer.says(ConditionType::Reconciling), format!("True NoAgent at {}", gone + 5));
    assert_eq!(writer.says(ConditionType::SourceFresh), format!("Unknown NoAgent at {}", gone + 5));
    assert_eq!(writer.says(ConditionType::Synced), "True Written at 0");
}

#[test]
fn counts_alone_are_written_once_a_minute() {
    let mut writer = Writer::new();
    for second in 0..240 {
        writer.seconds(1, &Standing { endpoints: second, ..well() });
    }
    assert_eq!(writer.writes, 4);
}

#[test]
fn what_needs_somebody_is_said_at_once() {
    let mut writer = Writer::new();
    writer.seconds(1, &well());
    let held = vec![("7".to_owned(), "the guard holds 5 of 5 endpoints (id 7)".to_owned())];
    writer.seconds(1, &Standing { held, ..well() });
    assert_eq!(writer.says(ConditionType::Held), "True MassChange at 1");
    assert_eq!(writer.there.as_ref().unwrap().held_changes, ["7"]);
    writer.seconds(1, &Standing { stage: Stage::Drained, ..well() });
    assert_eq!(writer.says(ConditionType::Held), "False NothingHeld at 2");
    assert_eq!(writer.says(ConditionType::Lost), "True Drained at 2");
    let refused = Standing { refused_incarnation: Some("two".into()), incarnation: Some("one".into()), ..well() };
    writer.seconds(1, &refused);
    assert_eq!(writer.there.as_ref().unwrap().refused_incarnation.as_deref(), Some("two"));
}

/// No condition says these, or only by its words.
#[test]
fn whose_it_is_what_is_held_and_what_was_answered_is_said_at_once() {
    let mut writer = Writer::new();
    writer.seconds(1, &well());
    let of = |id: &str| Standing {
        incarnation: Some("one".into()),
        held: vec![(id.to_owned(), "the guard holds".to_owned())],
        ..well()
    };
    writer.seconds(1, &Standing { held: Vec::new(), ..of("") });
    assert_eq!(writer.writes, 2);
    writer.seconds(1, &of("7"));
    assert_eq!(writer.writes, 3);
    writer.seconds(1, &of("8"));
    assert_eq!((writer.writes, &*writer.there.as_ref().unwrap().held_changes[0]), (4, "8"));
    writer.answers = answered("1").answers;
    writer.seconds(2, &of("8"));
    assert_eq!((writer.writes, writer.said().0.answers), (5, answered("1").answers));
}

/// A stray agent stops nothing while that of the right source is there.
#[test]
fn a_source_that_is_refused_stalls_a_backend_only_while_its_own_is_away() {
    let mut writer = Writer::new();
    writer.seconds(1, &well());
    let refused = Standing { refused_incarnation: Some("two".into()), incarnation: Some("one".into()), ..well() };
    writer.seconds(60, &refused);
    assert_eq!(writer.says(ConditionType::Ready), "True InForce at 0");
    assert_eq!(writer.says(ConditionType::Stalled), "False NotStalled at 0");
    let ready = writer.there.as_ref().unwrap().conditions[0].clone();
    assert_eq!(ready.message, "an agent of source two was refused: this name belongs to source one");
    let writes = writer.writes;
    // Its own dials again.
    let away = Standing { connected: false, ..refused.clone() };
    writer.seconds(3, &away);
    writer.seconds(10, &refused);
    assert_eq!(writer.writes, writes);
    let gone = writer.seconds;
    writer.seconds(10, &away);
    assert_eq!(writer.says(ConditionType::Stalled), format!("True IncarnationRefused at {}", gone + 5));
    assert_eq!(writer.says(ConditionType::Ready), format!("False IncarnationRefused at {}", gone + 5));
}

fn answered(value: &str) -> BackendResourceStatus {
    let answer = BackendAnswer {
        annotation: "key".into(),
        value: value.into(),
        result: crate::AnswerResult::Done,
        message: String::new(),
        earlier: Vec::new(),
    };
    BackendResourceStatus { answers: vec![answer], ..BackendResourceStatus::default() }
}

/// What was written counts until it is read, and then what is read does: somebody may have changed it.
#[test]
fn a_status_that_somebody_replaced_is_written_again_and_no_answer_is_lost() {
    let mut writer = Writer::new();
    writer.shows = false;
    writer.seconds(3, &well());
    assert_eq!((writer.writes, writer.there.is_none()), (1, true), "the watch is late");
    assert_eq!((writer.said().0.endpoints, &*writer.said().1), (5, "2"));
    (writer.shows, writer.version, writer.there) = (true, 3, None);
    assert_eq!((writer.said().0.endpoints, &*writer.said().1), (0, "3"));
    writer.seconds(1, &well());
    assert_eq!((writer.writes, writer.said().0.endpoints), (2, 5));
    // Answers are not lost with it: what they are about was done.
    writer.reports.wrote(&BackendName::parse("a").unwrap(), answered("1"), "5", writer.now);
    writer.version = 6;
    assert_eq!(writer.said().0.answers, answered("1").answers);
    writer.there = Some(answered("2"));
    assert_eq!(writer.said().0.answers, answered("2").answers, "who wrote since knows better");
}

/// What was said of one object is not what another one of its name says.
#[test]
fn another_object_of_the_name_was_told_nothing() {
    let mut writer = Writer::new();
    (writer.shows, writer.answers) = (false, answered("1").answers);
    writer.seconds(1, &well());
    let (name, now) = (BackendName::parse("a").unwrap(), writer.now);
    assert_eq!(writer.said().0.answers, answered("1").answers, "it is not read yet");
    let other = ReadStatus { uid: "other", version: "1", status: None };
    let nothing = BackendResourceStatus::default();
    assert_eq!(writer.reports.said(&name, other), nothing);
    assert_eq!(writer.reports.said_and_answered(&name, other), nothing, "nothing was ordered of it");
    assert_eq!(writer.reports.version(&name, other), "1");
    let standing = well();
    let facts = StatusFacts { generation: 1, problem: None, standing: Some(&standing), answers: &[], removal: None };
    let due = writer.reports.due(&name, other, &facts, now, "later").unwrap();
    assert!(due.conditions.iter().all(|condition| condition.last_transition_time == "later"));
    assert_eq!(writer.said().0, nothing, "the one before is over");
}

#[test]
fn after_a_restoration_older_versions_count() {
    let mut writer = Writer::new();
    writer.version = 100;
    writer.seconds(1, &well());
    (writer.there, writer.version) = (None, 7);
    writer.seconds(10, &well());
    assert_eq!(writer.writes, 1, "one that is late looks the same");
    writer.reports.went_back();
    writer.seconds(1, &well());
    assert_eq!((writer.writes, writer.version), (2, 8));
}

#[test]
fn what_is_said_of_a_new_spec_is_news() {
    let mut writer = Writer::new();
    writer.seconds(1, &well());
    writer.second(2, None, Some(&well()));
    assert_eq!((writer.writes, writer.there.as_ref().unwrap().observed_generation), (2, 2));
    assert_eq!(writer.says(ConditionType::Ready), "True InForce at 0", "it did not change");
    let problem = BackendProblem::Spec(InvalidSpec("spec: what".into()));
    writer.second(3, Some(&problem), Some(&well()));
    assert_eq!(writer.says(ConditionType::Stalled), "True InvalidSpec at 2");
    assert_eq!(writer.says(ConditionType::Ready), "False InvalidSpec at 2");
    assert_eq!(writer.says(ConditionType::Connected), "True AgentConnected at 0", "the one before is in force");
    // One that never was in force.
    let mut writer = Writer::new();
    writer.second(1, Some(&problem), None);
    assert_eq!(writer.there.as_ref().unwrap().conditions.len(), 3);
    assert_eq!(writer.says(ConditionType::Reconciling), "False Settled at 0");
}
