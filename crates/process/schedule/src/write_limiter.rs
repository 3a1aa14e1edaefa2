//! How fast one server is written to.

use std::time::{Duration, Instant};

use crate::concurrency_limit::{ConcurrencyLimit, WriteResult, WriteSample};
use crate::shared_limit::SharedLimit;
use crate::token_bucket::TokenBucket;

/// How much the rate limits may save up: a burst is sent at once, and no second sees much more than the rate.
const BURST: Duration = Duration::from_millis(250);

/// Limits set by the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimiterSettings {
    /// Most writes in flight.
    pub concurrency: u32,
    /// Latency above which fewer writes are sent in parallel; zero: latency is not considered.
    pub latency_target: Duration,
    /// Most writes a second; 0: no limit.
    pub qps: u32,
    /// Most bytes a second that the server may have to send to the watchers of what is written; 0: no limit.
    pub fanout: u64,
    /// The number of those watchers.
    pub watchers: u32,
}

/// Why no write may start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The server asked for a pause.
    Pause,
    /// The limit on writes a second is reached.
    Qps,
    /// The limit on bytes sent to watchers is reached.
    Fanout,
    /// The limit on writes in flight is reached.
    Concurrency,
    /// The lower limit that holds while several tenants share the server is reached.
    Shared,
}

impl WaitReason {
    /// Returns the reason as metrics spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Qps => "write_qps",
            Self::Fanout => "write_fanout",
            Self::Concurrency => "concurrency",
            Self::Shared => "shared",
        }
    }
}

/// Which writes may start now. The number is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// This many writes of any tenant.
    Anybody(usize),
    /// This many writes, each a fresh change of a tenant that has nothing in flight. Other work waits until fewer
    /// writes are in flight, so that it does not delay such a change.
    Quiet(usize),
}

/// Limits writes to one server: concurrency adapts to its latency and its refusals, under a fixed rate of writes and of
/// bytes.
#[derive(Debug)]
pub struct WriteLimiter {
    concurrency: ConcurrencyLimit,
    shared: SharedLimit,
    /// Whether several tenants share the server. Then no more writes go in flight than are useful, because the next
    /// tenant would wait behind them.
    is_shared: bool,
    writes: Option<TokenBucket>,
    fanout: Option<TokenBucket>,
    watchers: u32,
}

impl WriteLimiter {
    /// Creates a limiter. It starts with the highest concurrency that the settings allow.
    #[must_use]
    pub fn new(settings: &LimiterSettings) -> Self {
        let bucket = |rate: u64| (rate > 0).then(|| TokenBucket::new(rate, BURST));
        Self {
            concurrency: ConcurrencyLimit::new(settings.concurrency, settings.latency_target),
            shared: SharedLimit::new(settings.concurrency),
            is_shared: false,
            writes: bucket(settings.qps.into()),
            fanout: bucket(settings.fanout),
            watchers: settings.watchers,
        }
    }

    /// Returns how many writes may start beside the `in_flight` ones. `is_shared` is [`Queue::is_shared`].
    ///
    /// # Errors
    /// Returns the reason why none may start.
    ///
    /// [`Queue::is_shared`]: crate::Queue::is_shared
    pub fn room(
        &mut self,
        in_flight: usize,
        is_shared: bool,
        paused_until: Option<Instant>,
        now: Instant,
    ) -> Result<Room, WaitReason> {
        if is_shared != self.is_shared {
            self.is_shared = is_shared;
            self.shared.idle();
        }
        if paused_until.is_some_and(|until| now < until) {
            return Err(WaitReason::Pause);
        }
        for bucket in [&mut self.writes, &mut self.fanout].into_iter().flatten() {
            bucket.refill(now);
        }
        self.affordable()?;
        let room = |limit: usize| limit.checked_sub(in_flight).filter(|room| *room > 0);
        let limit = self.concurrency.current();
        let anybody = if is_shared { limit.min(self.shared.current()) } else { limit };
        let anybody = room(anybody).map(Room::Anybody);
        anybody.or_else(|| room(limit).map(Room::Quiet)).ok_or(WaitReason::Concurrency)
    }

    /// Records that there was room and nothing to write.
    pub fn idle(&mut self) {
        self.shared.idle();
    }

    /// Pays for the first of these writes, which is about to start, and for as many of the following as the rates
    /// allow. Returns how many were paid for. `size` returns the bytes of a write; it is called only if bytes are
    /// limited.
    pub fn pay<W>(&mut self, writes: &[W], size: impl Fn(&W) -> u64) -> usize {
        let mut paid = 0;
        for write in writes {
            if paid > 0 && self.affordable().is_err() {
                break;
            }
            if let Some(bucket) = &mut self.writes {
                bucket.spend(1);
            }
            if let Some(bucket) = &mut self.fanout {
                bucket.spend(size(write).saturating_mul(self.watchers.into()));
            }
            paid += 1;
        }
        paid
    }

    /// Pays for one write that is not sent to any watcher.
    pub fn pay_one(&mut self) {
        if let Some(bucket) = &mut self.writes {
            bucket.spend(1);
        }
    }

    fn affordable(&self) -> Result<(), WaitReason> {
        match (&self.writes, &self.fanout) {
            (Some(bucket), _) if !bucket.has_any() => Err(WaitReason::Qps),
            (_, Some(bucket)) if !bucket.has_any() => Err(WaitReason::Fanout),
            _ => Ok(()),
        }
    }

    /// Takes in how a write ended.
    pub fn answered(&mut self, sample: &WriteSample) {
        self.concurrency.answered(sample);
        if self.is_shared && sample.result == WriteResult::Answered {
            self.shared.answered(sample.sent + sample.took);
        }
    }

    /// Returns the concurrency limit that holds while several tenants share the server.
    #[must_use]
    pub fn shared_limit(&self) -> &SharedLimit {
        &self.shared
    }

    /// Returns the concurrency limit.
    #[must_use]
    pub fn concurrency_limit(&self) -> &ConcurrencyLimit {
        &self.concurrency
    }

    /// Returns when to ask for room again, if the rates or a pause prevent writes now.
    #[must_use]
    pub fn wake_at(&self, paused_until: Option<Instant>, now: Instant) -> Option<Instant> {
        let buckets = [&self.writes, &self.fanout].into_iter().flatten().filter_map(TokenBucket::next);
        buckets.chain(paused_until).filter(|at| *at > now).max()
    }
}

#[cfg(test)]
#[path = "write_limiter_tests.rs"]
mod tests;
