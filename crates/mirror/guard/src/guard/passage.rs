//! What may be written now, and what has to be kept before.

use std::time::{Instant, SystemTime};

use crate::account::Account;
use crate::record::{Entry, WindowRecord};
use crate::{Guard, GuardKey, Passage};

impl<K: GuardKey> Guard<K> {
    /// Whether the target's removals may be written now. What may is noted: see [`Guard::record`].
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

    /// Notes what somebody else removed, so that the next writer counts it too, and what was released, so that it does not. To be
    /// called now and then while this writer
    /// leads.
    pub fn note(&mut self, now: Instant) {
        self.refresh(now);
        if self.records.drop_old(now, self.config.window) {
            self.count_unlisted();
        }
        if self.outdated || self.unlisted() > self.records.unlisted() {
            self.ask(now);
        }
    }

    /// What has to be kept before [`Passage::Unkept`] becomes [`Passage::Allowed`]; given once, and again where that is not
    /// told for long. Then [`Guard::kept`].
    pub fn record(&mut self, wall: SystemTime) -> Option<WindowRecord<K>> {
        self.records.take(wall)
    }

    /// Whether the record is not kept for so long that nothing but removals should go on waiting for it.
    #[must_use]
    pub fn record_is_late(&self, now: Instant) -> bool {
        self.records.is_late(now)
    }

    /// Whether removals wait for a record that is late.
    #[must_use]
    pub fn waits_for_record(&self) -> bool {
        self.records.was_late() && self.accounts.values().any(|account| account.pending.waiting() > account.granted)
    }

    /// The record that was given last is kept. True if targets wait for that.
    pub fn kept(&mut self) -> bool {
        let kept = self.records.kept();
        if kept {
            self.count_unlisted();
        }
        kept
    }

    /// Asks for a record of all that is missing, or waits and is not held.
    fn ask(&mut self, now: Instant) {
        if self.records.is_asked() {
            self.records.repeat(now);
            return;
        }
        self.outdated = false;
        let entry = |(target, account): (&K, &Account<K::Source>)| {
            let at_risk = if self.is_held(target, account) { account.granted } else { account.at_risk() };
            Entry { target: target.clone(), had: account.peak(), lost: account.missing() + at_risk }
        };
        let entries = self.accounts.iter().map(entry).collect();
        let inherited = self.inherited.map_or(0, |inherited| inherited.unlisted);
        let unlisted = self.records.grant(self.allowance(), now, self.config.window).max(inherited);
        self.records.ask(entries, self.base(), unlisted, now);
    }
}
