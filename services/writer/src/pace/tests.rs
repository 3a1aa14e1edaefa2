use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Meta, Service};
use gimbal_plan::{Action, Body};

use super::{Answer, Pace, PaceSettings, Room, Sign, Wait, budget};

const SECOND: Duration = Duration::from_secs(1);

fn pace(concurrency: u32, qps: u32, fanout: u64) -> Pace {
    Pace::new(&PaceSettings { concurrency, latency_target: SECOND / 2, qps, fanout, watchers: 10 })
}

/// Creates, each of a Service whose name has so many letters.
fn creates(count: usize, letters: usize) -> Vec<Action> {
    let name: Arc<str> = "x".repeat(letters).into();
    let service = Service { metadata: Meta { name, ..Meta::default() }, ..Service::default() };
    vec![Action::Create(Body::Service(service)); count]
}

fn answer(sent: Instant, millis: u64, sign: Sign) -> Answer {
    Answer { sent, took: Duration::from_millis(millis), sign }
}

#[test]
fn a_storm_of_429s_is_one_sign() {
    let (mut pace, now) = (pace(32, 0, 0), Instant::now());
    assert_eq!(pace.room(31, false, None, now), Ok(Room::Anybody(1)));
    assert_eq!(pace.room(32, false, None, now), Err(Wait::Concurrency));
    for millis in 1..=20 {
        pace.answered(&answer(now, millis, Sign::Throttled));
    }
    assert_eq!(pace.limit().now(), 16);
    for millis in 0..16 {
        pace.answered(&answer(now + SECOND / 2, millis, Sign::Answered));
    }
    assert_eq!(pace.limit().now(), 16, "where it was refused, the way up is a slow one");
    // What is sent after it and refused again is the next.
    pace.answered(&answer(now + SECOND, 1, Sign::Throttled));
    assert_eq!(pace.limit().now(), 8);
    for n in 2..20 {
        pace.answered(&answer(now + n * SECOND, 1, Sign::Throttled));
    }
    assert_eq!(
        (pace.limit().now(), pace.room(0, false, None, now)),
        (1, Ok(Room::Anybody(1))),
        "one may always be under way"
    );
    for _ in 0..1000 {
        pace.answered(&answer(now + 60 * SECOND, 1, Sign::Answered));
    }
    assert_eq!(pace.limit().now(), 32, "and never more than was told");
}

#[test]
fn a_server_in_trouble_gets_fewer_and_one_object_in_trouble_is_not_the_server() {
    let (mut pace, now) = (pace(32, 0, 0), Instant::now());
    for n in 0..1000 {
        let sign = if n % 12 == 0 { Sign::Trouble } else { Sign::Answered };
        pace.answered(&answer(now + n * SECOND, 1, sign));
    }
    assert_eq!(pace.limit().now(), 32);
    for n in 1000..2000 {
        pace.answered(&answer(now + n * SECOND, 1, Sign::Trouble));
    }
    assert_eq!((pace.limit().now(), pace.limit().latency()), (1, None));
    assert_eq!(pace.limit().tolerated(), Some(SECOND / 2), "what is never answered is no measure of what may be");
}

#[test]
fn without_a_target_latency_is_told_and_nothing_is_made_of_it() {
    let settings = PaceSettings { concurrency: 32, latency_target: Duration::ZERO, qps: 0, fanout: 0, watchers: 1 };
    let (mut pace, now) = (Pace::new(&settings), Instant::now());
    for _ in 0..100 {
        pace.answered(&answer(now, 9000, Sign::Answered));
    }
    assert_eq!((pace.limit().now(), pace.limit().latency()), (32, Some(9 * SECOND)));
    for n in 0..100 {
        pace.answered(&answer(now + n * 20 * SECOND, 9000, Sign::Trouble));
    }
    assert!(pace.limit().now() < 32);
}

#[test]
fn who_shares_the_server_is_given_what_is_of_use_and_a_quiet_change_goes_at_once() {
    let (mut pace, now) = (pace(32, 0, 0), Instant::now());
    assert_eq!(pace.room(20, false, None, now), Ok(Room::Anybody(12)));
    assert_eq!(pace.room(7, true, None, now), Ok(Room::Anybody(1)));
    assert_eq!(pace.room(8, true, None, now), Ok(Room::Quiet(24)));
    assert_eq!(pace.room(32, true, None, now), Err(Wait::Concurrency));
    assert_eq!(pace.room(20, false, None, now), Ok(Room::Anybody(12)), "alone again, it may take all");
}

#[test]
fn a_pause_ends_by_itself() {
    let (mut pace, now) = (pace(32, 0, 0), Instant::now());
    let until = Some(now + SECOND);
    assert_eq!(pace.room(0, false, until, now), Err(Wait::Pause));
    assert_eq!(pace.wake_at(until, now), until);
    assert_eq!(pace.room(0, false, until, now + SECOND), Ok(Room::Anybody(32)));
    assert_eq!(pace.wake_at(until, now + SECOND), None);
}

/// Writes whatever may be written for three seconds, looking each millisecond, in jobs of `size` creates. Returns how
/// many writes started in each.
fn write(pace: &mut Pace, size: usize, letters: usize) -> [usize; 3] {
    let (start, mut writes) = (Instant::now(), [0; 3]);
    for ms in 0..3000_usize {
        let now = start + Duration::from_millis(ms as u64);
        while writes[ms / 1000] < 1000 && pace.room(0, false, None, now).is_ok() {
            writes[ms / 1000] += pace.pay(&creates(size, letters));
        }
        assert!(pace.wake_at(None, now).is_some_and(|at| at > now), "it is known when to go on");
    }
    writes
}

#[test]
fn no_second_sees_much_more_writes_than_told() {
    for size in [1, 3, 100] {
        let [first, second, third] = write(&mut pace(1000, 20, 0), size, 1);
        assert!((24..=25).contains(&first), "what was saved up goes at once, a quarter of a second's: {first}");
        assert!((19..=20).contains(&second) && (19..=20).contains(&third), "jobs of {size}: {second}, {third}");
    }
    let [first, second, third] = write(&mut pace(1000, 1, 0), 5, 1);
    assert_eq!(first + second + third, 3, "one a second is one a second");
}

#[test]
fn bytes_times_watchers_are_what_a_write_costs() {
    let each = budget::size(&creates(1, 900)[0]);
    assert!((900..1100).contains(&each), "{each}");
    // Ten watchers: ten such objects a second.
    let [first, second, third] = write(&mut pace(1000, 0, each * 10 * 10), 3, 900);
    assert!((12..=13).contains(&first), "{first}");
    assert!((10..=11).contains(&second) && (10..=11).contains(&third), "{second}, {third}");
    let small = write(&mut pace(1000, 0, each * 10 * 10), 3, 1);
    assert!(small[1] > 5 * second, "small ones cost little: {small:?}");
}

#[test]
fn an_object_that_costs_more_than_there_is_passes_and_the_next_one_waits_for_it() {
    let (mut pace, now) = (pace(1000, 0, 1000), Instant::now());
    assert_eq!(pace.room(0, false, None, now), Ok(Room::Anybody(1000)));
    assert_eq!(pace.pay(&creates(3, 2000)), 1, "the others are decided anew when it is paid");
    assert_eq!(pace.room(0, false, None, now + 10 * SECOND), Err(Wait::Fanout));
    let then = pace.wake_at(None, now + 10 * SECOND).unwrap();
    assert_eq!(pace.room(0, false, None, then), Ok(Room::Anybody(1000)));
    assert!(then > now + 20 * SECOND && then < now + 22 * SECOND, "ten times two kilobytes at one a second");
}

#[test]
fn both_budgets_must_allow() {
    let (mut pace, now) = (pace(1000, 4, 1000), Instant::now());
    assert_eq!(pace.room(0, false, None, now), Ok(Room::Anybody(1000)));
    assert_eq!(pace.pay(&creates(9, 50)), 1);
    assert_eq!(pace.room(0, false, None, now), Err(Wait::Qps));
    assert_eq!(pace.room(0, false, None, now + SECOND / 4), Err(Wait::Fanout), "each costs ten times its size");
}
