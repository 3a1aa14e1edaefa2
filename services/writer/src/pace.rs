//! How fast we write: side by side as much as the API server takes, fewer when it is in pain, and never more a second
//! than we were told. Pure: time is a parameter.

mod bend;
mod budget;
mod limit;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use gimbal_plan::Action;

pub use bend::Bend;
use budget::Budget;
pub use limit::{Answer, Limit, Sign};

/// What people say of how fast we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceSettings {
    /// Most writes under way side by side.
    pub concurrency: u32,
    /// What a write may take before fewer go side by side; zero: any time.
    pub latency_target: Duration,
    /// Most writes a second; 0: any number.
    pub qps: u32,
    /// Most bytes a second that the API server has to send to those who watch what we write; 0: any number.
    pub fanout: u64,
    /// How many they are.
    pub watchers: u32,
}

/// What stands in the way of a write that could go otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The API server asked us to leave it alone for a time.
    Pause,
    /// `--write-qps`.
    Qps,
    /// `--write-fanout`.
    Fanout,
    /// As many are under way as may be.
    Concurrency,
    /// As many are under way as are of use while several backends share the API server.
    Shared,
}

impl Wait {
    /// As metrics name it.
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

/// What may be started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// So many writes of anybody.
    Anybody(usize),
    /// So many writes of a fresh change of a backend of which nothing is under way: what others have to write waits until
    /// less is under way, and this does not.
    Quiet(usize),
}

/// See the module.
#[derive(Debug)]
pub struct Pace {
    limit: Limit,
    bend: Bend,
    /// Whoever comes next waits for what is under way: no more than is of use.
    shared: bool,
    writes: Option<Budget>,
    fanout: Option<Budget>,
    watchers: u32,
}

impl Pace {
    /// Nothing is under way yet.
    #[must_use]
    pub fn new(settings: &PaceSettings) -> Self {
        Self {
            limit: Limit::new(settings.concurrency, settings.latency_target),
            bend: Bend::new(settings.concurrency),
            shared: false,
            writes: Budget::new(settings.qps.into()),
            fanout: Budget::new(settings.fanout),
            watchers: settings.watchers,
        }
    }

    /// How many more writes may go side by side with the `under_way` ones; never 0. `shared`: fresh changes and other work
    /// are about at the same time.
    ///
    /// # Errors
    /// What stands in the way of any.
    pub fn room(
        &mut self,
        under_way: usize,
        shared: bool,
        paused_until: Option<Instant>,
        now: Instant,
    ) -> Result<Room, Wait> {
        if shared != self.shared {
            self.shared = shared;
            self.bend.idle();
        }
        if paused_until.is_some_and(|until| now < until) {
            return Err(Wait::Pause);
        }
        for budget in [&mut self.writes, &mut self.fanout].into_iter().flatten() {
            budget.refill(now);
        }
        self.affordable()?;
        let room = |most: usize| most.checked_sub(under_way).filter(|room| *room > 0);
        let most = self.limit.now();
        let anybody = if shared { most.min(self.bend.now()) } else { most };
        let anybody = room(anybody).map(Room::Anybody);
        anybody.or_else(|| room(most).map(Room::Quiet)).ok_or(Wait::Concurrency)
    }

    /// There was room, and nothing to write.
    pub fn idle(&mut self) {
        self.bend.idle();
    }

    /// Pays for the first of these writes, which are to start now, and for as many more as the budgets allow. Returns how
    /// many: the others are decided anew when their time comes, by what is wanted then.
    pub fn pay(&mut self, writes: &[Action]) -> usize {
        let mut paid = 0;
        for write in writes {
            if paid > 0 && self.affordable().is_err() {
                break;
            }
            if let Some(budget) = &mut self.writes {
                budget.spend(1);
            }
            if let Some(budget) = &mut self.fanout {
                budget.spend(budget::size(write).saturating_mul(self.watchers.into()));
            }
            paid += 1;
        }
        paid
    }

    /// Pays for one write of which nobody who watches our objects hears.
    pub fn pay_one(&mut self) {
        if let Some(budget) = &mut self.writes {
            budget.spend(1);
        }
    }

    fn affordable(&self) -> Result<(), Wait> {
        match (&self.writes, &self.fanout) {
            (Some(budget), _) if !budget.has_any() => Err(Wait::Qps),
            (_, Some(budget)) if !budget.has_any() => Err(Wait::Fanout),
            _ => Ok(()),
        }
    }

    /// A write was answered, or its time ran out.
    pub fn answered(&mut self, answer: &Answer) {
        self.limit.answered(answer);
        if self.shared && answer.sign == Sign::Answered {
            self.bend.answered(answer.sent + answer.took);
        }
    }

    /// How many of anybody's may go side by side while several share the API server.
    #[must_use]
    pub fn bend(&self) -> &Bend {
        &self.bend
    }

    /// How many may go side by side, and why.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// When to ask again, if only time stands in the way.
    #[must_use]
    pub fn wake_at(&self, paused_until: Option<Instant>, now: Instant) -> Option<Instant> {
        let budgets = [&self.writes, &self.fanout].into_iter().flatten().filter_map(Budget::next);
        budgets.chain(paused_until).filter(|at| *at > now).max()
    }
}
