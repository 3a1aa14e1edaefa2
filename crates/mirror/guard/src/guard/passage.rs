//! Verdicts on removals, and the records that must be stored before them.

use std::time::{Instant, SystemTime};

use crate::account::Account;
use crate::record::{TargetLoss, WindowRecord};
use crate::{Guard, GuardKey, Passage};

impl<K: GuardKey> Guard<K> {
    /// Returns whether the target's removals may be written now, and grants them if so. For [`Passage::Unkept`], store
    /// [`Guard::record`] and call [`Guard::kept`] first.
    pub fn verdict(&mut self, target: &K, now: Instant) -> Passage {
        self.refresh(now);
        let Some(account) = self.accounts.get(target).filter(|account| account.pending.waiting() > 0) else {
            return Passage::Allowed;
        };
        if self.is_held(target, account) {
            return Passage::Held;
        }
        let waiting = account.pending.waiting();
        if !self.may_hold() || waiting <= account.granted {
            return Passage::Allowed;
        }
        if self.records.is_in_use(now, self.config.window) {
            let listed = self.records.listed(target);
            let more = account.unlisted_with(waiting, listed) - account.unlisted(listed);
            if more == 0 || self.unlisted() + more <= self.records.unlisted() {
                self.update(target, 0, |account| account.granted = waiting);
                return Passage::Allowed;
            }
        }
        self.ask(now);
        Passage::Unkept
    }

    /// Asks for a new record if the stored one lacks losses that others caused, or lists removals that were released,
    /// so that the next writer counts correctly. Called periodically while this writer leads.
    pub fn note(&mut self, now: Instant) {
        self.refresh(now);
        if self.records.drop_old(now, self.config.window) {
            self.count_unlisted();
        }
        if self.outdated || self.unlisted() > self.records.unlisted() {
            self.ask(now);
        }
    }

    /// Returns the record that must be stored before [`Passage::Unkept`] becomes [`Passage::Allowed`]. It is returned
    /// once, and again if [`Guard::kept`] is not called for long.
    pub fn record(&mut self, wall: SystemTime) -> Option<WindowRecord<K>> {
        self.records.take(wall)
    }

    /// Returns whether storing the record takes so long that only removals should still wait for it.
    #[must_use]
    pub fn record_is_late(&self, now: Instant) -> bool {
        self.records.is_late(now)
    }

    /// Returns whether removals wait for a record that is late.
    #[must_use]
    pub fn waits_for_record(&self) -> bool {
        self.records.was_late() && self.accounts.values().any(|account| account.pending.waiting() > account.granted)
    }

    /// Records that the record returned last is stored. Returns true if a record was outstanding, so targets may be
    /// waiting.
    pub fn kept(&mut self) -> bool {
        let kept = self.records.kept();
        if kept {
            self.count_unlisted();
        }
        kept
    }

    /// Asks for a record of everything that is missing, or pending and not held.
    fn ask(&mut self, now: Instant) {
        if self.records.is_asked() {
            self.records.repeat(now);
            return;
        }
        self.outdated = false;
        let entry = |(target, account): (&K, &Account<K::Source>)| {
            let at_risk = if self.is_held(target, account) { account.granted } else { account.at_risk() };
            TargetLoss { target: target.clone(), had: account.peak(), lost: account.missing() + at_risk }
        };
        let entries = self.accounts.iter().map(entry).collect();
        let inherited = self.inherited.map_or(0, |inherited| inherited.unlisted);
        let unlisted = self.records.grant(self.allowance(), now, self.config.window).max(inherited);
        self.records.ask(entries, self.base(), unlisted, now);
    }
}
