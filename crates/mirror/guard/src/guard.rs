//! The mass-change guard of one backend (`docs/design.md#guard`): of what the Gimbal cluster held within the window,
//! only a share may be missing. Losses are counted for each target as the difference to its peak, so an endpoint that
//! is back is not missing.

mod books;
mod passage;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use crate::GuardKey;
use crate::account::Account;
use crate::config::GuardConfig;
use crate::event::{Fall, GuardEvent, HeldDrop, LastRelease};
use crate::floors::Levels;
use crate::hold::{Earlier, Hold, HoldRecord};
use crate::record::{Records, WindowRecord};

/// Sums over all accounts.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    missing: u64,
    loss: u64,
    waiting: u64,
    /// Endpoints whose removal is pending or in flight.
    at_risk: u64,
    /// Endpoints that are missing, or about to be, and that the stored record does not account for.
    unlisted: u64,
    /// Endpoints that exist under two targets.
    twice: u64,
}

/// Losses that an earlier writer's record counts without naming a target. They count as missing for one more whole
/// window, because the record does not say when they happened either.
#[derive(Debug, Clone, Copy)]
struct Inherited {
    base: u64,
    unlisted: u64,
    until: Instant,
}

/// The mass-change guard of one tenant. Times passed to it must not go back.
#[derive(Debug, Clone)]
pub struct Guard<K: GuardKey = gimbal_model::TargetKey> {
    config: GuardConfig,
    /// Accounts of the targets that lost something within the window, or have a pending loss.
    accounts: BTreeMap<K, Account<K::Source>>,
    /// The target under which each source Service last lost endpoints, as long as that target has an account.
    lost: BTreeMap<K::Source, K>,
    /// When each account may drop a loss.
    due: BTreeSet<(Instant, K)>,
    sums: Sums,
    /// Endpoints of all targets together.
    total: u64,
    inherited: Option<Inherited>,
    records: Records<K>,
    /// Whether the stored record lists losses that no longer count: they were released, or the endpoints exist
    /// elsewhere.
    outdated: bool,
    levels: Levels<K>,
    hold: Option<Hold>,
    /// Whether everything pending is held because the share is exceeded, not only what is below a floor.
    whole: bool,
    earlier: Option<Earlier>,
    last_release: Option<LastRelease>,
    asked: Option<Instant>,
    /// Grows with each id that is given.
    serial: u64,
    events: Vec<GuardEvent>,
}

impl<K: GuardKey> Guard<K> {
    /// Creates a guard that knows no endpoints. Report what exists with [`Guard::observed`] before the first loss.
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
            last_release: None,
            asked: None,
            serial: 0,
            events: Vec::new(),
        }
    }

    /// Restores what an earlier process stored. `has` returns how many endpoints a target has, as far as that was
    /// reported with [`Guard::observed`].
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
            // The losses happened at an unknown time while the record was in use; the latest possible time counts.
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
        // Ids are given far less often than once a millisecond, so no id of an earlier writer is given again.
        let age = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.serial = self.serial.max(u64::try_from(age.as_millis()).unwrap_or_default());
        self.refresh(now);
    }

    /// Clears every loss and hold, but not the endpoint counts.
    pub fn forget(&mut self) {
        self.accounts.clear();
        self.lost.clear();
        self.due.clear();
        self.sums = Sums::default();
        self.inherited = None;
        (self.records, self.outdated) = (Records::default(), false);
        self.levels.configure(self.config.floors, std::iter::empty());
        (self.hold, self.earlier, self.whole, self.asked) = (None, None, false, None);
        self.last_release = None;
        self.events.clear();
    }

    /// Replaces the configuration. Removals that only the old configuration held are no longer held.
    pub fn configure(&mut self, config: GuardConfig, now: Instant) {
        if config == self.config {
            return;
        }
        self.config = config;
        self.levels.configure(config.floors, self.accounts.iter().map(|(target, account)| (target, account.part())));
        self.refresh(now);
    }

    /// Records that `target` now has `after` endpoints instead of `before`, and that no write to it is in flight.
    /// Report what else is to be removed there again with [`Guard::pending`]. If `source` is known, its losses under
    /// another target no longer count as missing as far as it has these endpoints here.
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

    /// Moves the losses of a source Service from a target where nothing of it is left to this one, where it has
    /// `after`.
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

    /// Records that everything `from` had has moved to `to`, which has `there` endpoints. The difference is missing.
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

    /// Sets whether the result of a write to `target` is unknown. While it is, removals that were allowed count as
    /// possible.
    pub fn in_doubt(&mut self, target: &K, doubt: bool) {
        if self.accounts.get(target).is_some_and(|account| account.in_doubt != doubt) {
            self.update(target, 0, |account| account.in_doubt = doubt);
        }
    }

    /// Sets how many of the target's `of` endpoints also exist under another target because they are moving there.
    pub fn set_duplicates(&mut self, target: &K, endpoints: u64, of: u64, now: Instant) {
        if endpoints > 0 || self.accounts.contains_key(target) {
            self.update(target, of, |account| account.twice = endpoints);
        }
        self.refresh(now);
    }

    /// Records that applying the plan for `target` would remove `loss` of its `of` endpoints; 0 clears it. Call this
    /// for every target of a bulk change before the first [`Guard::verdict`]; otherwise the first removals pass before
    /// the size of the change is known.
    pub fn pending(&mut self, target: &K, loss: u64, of: u64, now: Instant) {
        if loss > 0 || self.accounts.contains_key(target) {
            let quiet = self.config.quiet_time;
            self.update(target, of, |account| account.pending.set(loss, now, quiet));
        }
        self.refresh(now);
    }

    /// Returns the targets with pending removals that are not held.
    pub fn passing(&self) -> impl Iterator<Item = &K> {
        let waiting = self.accounts.iter().filter(|(_, account)| account.pending.loss > 0);
        waiting.filter(|(target, account)| !self.is_held(target, account)).map(|(target, _)| target)
    }

    /// Returns what is held, if anything is.
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

    /// Returns the hold as it must be stored to survive a restart.
    #[must_use]
    pub fn hold_record(&self, now: Instant, wall: SystemTime) -> Option<HoldRecord> {
        if let Some(earlier) = &self.earlier {
            // The stored hold may yet match a hold of this process.
            return Some(earlier.record().clone());
        }
        let hold = self.hold.as_ref()?;
        let since = wall.checked_sub(hold.since.age(now).unwrap_or_default()).unwrap_or(wall);
        let Hold { id, to_nothing, told, .. } = hold.clone();
        Some(HoldRecord { id, since, endpoints: self.held_endpoints(), told, to_nothing })
    }

    /// Returns the hold of an earlier process that no hold of this one matches yet. Its id stays valid if one does.
    #[must_use]
    pub fn unmatched(&self) -> Option<&HoldRecord> {
        self.earlier.as_ref().map(Earlier::record)
    }

    /// Returns what was released last, by this process.
    #[must_use]
    pub fn last_release(&self) -> Option<&LastRelease> {
        self.last_release.as_ref()
    }

    /// Returns the age of the hold.
    #[must_use]
    pub fn held_for(&self, now: Instant) -> Option<Duration> {
        self.hold.as_ref()?.since.age(now)
    }

    /// Returns the targets whose removals are held.
    pub fn held_targets(&self) -> impl Iterator<Item = &K> {
        self.accounts.iter().filter(|(target, account)| self.is_held(target, account)).map(|(target, _)| target)
    }

    /// Returns whether the target's removals are held.
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
