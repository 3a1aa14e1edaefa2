//! Which hold an approval releases: the ids of holds.

use std::time::{Duration, SystemTime};

use gimbal_guard::{GuardEvent, HeldDrop, HoldRecord, Passage};

use super::holds::Case;

const SECOND: Duration = Duration::from_secs(1);

/// An approval may be sent twice, or late; by then no person has looked at what is held.
#[test]
fn an_approval_is_good_for_one_drop() {
    let mut case = Case::of(&[60, 40]);
    case.lose(0, 60);
    let id = case.held().id;
    assert_eq!(case.guard.approve(&id), Some(60));
    assert!(case.write(0));
    case.have(0, 60);
    case.lose(0, 60);
    assert_ne!(case.held().id, id, "the same figures");
    assert_eq!(case.guard.approve(&id), None);
    assert_eq!(case.verdict(0), Passage::Held);
}

/// A hold that grows while a person looks at it releases little more than was shown; and the parts of a large drop are
/// not each reported.
#[test]
fn an_approval_is_good_for_what_was_seen() {
    let mut case = Case::of(&[60, 10, 10, 100]);
    case.lose(3, 100);
    let seen = case.held();
    assert_eq!(seen.endpoints_removed, 100);
    case.guard.tick(case.now);
    case.lose(1, 10);
    case.lose(2, 10);
    assert_eq!(case.held().id, seen.id, "a little more");
    case.lose(0, 50);
    assert_ne!(case.held().id, seen.id);
    assert_eq!(case.guard.approve(&seen.id), None, "of 170 only 100 were seen");
    let events = case.guard.tick(case.now);
    let [GuardEvent::Held(held)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((held.endpoints_removed, case.guard.approve(&held.id)), (170, Some(170)));
}

/// Losses that come in parts are one hold.
#[test]
fn a_drop_that_grows_is_told_once_a_tick() {
    let mut case = Case::of(&[10; 20]);
    for n in 0..18 {
        case.lose(n, 10);
    }
    let events = case.guard.tick(case.now);
    let [GuardEvent::Held(held)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(case.held().id, held.id);
}

/// A late approval is not meant for a later drop, even one of the same size; and a hold that ended leaves nothing
/// behind.
#[test]
fn each_hold_has_an_id_of_its_own() {
    let mut case = Case::of(&[60, 40]);
    case.lose(0, 60);
    let first = case.held();
    case.lose(0, 0);
    assert_eq!(case.guard.held(), None);
    case.lose(0, 60);
    let second = case.held();
    assert_ne!(second.id, first.id);
    assert_eq!(HeldDrop { id: first.id.clone(), ..second }, first);
    assert_eq!(case.guard.approve(&first.id), None);
}

/// A guard with a stored hold of an earlier writer: 130 endpoints, of which 110 were held when its id was given.
fn restored() -> Case {
    let mut case = Case::of(&[150, 100]);
    let record =
        HoldRecord { id: "x".into(), since: SystemTime::UNIX_EPOCH, endpoints: 130, told: 110, to_nothing: false };
    case.guard.restore(None, Some(&record), |_| 0, case.now, SystemTime::UNIX_EPOCH + 10 * SECOND);
    case
}

#[test]
fn restarts_make_an_id_good_for_no_more_than_was_told_with_it() {
    let mut case = restored();
    case.lose(0, 130);
    assert_eq!((case.held().id.as_str(), case.guard.held_for(case.now)), ("x", Some(10 * SECOND)));
    case.lose(0, 140);
    assert_ne!(case.held().id, "x", "more by a quarter than 110");
}

/// If a part of the source stays unknown, [`all_is_known`](gimbal_guard::Guard::all_is_known) is never called.
#[test]
fn a_hold_of_before_a_restart_lends_its_age_for_ten_minutes() {
    let mut case = restored();
    case.wait(600 * SECOND);
    case.lose(0, 130);
    assert_ne!(case.held().id, "x");
    assert_eq!(case.guard.held_for(case.now), Some(Duration::ZERO));
}
