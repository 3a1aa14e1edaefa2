//! Who has a name in the Gimbal cluster, and what the guard has to count.

use std::time::Instant;

use gimbal_model::{BackendName, TargetKey, service_name};
use gimbal_plan::{Count, Fall};
use gimbal_session::RejectReason;

use crate::backend::Measured;
use crate::quota::{Amount, Exceeded};
use crate::target::Target;
use crate::{Backend, Claim, Mode, Reconciler, Stage};

/// Whose a target is, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is wanted, and this claim has it.
    Owned(Claim),
    /// It is wanted, but stands for another source Service that may still be there.
    Blocked(Claim),
    /// Nobody wants what is there, and that is proven.
    Gone(Gone),
    /// What it stands for leads to another target now, and is not there yet.
    Moving(Claim, TargetKey),
    /// Its backend is in quarantine: it stays as it is, wanted or not.
    Frozen(Claim),
    /// Nobody is known to want what is there; it stays, for the reason given.
    Kept(String),
    /// Nobody wants it and nothing is there.
    Nothing,
}

/// Why nobody wants what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The source has it no more.
    Source,
    /// The policy of its backend does not let it in, for this reason.
    Policy(String),
    /// It is in this target now.
    Moved(TargetKey),
    /// An admin ordered the removal of the backend.
    Decommissioned,
}

/// What becomes of an object whose claim is not one on its own target.
enum Fate {
    Goes(Gone),
    Moves(TargetKey),
    Freezes,
    Stays(String),
}

impl Reconciler {
    /// Decides whose the target is. Whoever's object stands keeps the name, in whatever order agents come back; without
    /// an object the first claim of a backend that may write has it.
    pub(crate) fn standing(&self, key: &TargetKey, target: &Target) -> Standing {
        self.standing_if(key, target, self.is_held_back(key, target))
    }

    /// As [`Reconciler::standing`], where what it would lose may go or not.
    pub(crate) fn standing_if(&self, key: &TargetKey, target: &Target, held_back: bool) -> Standing {
        self.stand(key, target, |backend| self.is_frozen(backend), held_back)
    }

    /// As [`Reconciler::standing`], if the guard held nothing: what it has to judge.
    fn standing_unheld(&self, key: &TargetKey, target: &Target) -> Standing {
        self.standing_if(key, target, false)
    }

    /// Whether the guard holds what the backend that has the target's endpoints would lose of them.
    fn is_held_back(&self, key: &TargetKey, target: &Target) -> bool {
        let backend = target.counted_for.as_ref().and_then(|name| self.backends.get(name));
        backend.is_some_and(|backend| backend.guards().into_iter().any(|guard| guard.holds_back(key)))
    }

    /// As [`Reconciler::standing`], if no backend were in quarantine.
    pub(crate) fn standing_thawed(&self, key: &TargetKey, target: &Target) -> Standing {
        self.stand(key, target, |_| false, self.is_held_back(key, target))
    }

    /// Whether a backend is in quarantine.
    pub(crate) fn is_frozen(&self, backend: &BackendName) -> bool {
        self.backends.get(backend).is_some_and(|backend| backend.listed && backend.policy.mode == Mode::Quarantine)
    }

    fn waits_for_room(&self, claim: &Claim) -> bool {
        let waits = self.backends.get(&claim.backend).is_some_and(|backend| backend.usage.waits(&claim.key));
        waits && self.room_for(claim).is_err()
    }

    fn stand(
        &self,
        key: &TargetKey,
        target: &Target,
        frozen: impl Fn(&BackendName) -> bool,
        held_back: bool,
    ) -> Standing {
        // What we decided outlives the claim: labels and annotations may have been edited since. But where nothing was
        // written, who cannot write now keeps no name from others.
        let claims = target.claims.as_slice();
        let idle =
            |claim: &Claim| frozen(&claim.backend) || self.waits_for_room(claim) || self.unwanted(claim, key).is_some();
        let owned = |claim: &Claim| match frozen(&claim.backend) {
            true => Standing::Frozen(claim.clone()),
            false => Standing::Owned(claim.clone()),
        };
        let alone = |owner: &Claim| matches!(claims, [only] if only == owner);
        let decided = target.owner.clone();
        let decided = decided.filter(|owner| !target.observed.is_empty() || alone(owner) || !idle(owner));
        let holder = decided.or_else(|| self.holder(key, target));
        if let Some(holder) = holder.as_ref().filter(|holder| claims.contains(holder)) {
            return owned(holder);
        }
        // Whether it can be written matters, and is asked, only where there is another to have it.
        let first = match claims {
            [only] => Some(only),
            _ => claims.iter().find(|claim| !idle(claim)),
        };
        let first = first.or_else(|| claims.iter().find(|claim| !frozen(&claim.backend))).or_else(|| claims.first());
        match (holder, first) {
            (Some(holder), first) => match (self.fate(&holder, key, target, frozen(&holder.backend)), first) {
                (Fate::Freezes, _) => Standing::Frozen(holder),
                // Its object is what kept the name.
                (Fate::Stays(_) | Fate::Moves(_), Some(first)) if target.observed.is_empty() => owned(first),
                (Fate::Stays(_), Some(_)) => Standing::Blocked(holder),
                (Fate::Stays(why), None) => Standing::Kept(why),
                // What is held stands as it is, and keeps the name.
                (Fate::Goes(_), Some(first)) if !idle(first) && held_back => Standing::Blocked(holder),
                (Fate::Moves(to), Some(_)) if held_back => Standing::Moving(holder, to),
                (Fate::Goes(_) | Fate::Moves(_), Some(first)) if !idle(first) => owned(first),
                // Who cannot write now gets it once it is gone.
                (Fate::Goes(why), _) => Standing::Gone(why),
                (Fate::Moves(to), _) => Standing::Moving(holder, to),
            },
            (None, Some(first)) => owned(first),
            (None, None) if target.observed.is_empty() => Standing::Nothing,
            (None, None) if self.only_labelled(key, target).is_some_and(|name| self.is_being_removed(name)) => {
                Standing::Gone(Gone::Decommissioned)
            }
            (None, None) => {
                Standing::Kept("its labels and annotations name no source Service that could have it".into())
            }
        }
    }

    /// Whose what is there is: as decided, else as it says itself.
    pub(crate) fn whose(&self, key: &TargetKey, target: &Target) -> Option<Claim> {
        target.owner.clone().or_else(|| self.holder(key, target))
    }

    /// Whether what is there is another's, or nobody's.
    pub(crate) fn is_anothers(&self, key: &TargetKey, target: &Target, claim: &Claim) -> bool {
        !target.observed.is_empty() && self.whose(key, target).as_ref() != Some(claim)
    }

    /// The claim that the objects in the Gimbal cluster stand for. One whose name would be another was edited by hand
    /// and says nothing. Its namespace may be another: the policy may have changed since.
    pub(crate) fn holder(&self, key: &TargetKey, target: &Target) -> Option<Claim> {
        target.observed.owners().find_map(|(label, source)| {
            let backend = BackendName::parse(label).ok()?;
            let plausible = *service_name(&backend, &source.name) == *key.name;
            plausible.then(|| Claim { backend, key: source.clone() })
        })
    }

    /// What becomes of the object of `holder`, who has no claim here.
    fn fate(&self, holder: &Claim, key: &TargetKey, target: &Target, frozen: bool) -> Fate {
        if self.is_being_removed(&holder.backend) {
            return Fate::Goes(Gone::Decommissioned);
        }
        let Some(backend) = self.backends.get(&holder.backend).filter(|backend| backend.listed) else {
            let name = &holder.backend;
            return Fate::Stays(format!(
                "backend {name} is not configured; its objects stay until it is decommissioned"
            ));
        };
        if frozen {
            return Fate::Freezes;
        }
        // That needs no word of the agent. But an edit by hand is no proof: all of it must say whose it is.
        let sure = target.owner.as_ref() == Some(holder) || self.is_all_of(holder, target);
        if let Err(refused) = backend.policy.namespaces.permits(&key.namespace)
            && sure
        {
            return Fate::Goes(Gone::Policy(refused.to_string()));
        }
        if backend.end.service(&holder.key).is_none() {
            return self.fate_of_absent(holder, backend);
        }
        match self.target_of(&holder.backend, &holder.key) {
            Some(Err(refused)) => Fate::Goes(Gone::Policy(refused.to_string())),
            Some(Ok(to)) if to != *key => {
                // Where labels alone say whose it is, only with a complete view nobody else of the backend is about to claim
                // it: an edit by hand could hide that.
                let known = match target.owner.as_ref() == Some(holder) {
                    true => backend.end.knows(&holder.key.namespace),
                    false => backend.end.is_complete(),
                };
                if known && self.has_arrived(holder, &to) { Fate::Goes(Gone::Moved(to)) } else { Fate::Moves(to) }
            }
            _ => Fate::Stays(format!("{holder} is what it stands for")),
        }
    }

    /// Whether the source said that it has this Service no more: explicitly, or by a complete snapshot without it.
    fn fate_of_absent(&self, holder: &Claim, backend: &Backend) -> Fate {
        // What could not be read is there, in whatever state.
        let absent = backend.end.knows(&holder.key.namespace) && !backend.end.is_unreadable(&holder.key);
        if backend.end.removed_explicitly(&holder.key) || absent {
            return Fate::Goes(Gone::Source);
        }
        Fate::Stays(if backend.connected {
            format!("{holder} is what it stands for, and no complete snapshot has shown that it is gone")
        } else {
            format!("{holder} is what it stands for, and no agent of that backend is connected")
        })
    }

    fn is_all_of(&self, claim: &Claim, target: &Target) -> bool {
        target.observed.owners().all(|(label, source)| **label == *claim.backend.as_str() && *source == claim.key)
    }

    /// Whether a claim is in a target as its source has it.
    fn has_arrived(&self, claim: &Claim, to: &TargetKey) -> bool {
        let Some(target) = self.targets.get(to) else { return false };
        let rejected = self.backends.get(&claim.backend).and_then(|backend| backend.end.rejects().get(&claim.key));
        let whole = rejected.is_none_or(|reject| reject.reason == RejectReason::AddressRefused);
        target.owner.as_ref() == Some(claim) && target.converged && !target.observed.is_empty() && whole
    }

    /// Tells the guard of the backend that has the target's endpoints what they would lose, whoever gets the target next.
    pub(crate) fn weigh(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        let Some(backend) = target.counted_for.clone() else { return };
        let held = target.settled;
        let twice = self.twice(key, target).min(held);
        let settled = |to: &TargetKey| self.targets.get(to).map_or_else(Count::default, |to| to.settled);
        let wanted = match self.standing_unheld(key, target) {
            // What a policy takes away is the operator's decision, and no loss that the guard has to judge.
            _ if self.stage_of(target) == Stage::Drained => held,
            // What another backend puts in their place is nothing to the one that loses them, but what it has by now where it
            // wants to have them.
            Standing::Owned(claim) if claim.backend != backend => {
                let home = target.counted_as.as_ref().and_then(|source| self.target_of(&backend, source)?.ok());
                home.filter(|home| home != key).map_or_else(Count::default, |home| settled(&home))
            }
            Standing::Owned(claim) => self.attainable(&claim, key, target, held),
            Standing::Gone(Gone::Source | Gone::Policy(_)) => Count::default(),
            // It is not lost, it is elsewhere.
            Standing::Gone(Gone::Moved(to)) => settled(&to),
            // Nothing is left to be judged; that it is gone is counted by and by.
            Standing::Nothing => return,
            _ => held,
        };
        let not_ready = self.stage_of(target) == Stage::NotReady;
        let loss = |held: usize, wanted: usize| held.saturating_sub(wanted) as u64;
        if let Some(backend) = self.backends.get_mut(&backend) {
            backend.guard.stands_twice(key, twice.endpoints as u64, held.endpoints as u64, now);
            backend.guard.pending(key, loss(held.endpoints, wanted.endpoints), held.endpoints as u64, now);
            backend.readiness.stands_twice(key, twice.ready as u64, held.ready as u64, now);
            let ready = if not_ready { held.ready } else { wanted.ready };
            backend.readiness.pending(key, loss(held.ready, ready), held.ready as u64, now);
        }
    }

    /// Of what a target has, what its source Service has at a larger place, too.
    fn twice(&self, key: &TargetKey, target: &Target) -> Count {
        let own = (target.settled.endpoints, key);
        let others = self.other_places(target, key).into_iter();
        let larger = others.filter(|(place, there)| (there.endpoints, place) > own);
        larger.map(|(_, there)| there).max_by_key(|there| there.endpoints).unwrap_or_default()
    }

    /// Where else the source Service of a target stands, and what counts there.
    fn other_places(&self, target: &Target, key: &TargetKey) -> Vec<(TargetKey, Count)> {
        let (Some(name), Some(source)) = (&target.counted_for, &target.counted_as) else { return Vec::new() };
        let places = self.targets.places(name.as_str(), source, Some(key));
        let counts = places.into_iter().filter_map(|place| {
            let there = self.targets.get(&place).filter(|there| there.counted_for.as_ref() == Some(name))?;
            Some((place, there.settled))
        });
        counts.collect()
    }

    /// What a claim's Service takes of its backend's quota, and whether there is room for it.
    pub(crate) fn room_for(&self, claim: &Claim) -> Result<Amount, Exceeded> {
        let Some(backend) = self.backends.get(&claim.backend) else { return Ok(Amount::default()) };
        let Some(Measured { count, bytes, .. }) = self.measured(claim) else { return Ok(Amount::default()) };
        let amount = Amount { services: 1, endpoints: count.endpoints as u64, bytes };
        backend.usage.check(&claim.key, amount, &backend.policy.quota).map(|()| amount)
    }

    /// Weighs all there is, so that the guard sees all of it before the first target is decided.
    pub(crate) fn weigh_everything(&mut self, now: Instant) {
        let all: Vec<TargetKey> = self.targets.iter().map(|(key, _)| key.clone()).collect();
        for key in all {
            self.weigh(&key, now);
        }
    }

    /// Endpoints of a claim that its policy lets through, as the Gimbal cluster will hold them.
    pub(crate) fn publishable(&self, claim: &Claim) -> Count {
        self.measured(claim).map_or_else(Count::default, |measured| measured.count)
    }

    /// Whether a claim's Service can be written where its policy wants it.
    pub(crate) fn is_valid(&self, claim: &Claim) -> bool {
        self.measured(claim).is_none_or(|measured| measured.valid)
    }

    /// How much a claim's Service is, as it was measured when it changed.
    fn measured(&self, claim: &Claim) -> Option<Measured> {
        let backend = self.backends.get(&claim.backend)?;
        backend.measured.get(&claim.key).copied().or_else(|| backend.measure(&claim.key, self.settings.api))
    }

    /// A Service that the agent holds changed, or its policy did: its endpoints are counted once, not at each look.
    pub(crate) fn measure(&mut self, claim: &Claim) {
        let api = self.settings.api;
        let Some(backend) = self.backends.get_mut(&claim.backend) else { return };
        match backend.measure(&claim.key, api) {
            Some(measured) => backend.measured.insert(claim.key.clone(), measured),
            None => backend.measured.remove(&claim.key),
        };
    }

    /// Brings a backend's total up to date with what a target holds now that nothing is under way for it, and tells its
    /// guard what is missing since.
    pub(crate) fn recount(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        // Not who waits for the name: what is there is lost by whose it is.
        let whose = self.whose(key, target);
        let name = whose.as_ref().map(|claim| claim.backend.clone()).or_else(|| self.backend_of(target));
        let name = name.filter(|name| self.backends.contains_key(name));
        if target.counted_for != name {
            self.uncount(key, now);
        }
        let Some(target) = self.targets.get_mut(key) else { return };
        target.counted_for = name;
        target.counted_as = whose.map(|claim| claim.key).or_else(|| target.counted_as.take());
        let count = target.observed.count();
        self.count(key, count, now);
    }

    /// What is to be written next may wait for long: what is missing by now is missing, and true if anything is. What came
    /// beside what is to go does not count yet, for a moment later it would be missing.
    pub(crate) fn count_losses(&mut self, key: &TargetKey, now: Instant) -> bool {
        let fewer = |target: &Target| target.observed.count().endpoints < target.settled.endpoints;
        let lost = self.targets.get(key).is_some_and(fewer);
        if lost {
            self.recount(key, now);
        }
        lost
    }

    /// Takes a target out of the total of the backend that it was counted for: nothing of that is there any more.
    pub(crate) fn uncount(&mut self, key: &TargetKey, now: Instant) {
        self.count(key, Count::default(), now);
        if let Some(target) = self.targets.get_mut(key) {
            target.counted_for = None;
            target.counted_as = None;
        }
    }

    fn count(&mut self, key: &TargetKey, count: Count, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        // What a policy of loss, or an admin, takes away is no loss to be judged. Who does not lead does not know what was
        // released.
        let removed = target.counted_for.as_ref().is_some_and(|name| self.is_decommissioned(name));
        let counts = self.epoch.is_some() && !removed;
        let stage = self.stage_of(target);
        let falls = |counts: bool| if counts { Fall::Lost } else { Fall::Forgiven };
        let fall = falls(counts && stage != Stage::Drained);
        let fall_of_ready = falls(counts && stage == Stage::Hold);
        let others = self.other_places(target, key);
        let in_doubt = self.doubts.are_of(key, &target.observed, now);
        let Some(target) = self.targets.get_mut(key) else { return };
        let before = std::mem::replace(&mut target.settled, count);
        let Some(name) = target.counted_for.as_ref() else { return };
        let Some(backend) = self.backends.get_mut(name) else { return };
        backend.endpoints = backend.endpoints.saturating_sub(before.endpoints as u64) + count.endpoints as u64;
        backend.guard.in_doubt(key, in_doubt);
        backend.readiness.in_doubt(key, in_doubt);
        // It is not lost, it is elsewhere.
        let moved =
            others.iter().max_by_key(|(_, there)| there.endpoints).filter(|_| counts && count == Count::default());
        if let Some((to, there)) = moved {
            backend.guard.moved(key, before.endpoints as u64, to, there.endpoints as u64, now);
            backend.readiness.moved(key, before.ready as u64, to, there.ready as u64, now);
        } else {
            let source = target.counted_as.as_ref();
            backend.guard.observed(key, source, before.endpoints as u64, count.endpoints as u64, fall, now);
            backend.readiness.observed(key, source, before.ready as u64, count.ready as u64, fall_of_ready, now);
        }
        for (place, _) in &others {
            self.weigh(place, now);
        }
        if !others.is_empty() {
            self.weigh(key, now);
        }
    }
}
