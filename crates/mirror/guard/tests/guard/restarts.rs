//! The guard over restarts of the writer, and its floors.

use std::time::{Duration, SystemTime};

use gimbal_guard::{Floors, Guard, GuardConfig, GuardEvent, Release};
use gimbal_model::TargetKey;

use super::invariant::{SECOND, World};

/// The case that a guard without memory gets wrong: each restart would compare with what the previous writer left.
#[test]
fn a_drop_goes_no_further_by_killing_the_writer() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    for n in 0..6 {
        world.lose(n, 20);
        world.write_all();
        world.begin();
        world.write_all();
        world.now += SECOND;
    }
    assert_eq!(world.total(), 60, "half of 120, and no more");
    // The window is over: losses are compared with what is left.
    world.now += 200 * SECOND;
    world.begin();
    assert!(world.guard.held().is_some_and(|held| held.to_nothing));
}

/// An old record is no reason to hold anything.
#[test]
fn what_was_lost_long_before_the_restart_counts_no_more() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    for n in 0..3 {
        world.lose(n, 20);
    }
    world.write_all();
    assert_eq!(world.total(), 60);
    world.now += 151 * SECOND;
    world.begin();
    world.lose(3, 20);
    world.write_all();
    assert_eq!(world.total(), 40);
}

/// A stored record is not written again at each restart.
#[test]
fn a_restart_keeps_nothing_anew() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    (0..3).for_each(|n| world.lose(n, 20));
    world.write_all();
    assert_eq!(world.total(), 60);
    for _ in 0..5 {
        world.now += 10 * SECOND;
        world.begin();
        let before = world.window.clone();
        world.keep(true);
        assert_eq!(world.window, before);
        world.lose(3, 20);
        assert!(!world.write(3, true), "60 of 120 are missing");
        world.want(3, 20);
    }
    world.now += 61 * SECOND;
    world.lose(3, 20);
    world.write_all();
    assert_eq!(world.total(), 40);
}

#[test]
fn a_hold_goes_on_after_a_restart_with_its_id_and_its_age() {
    let config = GuardConfig { release_all_after: Some(600 * SECOND), ..GuardConfig::default() };
    let mut world = World::new(config, [20; 6]);
    let lose = |world: &mut World, targets: std::ops::Range<usize>| targets.for_each(|n| world.lose(n, 20));
    lose(&mut world, 0..4);
    world.keep(true);
    let id = world.guard.held().unwrap().id;
    world.now += 40 * SECOND;
    world.begin();
    assert_eq!(world.guard.held().map(|held| held.id), Some(id.clone()), "the same figures");
    assert_eq!(world.guard.held_for(world.now), Some(40 * SECOND));
    // The quiet time has gone on: 20 s more are enough.
    world.now += 19 * SECOND;
    assert!(!world.guard.wants_snapshot(world.now));
    world.now += SECOND;
    assert!(world.guard.wants_snapshot(world.now));
    assert_eq!(world.guard.approve(&id), Some(80));

    // Another drop is another hold, with an age of its own.
    let mut world = World::new(config, [20; 6]);
    lose(&mut world, 0..4);
    world.keep(true);
    world.now += 599 * SECOND;
    (0..5).for_each(|n| world.lose(n, 19));
    world.begin();
    assert_eq!(world.guard.held_for(world.now), Some(Duration::ZERO));
    world.now += 2 * SECOND;
    assert!(!world.guard.tick(world.now).iter().any(|event| matches!(event, GuardEvent::Released { .. })));

    // Restarts do not put off the release by age for ever.
    let mut world = World::new(config, [20; 6]);
    lose(&mut world, 0..6);
    world.keep(true);
    for _ in 0..6 {
        world.now += 100 * SECOND;
        world.begin();
        world.keep(true);
    }
    let events = world.guard.tick(world.now);
    let by_age = |event: &GuardEvent| matches!(event, GuardEvent::Released { by: Release::Age, endpoints: 120, .. });
    assert!(events.iter().any(by_age), "{events:?}");
}

/// A poller that sees the same wrong view again and again does not confirm itself to nothing.
#[test]
fn no_number_of_equal_views_confirms_a_drop_to_nothing() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    for n in 0..6 {
        world.lose(n, 20);
    }
    for _ in 0..100 {
        world.now += 61 * SECOND;
        assert!(!world.guard.wants_snapshot(world.now));
        world.tell_all();
        assert!(!world.guard.snapshot_complete(world.now, true, |_| true, world.now));
        world.write_all();
    }
    assert_eq!(world.total(), 120);
}

#[test]
fn floors_hold_what_would_leave_too_little() {
    // floors, endpoints, losses, endpoints in the end
    let floor =
        |endpoints_per_namespace, endpoints_per_service| Floors { endpoints_per_namespace, endpoints_per_service };
    // Namespace "one" has targets 0, 2 and 4.
    for (floors, there, lose, left) in [
        (floor(0, 0), [2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0]),
        (floor(0, 1), [2, 2, 2, 2, 2, 2], [2, 1, 0, 0, 0, 0], [2, 1, 2, 2, 2, 2]),
        (floor(0, 2), [2, 3, 2, 2, 2, 2], [1, 1, 0, 0, 0, 0], [2, 2, 2, 2, 2, 2]),
        (floor(0, 3), [2, 2, 9, 0, 0, 0], [2, 1, 7, 0, 0, 0], [0, 1, 9, 0, 0, 0]),
        (floor(4, 0), [2, 2, 2, 2, 2, 2], [2, 2, 0, 0, 0, 0], [0, 0, 2, 2, 2, 2]),
        (floor(4, 0), [2, 2, 2, 2, 2, 2], [2, 2, 1, 0, 0, 0], [2, 0, 2, 2, 2, 2]),
        (floor(4, 1), [2, 3, 2, 3, 2, 3], [1, 3, 0, 2, 0, 0], [1, 3, 2, 1, 2, 3]),
        (floor(100, 0), [2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0]),
    ] {
        let mut world = World::new(GuardConfig { floors, ..GuardConfig::default() }, there);
        for (n, loss) in lose.into_iter().enumerate() {
            world.lose(n, loss);
        }
        world.write_all();
        assert_eq!(world.held(), left, "{floors:?} {there:?} {lose:?}");
        let wanted = there.iter().zip(lose).map(|(had, loss)| had - loss).sum::<u64>();
        let held = world.total() - wanted;
        assert_eq!(world.guard.held().map_or(0, |held| held.endpoints_removed), held, "{floors:?} {there:?} {lose:?}");
        // A floor holds as a partial drop is held, or until an approval where nothing would remain; also after a
        // restart.
        world.begin();
        world.write_all();
        assert_eq!(world.held(), left);
        if let Some(held) = world.guard.held() {
            world.guard.approve(&held.id);
            world.write_all();
            assert_eq!(world.total(), wanted, "{floors:?} {there:?} {lose:?}");
        }
    }
}

/// Until it is known whether the hold goes on, its id is the one that people have seen.
#[test]
fn a_hold_of_before_is_known_until_it_is_matched_or_everything_is_known() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    (0..4).for_each(|n| world.lose(n, 20));
    world.keep(true);
    let record = world.guard.hold_record(world.now, SystemTime::UNIX_EPOCH).unwrap();
    let mut guard = Guard::new(GuardConfig::default());
    let wall = SystemTime::UNIX_EPOCH + 60 * SECOND;
    guard.restore(None, Some(&record), |_: &TargetKey| 0, world.now, wall);
    assert_eq!(guard.unmatched().map(|record| &record.id), Some(&record.id));
    guard.all_is_known(world.now);
    assert_eq!(guard.unmatched(), None, "it ended while no writer led");
    world.begin();
    assert_eq!((world.guard.unmatched(), world.guard.held().map(|held| held.id)), (None, Some(record.id)));
}
