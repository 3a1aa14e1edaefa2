//! How many writes in flight are useful: the point beyond which more of them add little throughput. While several
//! tenants share the server, more writes than that only make the next tenant wait. The point is found by comparing the
//! throughput at one level with that at twice or half of it, in turns. Latency is not considered: it shows how busy the
//! server is, not how much it could do.

use std::time::{Duration, Instant};

/// First level. With this many writes in flight, real API servers on few cores reach four fifths of their throughput.
const FIRST: usize = 8;
/// Lowest level. With one write in flight each object would wait for the one before.
const LEAST: usize = 2;
/// The level is doubled if that multiplies the throughput by at least this.
const WORTH: f64 = 1.2;
/// The level is halved if that keeps at least this share of the throughput.
const ENOUGH: f64 = 0.9;
/// Answers in one turn of a comparison, for each write in flight.
const ANSWERS: usize = 4;
/// Fewest answers in one turn of a comparison.
const MIN_ANSWERS: usize = 64;
/// Turns of each level in a comparison, so that other load on the machine affects both.
const TURNS: u32 = 3;
/// Time from a comparison that changed nothing to the next one. It doubles each time.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest such time.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Throughput measured at one level.
#[derive(Debug, Clone, Copy, Default)]
struct Throughput {
    answers: usize,
    took: Duration,
}

impl Throughput {
    // Counts of answers stay far below the 53 bits of a float.
    #[allow(clippy::cast_precision_loss)]
    fn per_second(self) -> f64 {
        self.answers as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// A comparison of another level with the current one.
#[derive(Debug)]
struct Comparison {
    other: usize,
    on_other: bool,
    turns: u32,
    held: Throughput,
    tried: Throughput,
}

/// The answers of one turn of a comparison.
#[derive(Debug, Default)]
struct Turn {
    /// Answers still to come for writes that were sent before the turn began.
    skip: usize,
    answers: usize,
    from: Option<Instant>,
}

/// The useful number of writes in flight.
#[derive(Debug)]
pub struct SharedLimit {
    max: usize,
    level: usize,
    comparison: Option<Comparison>,
    turn: Turn,
    next: Option<Instant>,
    pause: Duration,
}

impl SharedLimit {
    /// Creates a limit of at most `max`.
    pub(crate) fn new(max: u32) -> Self {
        let max = usize::try_from(max.max(1)).unwrap_or(usize::MAX);
        Self { max, level: FIRST.min(max), comparison: None, turn: Turn::default(), next: None, pause: PAUSE }
    }

    /// Returns how many writes should be in flight: at least 1.
    #[must_use]
    pub fn current(&self) -> usize {
        match &self.comparison {
            Some(comparison) if comparison.on_other => comparison.other,
            _ => self.level,
        }
    }

    /// Restarts the current turn, because fewer writes were in flight than allowed: throughput then says nothing
    /// about the server.
    pub(crate) fn idle(&mut self) {
        self.turn = Turn { skip: self.current(), ..Turn::default() };
    }

    /// Counts an answer that came while as many writes were in flight as allowed.
    pub(crate) fn answered(&mut self, at: Instant) {
        let Some(comparison) = &mut self.comparison else {
            if self.next.is_none_or(|next| at >= next) {
                self.compare(self.twice().or_else(|| self.half()), at);
            }
            return;
        };
        let turn = &mut self.turn;
        let Some(from) = turn.from else {
            turn.skip = turn.skip.saturating_sub(1);
            if turn.skip == 0 {
                turn.from = Some(at);
            }
            return;
        };
        turn.answers += 1;
        let in_flight = if comparison.on_other { comparison.other } else { self.level };
        if turn.answers < (in_flight * ANSWERS).max(MIN_ANSWERS) {
            return;
        }
        let written = if comparison.on_other { &mut comparison.tried } else { &mut comparison.held };
        written.answers += turn.answers;
        written.took += at.saturating_duration_since(from);
        comparison.turns += 1;
        comparison.on_other = !comparison.on_other;
        let ended = comparison.turns == 2 * TURNS;
        self.turn = Turn { skip: comparison.other.max(self.level), ..Turn::default() };
        if ended {
            self.judge(at);
        }
    }

    fn judge(&mut self, at: Instant) {
        let Some(Comparison { other, held, tried, .. }) = self.comparison.take() else { return };
        let share = tried.per_second() / held.per_second();
        let up = other > self.level;
        if share >= if up { WORTH } else { ENOUGH } {
            self.level = other;
            self.pause = PAUSE;
            let further = if up { self.twice() } else { self.half() };
            return self.compare(further, at);
        }
        // Half the level is tried next, unless that was tried just now.
        self.compare(self.half().filter(|_| up), at);
    }

    /// Begins a comparison with another level, or pauses if there is none.
    fn compare(&mut self, other: Option<usize>, at: Instant) {
        self.comparison = other.map(|other| Comparison {
            other,
            on_other: false,
            turns: 0,
            held: Throughput::default(),
            tried: Throughput::default(),
        });
        if self.comparison.is_none() {
            self.next = Some(at + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        self.idle();
    }

    fn twice(&self) -> Option<usize> {
        Some(self.level.saturating_mul(2).min(self.max)).filter(|twice| *twice > self.level)
    }

    fn half(&self) -> Option<usize> {
        Some((self.level / 2).max(LEAST)).filter(|half| *half < self.level)
    }
}
