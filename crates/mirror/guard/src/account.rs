//! One target: what it had within the window, what it has, and what it would lose.

use std::time::{Duration, Instant};

use crate::floors::Part;
use crate::pending::Pending;

/// The window is kept in so many pieces.
const PIECES: u32 = 64;

/// It had `level` until `until`, and fewer since.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: Instant,
    until: Instant,
    level: u64,
}

/// See the module. Only kept of targets that lost something within the window, or are about to.
#[derive(Debug, Clone)]
pub(crate) struct Account<S> {
    /// Endpoints that it has.
    now: u64,
    /// More than that it had within the window: falling, the largest first. Steps of nearly one time are one, which counts
    /// until the last of them is out of the window: rather too long than too short.
    steps: Vec<Step>,
    /// Whose endpoints it lost last.
    pub(crate) source: Option<S>,
    /// When it lost something last, even if that is back.
    fell: Option<Instant>,
    pub(crate) pending: Pending,
    /// What was let pass since it was last known to be at rest. A write that is under way does all of it, whatever is wanted
    /// by now.
    pub(crate) granted: u64,
    /// Nobody knows whether a write of that was done.
    pub(crate) in_doubt: bool,
    /// Of what it has, what is in another target too while it moves there.
    pub(crate) twice: u64,
}

impl<S> Default for Account<S> {
    fn default() -> Self {
        Self {
            now: 0,
            steps: Vec::new(),
            source: None,
            fell: None,
            pending: Pending::default(),
            granted: 0,
            in_doubt: false,
            twice: 0,
        }
    }
}

impl<S: Clone + Eq> Account<S> {
    pub(crate) fn having(now: u64) -> Self {
        Self { now, ..Self::default() }
    }

    /// The most that it had within the window.
    pub(crate) fn peak(&self) -> u64 {
        self.steps.first().map_or(self.now, |step| step.level)
    }

    /// Of those, how many it has not now.
    pub(crate) fn missing(&self) -> u64 {
        self.peak().saturating_sub(self.now)
    }

    /// Of what is missing, or may be by what is under way, what one does not see who knows that it had `listed`.
    pub(crate) fn unlisted(&self, listed: u64) -> u64 {
        self.unlisted_with(self.granted, listed)
    }

    /// The same, if so much were let pass.
    pub(crate) fn unlisted_with(&self, granted: u64, listed: u64) -> u64 {
        (self.missing() + granted).min(self.peak().saturating_sub(listed))
    }

    /// What may go yet, wanted or not: a write that is under way is not called back.
    pub(crate) fn at_risk(&self) -> u64 {
        self.pending.waiting().max(self.granted)
    }

    pub(crate) fn part(&self) -> Part {
        Part { of: self.now, loss: self.pending.loss, waiting: self.pending.waiting() }
    }

    /// What is missing was this source Service's; nothing of it is there, and nothing is under way.
    pub(crate) fn was_of(&self, source: &S) -> bool {
        self.source.as_ref() == Some(source) && self.now == 0 && self.pending.loss == 0 && self.granted == 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        let lost = !self.steps.is_empty() || self.fell.is_some();
        !lost && self.pending.loss == 0 && self.granted == 0 && self.twice == 0
    }

    /// It has so many, and nothing is under way that is not in doubt. Of what it lost, `forgiven` counts as if it never had been.
    pub(crate) fn set(&mut self, count: u64, forgiven: u64, at: Instant, window: Duration) {
        let fallen = self.now.saturating_sub(count);
        self.pending.fell(fallen);
        self.granted = if self.in_doubt { self.granted.saturating_sub(fallen) } else { 0 };
        self.twice = self.twice.min(count);
        let forgiven = forgiven.min(fallen);
        let had = self.now - forgiven;
        for step in &mut self.steps {
            step.level = step.level.saturating_sub(forgiven);
        }
        self.now = count;
        if had > count {
            self.had(had, at, window);
        } else {
            self.drop_reached();
        }
    }

    /// It had so many until now, and lost what it has not any more.
    pub(crate) fn had(&mut self, level: u64, at: Instant, window: Duration) {
        self.fell = Some(at);
        while self.steps.pop_if(|step| step.level <= level).is_some() {}
        match self.steps.last_mut().filter(|last| at.saturating_duration_since(last.from) <= window / PIECES) {
            Some(last) => last.until = at,
            None => self.steps.push(Step { from: at, until: at, level }),
        }
        self.drop_reached();
    }

    /// What another target had is its own past from now on; but `released` of it counts as if it never had been.
    pub(crate) fn inherit(&mut self, other: &Self, released: u64) {
        let theirs = other.steps.iter().map(|step| Step { level: step.level.saturating_sub(released), ..*step });
        let mut all: Vec<Step> = self.steps.iter().copied().chain(theirs).collect();
        all.sort_by_key(|step| step.until);
        let mut most = self.now;
        self.steps.clear();
        for step in all.into_iter().rev() {
            if step.level > most {
                most = step.level;
                self.steps.push(step);
            }
        }
        self.steps.reverse();
        self.fell = self.fell.max(other.fell);
        self.source = self.source.take().or_else(|| other.source.clone());
    }

    /// What it has again it does not miss.
    fn drop_reached(&mut self) {
        while self.steps.pop_if(|step| step.level <= self.now).is_some() {}
    }

    /// When it next may be out of the window that something was lost.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.steps.first().map(|step| step.until).or(self.fell)
    }

    /// Forgets what is out of the window.
    pub(crate) fn expire(&mut self, now: Instant, window: Duration) {
        let out = |at: Instant| now.saturating_duration_since(at) >= window;
        self.steps.retain(|step| !out(step.until));
        self.fell.take_if(|fell| out(*fell));
    }
}
