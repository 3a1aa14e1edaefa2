//! The mass-change guard of one backend (docs/design.md#rule-5): of what the Gimbal cluster held within the window, only a share
//! may be missing. Counted for each target, as endpoints fewer than it had: what is back is not missing.

mod books;
mod passage;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use crate::GuardKey;
use crate::account::Account;
use crate::config::GuardConfig;
use crate::event::{Fall, GuardEvent, HeldDrop};
use crate::floors::Levels;
use crate::hold::{Earlier, Hold, HoldRecord};
use crate::record::{Records, WindowRecord};

/// Sums over all accounts.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    missing: u64,
    loss: u64,
    waiting: u64,
    /// Waiting, or under way.
    at_risk: u64,
    /// Missing, or about to be, and not told of by the record that is kept.
    unlisted: u64,
    /// There in two targets.
    twice: u64,
}

/// What a writer before this one may have removed of nobody knows what: it counts for a whole window more, for nobody knows
/// when it was either.
#[derive(Debug, Clone, Copy)]
struct Inherited {
    base: u64,
    unlisted: u64,
    until: Instant,
}

/// See the module. One for each backend. Time is a parameter and never goes back.
#[derive(Debug, Clone)]
pub struct Guard<K: GuardKey = gimbal_model::TargetKey> {
    config: GuardConfig,
    /// Of targets that lost something within the window, or are about to.
    accounts: BTreeMap<K, Account<K::Source>>,
    /// Where each source Service lost something last, as long as there is an account of it.
    lost: BTreeMap<K::Source, K>,
    /// When each account may forget something.
    due: BTreeSet<(Instant, K)>,
    sums: Sums,
    /// Endpoints that all targets have.
    total: u64,
    inherited: Option<Inherited>,
    records: Records<K>,
    /// The record that is kept names what is no loss: it was released, or is elsewhere.
    outdated: bool,
    levels: Levels<K>,
    hold: Option<Hold>,
    /// The whole backend is held, not merely what is below a floor.
    whole: bool,
    earlier: Option<Earlier>,
    asked: Option<Instant>,
    /// Grows with each id that is given.
    serial: u64,
    events: Vec<GuardEvent>,
}

impl<K: GuardKey> Guard<K> {
    /// A guard that knows of nothing yet. Before any loss it must be told what is there: [`Guard::observed`].
    #[must_use]
    pub fn new(config: GuardConfig) -> Self {
        Self {
            config,
            accounts: BTreeMap::new(),
            lost: BTreeMap::new(),
            due: BTreeSet::new(),
            sums: Sums::default(),
            total: 0,
            inherited: None,
            records: Records::default(),
            outdated: false,
            levels: Levels::new(config.floors),
            hold: None,
            whole: false,
            earlier: None,
            asked: None,
            serial: 0,
            events: Vec::new(),
        }
    }

    /// Goes on with what a writer before this one kept. `has` tells how many endpoints a target has, as far as that was
    /// [`Guard::observed`].
    pub fn restore(
        &mut self,
        window: Option<&WindowRecord<K>>,
        hold: Option<&HoldRecord>,
        has: impl Fn(&K) -> u64,
        now: Instant,
        wall: SystemTime,
    ) {
        let length = self.config.window;
        if let Some(record) = window.filter(|record| self.may_hold() && record.counts(wall, length)) {
            self.records = Records::restored(record, now, wall);
            // Nobody knows when within the time of the record it went.
            let age = wall.duration_since(record.end(length)).unwrap_or_default();
            if let Some(at) = now.checked_sub(age) {
                for (target, had) in &record.listed {
                    self.update(target, has(target), |account| account.had(*had, at, length));
                }
            }
            let until = now + record.left(wall, length);
            self.inherited = Some(Inherited { base: record.base, unlisted: record.unlisted, until });
        }
        self.earlier = hold.map(|record| Earlier::new(record.clone(), now, wall));
        // Ids are given far more seldom than once a millisecond: none of a writer before this one is given again.
        let age = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.serial = self.serial.max(u64::try_from(age.as_millis()).unwrap_or_default());
        self.refresh(now);
    }

    /// Forgets all that was lost and held; not what is there.
    pub fn forget(&mut self) {
        self.accounts.clear();
        self.lost.clear();
        self.due.clear();
        self.sums = Sums::default();
        self.inherited = None;
        (self.records, self.outdated) = (Records::default(), false);
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
        self.levels.configure(config.floors, self.accounts.iter().map(|(target, account)| (target, account.part())));
        self.refresh(now);
    }

    /// A target has `after` endpoints where it had `before`, and nothing is under way for it. What else was to be lost there
    /// is told anew. Of `source`, if that is known: what it lost in another target it does not miss as far as it has it here.
    pub fn observed(
        &mut self,
        target: &K,
        source: Option<&K::Source>,
        before: u64,
        after: u64,
        fall: Fall,
        now: Instant,
    ) {
        self.total = self.total.saturating_sub(before) + after;
        self.levels.holds(target, before, after);
        let fallen = before.saturating_sub(after);
        let window = self.config.window;
        let counts = fallen > 0 && fall == Fall::Lost && self.may_hold();
        if counts || self.accounts.contains_key(target) {
            let mut forgiven = fallen;
            self.update(target, before, |account| {
                forgiven = if counts { account.pending.released.min(fallen) } else { fallen };
                account.set(after, forgiven, now, window);
            });
            self.outdated |= forgiven > 0 && self.records.listed(target) > 0;
        }
        if let Some(source) = source {
            self.is_of(target, source, before, after);
        }
        self.refresh(now);
    }

    /// Of what a source Service lost elsewhere, and where nothing of it stands any more, it has `after` here.
    fn is_of(&mut self, target: &K, source: &K::Source, before: u64, after: u64) {
        if before == 0 && after > 0 {
            let elsewhere = self.lost.get(source).filter(|lost| *lost != target).cloned();
            if let Some((from, past)) =
                elsewhere.and_then(|from| Some((from.clone(), self.accounts.get(&from)?.clone())))
                && past.was_of(source)
            {
                self.update(&from, 0, |account| *account = Account::default());
                self.update(target, after, |account| account.inherit(&past, 0));
                self.outdated |= self.records.listed(&from) > 0;
            }
        }
        if after < before && self.accounts.contains_key(target) {
            self.update(target, after, |account| account.source = Some(source.clone()));
            self.lost.insert(source.clone(), target.clone());
        }
    }

    /// All that a target had is in another one now, which has `there` endpoints: what is not there of it is missing there.
    pub fn moved(&mut self, from: &K, before: u64, to: &K, there: u64, now: Instant) {
        let past = self.accounts.get(from).cloned().unwrap_or_default();
        self.observed(from, None, before, 0, Fall::Forgiven, now);
        self.update(from, 0, |account| *account = Account::default());
        self.outdated |= self.records.listed(from) > 0;
        if self.may_hold() {
            let window = self.config.window;
            let released = past.pending.released;
            self.update(to, there, |account| {
                account.inherit(&past, released);
                account.had(before.saturating_sub(released), now, window);
            });
        }
        self.refresh(now);
    }

    /// A write for the target may have been done though nobody heard so, or may yet be: until that is clear, what was let pass
    /// may go.
    pub fn in_doubt(&mut self, target: &K, doubt: bool) {
        if self.accounts.get(target).is_some_and(|account| account.in_doubt != doubt) {
            self.update(target, 0, |account| account.in_doubt = doubt);
        }
    }

    /// Of what a target has, so much is in another one too, for it moves there.
    pub fn stands_twice(&mut self, target: &K, endpoints: u64, of: u64, now: Instant) {
        if endpoints > 0 || self.accounts.contains_key(target) {
            self.update(target, of, |account| account.twice = endpoints);
        }
        self.refresh(now);
    }

    /// The target's plan would lose so many endpoints of those that it has; 0: none, or none any more. Of a change of many
    /// targets, each must be told before the first verdict is asked for, or the first ones slip through.
    pub fn pending(&mut self, target: &K, loss: u64, of: u64, now: Instant) {
        if loss > 0 || self.accounts.contains_key(target) {
            let quiet = self.config.quiet_time;
            self.update(target, of, |account| account.pending.set(loss, now, quiet));
        }
        self.refresh(now);
    }

    /// Targets whose removals neither are held nor known to be gone.
    pub fn passing(&self) -> impl Iterator<Item = &K> {
        let waiting = self.accounts.iter().filter(|(_, account)| account.pending.loss > 0);
        waiting.filter(|(target, account)| !self.is_held(target, account)).map(|(target, _)| target)
    }

    /// What is held, if anything is.
    #[must_use]
    pub fn held(&self) -> Option<HeldDrop> {
        let hold = self.hold.as_ref()?;
        Some(HeldDrop {
            id: hold.id.clone(),
            endpoints_removed: self.held_endpoints(),
            endpoints_before: self.base(),
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
        let Hold { id, to_nothing, told, .. } = hold.clone();
        Some(HoldRecord { id, since, endpoints: self.held_endpoints(), told, to_nothing })
    }

    /// For how long it is held.
    #[must_use]
    pub fn held_for(&self, now: Instant) -> Option<Duration> {
        self.hold.as_ref()?.since.age(now)
    }

    /// Whose removals are held.
    pub fn held_targets(&self) -> impl Iterator<Item = &K> {
        self.accounts.iter().filter(|(target, account)| self.is_held(target, account)).map(|(target, _)| target)
    }

    /// Whether the target's removals are held.
    #[must_use]
    pub fn holds_back(&self, target: &K) -> bool {
        self.accounts.get(target).is_some_and(|account| self.is_held(target, account))
    }

    fn is_held(&self, target: &K, account: &Account<K::Source>) -> bool {
        let waits = self.hold.is_some() && account.pending.waiting() > 0;
        waits && (self.whole || self.levels.holds_back(target, account.part()))
    }

    fn held_endpoints(&self) -> u64 {
        if self.whole { self.sums.waiting } else { self.levels.held() }
    }

    fn may_hold(&self) -> bool {
        self.config.max_drop_percent < 100
    }
}
