//! The limit against servers that are simulated: some workers, one queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::limit::{Answer, Limit, Sign};

const TARGET: Duration = Duration::from_millis(500);

/// A server with so many workers, each of which takes so long for a write. What waits is served in turn.
#[derive(Debug, Clone, Copy)]
struct Server {
    workers: usize,
    service: Duration,
}

/// What a run showed in its last part.
#[derive(Debug)]
struct Seen {
    writes_per_second: f64,
    /// Least and greatest.
    limits: (usize, usize),
    /// The slowest of nine in ten.
    latency: Duration,
}

impl Server {
    fn new(workers: usize, millis: u64) -> Self {
        Self { workers, service: Duration::from_millis(millis) }
    }

    /// What it can do at most for a client with so many writes under way.
    fn capacity(&self, most: u32) -> f64 {
        self.workers.min(most as usize) as f64 / self.service.as_secs_f64()
    }
}

/// A client that always has more to write.
struct Run {
    limit: Limit,
    now: Instant,
    under_way: BinaryHeap<Reverse<(Instant, Instant)>>,
}

impl Run {
    fn new(most: u32) -> Self {
        Self { limit: Limit::new(most, TARGET), now: Instant::now(), under_way: BinaryHeap::new() }
    }

    /// Goes on until this server has answered so many writes, and looks at the last third of them. One write in
    /// `slow_ones` takes ten seconds in some webhook, without taking a worker; 0: none does.
    fn write(&mut self, answers: usize, server: Server, slow_ones: usize) -> Seen {
        let mut free: BinaryHeap<Reverse<Instant>> = vec![Reverse(self.now); server.workers].into();
        let (mut took, mut limits, mut count, mut look) = (Vec::new(), (usize::MAX, 0), 0, self.now);
        for answer in 0..answers {
            while self.under_way.len() < self.limit.now() {
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
            self.limit.answered(&Answer { sent, took: at - sent, sign: Sign::Answered });
            if answer < answers * 2 / 3 {
                look = at;
            } else {
                took.push(at - sent);
                limits = (limits.0.min(self.limit.now()), limits.1.max(self.limit.now()));
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
        // As a small machine does: 1,300 writes a second at most, whatever is under way. Nobody suffers.
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

proptest! {
    #[test]
    fn no_server_waits_and_none_is_overrun(workers in 1_usize..200, millis in 1_u64..2000, most in 1_u32..128) {
        let server = Server::new(workers, millis);
        let seen = Run::new(most).write(12_000, server, 0);
        prop_assert!(seen.limits.0 >= 1);
        prop_assert!(seen.writes_per_second > 0.85 * server.capacity(most), "{:?} of {}", seen, server.capacity(most));
        // Where one alone takes longer than the target, twice that. It is noticed when it is passed, by one turn of service.
        let tolerated = TARGET.max(2 * server.service) + server.service;
        prop_assert!(seen.latency < tolerated.mul_f64(1.25), "{:?}, {:?} is tolerated", seen, tolerated);
    }
}
