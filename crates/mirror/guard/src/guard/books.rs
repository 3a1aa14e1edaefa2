//! What is missing of what there was.

use std::time::Instant;

use super::{Guard, Inherited};
use crate::GuardKey;
use crate::account::Account;

impl<K: GuardKey> Guard<K> {
    /// All that was there within the window. What was inherited without a name is believed as far as the base says that was
    /// inherited with it.
    pub(super) fn base(&self) -> u64 {
        let known = self.there() + self.sums.missing;
        let inherited = |inherited: Inherited| inherited.base.min(known + inherited.unlisted);
        self.inherited.map_or(0, inherited).max(known)
    }

    /// All that is there, what moves but once.
    pub(super) fn there(&self) -> u64 {
        self.total.saturating_sub(self.sums.twice)
    }

    /// Of that, what is missing.
    pub(super) fn missing(&self) -> u64 {
        self.sums.missing + self.inherited.map_or(0, |inherited| inherited.unlisted)
    }

    /// Missing, or about to be, and not told of by the record that is kept, or not with a name.
    pub(super) fn unlisted(&self) -> u64 {
        self.sums.unlisted + self.inherited.map_or(0, |inherited| inherited.unlisted)
    }

    /// How many may be missing. What was released and still stands is gone already, as far as that goes: what is missing beside
    /// it is a part of the rest.
    pub(super) fn allowance(&self) -> u64 {
        let base = self.base().saturating_sub(self.sums.loss - self.sums.waiting);
        let share = u128::from(base) * u128::from(self.config.max_drop_percent) / 100;
        u64::try_from(share).unwrap_or(u64::MAX).max(self.config.min_endpoints)
    }

    /// Another record is kept.
    pub(super) fn count_unlisted(&mut self) {
        let unlisted = |(target, account): (&K, &Account<K::Source>)| account.unlisted(self.records.listed(target));
        self.sums.unlisted = self.accounts.iter().map(unlisted).sum();
    }

    /// Changes the account of a target, which has `has` endpoints if it has no account yet.
    pub(super) fn update(&mut self, target: &K, has: u64, change: impl FnOnce(&mut Account<K::Source>)) {
        let listed = self.records.listed(target);
        let mut account = self.accounts.remove(target).unwrap_or_else(|| Account::having(has));
        let (old, due) = (account.part(), account.due());
        self.sums.missing -= account.missing();
        self.sums.twice -= account.twice;
        self.sums.loss -= old.loss;
        self.sums.waiting -= old.waiting;
        self.sums.at_risk -= account.at_risk();
        self.sums.unlisted -= account.unlisted(listed);
        change(&mut account);
        let new = account.part();
        self.sums.missing += account.missing();
        self.sums.twice += account.twice;
        self.sums.loss += new.loss;
        self.sums.waiting += new.waiting;
        self.sums.at_risk += account.at_risk();
        self.sums.unlisted += account.unlisted(listed);
        self.levels.change(target, old, new);
        if due != account.due() {
            if let Some(due) = due {
                self.due.remove(&(due, target.clone()));
            }
            self.due.extend(account.due().map(|due| (due, target.clone())));
        }
        if !account.is_idle() {
            self.accounts.insert(target.clone(), account);
        }
    }

    /// Forgets what is out of the window.
    pub(super) fn advance(&mut self, now: Instant) {
        let window = self.config.window;
        self.inherited.take_if(|inherited| now >= inherited.until);
        while let Some((at, target)) = self.due.first() {
            if now.saturating_duration_since(*at) < window {
                break;
            }
            let target = target.clone();
            self.update(&target, 0, |account| account.expire(now, window));
        }
        if self.lost.len() > 2 * self.accounts.len() {
            self.lost.retain(|_, target| self.accounts.contains_key(target));
        }
    }
}
