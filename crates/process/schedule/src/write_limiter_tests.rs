use std::time::{Duration, Instant};

use super::{LimiterSettings, Room, WaitReason, WriteLimiter};
use crate::{WriteResult, WriteSample};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(concurrency: u32, qps: u32, fanout: u64) -> WriteLimiter {
    WriteLimiter::new(&LimiterSettings { concurrency, latency_target: SECOND / 2, qps, fanout, watchers: 10 })
}

/// Writes of this many bytes.
fn creates(count: usize, bytes: u64) -> Vec<u64> {
    vec![bytes; count]
}

fn answer(sent: Instant, millis: u64, result: WriteResult) -> WriteSample {
    WriteSample { sent, took: Duration::from_millis(millis), result }
}

#[test]
fn a_storm_of_429s_is_one_sign() {
    let (mut limiter, now) = (limiter(32, 0, 0), Instant::now());
    assert_eq!(limiter.room(31, false, None, now), Ok(Room::Anybody(1)));
    assert_eq!(limiter.room(32, false, None, now), Err(WaitReason::Concurrency));
    for millis in 1..=20 {
        limiter.answered(&answer(now, millis, WriteResult::Throttled));
    }
    assert_eq!(limiter.concurrency_limit().current(), 16);
    for millis in 0..16 {
        limiter.answered(&answer(now + SECOND / 2, millis, WriteResult::Answered));
    }
    assert_eq!(limiter.concurrency_limit().current(), 16, "where it was refused, the way up is a slow one");
    // A write sent after it that is refused counts again.
    limiter.answered(&answer(now + SECOND, 1, WriteResult::Throttled));
    assert_eq!(limiter.concurrency_limit().current(), 8);
    for n in 2..20 {
        limiter.answered(&answer(now + n * SECOND, 1, WriteResult::Throttled));
    }
    assert_eq!(
        (limiter.concurrency_limit().current(), limiter.room(0, false, None, now)),
        (1, Ok(Room::Anybody(1))),
        "one may always be under way"
    );
    for _ in 0..1000 {
        limiter.answered(&answer(now + 60 * SECOND, 1, WriteResult::Answered));
    }
    assert_eq!(limiter.concurrency_limit().current(), 32, "and never above its maximum");
}

#[test]
fn a_server_in_trouble_gets_fewer_and_one_object_in_trouble_is_not_the_server() {
    let (mut limiter, now) = (limiter(32, 0, 0), Instant::now());
    for n in 0..1000 {
        let result = if n % 12 == 0 { WriteResult::Trouble } else { WriteResult::Answered };
        limiter.answered(&answer(now + n * SECOND, 1, result));
    }
    assert_eq!(limiter.concurrency_limit().current(), 32);
    for n in 1000..2000 {
        limiter.answered(&answer(now + n * SECOND, 1, WriteResult::Trouble));
    }
    assert_eq!((limiter.concurrency_limit().current(), limiter.concurrency_limit().latency()), (1, None));
    assert_eq!(
        limiter.concurrency_limit().tolerated(),
        Some(SECOND / 2),
        "what is never answered is no measure of what may be"
    );
}

#[test]
fn without_a_target_latency_is_told_and_nothing_is_made_of_it() {
    let settings = LimiterSettings { concurrency: 32, latency_target: Duration::ZERO, qps: 0, fanout: 0, watchers: 1 };
    let (mut limiter, now) = (WriteLimiter::new(&settings), Instant::now());
    for _ in 0..100 {
        limiter.answered(&answer(now, 9000, WriteResult::Answered));
    }
    assert_eq!((limiter.concurrency_limit().current(), limiter.concurrency_limit().latency()), (32, Some(9 * SECOND)));
    for n in 0..100 {
        limiter.answered(&answer(now + n * 20 * SECOND, 9000, WriteResult::Trouble));
    }
    assert!(limiter.concurrency_limit().current() < 32);
}

#[test]
fn who_shares_the_server_is_given_what_is_of_use_and_a_quiet_change_goes_at_once() {
    let (mut limiter, now) = (limiter(32, 0, 0), Instant::now());
    assert_eq!(limiter.room(20, false, None, now), Ok(Room::Anybody(12)));
    assert_eq!(limiter.room(7, true, None, now), Ok(Room::Anybody(1)));
    assert_eq!(limiter.room(8, true, None, now), Ok(Room::Quiet(24)));
    assert_eq!(limiter.room(32, true, None, now), Err(WaitReason::Concurrency));
    assert_eq!(limiter.room(20, false, None, now), Ok(Room::Anybody(12)), "alone again, it may take all");
}

#[test]
fn a_pause_ends_by_itself() {
    let (mut limiter, now) = (limiter(32, 0, 0), Instant::now());
    let until = Some(now + SECOND);
    assert_eq!(limiter.room(0, false, until, now), Err(WaitReason::Pause));
    assert_eq!(limiter.wake_at(until, now), until);
    assert_eq!(limiter.room(0, false, until, now + SECOND), Ok(Room::Anybody(32)));
    assert_eq!(limiter.wake_at(until, now + SECOND), None);
}

/// Writes as much as is allowed for three seconds, polling each millisecond, in jobs of `size` creates. Returns how
/// many writes started in each second.
fn write(limiter: &mut WriteLimiter, size: usize, bytes: u64) -> [usize; 3] {
    let (start, mut writes) = (Instant::now(), [0; 3]);
    for ms in 0..3000_usize {
        let now = start + Duration::from_millis(ms as u64);
        while writes[ms / 1000] < 1000 && limiter.room(0, false, None, now).is_ok() {
            writes[ms / 1000] += limiter.pay(&creates(size, bytes), |bytes| *bytes);
        }
        assert!(limiter.wake_at(None, now).is_some_and(|at| at > now), "it is known when to go on");
    }
    writes
}

#[test]
fn no_second_sees_much_more_writes_than_told() {
    for size in [1, 3, 100] {
        let [first, second, third] = write(&mut limiter(1000, 20, 0), size, 1);
        assert!((24..=25).contains(&first), "what was saved up goes at once, a quarter of a second's: {first}");
        assert!((19..=20).contains(&second) && (19..=20).contains(&third), "jobs of {size}: {second}, {third}");
    }
    let [first, second, third] = write(&mut limiter(1000, 1, 0), 5, 1);
    assert_eq!(first + second + third, 3, "one a second is one a second");
}

#[test]
fn bytes_times_watchers_are_what_a_write_costs() {
    let each = 900;
    // Ten watchers: ten such objects a second.
    let [first, second, third] = write(&mut limiter(1000, 0, each * 10 * 10), 3, 900);
    assert!((12..=13).contains(&first), "{first}");
    assert!((10..=11).contains(&second) && (10..=11).contains(&third), "{second}, {third}");
    let small = write(&mut limiter(1000, 0, each * 10 * 10), 3, 130);
    assert!(small[1] > 5 * second, "small ones cost little: {small:?}");
}

#[test]
fn an_object_that_costs_more_than_there_is_passes_and_the_next_one_waits_for_it() {
    let (mut limiter, now) = (limiter(1000, 0, 1000), Instant::now());
    assert_eq!(limiter.room(0, false, None, now), Ok(Room::Anybody(1000)));
    assert_eq!(limiter.pay(&creates(3, 2100), |bytes| *bytes), 1, "the others are decided anew when it is paid");
    assert_eq!(limiter.room(0, false, None, now + 10 * SECOND), Err(WaitReason::Fanout));
    let then = limiter.wake_at(None, now + 10 * SECOND).unwrap();
    assert_eq!(limiter.room(0, false, None, then), Ok(Room::Anybody(1000)));
    assert!(then > now + 20 * SECOND && then < now + 22 * SECOND, "ten times 2,100 bytes at 1,000 a second");
}

#[test]
fn both_budgets_must_allow() {
    let (mut limiter, now) = (limiter(1000, 4, 1000), Instant::now());
    assert_eq!(limiter.room(0, false, None, now), Ok(Room::Anybody(1000)));
    assert_eq!(limiter.pay(&creates(9, 50), |bytes| *bytes), 1);
    assert_eq!(limiter.room(0, false, None, now), Err(WaitReason::Qps));
    assert_eq!(
        limiter.room(0, false, None, now + SECOND / 4),
        Err(WaitReason::Fanout),
        "each costs ten times its size"
    );
}
