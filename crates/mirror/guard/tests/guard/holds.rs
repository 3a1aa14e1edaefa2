//! What the guard holds, what it releases, and when.

use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::{Fall, Guard, GuardConfig, GuardEvent, HeldDrop, LastRelease, Passage, Release};
use gimbal_model::TargetKey;

const SECOND: Duration = Duration::from_secs(1);

fn key(n: usize) -> TargetKey {
    TargetKey::new("ns", format!("service-{n}"))
}

/// A guard of a backend that has had its targets for longer than the window, and a clock.
pub(super) struct Case {
    pub(super) guard: Guard,
    pub(super) now: Instant,
    has: Vec<u64>,
    lost: Vec<u64>,
}

impl Case {
    #[allow(clippy::disallowed_methods)] // The only clock: every time in these tests is this one and some seconds.
    pub(super) fn new(config: GuardConfig, has: &[u64]) -> Self {
        let (guard, now) = (Guard::new(config), Instant::now());
        let mut case = Self { guard, now, has: vec![0; has.len()], lost: vec![0; has.len()] };
        for (n, has) in has.iter().enumerate() {
            case.have(n, *has);
        }
        case.now += config.window * 2;
        case
    }

    /// A guard with the default configuration.
    pub(super) fn of(has: &[u64]) -> Self {
        Self::new(GuardConfig::default(), has)
    }

    /// Changes a target's endpoint count, as any client may.
    pub(super) fn have(&mut self, n: usize, has: u64) {
        let before = std::mem::replace(&mut self.has[n], has);
        self.guard.observed(&key(n), None, before, has, Fall::Lost, self.now);
    }

    pub(super) fn lose(&mut self, n: usize, loss: u64) {
        self.lost[n] = loss;
        self.guard.pending(&key(n), loss, self.has[n], self.now);
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Returns the verdict. A record that it needs is stored at once.
    pub(super) fn verdict(&mut self, n: usize) -> Passage {
        let first = self.guard.verdict(&key(n), self.now);
        if first != Passage::Unkept {
            return first;
        }
        assert!(self.guard.record(SystemTime::UNIX_EPOCH).is_some() && self.guard.kept(), "there is nothing to keep");
        self.guard.verdict(&key(n), self.now)
    }

    /// Writes the pending loss of a target if the verdict allows it.
    pub(super) fn write(&mut self, n: usize) -> bool {
        let passes = self.verdict(n) == Passage::Allowed;
        if passes {
            let loss = std::mem::take(&mut self.lost[n]);
            self.have(n, self.has[n] - loss);
        }
        passes
    }

    pub(super) fn held(&self) -> HeldDrop {
        self.guard.held().unwrap()
    }

    pub(super) fn snapshot(&mut self, begun: Instant) -> bool {
        self.guard.snapshot_complete(begun, true, |_| true, self.now)
    }
}

/// A record that is not confirmed is returned again every five seconds: storing it may have failed without an error.
#[test]
fn what_is_not_told_to_be_kept_is_asked_for_again() {
    let mut case = Case::of(&[100, 100]);
    case.lose(0, 10);
    let mut asked = Vec::new();
    for second in 0..=12 {
        let now = case.now + SECOND * second;
        assert_eq!(case.guard.verdict(&key(0), now), Passage::Unkept);
        asked.extend(case.guard.record(SystemTime::UNIX_EPOCH + SECOND * second).map(|record| (second, record.lost)));
    }
    let [(0, lost), (5, again), (10, _)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(lost, again);
    assert!(case.guard.kept());
    assert_eq!(case.guard.verdict(&key(0), case.now + SECOND * 12), Passage::Allowed);
}

#[test]
fn everyday_deletes_pass() {
    for has in [&[3_u64][..], &[10, 10], &[300, 200, 500], &[50, 50], &[20, 20]] {
        let mut case = Case::of(has);
        let deletes = if has.len() == 1 { 1 } else { has.len() / 2 + has.len() % 2 };
        for n in 0..deletes {
            case.lose(n, has[n]);
            assert!(case.write(n), "{has:?}");
        }
        assert_eq!(case.guard.tick(case.now), []);
    }
}

#[test]
fn more_than_the_share_is_held() {
    for has in [&[51_u64, 49][..], &[30, 21, 49], &[21], &[500, 1, 499]] {
        let mut case = Case::of(has);
        let losing = has.len().saturating_sub(1).max(1);
        for n in 0..losing - 1 {
            case.lose(n, has[n]);
            assert!(case.write(n), "{has:?}");
        }
        case.lose(losing - 1, has[losing - 1]);
        assert_eq!(case.verdict(losing - 1), Passage::Held, "{has:?}");
        assert_eq!(case.guard.verdict(&key(10), case.now), Passage::Allowed, "loses nothing");
        assert_eq!(case.held().endpoints_before, has.iter().sum::<u64>());
        assert_eq!(case.held().endpoints_removed, has[losing - 1]);
    }
}

/// A loss counts the same at once or one by one.
#[test]
fn many_small_ones_count_together() {
    let mut case = Case::of(&[1; 100]);
    let mut gone = 0;
    for n in 0..100 {
        case.wait(Duration::from_millis(100));
        case.lose(n, 1);
        gone += u32::from(case.write(n));
    }
    assert_eq!((gone, case.held().targets), (50, 50));
}

/// However many endpoints go and come back, only those missing at one time count.
#[test]
fn what_is_back_is_not_lost() {
    let mut case = Case::of(&[10; 10]);
    for round in 0..40 {
        let n = round % 10;
        case.lose(n, 10);
        assert!(case.write(n), "round {round}");
        case.wait(SECOND);
        case.have(n, 10);
    }
    // Half of it is back, whoever restored it: as much may go again.
    for n in 0..5 {
        case.lose(n, 10);
        assert!(case.write(n));
    }
    case.lose(5, 1);
    assert_eq!(case.verdict(5), Passage::Held);
    case.have(0, 1);
    assert_eq!(case.verdict(5), Passage::Allowed);
}

/// A write cannot be revoked: its removals count from the verdict that allows them until its result is known.
#[test]
fn what_is_under_way_counts_though_it_is_wanted_again() {
    let mut case = Case::of(&[30, 30, 40]);
    case.lose(0, 30);
    assert_eq!(case.verdict(0), Passage::Allowed);
    case.lose(0, 0);
    assert_eq!(case.guard.held(), None);
    case.lose(1, 30);
    assert_eq!(case.verdict(1), Passage::Held, "30 go, and 30 more are more than the half of 100");
    // It was never sent.
    case.have(0, 30);
    assert_eq!(case.verdict(1), Passage::Allowed);
}

/// A record is in use long enough to write the removals, however short the window.
#[test]
fn a_window_shorter_than_a_write_takes() {
    for window in [Duration::ZERO, Duration::from_millis(500)] {
        let mut case = Case::new(GuardConfig { window, ..GuardConfig::default() }, &[100, 100]);
        case.lose(0, 10);
        assert_eq!(case.guard.verdict(&key(0), case.now), Passage::Unkept);
        assert!(case.guard.record(SystemTime::UNIX_EPOCH).is_some());
        case.wait(SECOND);
        assert!(case.guard.kept());
        case.guard.note(case.now);
        assert!(case.guard.record(SystemTime::UNIX_EPOCH).is_none(), "{window:?}");
        assert_eq!(case.guard.verdict(&key(0), case.now), Passage::Allowed, "{window:?}");
    }
}

/// Losses count whoever removed the endpoints.
#[test]
fn what_others_remove_counts() {
    let mut case = Case::of(&[40, 20, 40]);
    case.have(0, 0);
    case.lose(1, 11);
    assert_eq!(case.verdict(1), Passage::Held);
    case.lose(1, 10);
    assert_eq!(case.verdict(1), Passage::Allowed);
}

#[test]
fn what_moved_is_not_lost_and_what_it_loses_there_is() {
    let mut case = Case::of(&[60, 0, 40]);
    // The target's endpoints are partly at the new place when the old one is removed: the rest is missing there.
    case.have(1, 30);
    case.lose(0, 30);
    assert_eq!(case.verdict(0), Passage::Allowed);
    case.guard.moved(&key(0), 60, &key(1), 30, case.now);
    case.has[0] = 0;
    case.lose(2, 21);
    assert_eq!(case.verdict(2), Passage::Held, "30 are missing of 100");
    assert_eq!(case.held().endpoints_before, 100);
    case.have(1, 60);
    assert_eq!(case.verdict(2), Passage::Allowed);
}

#[test]
fn what_was_lost_before_the_window_counts_no_more() {
    let mut case = Case::of(&[40, 25, 35]);
    case.lose(0, 40);
    assert!(case.write(0));
    case.wait(59 * SECOND);
    case.lose(1, 25);
    assert_eq!(case.verdict(1), Passage::Held);
    case.wait(3 * SECOND);
    assert_eq!(case.verdict(1), Passage::Allowed);
}

/// Losses of one target that share a step count until the last of them leaves the window.
#[test]
fn two_losses_at_nearly_one_time() {
    let mut case = Case::of(&[71, 29]);
    case.have(0, 70);
    case.wait(Duration::from_millis(900));
    case.have(0, 40);
    case.lose(1, 25);
    case.wait(Duration::from_millis(59_600));
    assert_eq!(case.verdict(1), Passage::Held);
    case.wait(Duration::from_millis(400));
    assert_eq!(case.verdict(1), Passage::Allowed);
}

/// A writer that starts knows what exists, not what was lost before; what exists is the base.
#[test]
fn after_a_restart_the_base_is_what_is_held() {
    let mut case = Case::of(&[60, 40]);
    case.lose(0, 60);
    assert_eq!(case.verdict(0), Passage::Held);
}

/// A backend that connected just now has a base, too.
#[test]
fn a_young_backend_may_delete() {
    let mut case = Case::of(&[0, 0]);
    case.have(0, 100);
    case.have(1, 900);
    case.wait(SECOND);
    case.lose(0, 100);
    assert_eq!(case.verdict(0), Passage::Allowed);
}

#[test]
fn ends_by_itself_when_the_source_is_back() {
    let mut case = Case::of(&[30, 30, 40]);
    case.lose(0, 30);
    case.lose(1, 30);
    assert_eq!(case.verdict(0), Passage::Held);
    let id = case.held().id;
    case.lose(1, 0);
    assert_eq!(case.verdict(0), Passage::Allowed);
    assert_eq!(case.guard.held(), None);
    let events = case.guard.tick(case.now);
    assert!(
        matches!(&events[..], [GuardEvent::Held(_), GuardEvent::Ended { id: ended }] if *ended == id),
        "{events:?}"
    );
}

#[test]
fn a_later_snapshot_releases_a_partial_drop() {
    let mut case = Case::of(&[60, 40]);
    let start = case.now;
    case.lose(0, 60);
    case.wait(70 * SECOND);
    assert!(!case.snapshot(start + 59 * SECOND), "begun too early");
    assert!(case.guard.wants_snapshot(start + 60 * SECOND));
    assert!(
        !case.guard.snapshot_complete(start + 60 * SECOND, false, |target| *target == key(1), case.now),
        "of others"
    );
    assert!(case.snapshot(start + 60 * SECOND));
    assert!(case.write(0));
    assert_eq!(case.guard.held(), None);
    // What was released is neither counted against the next one nor part of its base.
    case.lose(1, 20);
    assert_eq!(case.verdict(1), Passage::Allowed);
    case.lose(1, 21);
    assert_eq!(case.verdict(1), Passage::Held);
}

/// What joined the drop later waits for its own quiet time.
#[test]
fn a_snapshot_releases_only_what_is_old_enough() {
    let mut case = Case::of(&[600, 100, 300]);
    let start = case.now;
    case.lose(0, 600);
    case.wait(50 * SECOND);
    case.lose(1, 100);
    case.wait(11 * SECOND);
    assert!(case.snapshot(start + 60 * SECOND));
    // The rest alone is no mass change.
    assert_eq!(case.verdict(1), Passage::Allowed);

    // Of one target, too, only what is old enough is released; what joined it is a mass change by itself.
    let mut case = Case::of(&[200, 1000, 199]);
    let start = case.now;
    case.lose(0, 200);
    case.lose(1, 600);
    case.wait(50 * SECOND);
    case.lose(1, 1000);
    case.wait(11 * SECOND);
    assert!(case.snapshot(start + 60 * SECOND));
    assert_eq!(case.verdict(0), Passage::Allowed);
    assert_eq!((case.verdict(1), case.held().endpoints_removed), (Passage::Held, 400));
    case.wait(50 * SECOND);
    assert!(!case.snapshot(start + 109 * SECOND));
    assert!(case.snapshot(start + 110 * SECOND));
    assert_eq!(case.verdict(1), Passage::Allowed);
}

/// A pod that is replaced while the rest waits joins the drop: it waits for its own quiet time, and delays no other
/// endpoint.
#[test]
fn steady_replacement_puts_off_no_confirmation() {
    let mut case = Case::of(&[600, 100]);
    case.lose(0, 500);
    let mut released = None;
    for n in 1..=40 {
        case.wait(30 * SECOND);
        // Gains are written, losses are held.
        case.have(0, 600 + n);
        case.lose(0, 500 + n);
        if n % 2 == 0 && case.snapshot(case.now) {
            released = Some(n);
            break;
        }
    }
    assert_eq!(released, Some(2), "reported a minute ago, and confirmed");
    let events = case.guard.tick(case.now);
    let went = |event: &GuardEvent| matches!(event, GuardEvent::Released { endpoints: 500, by: Release::Snapshot, .. });
    assert!(events.iter().any(went), "what waited, and nothing that came later: {events:?}");
    assert!(case.write(0), "two more are no mass change");
    assert_eq!((case.has[0], case.guard.held()), (100, None));
}

#[test]
fn no_snapshot_releases_a_drop_to_nothing() {
    let mut case = Case::of(&[60, 40]);
    case.lose(0, 60);
    let partial = case.held();
    case.lose(1, 40);
    let whole = case.held();
    assert!(!partial.to_nothing && whole.to_nothing);
    case.wait(600 * SECOND);
    assert!(!case.guard.wants_snapshot(case.now));
    assert!(!case.snapshot(case.now));
    assert_eq!(case.verdict(0), Passage::Held);
    // An approval of the partial drop does not cover this one.
    assert_eq!(case.guard.approve(&partial.id), None);
    assert_eq!(case.guard.approve(&whole.id), Some(100));
    assert_eq!(case.verdict(0), Passage::Allowed);
    assert_eq!(case.verdict(1), Passage::Allowed);
    assert_eq!(case.guard.approve(&whole.id), None);
    let released = GuardEvent::Released { id: whole.id, endpoints: 100, by: Release::Approval };
    assert_eq!(case.guard.tick(case.now).last(), Some(&released));
}

/// A release lasts until the removal is done, through failed writes and new plans; more than that is held again.
#[test]
fn a_release_is_remembered() {
    let mut case = Case::of(&[600, 400]);
    case.lose(0, 600);
    let id = case.held().id;
    assert_eq!(case.guard.approve(&id), Some(600));
    case.wait(SECOND);
    case.lose(0, 550);
    assert_eq!(case.verdict(0), Passage::Allowed);
    case.lose(1, 226);
    assert_eq!(case.verdict(1), Passage::Held, "what was released is gone already: 226 of 450");
    case.lose(1, 225);
    assert_eq!(case.verdict(1), Passage::Allowed);
    case.lose(0, 600);
    case.lose(1, 0);
    case.have(1, 400);
    assert_eq!(case.verdict(0), Passage::Allowed, "50 more are no mass change");
    case.lose(0, 0);
    case.wait(SECOND);
    case.lose(0, 550);
    assert_eq!(case.verdict(0), Passage::Held);
}

#[test]
fn age_releases_all() {
    let config = GuardConfig { release_all_after: Some(600 * SECOND), ..GuardConfig::default() };
    let mut case = Case::new(config, &[100]);
    case.lose(0, 100);
    case.wait(599 * SECOND);
    assert!(matches!(&case.guard.tick(case.now)[..], [GuardEvent::Held(_)]));
    assert_eq!(case.verdict(0), Passage::Held);
    case.wait(SECOND);
    let events = case.guard.tick(case.now);
    assert!(matches!(&events[..], [GuardEvent::Released { endpoints: 100, by: Release::Age, .. }]), "{events:?}");
    assert_eq!(case.verdict(0), Passage::Allowed);
}

#[test]
fn a_snapshot_is_asked_for_once_each_quiet_time() {
    let mut case = Case::of(&[60, 40]);
    case.lose(0, 60);
    let start = case.now;
    let asked: Vec<_> = (0..200)
        .filter(|n| {
            let events = case.guard.tick(start + *n * SECOND);
            events.iter().any(|event| matches!(event, GuardEvent::SnapshotWanted { .. }))
        })
        .collect();
    assert_eq!(asked, [60, 120, 180]);
}

#[test]
fn what_was_released_last_is_known_with_its_reason() {
    let mut case = Case::of(&[40, 40]);
    (0..2).for_each(|n| case.lose(n, 40));
    let id = case.guard.held().unwrap().id;
    assert_eq!(case.guard.last_release(), None);
    case.guard.approve(&id);
    assert_eq!(case.guard.last_release(), Some(&LastRelease { id, endpoints: 80, by: Release::Approval }));
}
