//! When a hold begins and ends, and what releases it.

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::account::Account;
use crate::hold::{Hold, Since};
use crate::{Guard, GuardEvent, GuardKey, LastRelease, Release};

/// Bytes of a hold's id, which is written in hexadecimal.
const ID_BYTES: usize = 5;

impl<K: GuardKey> Guard<K> {
    /// Applies a complete snapshot that began at `begun`; its losses must already be reported with [`Guard::pending`].
    /// Releases a partial drop as far as the snapshot `covers` it and began at least the quiet time after it. Returns
    /// true if anything was released. `all`: no part of the backend is unknown.
    pub fn snapshot_complete(&mut self, begun: Instant, all: bool, covers: impl Fn(&K) -> bool, now: Instant) -> bool {
        self.refresh(now);
        let partial = self.hold.as_ref().is_some_and(|hold| !hold.to_nothing);
        let quiet = self.config.quiet_time;
        let released = partial && self.release(Release::Snapshot, Some((begun, quiet)), covers) > 0;
        self.refresh(now);
        if all {
            self.all_is_known(now);
        }
        released
    }

    /// Called when the whole backend is known and its pending losses are reported. A hold from before the restart that
    /// does not match the current one by now is dropped.
    pub fn all_is_known(&mut self, now: Instant) {
        if self.earlier.is_some() {
            self.refresh(now);
            self.earlier = None;
        }
    }

    /// Approves the hold with this id. Returns how many endpoints may be removed now, or `None` if there is no such
    /// hold.
    pub fn approve(&mut self, id: &str) -> Option<u64> {
        self.hold.as_ref().filter(|hold| hold.id == id)?;
        let released = self.release(Release::Approval, None, |_| true);
        self.hold = None;
        Some(released)
    }

    /// Releases what is old enough, and returns the events since the last call. Called periodically.
    pub fn tick(&mut self, now: Instant) -> Vec<GuardEvent> {
        self.refresh(now);
        if let Some(after) = self.config.release_all_after.filter(|_| self.hold.is_some()) {
            self.release(Release::Age, Some((now, after)), |_| true);
            self.refresh(now);
        }
        let due = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= self.config.quiet_time);
        if let Some(hold) = self.hold.as_ref().filter(|_| due && self.wants_snapshot(now)) {
            self.events.push(GuardEvent::SnapshotWanted { id: hold.id.clone() });
            self.asked = Some(now);
        }
        std::mem::take(&mut self.events)
    }

    /// Returns whether a complete snapshot that begins now would release anything.
    #[must_use]
    pub fn wants_snapshot(&self, now: Instant) -> bool {
        let Some(hold) = self.hold.as_ref().filter(|hold| !hold.to_nothing) else { return false };
        let quiet = self.config.quiet_time;
        let due = |account: &Account<K::Source>| account.pending.due(hold, now, quiet) > account.pending.released;
        self.accounts.iter().any(|(target, account)| self.is_held(target, account) && due(account))
    }

    /// Releases the part of each held loss that is due, or all of it if `due` is `None`. Returns how many endpoints
    /// were released.
    fn release(&mut self, by: Release, due: Option<(Instant, Duration)>, covers: impl Fn(&K) -> bool) -> u64 {
        let Some(hold) = self.hold.clone() else { return 0 };
        let part = |account: &Account<K::Source>| match due {
            Some((at, after)) => account.pending.due(&hold, at, after),
            None => account.pending.loss,
        };
        let held = self.accounts.iter().filter(|(target, account)| self.is_held(target, account) && covers(target));
        let released: Vec<(K, u64)> =
            held.map(|(target, account)| (target.clone(), part(account))).filter(|(_, part)| *part > 0).collect();
        let before = self.sums.waiting;
        for (target, part) in released {
            self.update(&target, 0, |account| account.pending.release(part));
        }
        let endpoints = before - self.sums.waiting;
        if endpoints > 0 {
            self.last_release = Some(LastRelease { id: hold.id.clone(), endpoints, by });
            self.events.push(GuardEvent::Released { id: hold.id, endpoints, by });
        }
        endpoints
    }

    /// Drops old losses, and begins, changes or ends the hold accordingly.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.advance(now);
        self.earlier.take_if(|earlier| earlier.is_over(now));
        let waiting = self.sums.waiting;
        self.whole = self.may_hold() && waiting > 0 && self.missing() + self.sums.at_risk > self.allowance();
        let tripped = self.whole || self.levels.held() > 0;
        let to_nothing = self.sums.loss >= self.there();
        match &self.hold {
            Some(hold) if !tripped => {
                // If all that is pending was released, that was already reported.
                if waiting > 0 || self.sums.loss == 0 {
                    self.events.push(GuardEvent::Ended { id: hold.id.clone() });
                }
                self.hold = None;
            }
            Some(hold) if hold.to_nothing == to_nothing && !hold.has_outgrown_its_id(self.held_endpoints()) => {}
            None if !tripped => {}
            old => {
                let since = old.as_ref().map_or_else(|| Since::new(now), |hold| hold.since);
                let id = self.id(to_nothing);
                self.hold = Some(Hold { id, since, to_nothing, told: self.held_endpoints() });
                self.report_held();
            }
        }
        self.resume_earlier();
    }

    /// Takes over the id and age of a hold from before the restart if its figures match: an approval by that id is
    /// meant for this hold, and its quiet time goes on.
    fn resume_earlier(&mut self) {
        let Some(hold) = &self.hold else { return };
        let endpoints = self.held_endpoints();
        let Some(earlier) = self.earlier.take_if(|earlier| earlier.is(endpoints, hold.to_nothing)) else { return };
        let since = earlier.since;
        self.hold = Some(earlier.into_hold());
        for account in self.accounts.values_mut() {
            account.pending.waits_since(since);
        }
        self.report_held();
    }

    /// Replaces a `Held` event that was not yet delivered: the newest is enough.
    fn report_held(&mut self) {
        let held = self.held().map(GuardEvent::Held);
        self.events.retain(|event| !matches!(event, GuardEvent::Held(_)));
        self.events.extend(held);
    }

    /// Returns an id that no hold of this process or an earlier one had: a repeated or late approval must not release
    /// removals that were not part of it.
    fn id(&mut self, to_nothing: bool) -> String {
        self.serial += 1;
        let mut digest = Sha256::new();
        let mut text = |text: &str| {
            digest.update((text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        };
        text(if to_nothing { "all" } else { "part" });
        for figure in [self.sums.loss, self.base(), self.serial] {
            text(&figure.to_string());
        }
        digest.finalize().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}
