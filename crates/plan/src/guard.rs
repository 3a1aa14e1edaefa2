//! The mass-change guard of one backend (DESIGN 2, rule 5): holds removals when too many come within a window.

mod history;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_model::TargetKey;

use crate::Removals;
use crate::print::Printer;
use history::History;

/// When the guard holds, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardConfig {
    /// Share of the endpoints that may go within the window; 100 or more never holds.
    pub max_drop_percent: u8,
    /// So many may always go within the window.
    pub min_endpoints: u64,
    /// Length of the window.
    pub window: Duration,
    /// A complete snapshot that was begun this long after a partial drop confirms it.
    pub quiet_time: Duration,
    /// Any drop is let through after this time; `None`: never.
    pub release_all_after: Option<Duration>,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            max_drop_percent: 50,
            min_endpoints: 20,
            window: Duration::from_secs(60),
            quiet_time: Duration::from_secs(60),
            release_all_after: None,
        }
    }
}

/// Why held removals are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// A later snapshot said so again.
    Snapshot,
    /// A person did.
    Approval,
    /// `release_all_after` is over.
    Age,
}

/// What happened to a hold, for logs, metrics and the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardEvent {
    /// Removals are held. Told again, with another id, when a partial drop became one to nothing, or the reverse.
    Held(HeldDrop),
    /// So little is missing by now that nothing need be held.
    Ended {
        /// Of the hold.
        id: String,
    },
    /// Removals are let through.
    Released {
        /// Of the hold.
        id: String,
        /// Endpoints that may go.
        endpoints: u64,
        /// Why.
        by: Release,
    },
    /// A complete snapshot that begins now would decide.
    SnapshotWanted {
        /// Of the hold.
        id: String,
    },
}

/// Removals that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDrop {
    /// For an approval. It changes when a partial drop becomes one to nothing: that is not what a person approved.
    pub id: String,
    /// Endpoints that wait to go.
    pub endpoints_removed: u64,
    /// Endpoints that the share is taken of.
    pub endpoints_before: u64,
    /// Services that lose endpoints.
    pub targets: usize,
    /// Since when.
    pub since: Instant,
    /// Nothing would remain of the backend.
    pub to_nothing: bool,
}

/// See the module. One for each backend. Time is a parameter and never goes back.
#[derive(Debug, Clone)]
pub struct Guard {
    config: GuardConfig,
    history: History,
    total: u64,
    pending: BTreeMap<TargetKey, Pending>,
    /// Sum over `pending`.
    sum: Pending,
    hold: Option<Hold>,
    holds: u64,
    asked: Option<Instant>,
    events: Vec<GuardEvent>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    loss: u64,
    /// The part of `loss` that may go.
    released: u64,
    /// The largest loss so far, and since when.
    peak: u64,
    since: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Hold {
    id: String,
    since: Instant,
    to_nothing: bool,
}

impl Guard {
    /// A guard that knows of nothing yet. Before any loss it must be told what is [`Guard::observed`].
    #[must_use]
    pub fn new(config: GuardConfig) -> Self {
        Self {
            config,
            history: History::new(config.window),
            total: 0,
            pending: BTreeMap::new(),
            sum: Pending::default(),
            hold: None,
            holds: 0,
            asked: None,
            events: Vec::new(),
        }
    }

    /// So many endpoints of the backend does the Gimbal cluster hold now.
    pub fn observed(&mut self, total: u64, now: Instant) {
        self.total = total;
        self.history.total(total, now);
        self.refresh(now);
    }

    /// The target's plan would lose so many endpoints; 0: none, or none any more. Of a change of many targets, each must be
    /// told before the first verdict is asked for, or the first ones slip through.
    pub fn pending(&mut self, target: &TargetKey, loss: u64, now: Instant) {
        let old = self.pending.get(target).copied().unwrap_or_default();
        let grown = loss > old.peak;
        self.put(
            target,
            Pending {
                loss,
                released: old.released.min(loss),
                peak: old.peak.max(loss),
                since: if grown { Some(now) } else { old.since },
            },
        );
        self.refresh(now);
    }

    /// So many endpoints of the target were removed. They are not pending any more.
    pub fn applied(&mut self, target: &TargetKey, loss: u64, now: Instant) {
        let old = self.pending.get(target).copied().unwrap_or_default();
        let released = old.released.min(loss);
        self.put(target, Pending { loss: old.loss.saturating_sub(loss), released: old.released - released, ..old });
        self.total = self.total.saturating_sub(loss);
        self.history.applied(loss - released, now);
        self.history.forgive(released);
        self.refresh(now);
    }

    /// Whether the target's removals may be written now.
    pub fn verdict(&mut self, target: &TargetKey, now: Instant) -> Removals {
        self.refresh(now);
        let part = self.pending.get(target).is_some_and(|pending| pending.loss > pending.released);
        if part && self.hold.is_some() { Removals::Held } else { Removals::Allowed }
    }

    /// A complete snapshot was begun at `begun`, and what it says has been told as [`Guard::pending`]. Lets a partial drop
    /// through, as far as it is older than the snapshot by the quiet time; true if anything was let through.
    pub fn snapshot_complete(&mut self, begun: Instant, now: Instant) -> bool {
        self.refresh(now);
        let partial = self.hold.as_ref().is_some_and(|hold| !hold.to_nothing);
        let released = partial && self.release(Release::Snapshot, Some((begun, self.config.quiet_time))) > 0;
        self.refresh(now);
        released
    }

    /// A person approves the hold. The endpoints that may go now; `None` if there is no such hold (any more).
    pub fn approve(&mut self, id: &str) -> Option<u64> {
        self.hold.as_ref().filter(|hold| hold.id == id)?;
        let released = self.release(Release::Approval, None);
        self.hold = None;
        Some(released)
    }

    /// Lets through what is old enough, and tells what happened since the last time. To be called now and then.
    pub fn tick(&mut self, now: Instant) -> Vec<GuardEvent> {
        self.refresh(now);
        if let Some(after) = self.config.release_all_after.filter(|_| self.hold.is_some()) {
            self.release(Release::Age, Some((now, after)));
            self.refresh(now);
        }
        let due = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= self.config.quiet_time);
        if let Some(hold) = self.hold.as_ref().filter(|_| due && self.wants_snapshot(now)) {
            self.events.push(GuardEvent::SnapshotWanted { id: hold.id.clone() });
            self.asked = Some(now);
        }
        std::mem::take(&mut self.events)
    }

    /// Whether a complete snapshot that begins now would let anything through.
    #[must_use]
    pub fn wants_snapshot(&self, now: Instant) -> bool {
        let Some(hold) = self.hold.as_ref().filter(|hold| !hold.to_nothing) else { return false };
        self.pending.values().any(|pending| pending.is_due(hold, now, self.config.quiet_time))
    }

    /// What is held, if anything is.
    #[must_use]
    pub fn held(&self) -> Option<HeldDrop> {
        let hold = self.hold.as_ref()?;
        Some(HeldDrop {
            id: hold.id.clone(),
            endpoints_removed: self.sum.loss - self.sum.released,
            endpoints_before: self.history.base(),
            targets: self.held_targets().count(),
            since: hold.since,
            to_nothing: hold.to_nothing,
        })
    }

    /// Whose removals are held.
    pub fn held_targets(&self) -> impl Iterator<Item = &TargetKey> {
        let held = self.pending.iter().filter(|(_, pending)| self.hold.is_some() && pending.loss > pending.released);
        held.map(|(target, _)| target)
    }

    fn put(&mut self, target: &TargetKey, new: Pending) {
        let old = if new.loss == 0 { self.pending.remove(target) } else { self.pending.insert(target.clone(), new) };
        let old = old.unwrap_or_default();
        self.sum.loss = self.sum.loss + new.loss - old.loss;
        self.sum.released = self.sum.released + new.released - old.released;
    }

    /// Marks what is due, or all. The number of endpoints that were not marked before.
    fn release(&mut self, by: Release, due: Option<(Instant, Duration)>) -> u64 {
        let Some(hold) = &self.hold else { return 0 };
        let mut endpoints = 0;
        for pending in self.pending.values_mut() {
            if due.is_none_or(|(at, after)| pending.is_due(hold, at, after)) {
                endpoints += pending.loss - pending.released;
                pending.released = pending.loss;
            }
        }
        self.sum.released += endpoints;
        if endpoints > 0 {
            self.events.push(GuardEvent::Released { id: hold.id.clone(), endpoints, by });
        }
        endpoints
    }

    fn refresh(&mut self, now: Instant) {
        self.history.advance(now);
        let waiting = self.sum.loss - self.sum.released;
        let lost = self.history.lost() + waiting;
        let share = u128::from(self.history.base()) * u128::from(self.config.max_drop_percent);
        let tripped = waiting > 0 && lost > self.config.min_endpoints && u128::from(lost) * 100 > share;
        let to_nothing = self.sum.loss >= self.total;
        match &self.hold {
            Some(hold) if !tripped => {
                // Told as released already where nothing waits.
                if waiting > 0 || self.sum.loss == 0 {
                    self.events.push(GuardEvent::Ended { id: hold.id.clone() });
                }
                self.hold = None;
            }
            Some(hold) if hold.to_nothing == to_nothing => {}
            None if !tripped => {}
            old => {
                let since = old.as_ref().map_or(now, |hold| hold.since);
                self.holds += 1;
                let id = self.id(to_nothing);
                self.hold = Some(Hold { id, since, to_nothing });
                self.events.extend(self.held().map(GuardEvent::Held));
            }
        }
    }

    /// After a restart of the writer an old id means at most a hold with the same figures.
    fn id(&self, to_nothing: bool) -> String {
        let mut printer = Printer::new(if to_nothing { "all" } else { "part" });
        for figure in [self.holds, self.sum.loss, self.history.base()] {
            printer.text(&figure.to_string());
        }
        printer.finish().to_string().chars().take(10).collect()
    }
}

impl Pending {
    /// Whether it waits, and did so for `after` at `at`, in this hold.
    fn is_due(&self, hold: &Hold, at: Instant, after: Duration) -> bool {
        let since = self.since.map_or(hold.since, |since| since.max(hold.since));
        self.loss > self.released && at.checked_duration_since(since).is_some_and(|age| age >= after)
    }
}
