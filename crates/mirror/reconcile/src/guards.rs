//! The two mass-change guards of one backend: one for its endpoints, and one for its ready endpoints where the policy
//! wants that. Both receive the same reports, and a write needs the permission of both.

use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::{Fall, Guard, GuardConfig, GuardEvent, HoldRecord, Passage, WindowRecord};
use gimbal_model::{SourceKey, TargetKey};
use gimbal_plan::{Count, Removals};

use crate::BackendState;
use crate::decide::{GuardAnswer, PendingLoss};

/// The shortest time between two stored figures of one hold.
const HOLD_GROWS: Duration = Duration::from_secs(5);

/// The guards of one backend.
#[derive(Debug, Clone)]
pub struct Guards {
    removals: Guard,
    readiness: Guard,
    /// The version of the stored state that the grants of each guard wait for.
    awaited: [Option<u64>; 2],
    /// When the figures of each guard's hold were stored last.
    holds_stored: [Option<Instant>; 2],
}

/// How the endpoints of a target changed.
#[derive(Debug)]
pub(crate) struct Recount<'a> {
    /// The source Service that they belong to, if known.
    pub(crate) source: Option<&'a SourceKey>,
    pub(crate) before: Count,
    pub(crate) after: Count,
    /// Whether a write may still be under way that changes them, because its answer was lost.
    pub(crate) in_doubt: bool,
    /// Where they are now, if they moved.
    pub(crate) moved: Option<&'a (TargetKey, Count)>,
    /// How missing endpoints count, and how missing ready endpoints do.
    pub(crate) fall: Fall,
    pub(crate) fall_of_ready: Fall,
}

impl Guards {
    pub(crate) fn new(config: GuardConfig) -> Self {
        Self {
            removals: Guard::new(config),
            readiness: Guard::new(config.of_readiness()),
            awaited: [None; 2],
            holds_stored: [None; 2],
        }
    }

    /// Returns the guard of the backend's endpoints.
    #[must_use]
    pub fn removals(&self) -> &Guard {
        &self.removals
    }

    /// Returns the guard of the backend's ready endpoints. It counts nothing unless the policy says so.
    #[must_use]
    pub fn readiness(&self) -> &Guard {
        &self.readiness
    }

    fn both(&self) -> [&Guard; 2] {
        [&self.removals, &self.readiness]
    }

    fn both_mut(&mut self) -> [&mut Guard; 2] {
        [&mut self.removals, &mut self.readiness]
    }

    pub(crate) fn configure(&mut self, config: GuardConfig, now: Instant) {
        self.removals.configure(config, now);
        self.readiness.configure(config.of_readiness(), now);
    }

    /// Forgets what was counted and held.
    pub(crate) fn forget(&mut self) {
        self.both_mut().into_iter().for_each(Guard::forget);
    }

    /// Forgets which version of the stored state removals wait for.
    pub(crate) fn forget_awaited(&mut self) {
        self.awaited = [None; 2];
    }

    /// Continues with a stored state. `settled` returns what a target of the backend has.
    pub(crate) fn restore(
        &mut self,
        state: &BackendState,
        settled: impl Fn(&TargetKey) -> Count,
        now: Instant,
        wall: SystemTime,
    ) {
        let endpoints = |key: &TargetKey| settled(key).endpoints as u64;
        self.removals.restore(state.window.as_ref(), state.hold.as_ref(), endpoints, now, wall);
        let ready = |key: &TargetKey| settled(key).ready as u64;
        self.readiness.restore(state.ready_window.as_ref(), state.ready_hold.as_ref(), ready, now, wall);
    }

    /// Sets what the next plan of a target would remove.
    pub(crate) fn set_pending(&mut self, key: &TargetKey, pending: &PendingLoss, now: Instant) {
        let PendingLoss { backend: _, held, twice, wanted, wanted_ready } = pending;
        let loss = |held: usize, wanted: usize| held.saturating_sub(wanted) as u64;
        self.removals.set_duplicates(key, twice.endpoints as u64, held.endpoints as u64, now);
        self.removals.pending(key, loss(held.endpoints, wanted.endpoints), held.endpoints as u64, now);
        self.readiness.set_duplicates(key, twice.ready as u64, held.ready as u64, now);
        self.readiness.pending(key, loss(held.ready, *wanted_ready), held.ready as u64, now);
    }

    /// Counts the endpoints of a target again.
    pub(crate) fn recount(&mut self, key: &TargetKey, recount: &Recount<'_>, now: Instant) {
        let Recount { source, before, after, in_doubt, moved, fall, fall_of_ready } = recount;
        self.removals.in_doubt(key, *in_doubt);
        self.readiness.in_doubt(key, *in_doubt);
        if let Some((to, there)) = moved {
            self.removals.moved(key, before.endpoints as u64, to, there.endpoints as u64, now);
            self.readiness.moved(key, before.ready as u64, to, there.ready as u64, now);
        } else {
            self.removals.observed(key, *source, before.endpoints as u64, after.endpoints as u64, *fall, now);
            self.readiness.observed(key, *source, before.ready as u64, after.ready as u64, *fall_of_ready, now);
        }
    }

    /// Returns whether a target's removals may be written, and what may be written if not. Asking grants the
    /// removals, if they are few enough.
    pub(crate) fn permit(&mut self, target: &TargetKey, now: Instant) -> GuardAnswer {
        let (removals, readiness) = (self.removals.verdict(target, now), self.readiness.verdict(target, now));
        let passage = match (removals, readiness) {
            (Passage::Held, _) | (_, Passage::Held) => Passage::Held,
            (Passage::Unkept, _) | (_, Passage::Unkept) => Passage::Unkept,
            (Passage::Allowed, Passage::Allowed) => return GuardAnswer::ALLOWED,
        };
        let ready = readiness != Passage::Allowed;
        GuardAnswer { passage, removals: if ready { Removals::HeldReady } else { Removals::Held } }
    }

    /// Whether a guard holds the removals of a target.
    pub(crate) fn hold_back(&self, target: &TargetKey) -> bool {
        self.both().into_iter().any(|guard| guard.holds_back(target))
    }

    /// Returns the targets whose removals are held, with repeats.
    pub(crate) fn held_targets(&self) -> impl Iterator<Item = &TargetKey> {
        self.both().into_iter().flat_map(Guard::held_targets)
    }

    /// Whether the record of granted removals is so late that other writes should no longer wait for it.
    pub(crate) fn record_is_late(&self, now: Instant) -> bool {
        self.both().into_iter().any(|guard| guard.record_is_late(now))
    }

    /// Whether removals wait for a record that could not be stored for long.
    pub(crate) fn wait_for_record(&self) -> bool {
        self.both().into_iter().any(Guard::waits_for_record)
    }

    /// Puts the records of granted removals that have to be stored into `state`. Returns which guards have one.
    pub(crate) fn put_records(&mut self, state: &mut BackendState, wall: SystemTime) -> [bool; 2] {
        let put = |record: Option<WindowRecord>, kept: &mut Option<WindowRecord>| {
            let asked = record.is_some();
            *kept = record.or_else(|| kept.take());
            asked
        };
        let removals = put(self.removals.record(wall), &mut state.window);
        [removals, put(self.readiness.record(wall), &mut state.ready_window)]
    }

    /// The removals of these guards wait until a version of the state is stored. A guard that waits for an earlier
    /// version already goes on waiting for that one, because both permit the same.
    pub(crate) fn await_version(&mut self, asked: [bool; 2], version: u64) {
        for (asks, awaited) in asked.into_iter().zip(&mut self.awaited) {
            *awaited = awaited.or(asks.then_some(version));
        }
    }

    /// A version of the state is stored, and all before it. Returns the targets whose removals waited for that.
    pub(crate) fn stored(&mut self, version: u64) -> Vec<TargetKey> {
        let mut released = Vec::new();
        let guards = [&mut self.removals, &mut self.readiness];
        for (guard, awaited) in guards.into_iter().zip(&mut self.awaited) {
            if awaited.take_if(|awaited| *awaited <= version).is_some() && guard.kept() {
                released.extend(guard.passing().cloned());
            }
        }
        released
    }

    /// A complete snapshot, begun at `begun`, confirms the held removals of the targets that it `covers`; `all`: it
    /// covers the whole source. Returns whether anything is released.
    pub(crate) fn snapshot_complete(
        &mut self,
        begun: Instant,
        all: bool,
        covers: impl Fn(&TargetKey) -> bool + Copy,
        now: Instant,
    ) -> bool {
        let released = self.removals.snapshot_complete(begun, all, covers, now);
        self.readiness.snapshot_complete(begun, all, covers, now) || released
    }

    /// Releases the held removals with this id. Returns how many Services they are about; `None` if there are none.
    pub(crate) fn approve(&mut self, id: &str) -> Option<u64> {
        // Where ready endpoints go, both guards may hold the same under one id.
        let approved = self.both_mut().into_iter().filter_map(|guard| {
            let services = guard.held_targets().count() as u64;
            guard.approve(id).map(|_| services)
        });
        approved.max()
    }

    /// Everything that the agent has to say is known.
    pub(crate) fn all_is_known(&mut self, now: Instant) {
        self.both_mut().into_iter().for_each(|guard| guard.all_is_known(now));
    }

    /// Returns what became due.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<GuardEvent> {
        let mut events = self.removals.tick(now);
        events.extend(self.readiness.tick(now));
        events
    }

    /// Prepares the records of what changed, to be returned by [`Guards::put_records`].
    pub(crate) fn note(&mut self, now: Instant) {
        self.both_mut().into_iter().for_each(|guard| guard.note(now));
    }

    /// Puts the holds into `state` if they have to be stored: a new or ended hold at once, growing figures now and
    /// then. Returns whether it changed `state`.
    pub(crate) fn put_holds(&mut self, state: &mut BackendState, now: Instant, wall: SystemTime) -> bool {
        let holds = [
            (self.removals.hold_record(now, wall), &mut state.hold),
            (self.readiness.hold_record(now, wall), &mut state.ready_hold),
        ];
        let mut changed = false;
        for ((hold, stored), last) in holds.into_iter().zip(&mut self.holds_stored) {
            let due = last.is_none_or(|last| now.saturating_duration_since(last) >= HOLD_GROWS);
            let figures = |hold: &Option<HoldRecord>| hold.as_ref().map(|hold| (hold.id.clone(), hold.endpoints));
            let same_id = hold.as_ref().map(|hold| &hold.id) == stored.as_ref().map(|hold| &hold.id);
            if figures(&hold) != figures(stored) && (!same_id || due) {
                *stored = hold;
                *last = Some(now);
                changed = true;
            }
        }
        changed
    }

    /// Removes holds that ended from `state`: an approved hold must not come back with the next leader.
    pub(crate) fn drop_ended_holds(&self, state: &mut BackendState) {
        if self.removals.held().is_none() {
            state.hold = None;
        }
        if self.readiness.held().is_none() {
            state.ready_hold = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_model::BackendName;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The growing figures of one guard's hold are stored in time, whenever those of the other one were.
    #[test]
    fn each_hold_is_stored_at_its_own_pace() {
        let (start, wall) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30));
        let config = GuardConfig { readiness: true, max_drop_percent: 10, min_endpoints: 1, ..GuardConfig::default() };
        let (mut guards, mut state) = (Guards::new(config), BackendState::default());
        let target = TargetKey::new("ns", "name");
        let all = Count { endpoints: 100, ready: 100 };
        let (fall, fall_of_ready) = (Fall::Lost, Fall::Lost);
        let recount = Recount {
            source: None,
            before: Count::default(),
            after: all,
            in_doubt: false,
            moved: None,
            fall,
            fall_of_ready,
        };
        guards.recount(&target, &recount, start);
        let mut stored = |endpoints: usize, ready: usize, after: Duration| {
            let pending = PendingLoss {
                backend: BackendName::parse("a").unwrap(),
                held: all,
                twice: Count::default(),
                wanted: Count { endpoints: 100 - endpoints, ready: 100 - ready },
                wanted_ready: 100 - ready,
            };
            guards.set_pending(&target, &pending, start + after);
            guards.tick(start + after);
            guards.put_holds(&mut state, start + after, wall + after);
            [&state.hold, &state.ready_hold].map(|hold| hold.as_ref().map_or(0, |hold| hold.endpoints))
        };
        assert_eq!(stored(0, 40, Duration::ZERO), [0, 40]);
        assert_eq!(stored(0, 41, SECOND), [0, 40], "not each change");
        assert_eq!(stored(40, 41, 4 * SECOND), [40, 40], "a new hold at once");
        assert_eq!(stored(40, 41, 5 * SECOND), [40, 41], "five seconds after the last time");
        assert_eq!(stored(41, 41, 8 * SECOND), [40, 41]);
        assert_eq!(stored(41, 42, 9 * SECOND), [41, 41]);
        assert_eq!(stored(41, 42, 10 * SECOND), [41, 42]);
    }
}
