//! Sums over the accounts: how many endpoints there were, and how many of them are missing.

use std::time::Instant;

use super::{Guard, Inherited};
use crate::GuardKey;
use crate::account::Account;

impl<K: GuardKey> Guard<K> {
    /// Returns how many endpoints existed within the window. Losses that an earlier writer recorded without a target
    /// raise it at most to the base of that writer's record.
    pub(super) fn base(&self) -> u64 {
        let known = self.there() + self.sums.missing;
        let inherited = |inherited: Inherited| inherited.base.min(known + inherited.unlisted);
        self.inherited.map_or(0, inherited).max(known)
    }

    /// Returns how many endpoints exist now; an endpoint that is moving counts once.
    pub(super) fn there(&self) -> u64 {
        self.total.saturating_sub(self.sums.twice)
    }

    /// Returns how many endpoints of the base are missing.
    pub(super) fn missing(&self) -> u64 {
        self.sums.missing + self.inherited.map_or(0, |inherited| inherited.unlisted)
    }

    /// Returns how many endpoints are missing, or about to be, that the stored record does not list by target.
    pub(super) fn unlisted(&self) -> u64 {
        self.sums.unlisted + self.inherited.map_or(0, |inherited| inherited.unlisted)
    }

    /// Returns how many endpoints may be missing. Released removals that are not yet written do not count in the base,
    /// because they are as good as gone.
    pub(super) fn allowance(&self) -> u64 {
        let base = self.base().saturating_sub(self.sums.loss - self.sums.waiting);
        let share = u128::from(base) * u128::from(self.config.max_drop_percent) / 100;
        u64::try_from(share).unwrap_or(u64::MAX).max(self.config.min_endpoints)
    }

    /// Computes the unlisted sum again after the stored record changed.
    pub(super) fn count_unlisted(&mut self) {
        let unlisted = |(target, account): (&K, &Account<K::Source>)| account.unlisted(self.records.listed(target));
        self.sums.unlisted = self.accounts.iter().map(unlisted).sum();
    }

    /// Changes the account of `target`, which has `has` endpoints if it has no account yet, and updates all sums.
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

    /// Drops the losses that have left the window.
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
