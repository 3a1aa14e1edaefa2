//! Writes in flight to one or several servers, each server under its own limiter.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::concurrency_limit::WriteSample;
use crate::write_limiter::{LimiterSettings, Room, WaitReason, WriteLimiter};

/// The writes in flight under one [`WriteLimiter`].
#[derive(Debug)]
pub struct InFlight {
    limiter: WriteLimiter,
    writes: usize,
    /// Whether a single write was started last, so that jobs go before the next one.
    jobs_first: bool,
    /// Why no job could start, and when that was set last.
    waiting: Option<(WaitReason, Instant)>,
}

impl InFlight {
    /// Creates a state with no write in flight.
    #[must_use]
    pub fn new(limiter: WriteLimiter) -> Self {
        Self { limiter, writes: 0, jobs_first: false, waiting: None }
    }

    /// Returns which writes may start now; see [`WriteLimiter::room`].
    ///
    /// # Errors
    /// Returns the reason why none may start.
    pub fn room(&mut self, is_shared: bool, paused: Option<Instant>, now: Instant) -> Result<Room, WaitReason> {
        self.limiter.room(self.writes, is_shared, paused, now)
    }

    /// Records that there was room for any tenant's write, and nothing to write.
    pub fn idle(&mut self) {
        self.limiter.idle();
        self.jobs_first = false;
    }

    /// Pays for the writes of a job that is about to start; see [`WriteLimiter::pay`].
    pub fn pay<W>(&mut self, writes: &[W], size: impl Fn(&W) -> u64) -> usize {
        self.jobs_first = false;
        self.limiter.pay(writes, size)
    }

    /// Records that a job started, which has at most `width` writes in flight.
    pub fn start(&mut self, width: usize) {
        self.writes += width;
    }

    /// Records that such a job ended.
    pub fn done(&mut self, width: usize) {
        self.writes -= width;
    }

    /// Starts and pays for a single write that belongs to no job, if one may start now. Single writes and jobs
    /// alternate where both wait. Call [`InFlight::done`] with 1 when it ends.
    pub fn start_single(&mut self, is_shared: bool, paused_until: Option<Instant>, now: Instant) -> bool {
        if self.jobs_first || self.room(is_shared, paused_until, now).is_err() {
            return false;
        }
        self.limiter.pay_one();
        self.start(1);
        self.jobs_first = true;
        true
    }

    /// Takes in how a write ended.
    pub fn answered(&mut self, sample: &WriteSample) {
        self.limiter.answered(sample);
    }

    /// Sets why no further job can start, or `None` if none waits. Returns the previous reason and the time since it
    /// was set.
    pub fn set_waiting(&mut self, reason: Option<WaitReason>, now: Instant) -> Option<(WaitReason, Duration)> {
        let ended = self.waiting.take().map(|(reason, since)| (reason, now.saturating_duration_since(since)));
        self.waiting = reason.map(|reason| (reason, now));
        ended
    }

    /// Returns the limiter, for metrics and deadlines.
    #[must_use]
    pub fn limiter(&self) -> &WriteLimiter {
        &self.limiter
    }
}

/// Writes to several servers, or on behalf of several projects, that are limited independently of each other. A lane is
/// created when it is first used, with the same settings as every other.
#[derive(Debug)]
pub struct Lanes<L> {
    settings: LimiterSettings,
    lanes: BTreeMap<L, InFlight>,
}

impl<L: Ord + Clone> Lanes<L> {
    /// Creates a set without lanes.
    #[must_use]
    pub fn new(settings: LimiterSettings) -> Self {
        Self { settings, lanes: BTreeMap::new() }
    }

    /// Returns a lane.
    pub fn lane(&mut self, lane: &L) -> &mut InFlight {
        let settings = &self.settings;
        self.lanes.entry(lane.clone()).or_insert_with(|| InFlight::new(WriteLimiter::new(settings)))
    }

    /// Forgets a lane that is no longer used.
    pub fn remove(&mut self, lane: &L) {
        self.lanes.remove(lane);
    }

    /// Returns when to ask the lanes for room again, if the rates or a pause prevent writes in some of them now.
    #[must_use]
    pub fn wake_at(&self, paused_until: Option<Instant>, now: Instant) -> Option<Instant> {
        self.lanes.values().filter_map(|lane| lane.limiter().wake_at(paused_until, now)).min()
    }
}
