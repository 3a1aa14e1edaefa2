//! The limits against simulated servers: some workers behind one queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::concurrency_limit::{ConcurrencyLimit, WriteResult, WriteSample};
use crate::shared_limit::SharedLimit;

const TARGET: Duration = Duration::from_millis(500);

/// A server with `workers` workers, each of which takes `service` for a write. Pending writes are served in order.
#[derive(Debug, Clone, Copy)]
struct Server {
    workers: usize,
    service: Duration,
}

/// What the last part of a run showed.
#[derive(Debug)]
struct Seen {
    writes_per_second: f64,
    /// Lowest and highest limit.
    limits: (usize, usize),
    /// The 90th percentile.
    latency: Duration,
}

impl Server {
    fn new(workers: usize, millis: u64) -> Self {
        Self { workers, service: Duration::from_millis(millis) }
    }

    /// Returns the most writes a second that it can answer to a client with at most `most` in flight.
    fn capacity(&self, most: u32) -> f64 {
        self.workers.min(most as usize) as f64 / self.service.as_secs_f64()
    }
}

/// A client that always has more to write.
struct Run {
    limit: ConcurrencyLimit,
    now: Instant,
    under_way: BinaryHeap<Reverse<(Instant, Instant)>>,
}

impl Run {
    fn new(most: u32) -> Self {
        Self { limit: ConcurrencyLimit::new(most, TARGET), now: Instant::now(), under_way: BinaryHeap::new() }
    }

    /// Runs until this server has answered `answers` writes, and measures the last third of them. One write in
    /// `slow_ones` takes ten seconds in some webhook, without taking a worker; 0: none does.
    fn write(&mut self, answers: usize, server: Server, slow_ones: usize) -> Seen {
        let mut free: BinaryHeap<Reverse<Instant>> = vec![Reverse(self.now); server.workers].into();
        let (mut took, mut limits, mut count, mut look) = (Vec::new(), (usize::MAX, 0), 0, self.now);
        for answer in 0..answers {
            while self.under_way.len() < self.limit.current() {
                let Reverse(idle) = free.pop().unwrap();
                let done = idle.max(self.now) + server.service;
                free.push(Reverse(done));
                count += 1;
                let slow = slow_ones > 0 && count % slow_ones == 0;
                let answered = if slow { done + Duration::from_secs(10) } else { done };
                self.under_way.push(Reverse((answered, self.now)));
            }
            let Reverse((at, sent)) = self.under_way.pop().unwrap();
            self.now = at;
            self.limit.answered(&WriteSample { sent, took: at - sent, result: WriteResult::Answered });
            if answer < answers * 2 / 3 {
                look = at;
            } else {
                took.push(at - sent);
                limits = (limits.0.min(self.limit.current()), limits.1.max(self.limit.current()));
            }
        }
        took.sort();
        let rate = took.len() as f64 / (self.now - look).as_secs_f64();
        Seen { writes_per_second: rate, limits, latency: took[took.len() * 9 / 10] }
    }
}

#[test]
fn a_limit_for_every_server() {
    for (what, server, most, limits) in [
        ("a quick server with room", Server::new(100, 5), 32, 32..=32),
        // Like a small machine: 1,300 writes a second at most, whatever is in flight. No client suffers.
        ("a quick server that is busy all the time", Server::new(2, 1), 64, 64..=64),
        ("a webhook that takes its time, and room", Server::new(1000, 800), 32, 32..=32),
        ("a slow server: what it answers in the target", Server::new(4, 100), 256, 14..=22),
        ("a very slow server: none waits long for another", Server::new(1, 2000), 64, 1..=3),
        ("one at a time", Server::new(1, 5000), 1, 1..=1),
    ] {
        let seen = Run::new(most).write(12_000, server, 0);
        assert!(limits.contains(&seen.limits.0) && limits.contains(&seen.limits.1), "{what}: {seen:?}");
        assert!(seen.writes_per_second > 0.95 * server.capacity(most), "{what}: {seen:?}");
    }
}

#[test]
fn of_a_server_that_hardly_answers_not_every_answer_is_awaited() {
    let seen = Run::new(64).write(30, Server::new(1, 2000), 0);
    assert!(seen.limits.1 < 64, "{seen:?}");
}

#[test]
fn a_slow_answer_here_and_there_changes_nothing() {
    let server = Server::new(100, 5);
    let seen = Run::new(32).write(12_000, server, 100);
    assert_eq!(seen.limits, (32, 32), "{seen:?}");
    let seen = Run::new(32).write(12_000, server, 5);
    assert!(seen.limits.0 < 32, "one in five is another thing: {seen:?}");
}

#[test]
fn a_server_that_recovers_is_written_to_as_before() {
    let (quick, slow, webhook) = (Server::new(100, 5), Server::new(2, 250), Server::new(1000, 800));
    let mut run = Run::new(64);
    for round in 0..3 {
        let seen = run.write(12_000, slow, 0);
        assert!(seen.limits.1 <= 7, "round {round}: {seen:?}");
        assert_eq!(run.write(900, quick, 0).limits, (64, 64), "round {round}: and soon");
        run.write(12_000, quick, 0);
        assert_eq!(run.write(12_000, webhook, 0).limits, (64, 64), "round {round}");
        assert_eq!(run.write(12_000, quick, 0).limits, (64, 64), "round {round}");
    }
}

#[test]
fn no_server_waits_and_none_is_overrun() {
    gimbal_property::check(64, &(1_usize..200, 1_u64..2000, 1_u32..128), |(workers, millis, most)| {
        let server = Server::new(workers, millis);
        let seen = Run::new(most).write(12_000, server, 0);
        prop_assert!(seen.limits.0 >= 1);
        prop_assert!(seen.writes_per_second > 0.85 * server.capacity(most), "{:?} of {}", seen, server.capacity(most));
        // If a lone write takes longer than the target, twice its latency is tolerated. An excess is noticed one
        // service time late.
        let tolerated = TARGET.max(2 * server.service) + server.service;
        prop_assert!(seen.latency < tolerated.mul_f64(1.25), "{:?}, {:?} is tolerated", seen, tolerated);
        Ok(())
    });
}

/// A server that commits pending writes together, as etcd does: each round takes `round`, and `each` more for every
/// write in it.
#[derive(Debug, Clone, Copy)]
struct Rounds {
    round: Duration,
    each: Duration,
}

impl Rounds {
    fn per_second(self, side_by_side: usize) -> f64 {
        let writes = u32::try_from(side_by_side).unwrap();
        f64::from(writes) / (self.round + self.each * writes).as_secs_f64()
    }
}

/// Runs a limit of at most `most` over `answers` answers of a client that always has more to write. The times of the
/// answers vary at random. Returns the limits in the last third.
fn side_by_side(most: u32, answers: u32, per_second: impl Fn(usize) -> f64) -> Vec<usize> {
    let (mut limit, mut now, mut chance, mut seen) = (SharedLimit::new(most), Instant::now(), 1_u64, Vec::new());
    for answer in 0..answers {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = 0.75 + (chance >> 40) as f64 / f64::from(1 << 24) / 2.0;
        now += Duration::from_secs_f64(noise / per_second(limit.current()));
        limit.answered(now);
        if answer > answers * 2 / 3 {
            seen.push(limit.current());
        }
    }
    seen
}

#[test]
fn no_more_side_by_side_than_is_of_use() {
    let workers = |workers: usize| move |n: usize| n.min(workers) as f64 * 500.0;
    let etcd = Rounds { round: Duration::from_millis(3), each: Duration::from_millis(1) };
    let usually = |seen: &[usize]| {
        let mut seen = seen.to_vec();
        seen.sort_unstable();
        seen[seen.len() / 2]
    };
    for (what, most, seen, wanted) in [
        ("two workers", 64, side_by_side(64, 30_000, workers(2)), 2..=2),
        ("twenty workers", 64, side_by_side(64, 30_000, workers(20)), 16..=32),
        ("more workers than we may use", 64, side_by_side(64, 30_000, workers(1000)), 64..=64),
        ("one at a time", 1, side_by_side(1, 3_000, workers(20)), 1..=1),
        ("what waits is written together", 64, side_by_side(64, 30_000, |n| etcd.per_second(n)), 8..=16),
    ] {
        let usual = usually(&seen);
        assert!(wanted.contains(&usual), "{what}: {usual}");
        assert!(seen.iter().all(|n| (1..=most).contains(n)), "{what}");
        let other = seen.iter().filter(|n| **n != usual).count();
        assert!(other * 4 < seen.len(), "{what}: other numbers are tried now and then: {other} of {}", seen.len());
    }
}

#[test]
fn what_was_not_busy_tells_nothing() {
    let (mut limit, mut now) = (SharedLimit::new(64), Instant::now());
    for _ in 0..30_000 {
        now += Duration::from_millis(2);
        limit.answered(now);
        limit.idle();
    }
    assert_eq!(limit.current(), 8);
}
