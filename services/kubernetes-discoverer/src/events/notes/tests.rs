use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const REASONS: [RejectReason; 3] = [RejectReason::Quota, RejectReason::Held, RejectReason::NameConflict];

fn key(name: impl std::fmt::Display) -> SourceKey {
    SourceKey::new("team1", name.to_string())
}

fn rejected(reason: RejectReason) -> Note {
    Note::Rejected(reason, reason.as_str().to_owned())
}

fn reject(notes: &mut Notes, name: &str, reason: RejectReason, now: Instant) {
    assert!(notes.rejected(&key(name), reason, reason.as_str(), now));
}

#[test]
fn the_newest_note_of_a_service_wins_and_one_is_written_at_a_time() {
    let (mut notes, now) = (Notes::default(), Instant::now());
    assert_eq!((notes.deadline(), notes.next(now)), (None, None));
    reject(&mut notes, "web", RejectReason::Quota, now);
    reject(&mut notes, "api", RejectReason::Quota, now + INTERVAL);
    // It keeps its turn.
    reject(&mut notes, "web", RejectReason::Held, now + 2 * INTERVAL);
    assert_eq!(notes.waiting(), 2);
    let now = now + 3 * INTERVAL;
    assert_eq!(notes.next(now), Some((key("web"), rejected(RejectReason::Held))));
    assert_eq!((notes.deadline(), notes.next(now)), (None, None), "one at a time");
    assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
    assert_eq!(notes.next(now), Some((key("api"), rejected(RejectReason::Quota))));
    assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
    assert_eq!(notes.next(now), None);
}

#[test]
fn the_end_is_told_only_to_who_was_told_of_the_beginning() {
    let (mut notes, now) = (Notes::default(), Instant::now());
    reject(&mut notes, "web", RejectReason::Quota, now);
    assert!(notes.resolved(&key("web"), now));
    assert_eq!((notes.waiting(), notes.next(now)), (0, None));

    reject(&mut notes, "web", RejectReason::Quota, now);
    assert!(notes.next(now).is_some());
    // The note being written may already have been read.
    assert!(notes.resolved(&key("web"), now));
    assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
    assert_eq!(notes.next(now), Some((key("web"), Note::Accepted)));
    assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
    assert!(notes.resolved(&key("web"), now));
    assert_eq!(notes.next(now), None);
}

#[test]
fn nobody_is_told_of_a_service_that_is_gone_or_of_another_source() {
    let (mut notes, now) = (Notes::default(), Instant::now());
    for forget in [|notes: &mut Notes| notes.gone(&key("web")), Notes::clear] {
        reject(&mut notes, "web", RejectReason::Quota, now);
        forget(&mut notes);
        assert_eq!((notes.waiting(), notes.deadline(), notes.next(now)), (0, None, None));
        // In the middle of a write, which then fails.
        reject(&mut notes, "web", RejectReason::Quota, now);
        assert!(notes.next(now).is_some());
        forget(&mut notes);
        assert_eq!(notes.finished(NoteOutcome::Failed, now), AfterWrite::Over);
        assert!(notes.resolved(&key("web"), now));
        assert_eq!((notes.waiting(), notes.next(now)), (0, None));
    }
}

#[test]
fn what_is_being_written_may_reach_the_service_that_came_in_its_place() {
    let (mut notes, now) = (Notes::default(), Instant::now());
    reject(&mut notes, "web", RejectReason::Quota, now);
    assert!(notes.next(now).is_some());
    notes.gone(&key("web"));
    reject(&mut notes, "web", RejectReason::Quota, now);
    assert!(notes.resolved(&key("web"), now));
    assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
    assert_eq!(notes.next(now), Some((key("web"), Note::Accepted)));
}

#[test]
fn a_burst_is_told_at_once_and_more_in_a_steady_flow() {
    let (mut notes, now) = (Notes::default(), Instant::now());
    for n in 0..2 * BURST {
        reject(&mut notes, &n.to_string(), RejectReason::Quota, now);
    }
    for n in 0..BURST {
        assert!(notes.next(now).is_some(), "{n}");
        assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
    }
    for n in 1..=BURST {
        assert_eq!(notes.deadline(), Some(now + INTERVAL * n));
        assert!(notes.next(now + INTERVAL * n).is_some());
        assert_eq!(notes.finished(NoteOutcome::Written, now + INTERVAL * n), AfterWrite::Over);
    }
}

#[test]
fn what_fails_is_tried_again_later_and_then_dropped() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    for (outcome, pauses) in [(NoteOutcome::Failed, [2 * second, 8 * second]), (NoteOutcome::Denied, [60 * second; 2])]
    {
        let (mut notes, mut now) = (Notes::default(), now);
        reject(&mut notes, "web", RejectReason::Quota, now);
        for pause in pauses {
            assert!(notes.next(now).is_some());
            assert_eq!(notes.finished(outcome, now), AfterWrite::Later);
            assert_eq!(notes.deadline(), Some(now + pause), "{outcome:?}");
            assert_eq!(notes.next(now + pause - INTERVAL), None);
            now += pause;
        }
        assert!(notes.next(now).is_some());
        assert_eq!(notes.finished(outcome, now), AfterWrite::Dropped);
        assert_eq!((notes.waiting(), notes.deadline()), (0, None));
    }
}

#[test]
fn a_newer_note_is_not_kept_back_by_the_failure_of_an_older_one() {
    let (mut notes, now) = (Notes::default(), Instant::now());
    reject(&mut notes, "web", RejectReason::Quota, now);
    assert!(notes.next(now).is_some());
    reject(&mut notes, "web", RejectReason::Held, now);
    assert_eq!(notes.finished(NoteOutcome::Failed, now), AfterWrite::Later);
    assert_eq!(notes.next(now), Some((key("web"), rejected(RejectReason::Held))));
    assert_eq!(notes.finished(NoteOutcome::Denied, now), AfterWrite::Later);
    reject(&mut notes, "web", RejectReason::NameConflict, now);
    assert_eq!(notes.next(now), Some((key("web"), rejected(RejectReason::NameConflict))));
}

#[test]
fn a_flood_is_cut_at_what_is_kept_and_what_is_kept_is_told_in_the_end() {
    let (mut notes, mut now) = (Notes::default(), Instant::now());
    let taken = (0..MAX_NOTES + 5).filter(|n| notes.rejected(&key(n), RejectReason::Quota, "full", now)).count();
    assert_eq!((taken, notes.waiting()), (MAX_NOTES, MAX_NOTES));
    // What waits can still become another note.
    reject(&mut notes, "7", RejectReason::Held, now);
    let mut written = 0;
    while let Some(deadline) = notes.deadline() {
        now = now.max(deadline);
        assert!(notes.next(now).is_some());
        assert_eq!(notes.finished(NoteOutcome::Written, now), AfterWrite::Over);
        written += 1;
    }
    assert_eq!(written, MAX_NOTES);
}

#[derive(Debug, Clone)]
enum Op {
    Rejected(u8, usize),
    Resolved(u8),
    Gone(u8),
    Next,
    Finished(NoteOutcome),
    Pass(u16),
}

fn op() -> impl Strategy<Value = Op> {
    let outcome =
        prop_oneof![4 => Just(NoteOutcome::Written), 2 => Just(NoteOutcome::Failed), 1 => Just(NoteOutcome::Denied)];
    prop_oneof![
        4 => (0..4u8, 0..REASONS.len()).prop_map(|(key, reason)| Op::Rejected(key, reason)),
        2 => (0..4u8).prop_map(Op::Resolved),
        1 => (0..4u8).prop_map(Op::Gone),
        4 => Just(Op::Next),
        4 => outcome.prop_map(Op::Finished),
        2 => (0..3000u16).prop_map(Op::Pass),
    ]
}

/// What the writer said last about a Service, and the last note that its owner got.
#[derive(Debug, Default)]
struct Owner {
    truth: Option<RejectReason>,
    note: Option<Note>,
    /// A rejection was tried, successfully or not, and its end was not written.
    begun: bool,
    /// The truth need not be written.
    excused: bool,
}

#[derive(Default)]
struct Model {
    notes: Notes,
    owners: BTreeMap<SourceKey, Owner>,
    writing: Option<(SourceKey, Note)>,
    handed: Vec<Instant>,
}

impl Model {
    fn next(&mut self, now: Instant) {
        let due = self.notes.deadline().is_some_and(|deadline| deadline <= now);
        let next = self.notes.next(now);
        assert_eq!(next.is_some(), due, "the deadline tells when there is one");
        if let Some((key, note)) = next {
            assert_eq!(self.writing, None);
            self.handed.push(now);
            let burst = BURST as usize;
            if let Some(earlier) = self.handed.iter().rev().nth(burst) {
                assert!(now - *earlier >= INTERVAL, "{burst} notes at once, and then one in each interval");
            }
            let owner = self.owners.entry(key.clone()).or_default();
            assert!(note != Note::Accepted || owner.begun, "an end without a beginning");
            owner.begun = true;
            self.writing = Some((key, note));
        }
    }

    fn finished(&mut self, outcome: NoteOutcome, now: Instant) {
        let verdict = self.notes.finished(outcome, now);
        let Some((key, note)) = self.writing.take() else { return };
        let owner = self.owners.entry(key).or_default();
        owner.excused |= verdict == AfterWrite::Dropped;
        // Otherwise it went to a Service that is gone.
        if outcome == NoteOutcome::Written && !owner.excused {
            owner.begun = note != Note::Accepted;
            owner.note = Some(note);
        }
    }

    fn apply(&mut self, op: Op, now: &mut Instant) {
        match op {
            Op::Rejected(name, reason) => {
                let reason = REASONS[reason];
                let owner = self.owners.entry(key(name)).or_default();
                (owner.truth, owner.excused) = (Some(reason), false);
                assert!(self.notes.rejected(&key(name), reason, reason.as_str(), *now));
            }
            Op::Resolved(name) => {
                let owner = self.owners.entry(key(name)).or_default();
                // The agent tells it only of what was rejected.
                if owner.truth.take().is_some() {
                    assert!(self.notes.resolved(&key(name), *now));
                }
            }
            Op::Gone(name) => {
                let begun = self.writing.as_ref().is_some_and(|(writing, _)| *writing == key(name));
                self.owners.insert(key(name), Owner { excused: true, begun, ..Owner::default() });
                self.notes.gone(&key(name));
            }
            Op::Next => self.next(*now),
            Op::Finished(outcome) => self.finished(outcome, *now),
            Op::Pass(millis) => *now += Duration::from_millis(millis.into()),
        }
    }
}

proptest! {
    #[test]
    fn in_the_end_every_owner_was_told_what_is_true(ops in prop::collection::vec(op(), 0..120)) {
        let mut model = Model::default();
        let mut now = Instant::now();
        for op in ops {
            model.apply(op, &mut now);
            let waiting: BTreeSet<_> = model.notes.waiting.iter().map(|(key, w)| (w.due, key.clone())).collect();
            prop_assert_eq!(&waiting, &model.notes.order);
        }
        model.finished(NoteOutcome::Written, now);
        while let Some(deadline) = model.notes.deadline() {
            now = now.max(deadline);
            model.next(now);
            model.finished(NoteOutcome::Written, now);
        }
        for (key, owner) in &model.owners {
            let right = match (owner.truth, &owner.note) {
                (Some(reason), Some(note)) => *note == rejected(reason),
                (Some(_), None) => false,
                (None, note) => note.as_ref().is_none_or(|note| *note == Note::Accepted),
            };
            prop_assert!(right || owner.excused, "{} {:?}", key, owner);
        }
    }
}
