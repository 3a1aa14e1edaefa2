//! The guard: what it holds, what it lets through, and when.

use std::time::{Duration, Instant, SystemTime};

use gimbal_model::TargetKey;
use gimbal_plan::{Guard, GuardConfig, GuardEvent, HeldDrop, Passage, Release};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
/// Endpoints of a target where their number does not matter.
const MANY: u64 = 1000;

fn key(n: usize) -> TargetKey {
    TargetKey::new("ns", format!("service-{n}"))
}

/// The only clock: every time in these tests is this one and some seconds.
#[allow(clippy::disallowed_methods)]
fn zero() -> Instant {
    Instant::now()
}

/// A guard of a backend that has had `total` endpoints for a while.
fn settled(config: GuardConfig, total: u64) -> (Guard, Instant) {
    let mut guard = Guard::new(config);
    let start = zero();
    guard.observed(total, start);
    let now = start + config.window * 2;
    guard.observed(total, now);
    (guard, now)
}

/// The verdict, with what has to be kept for it kept at once.
fn verdict(guard: &mut Guard, target: &TargetKey, now: Instant) -> Passage {
    let first = guard.verdict(target, now);
    if first != Passage::Unkept {
        return first;
    }
    assert!(guard.record(SystemTime::UNIX_EPOCH).is_some() && guard.kept(), "there is nothing to keep");
    guard.verdict(target, now)
}

fn held(guard: &Guard) -> HeldDrop {
    guard.held().unwrap()
}

/// Whoever was to keep it may have failed to, and nobody told.
#[test]
fn what_is_not_told_to_be_kept_is_asked_for_again() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    guard.pending(&key(0), 10, MANY, now);
    let mut asked = Vec::new();
    for second in 0..=12 {
        let now = now + SECOND * second;
        assert_eq!(guard.verdict(&key(0), now), Passage::Unkept);
        asked.extend(guard.record(SystemTime::UNIX_EPOCH + SECOND * second).map(|record| (second, record.lost)));
    }
    let [(0, lost), (5, again), (10, _)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(lost, again);
    assert!(guard.kept());
    assert_eq!(guard.verdict(&key(0), now + SECOND * 12), Passage::Allowed);
}

#[test]
fn everyday_deletes_pass() {
    // total, removals one after the other
    for (total, removals) in [(3, &[3_u64][..]), (20, &[10, 10]), (1000, &[300, 200]), (100, &[50]), (40, &[20])] {
        let (mut guard, now) = settled(GuardConfig::default(), total);
        for (n, loss) in removals.iter().enumerate() {
            guard.pending(&key(n), *loss, MANY, now);
            assert_eq!(verdict(&mut guard, &key(n), now), Passage::Allowed, "{total} {removals:?}");
            guard.applied(&key(n), *loss, now);
        }
        assert_eq!(guard.tick(now), []);
    }
}

#[test]
fn more_than_the_share_is_held() {
    for (total, removals) in [(100, &[51_u64][..]), (100, &[30, 21]), (21, &[21]), (1000, &[500, 1])] {
        let (mut guard, now) = settled(GuardConfig::default(), total);
        let (last, first) = removals.split_last().unwrap();
        for (n, loss) in first.iter().enumerate() {
            guard.pending(&key(n), *loss, MANY, now);
            assert_eq!(verdict(&mut guard, &key(n), now), Passage::Allowed, "{total} {removals:?}");
            guard.applied(&key(n), *loss, now);
        }
        guard.pending(&key(9), *last, MANY, now);
        assert_eq!(verdict(&mut guard, &key(9), now), Passage::Held, "{total} {removals:?}");
        assert_eq!(verdict(&mut guard, &key(10), now), Passage::Allowed, "loses nothing");
        assert_eq!(held(&guard).endpoints_before, total);
        assert_eq!(held(&guard).endpoints_removed, *last);
    }
}

/// Whether the loss comes at once or one by one.
#[test]
fn many_small_ones_count_together() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    let gone = (0..100).filter(|n| {
        let at = now + Duration::from_millis(*n as u64 * 100);
        guard.pending(&key(*n), 1, MANY, at);
        let allowed = verdict(&mut guard, &key(*n), at) == Passage::Allowed;
        if allowed {
            guard.applied(&key(*n), 1, at);
        }
        allowed
    });
    assert_eq!(gone.count(), 50);
    assert_eq!(held(&guard).targets, 50);
}

#[test]
fn what_was_lost_before_the_window_counts_no_more() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    guard.pending(&key(0), 40, MANY, now);
    guard.applied(&key(0), 40, now);
    guard.observed(60, now);
    let later = now + 59 * SECOND;
    guard.pending(&key(1), 25, MANY, later);
    assert_eq!(verdict(&mut guard, &key(1), later), Passage::Held);
    let later = now + 62 * SECOND;
    assert_eq!(verdict(&mut guard, &key(1), later), Passage::Allowed);
}

/// Losses that are counted as one are counted until the last of them is out of the window.
#[test]
fn two_losses_at_nearly_one_time() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    for (target, loss, at) in [(0, 1, now), (1, 30, now + Duration::from_millis(900))] {
        guard.pending(&key(target), loss, MANY, at);
        guard.applied(&key(target), loss, at);
    }
    guard.pending(&key(2), 25, MANY, now + Duration::from_millis(60_500));
    assert_eq!(verdict(&mut guard, &key(2), now + Duration::from_millis(60_500)), Passage::Held);
    assert_eq!(verdict(&mut guard, &key(2), now + Duration::from_millis(60_900)), Passage::Allowed);
}

/// A writer that starts knows what is there, not what was lost before; that is the base.
#[test]
fn after_a_restart_the_base_is_what_is_held() {
    let mut guard = Guard::new(GuardConfig::default());
    let now = zero();
    guard.observed(100, now);
    guard.pending(&key(0), 60, MANY, now);
    assert_eq!(verdict(&mut guard, &key(0), now), Passage::Held);
}

/// A backend that has just come has a base too.
#[test]
fn a_young_backend_may_delete() {
    let (mut guard, now) = settled(GuardConfig::default(), 0);
    guard.observed(1000, now + SECOND);
    guard.pending(&key(0), 100, MANY, now + 2 * SECOND);
    assert_eq!(verdict(&mut guard, &key(0), now + 2 * SECOND), Passage::Allowed);
}

#[test]
fn ends_by_itself_when_the_source_is_back() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    guard.pending(&key(0), 30, MANY, now);
    guard.pending(&key(1), 30, MANY, now);
    assert_eq!(verdict(&mut guard, &key(0), now), Passage::Held);
    let id = held(&guard).id;
    guard.pending(&key(1), 0, MANY, now);
    assert_eq!(verdict(&mut guard, &key(0), now), Passage::Allowed);
    assert_eq!(guard.held(), None);
    let events = guard.tick(now);
    assert!(
        matches!(&events[..], [GuardEvent::Held(_), GuardEvent::Ended { id: ended }] if *ended == id),
        "{events:?}"
    );
}

#[test]
fn a_later_snapshot_releases_a_partial_drop() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    guard.pending(&key(0), 60, MANY, now);
    assert!(!guard.snapshot_complete(now + 59 * SECOND, now + 70 * SECOND), "begun too early");
    assert!(guard.wants_snapshot(now + 60 * SECOND));
    assert!(guard.snapshot_complete(now + 60 * SECOND, now + 61 * SECOND));
    assert_eq!(verdict(&mut guard, &key(0), now + 61 * SECOND), Passage::Allowed);
    assert_eq!(guard.held(), None);
    guard.applied(&key(0), 60, now + 61 * SECOND);
    // What was released is neither counted against the next one nor part of its base.
    guard.observed(40, now + 61 * SECOND);
    guard.pending(&key(1), 20, MANY, now + 61 * SECOND);
    assert_eq!(verdict(&mut guard, &key(1), now + 61 * SECOND), Passage::Allowed);
    guard.pending(&key(1), 21, MANY, now + 61 * SECOND);
    assert_eq!(verdict(&mut guard, &key(1), now + 61 * SECOND), Passage::Held);
}

/// What joined the drop later waits for its own quiet time.
#[test]
fn a_snapshot_releases_only_what_is_old_enough() {
    let (mut guard, now) = settled(GuardConfig::default(), 1000);
    guard.pending(&key(0), 600, MANY, now);
    guard.pending(&key(1), 100, MANY, now + 50 * SECOND);
    assert!(guard.snapshot_complete(now + 60 * SECOND, now + 61 * SECOND));
    // The rest alone is no mass change.
    assert_eq!(verdict(&mut guard, &key(1), now + 61 * SECOND), Passage::Allowed);

    let (mut guard, now) = settled(GuardConfig::default(), 1000);
    guard.pending(&key(0), 200, MANY, now);
    guard.pending(&key(1), 600, MANY, now);
    guard.pending(&key(1), 601, MANY, now + 50 * SECOND);
    assert!(guard.snapshot_complete(now + 60 * SECOND, now + 61 * SECOND));
    assert_eq!(verdict(&mut guard, &key(0), now + 61 * SECOND), Passage::Allowed);
    assert_eq!(verdict(&mut guard, &key(1), now + 61 * SECOND), Passage::Held);
    assert!(guard.snapshot_complete(now + 110 * SECOND, now + 111 * SECOND));
    assert_eq!(verdict(&mut guard, &key(1), now + 111 * SECOND), Passage::Allowed);
}

#[test]
fn no_snapshot_releases_a_drop_to_nothing() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    guard.pending(&key(0), 60, MANY, now);
    let partial = held(&guard);
    guard.pending(&key(1), 40, MANY, now);
    let whole = held(&guard);
    assert!(!partial.to_nothing && whole.to_nothing);
    let late = now + 600 * SECOND;
    assert!(!guard.wants_snapshot(late));
    assert!(!guard.snapshot_complete(late, late));
    assert_eq!(verdict(&mut guard, &key(0), late), Passage::Held);
    // Approving the partial drop is not approving this.
    assert_eq!(guard.approve(&partial.id), None);
    assert_eq!(guard.approve(&whole.id), Some(100));
    assert_eq!(verdict(&mut guard, &key(0), late), Passage::Allowed);
    assert_eq!(verdict(&mut guard, &key(1), late), Passage::Allowed);
    assert_eq!(guard.approve(&whole.id), None);
    let released = GuardEvent::Released { id: whole.id, endpoints: 100, by: Release::Approval };
    assert_eq!(guard.tick(late).last(), Some(&released));
}

/// A release lasts until the removal is done, through failed writes and new plans; more than that is held again.
#[test]
fn a_release_is_remembered() {
    let (mut guard, now) = settled(GuardConfig::default(), 1000);
    guard.pending(&key(0), 600, MANY, now);
    let id = held(&guard).id;
    assert_eq!(guard.approve(&id), Some(600));
    guard.pending(&key(0), 550, MANY, now + SECOND);
    assert_eq!(verdict(&mut guard, &key(0), now + SECOND), Passage::Allowed);
    guard.pending(&key(1), 501, MANY, now + SECOND);
    assert_eq!(verdict(&mut guard, &key(1), now + SECOND), Passage::Held);
    assert_eq!(verdict(&mut guard, &key(0), now + SECOND), Passage::Allowed);
    guard.pending(&key(0), 0, MANY, now + 2 * SECOND);
    guard.pending(&key(0), 550, MANY, now + 3 * SECOND);
    assert_eq!(verdict(&mut guard, &key(0), now + 3 * SECOND), Passage::Held);
}

#[test]
fn age_releases_all() {
    let config = GuardConfig { release_all_after: Some(600 * SECOND), ..GuardConfig::default() };
    let (mut guard, now) = settled(config, 100);
    guard.pending(&key(0), 100, MANY, now);
    assert!(matches!(&guard.tick(now + 599 * SECOND)[..], [GuardEvent::Held(_)]));
    assert_eq!(verdict(&mut guard, &key(0), now + 599 * SECOND), Passage::Held);
    let events = guard.tick(now + 600 * SECOND);
    assert!(matches!(&events[..], [GuardEvent::Released { endpoints: 100, by: Release::Age, .. }]), "{events:?}");
    assert_eq!(verdict(&mut guard, &key(0), now + 600 * SECOND), Passage::Allowed);
}

#[test]
fn a_snapshot_is_asked_for_once_each_quiet_time() {
    let (mut guard, now) = settled(GuardConfig::default(), 100);
    guard.pending(&key(0), 60, MANY, now);
    let asked: Vec<_> = (0..200)
        .filter(|n| {
            let events = guard.tick(now + *n * SECOND);
            events.iter().any(|event| matches!(event, GuardEvent::SnapshotWanted { .. }))
        })
        .collect();
    assert_eq!(asked, [60, 120, 180]);
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Lose(usize, u64),
    Write(usize),
    Grow(u64),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..20_000_u64).prop_map(Step::Wait),
        4 => (0..6_usize, 0..60_u64).prop_map(|(target, loss)| Step::Lose(target, loss)),
        4 => (0..6_usize).prop_map(Step::Write),
        1 => (0..40_u64).prop_map(Step::Grow),
        1 => Just(Step::Tick),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without a release, no window sees more removals than the share of the most that it has seen, or the minimum.
    #[test]
    fn never_more_than_the_share_within_a_window(total in 0..300_u64, percent in 0..100_u8, steps in steps()) {
        let config = GuardConfig { max_drop_percent: percent, ..GuardConfig::default() };
        let (mut guard, mut now) = settled(config, total);
        let (mut total, mut pending) = (total, [0; 6]);
        let mut totals = vec![(now - config.window * 2, total)];
        let mut applied: Vec<(Instant, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Lose(target, loss) => {
                    let others: u64 = pending.iter().sum::<u64>() - pending[target];
                    pending[target] = loss.min(total - others);
                    guard.pending(&key(target), pending[target], MANY, now);
                }
                Step::Write(target) => {
                    let loss = std::mem::take(&mut pending[target]);
                    if verdict(&mut guard, &key(target), now) == Passage::Held {
                        pending[target] = loss;
                        continue;
                    }
                    guard.applied(&key(target), loss, now);
                    total -= loss;
                    guard.observed(total, now);
                    applied.push((now, loss));
                    totals.push((now, total));
                    let within = |at: Instant| now.duration_since(at) < config.window;
                    let lost: u64 = applied.iter().filter(|(at, _)| within(*at)).map(|(_, loss)| loss).sum();
                    let start = totals.iter().rposition(|(at, _)| !within(*at)).unwrap_or(0);
                    let base = totals[start..].iter().map(|(_, total)| *total).max().unwrap();
                    let share = base * u64::from(percent) / 100;
                    prop_assert!(lost <= share.max(config.min_endpoints), "{lost} of {base}");
                }
                Step::Grow(by) => {
                    total += by;
                    totals.push((now, total));
                    guard.observed(total, now);
                }
                Step::Tick => {
                    guard.tick(now);
                }
            }
            let waiting: u64 = pending.iter().sum();
            if let Some(held) = guard.held() {
                prop_assert_eq!(held.endpoints_removed, waiting);
                prop_assert_eq!(held.to_nothing, waiting >= total);
            }
        }
        // The source comes back: nothing is held.
        for target in 0..6 {
            guard.pending(&key(target), 0, MANY, now);
        }
        prop_assert_eq!(guard.held(), None);
    }
}
