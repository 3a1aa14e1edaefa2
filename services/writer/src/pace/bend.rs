//! How many writes side by side are enough: where throughput bends. More of them buy little, and whoever comes next waits
//! behind them in the API server. Found by what is written a second at one number and at twice or half of it, in turns;
//! never by a latency, which tells how busy the server is and not how much it could do (decision 15).

use std::time::{Duration, Instant};

/// What is tried first. Real API servers on few cores write four fifths of their most with so many.
const FIRST: usize = 8;
/// Fewer make each Service wait for the one before.
const LEAST: usize = 2;
/// Twice as many are worth it where they write so much more.
const WORTH: f64 = 1.2;
/// Half as many are enough where they write at least so much of it.
const ENOUGH: f64 = 0.9;
/// Answers that one turn of a comparison takes, for each write side by side, and at least.
const ANSWERS: usize = 4;
const FEWEST: usize = 64;
/// Turns of each number in a comparison: what else happens on the machine meets both.
const TURNS: u32 = 3;
/// From a comparison that changed nothing until the next one; twice as long each time.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What was written with a number of writes side by side.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    answers: usize,
    took: Duration,
}

impl Written {
    // No count of answers comes near the 53 bits of a float.
    #[allow(clippy::cast_precision_loss)]
    fn per_second(self) -> f64 {
        self.answers as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Another number is compared with the one that holds.
#[derive(Debug)]
struct Comparison {
    other: usize,
    on_other: bool,
    turns: u32,
    held: Written,
    tried: Written,
}

/// The answers of one turn.
#[derive(Debug, Default)]
struct Turn {
    /// Answers to what was sent before it.
    skip: usize,
    answers: usize,
    from: Option<Instant>,
}

/// See the module. Time is a parameter.
#[derive(Debug)]
pub struct Bend {
    most: usize,
    level: usize,
    comparison: Option<Comparison>,
    turn: Turn,
    next: Option<Instant>,
    pause: Duration,
}

impl Bend {
    /// `most`: as many as may ever be under way.
    pub(super) fn new(most: u32) -> Self {
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        Self { most, level: FIRST.min(most), comparison: None, turn: Turn::default(), next: None, pause: PAUSE }
    }

    /// So many are to be under way now: 1 at least.
    #[must_use]
    pub fn now(&self) -> usize {
        match &self.comparison {
            Some(comparison) if comparison.on_other => comparison.other,
            _ => self.level,
        }
    }

    /// Less was under way than might have been: what is being compared tells nothing of the server.
    pub(super) fn idle(&mut self) {
        self.turn = Turn { skip: self.now(), ..Turn::default() };
    }

    /// A write was answered while as many were under way as might be.
    pub(super) fn answered(&mut self, at: Instant) {
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
        let side_by_side = if comparison.on_other { comparison.other } else { self.level };
        if turn.answers < (side_by_side * ANSWERS).max(FEWEST) {
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
        // Half as many is the other question, unless that is what was asked just now.
        self.compare(self.half().filter(|_| up), at);
    }

    /// Begins to compare with another number, or rests where there is none.
    fn compare(&mut self, other: Option<usize>, at: Instant) {
        self.comparison = other.map(|other| Comparison {
            other,
            on_other: false,
            turns: 0,
            held: Written::default(),
            tried: Written::default(),
        });
        if self.comparison.is_none() {
            self.next = Some(at + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        self.idle();
    }

    fn twice(&self) -> Option<usize> {
        Some(self.level.saturating_mul(2).min(self.most)).filter(|twice| *twice > self.level)
    }

    fn half(&self) -> Option<usize> {
        Some((self.level / 2).max(LEAST)).filter(|half| *half < self.level)
    }
}
