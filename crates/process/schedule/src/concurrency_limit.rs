//! How many writes may be in flight, judged by how the server answers.

use std::time::{Duration, Instant};

/// Fewest answers in a window, so that a single slow answer is not the one in ten that counts.
const MIN_WINDOW: usize = 10;
/// A window normally holds as many answers as writes may be in flight; after this time it is judged with fewer, but
/// with at least `MIN_WINDOW`.
const MAX_WINDOW_TIME: Duration = Duration::from_secs(1);
/// Factor by which our own writes may slow the server down, compared with a lone write, where that is more than the
/// target.
const TOLERANCE: u32 = 2;
/// Factor applied to the limit after a 429, or when more than one in ten writes of a window ended in
/// [`WriteResult::Trouble`].
const HALF: f64 = 0.5;
/// Smallest factor applied when answers are late. Latency may be high for a moment only, and writing too little costs,
/// too.
const HARDEST: f64 = 0.7;
/// Largest factor applied when answers are late.
const SOFTEST: f64 = 0.95;
/// Below this limit only one write at a time is in flight, so latency is not caused by our own other writes.
const ALONE: f64 = 2.0;
/// Added to the limit by each answer that takes at most half of what is tolerated, while the limit is below the highest
/// one since the last 429: a quarter more each round.
const BRISK: f64 = 0.25;
/// Each judgement moves the measured latency of a lone write by one part in this many of the way towards a lower one.
const FORGET: u32 = 8;
/// Latency that counts for a write that ended in [`WriteResult::Trouble`].
const NEVER: Duration = Duration::MAX;

/// How a write ended, as far as that depends on the server and not on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    /// The server accepted or refused the object.
    Answered,
    /// The server answered 429.
    Throttled,
    /// The server answered 5xx, the connection broke, or the request timed out.
    Trouble,
}

/// One write, as input to the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSample {
    /// When the write was sent.
    pub sent: Instant,
    /// Time until it was answered or given up.
    pub took: Duration,
    /// How it ended.
    pub result: WriteResult,
}

/// A limit on the writes in flight, by additive increase and multiplicative decrease: it grows with each answer in
/// time, and shrinks with a 429 or when more than one in ten answers of a window is late.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    max: f64,
    limit: f64,
    target: Duration,
    /// The highest limit since the last 429; at first the maximum. From there on the limit grows slowly.
    refused: f64,
    /// When the limit shrank last. Writes sent before that were sent under a higher limit and are ignored, so that the
    /// many refusals of one storm count once.
    since: Option<Instant>,
    window: Vec<Duration>,
    opened: Option<Instant>,
    /// The 90th percentile of the latency while one write at a time is sent, later lowered by shorter ones.
    alone: Option<Duration>,
    latest: Option<Duration>,
}

impl ConcurrencyLimit {
    /// Creates a limit that starts at its maximum `max` and keeps latency within `target`. A target of zero means that
    /// latency is not considered.
    #[must_use]
    pub fn new(max: u32, target: Duration) -> Self {
        let max = f64::from(max.max(1));
        let (window, limit) = (Vec::new(), max);
        Self { max, limit, target, refused: max, since: None, window, opened: None, alone: None, latest: None }
    }

    /// Returns how many writes may be in flight: at least 1.
    #[must_use]
    pub fn current(&self) -> usize {
        // It lies between 1 and `max`, which was 32 bits wide.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let current = self.limit as usize;
        current
    }

    /// Returns the 90th percentile of the latency in the last window. `None` before the first window ends, and if more
    /// than one in ten writes of the last one ended in [`WriteResult::Trouble`].
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.latest.filter(|latest| *latest != NEVER)
    }

    /// Returns the latency above which the limit shrinks; `None` means never. That is the target, or twice the latency
    /// of a lone write where that is longer: fewer writes in flight would not make such a server faster.
    #[must_use]
    pub fn tolerated(&self) -> Option<Duration> {
        let alone = self.alone.map_or(Duration::ZERO, |alone| alone.saturating_mul(TOLERANCE));
        (!self.target.is_zero()).then(|| self.target.max(alone))
    }

    /// Takes in how a write ended.
    pub fn answered(&mut self, sample: &WriteSample) {
        if self.since.is_some_and(|since| sample.sent < since) {
            return;
        }
        let at = sample.sent + sample.took;
        let took = match sample.result {
            WriteResult::Throttled => {
                self.shrink(HALF, at);
                self.refused = self.limit;
                return;
            }
            WriteResult::Trouble => NEVER,
            WriteResult::Answered => sample.took,
        };
        if self.in_time(took) {
            let brisk = self.limit < self.refused && self.in_time(took.saturating_mul(2));
            let step = if brisk { BRISK } else { 0.0 };
            self.limit = (self.limit + step.max(1.0 / self.limit)).min(self.max);
            self.refused = self.refused.max(self.limit);
        }
        self.window.push(took);
        let opened = *self.opened.get_or_insert(at);
        let enough = self.window.len() >= self.current() || at.saturating_duration_since(opened) >= MAX_WINDOW_TIME;
        if self.window.len() >= MIN_WINDOW && enough {
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
            // At a server that is always busy, latency is proportional to the number of writes that wait there.
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
