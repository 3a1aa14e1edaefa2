//! The mass-change guard of one backend (DESIGN 2, rule 5): holds removals when too many come within a window.

mod config;
mod event;
mod floors;
mod grant;
mod history;
mod hold;
mod pending;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::TargetKey;

use crate::print::Printer;
pub use config::GuardConfig;
pub use event::{GuardEvent, HeldDrop, Passage, Release};
pub use floors::Floors;
use floors::Levels;
use grant::Grants;
pub use grant::WindowRecord;
use history::History;
pub use hold::HoldRecord;
use hold::{Earlier, Hold, Since};
use pending::Pending;

/// See the module. One for each backend. Time is a parameter and never goes back.
#[derive(Debug, Clone)]
pub struct Guard {
    config: GuardConfig,
    history: History,
    grants: Grants,
    levels: Levels,
    total: u64,
    pending: BTreeMap<TargetKey, Pending>,
    /// Sum over `pending`.
    sum: Pending,
    hold: Option<Hold>,
    /// The whole backend is held, not merely what is below a floor.
    whole: bool,
    earlier: Option<Earlier>,
    holds: u64,
    asked: Option<Instant>,
    events: Vec<GuardEvent>,
}

impl Guard {
    /// A guard that knows of nothing yet. Before any loss it must be told what is [`Guard::observed`].
    #[must_use]
    pub fn new(config: GuardConfig) -> Self {
        Self {
            config,
            history: History::new(config.window),
            grants: Grants::default(),
            levels: Levels::new(config.floors),
            total: 0,
            pending: BTreeMap::new(),
            sum: Pending::default(),
            hold: None,
            whole: false,
            earlier: None,
            holds: 0,
            asked: None,
            events: Vec::new(),
        }
    }

    /// Goes on with what a writer before this one kept.
    pub fn restore(
        &mut self,
        window: Option<&WindowRecord>,
        hold: Option<&HoldRecord>,
        now: Instant,
        wall: SystemTime,
    ) {
        if let Some(record) = window.filter(|record| record.counts(wall, self.config.window)) {
            self.history.inherit(record.base, record.lost, now);
        }
        self.earlier = hold.map(|record| Earlier::new(record.clone(), now, wall));
        self.refresh(now);
    }

    /// Forgets all that was lost and held; not what is there.
    pub fn forget(&mut self) {
        self.history = History::starting(self.config.window, self.total);
        self.grants = Grants::default();
        self.pending.clear();
        self.sum = Pending::default();
        self.levels.configure(self.config.floors, std::iter::empty());
        (self.hold, self.earlier, self.whole, self.asked) = (None, None, false, None);
        self.events.clear();
    }

    /// Another configuration, from now on. What is held by the old one and not by the new one may go.
    pub fn configure(&mut self, config: GuardConfig, now: Instant) {
        if config == self.config {
            return;
        }
        self.config = config;
        self.history.resize(config.window);
        self.levels.configure(config.floors, self.pending.iter().map(|(target, pending)| (target, pending.part())));
        self.refresh(now);
    }

    /// So many endpoints of the backend does the Gimbal cluster hold now.
    pub fn observed(&mut self, total: u64, now: Instant) {
        self.total = total;
        self.history.total(total, now);
        self.refresh(now);
    }

    /// Of these, a target has another number.
    pub fn holds(&mut self, target: &TargetKey, before: u64, after: u64) {
        self.levels.holds(target, before, after);
    }

    /// The target's plan would lose so many endpoints of those that it has; 0: none, or none any more. Of a change of many
    /// targets, each must be told before the first verdict is asked for, or the first ones slip through.
    pub fn pending(&mut self, target: &TargetKey, loss: u64, of: u64, now: Instant) {
        let old = self.pending.get(target).copied().unwrap_or_default();
        let grown = loss > old.peak;
        self.put(
            target,
            Pending {
                loss,
                of,
                released: old.released.min(loss),
                granted: old.granted.min(loss),
                peak: old.peak.max(loss),
                since: if grown { Some(Since::new(now)) } else { old.since },
            },
        );
        self.refresh(now);
    }

    /// So many endpoints of the target were removed. They are not pending any more.
    pub fn applied(&mut self, target: &TargetKey, loss: u64, now: Instant) {
        let old = self.pending.get(target).copied().unwrap_or_default();
        let released = old.released.min(loss);
        let left = Pending {
            loss: old.loss.saturating_sub(loss),
            of: old.of.saturating_sub(loss),
            released: old.released - released,
            granted: old.granted.saturating_sub(loss - released),
            ..old
        };
        self.put(target, left);
        self.total = self.total.saturating_sub(loss);
        self.history.applied(loss - released, now);
        self.history.forgive(released);
        self.refresh(now);
    }

    /// Whether the target's removals may be written now. What may is noted: see [`Guard::record`].
    pub fn verdict(&mut self, target: &TargetKey, now: Instant) -> Passage {
        self.refresh(now);
        let Some(pending) = self.pending.get(target).copied().filter(|pending| pending.waiting() > 0) else {
            return Passage::Allowed;
        };
        if self.is_held(target, &pending) {
            return Passage::Held;
        }
        if self.config.max_drop_percent >= 100 {
            return Passage::Allowed;
        }
        let more = pending.waiting().saturating_sub(pending.granted);
        if self.grants.reserve(more, now) {
            if let Some(pending) = self.pending.get_mut(target) {
                pending.granted += more;
            }
            return Passage::Allowed;
        }
        let base = self.history.base(self.total);
        let share = u128::from(base) * u128::from(self.config.max_drop_percent) / 100;
        let allowance = u64::try_from(share).unwrap_or(u64::MAX).max(self.config.min_endpoints);
        self.grants.ask(base, self.history.lost(), self.sum.waiting(), allowance, now);
        Passage::Unkept
    }

    /// What has to be kept before [`Passage::Unkept`] becomes [`Passage::Allowed`]; given once, and again where that is not
    /// told for long. Then [`Guard::kept`].
    pub fn record(&mut self, wall: SystemTime) -> Option<WindowRecord> {
        self.grants.take(wall)
    }

    /// Whether the record is not kept for so long that nothing but removals should go on waiting for it.
    #[must_use]
    pub fn record_is_late(&self, now: Instant) -> bool {
        self.grants.is_late(now)
    }

    /// The record that was given last is kept. True if targets wait for that.
    pub fn kept(&mut self) -> bool {
        self.grants.kept(self.config.window)
    }

    /// Targets whose removals neither are held nor known to be gone.
    pub fn passing(&self) -> impl Iterator<Item = &TargetKey> {
        let passing = self.pending.iter().filter(|(target, pending)| !self.is_held(target, pending));
        passing.map(|(target, _)| target)
    }

    /// A complete snapshot was begun at `begun`, and what it says has been told as [`Guard::pending`]. Lets a partial drop
    /// through, as far as it is older than the snapshot by the quiet time; true if anything was let through.
    pub fn snapshot_complete(&mut self, begun: Instant, now: Instant) -> bool {
        self.refresh(now);
        let partial = self.hold.as_ref().is_some_and(|hold| !hold.to_nothing);
        let released = partial && self.release(Release::Snapshot, Some((begun, self.config.quiet_time))) > 0;
        self.refresh(now);
        // All that is missing has been told: what was held before the restart is not held any more, or is another hold.
        self.earlier = None;
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
        let quiet = self.config.quiet_time;
        self.pending.iter().any(|(target, pending)| self.is_held(target, pending) && pending.is_due(hold, now, quiet))
    }

    /// What is held, if anything is.
    #[must_use]
    pub fn held(&self) -> Option<HeldDrop> {
        let hold = self.hold.as_ref()?;
        Some(HeldDrop {
            id: hold.id.clone(),
            endpoints_removed: self.held_endpoints(),
            endpoints_before: self.history.base(self.total),
            targets: self.held_targets().count(),
            to_nothing: hold.to_nothing,
        })
    }

    /// The hold as it is to be kept over restarts.
    #[must_use]
    pub fn hold_record(&self, now: Instant, wall: SystemTime) -> Option<HoldRecord> {
        if let Some(earlier) = &self.earlier {
            // It may yet be met again.
            return Some(earlier.record().clone());
        }
        let hold = self.hold.as_ref()?;
        let since = wall.checked_sub(hold.since.age(now).unwrap_or_default()).unwrap_or(wall);
        let (id, to_nothing) = (hold.id.clone(), hold.to_nothing);
        Some(HoldRecord { id, since, endpoints: self.held_endpoints(), to_nothing })
    }

    /// For how long it is held.
    #[must_use]
    pub fn held_for(&self, now: Instant) -> Option<Duration> {
        self.hold.as_ref()?.since.age(now)
    }

    /// Whose removals are held.
    pub fn held_targets(&self) -> impl Iterator<Item = &TargetKey> {
        self.pending.iter().filter(|(target, pending)| self.is_held(target, pending)).map(|(target, _)| target)
    }

    fn is_held(&self, target: &TargetKey, pending: &Pending) -> bool {
        self.hold.is_some() && pending.waiting() > 0 && (self.whole || self.levels.holds_back(target, pending.part()))
    }

    fn held_endpoints(&self) -> u64 {
        if self.whole { self.sum.waiting() } else { self.levels.held() }
    }

    fn put(&mut self, target: &TargetKey, mut new: Pending) {
        if new.loss == 0 {
            new = Pending::default();
        }
        let old = if new.loss == 0 { self.pending.remove(target) } else { self.pending.insert(target.clone(), new) };
        let old = old.unwrap_or_default();
        self.sum.loss = self.sum.loss + new.loss - old.loss;
        self.sum.released = self.sum.released + new.released - old.released;
        self.grants.reserved = self.grants.reserved + new.granted - old.granted;
        self.levels.change(target, old.part(), new.part());
    }

    /// Marks what is held and due, or all that is held. The number of endpoints that were not marked before.
    fn release(&mut self, by: Release, due: Option<(Instant, Duration)>) -> u64 {
        let Some(hold) = self.hold.clone() else { return 0 };
        let is_due = |pending: &Pending| due.is_none_or(|(at, after)| pending.is_due(&hold, at, after));
        let held = self.pending.iter().filter(|(target, pending)| self.is_held(target, pending) && is_due(pending));
        let marked: Vec<(TargetKey, Pending)> = held.map(|(target, pending)| (target.clone(), *pending)).collect();
        let mut endpoints = 0;
        for (target, pending) in marked {
            endpoints += pending.waiting();
            self.put(&target, Pending { released: pending.loss, granted: 0, ..pending });
        }
        if endpoints > 0 {
            self.events.push(GuardEvent::Released { id: hold.id, endpoints, by });
        }
        endpoints
    }

    fn refresh(&mut self, now: Instant) {
        self.history.advance(now);
        let waiting = self.sum.waiting();
        let lost = self.history.lost() + waiting;
        let share = u128::from(self.history.base(self.total)) * u128::from(self.config.max_drop_percent);
        // What comes back counts neither for nor against: in all, more than everything may go within a window.
        let ever = self.config.max_drop_percent < 100;
        self.whole = ever && waiting > 0 && lost > self.config.min_endpoints && u128::from(lost) * 100 > share;
        let tripped = self.whole || self.levels.held() > 0;
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
                let since = old.as_ref().map_or_else(|| Since::new(now), |hold| hold.since);
                self.holds += 1;
                let id = self.id(to_nothing);
                self.hold = Some(Hold { id, since, to_nothing });
                self.events.extend(self.held().map(GuardEvent::Held));
            }
        }
        self.meet_again();
    }

    /// A hold with the figures of one before the restart is that one: an approval by its id is meant for it, and it has
    /// been quiet for as long.
    fn meet_again(&mut self) {
        let Some(hold) = &self.hold else { return };
        let endpoints = self.held_endpoints();
        let Some(earlier) = self.earlier.take_if(|earlier| earlier.is(endpoints, hold.to_nothing)) else { return };
        let since = earlier.since;
        self.hold = Some(earlier.into_hold());
        for pending in self.pending.values_mut() {
            pending.since = Some(since);
        }
        self.events.extend(self.held().map(GuardEvent::Held));
    }

    /// After a restart of the writer an old id means at most a hold with the same figures.
    fn id(&self, to_nothing: bool) -> String {
        let mut printer = Printer::new(if to_nothing { "all" } else { "part" });
        for figure in [self.holds, self.sum.loss, self.history.base(self.total)] {
            printer.text(&figure.to_string());
        }
        printer.finish().to_string().chars().take(10).collect()
    }
}
