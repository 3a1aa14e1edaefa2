//! How many writes may be under way side by side, by how the API server answers (decision 12).

use std::time::{Duration, Instant};

/// Answers that make a judgement, at least: so that one slow answer is not the tenth that counts.
const WINDOW: usize = 10;
/// As many as may be under way make a judgement, unless the server takes longer than this for them.
const LONG: Duration = Duration::from_secs(1);
/// By how much our own writes may slow down a server that takes longer than the target even for one at a time.
const TOLERANCE: u32 = 2;
/// What is left after a 429, and when nothing is answered any more.
const HALF: f64 = 0.5;
/// What is left when answers are late, at least: latency may be high for a moment only, and to write too little costs, too.
const HARDEST: f64 = 0.7;
/// And at most.
const SOFTEST: f64 = 0.95;
/// Below this the server answers one write at a time, and what it takes is not of our making.
const ALONE: f64 = 2.0;
/// What each answer adds that takes less than half of what is tolerated: a quarter more side by side each round.
const BRISK: f64 = 0.25;
/// How quickly a server that became faster is held to it: this part of the way with each judgement.
const FORGET: u32 = 8;
/// What a write took that was never answered.
const NEVER: Duration = Duration::MAX;

/// How a write ended, as far as it tells of the API server and not of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It was answered, with yes or no.
    Answered,
    /// 429.
    Throttled,
    /// 5xx, a broken connection, or no answer in time.
    Trouble,
}

/// What the answer to a write tells of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// When the write was sent.
    pub sent: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// How it ended.
    pub sign: Sign,
}

/// Additive increase, with each answer in time; multiplicative decrease, when of a window of answers more than one in ten
/// is late, and with a 429.
#[derive(Debug)]
pub struct Limit {
    most: f64,
    limit: f64,
    target: Duration,
    /// Above it a 429 came: from here on the way up is a slow one.
    refused: f64,
    /// What was sent before tells of an earlier limit: the many signs of one storm are one.
    since: Option<Instant>,
    window: Vec<Duration>,
    opened: Option<Instant>,
    /// What most answers take when we write one at a time.
    alone: Option<Duration>,
    latest: Option<Duration>,
}

impl Limit {
    /// Begins with `most`; keeps answers within `target` (zero: of latency nothing is made).
    #[must_use]
    pub fn new(most: u32, target: Duration) -> Self {
        let most = f64::from(most.max(1));
        let (window, limit) = (Vec::new(), most);
        Self { most, limit, target, refused: most, since: None, window, opened: None, alone: None, latest: None }
    }

    /// So many may be under way now: 1 at least.
    #[must_use]
    pub fn now(&self) -> usize {
        // It lies between 1 and the 32 bits of `most`.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let now = self.limit as usize;
        now
    }

    /// What nine of ten answers took at most, when that was judged last. `None`: not yet, or they did not come.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.latest.filter(|latest| *latest != NEVER)
    }

    /// What they may take; `None`: any time. Where the server takes long even when we write one at a time, fewer writes
    /// side by side do not help it: then twice as long.
    #[must_use]
    pub fn tolerated(&self) -> Option<Duration> {
        let alone = self.alone.map_or(Duration::ZERO, |alone| alone.saturating_mul(TOLERANCE));
        (!self.target.is_zero()).then(|| self.target.max(alone))
    }

    /// A write was answered, or its time ran out.
    pub fn answered(&mut self, answer: &Answer) {
        if self.since.is_some_and(|since| answer.sent < since) {
            return;
        }
        let at = answer.sent + answer.took;
        let took = match answer.sign {
            Sign::Throttled => {
                self.shrink(HALF, at);
                self.refused = self.limit;
                return;
            }
            Sign::Trouble => NEVER,
            Sign::Answered => answer.took,
        };
        if self.in_time(took) {
            let brisk = self.limit < self.refused && self.in_time(took.saturating_mul(2));
            let step = if brisk { BRISK } else { 0.0 };
            self.limit = (self.limit + step.max(1.0 / self.limit)).min(self.most);
            self.refused = self.refused.max(self.limit);
        }
        self.window.push(took);
        let opened = *self.opened.get_or_insert(at);
        let enough = self.window.len() >= self.now() || at.saturating_duration_since(opened) >= LONG;
        if self.window.len() >= WINDOW && enough {
            self.judge(at);
        }
    }

    fn in_time(&self, took: Duration) -> bool {
        took != NEVER && self.tolerated().is_none_or(|tolerated| took <= tolerated)
    }

    fn judge(&mut self, at: Instant) {
        self.window.sort_unstable();
        let rank = (self.window.len() * 9).div_ceil(10) - 1;
        let took = self.window.get(rank).copied().unwrap_or(NEVER);
        self.close_window();
        self.latest = Some(took);
        if took == NEVER {
            return self.shrink(HALF, at);
        }
        if self.limit < ALONE {
            self.alone = Some(took);
        } else if let Some(alone) = &mut self.alone {
            *alone -= alone.saturating_sub(took) / FORGET;
        }
        if let Some(tolerated) = self.tolerated().filter(|tolerated| took > *tolerated) {
            // At a server that is busy all the time, latency grows as the number of writes that wait there.
            self.shrink((tolerated.as_secs_f64() / took.as_secs_f64()).clamp(HARDEST, SOFTEST), at);
        }
    }

    fn shrink(&mut self, factor: f64, at: Instant) {
        self.limit = (self.limit * factor).max(1.0);
        self.since = Some(at);
        self.close_window();
    }

    fn close_window(&mut self) {
        self.window.clear();
        self.opened = None;
    }
}
