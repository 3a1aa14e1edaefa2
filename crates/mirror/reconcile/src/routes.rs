//! Where each source Service leads: the target that its backend's policy names for it now, and those that it leaves.

use std::time::Instant;

use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_session::{Outcome, Reject, RejectReason};

use crate::target::Target;
use crate::{Claim, NamespaceRefused, Reconciler, Urgency};

impl Reconciler {
    /// What the policy of a backend makes of a source Service now; `None` where the backend is not known.
    pub(crate) fn target_of(
        &self,
        backend: &BackendName,
        key: &SourceKey,
    ) -> Option<Result<TargetKey, NamespaceRefused>> {
        let backend = self.backends.get(backend)?;
        Some(backend.policy.target(&backend.name, key, backend.end.service(key).map(|service| &**service)))
    }

    /// Makes the claim of a Service that is held stand where the policy wants it, and only there. Returns that target;
    /// what changed there or in the one before has yet to be weighed and lined up. Where there is none, the claim is settled.
    pub(crate) fn route(&mut self, claim: &Claim) -> Option<TargetKey> {
        let wanted = self.target_of(&claim.backend, &claim.key)?;
        let before = self.backends.get(&claim.backend)?.routes.get(&claim.key).cloned();
        if let Some(before) = before.filter(|before| wanted.as_ref() != Ok(before)) {
            self.withdraw(claim, &before);
        }
        self.come_back(claim);
        match wanted {
            Ok(target) => {
                let entry = self.targets.get_or_default(&target);
                if !entry.claims.contains(claim) {
                    entry.claims.push(claim.clone());
                }
                if let Some(backend) = self.backends.get_mut(&claim.backend) {
                    backend.routes.insert(claim.key.clone(), target.clone());
                }
                self.forget_move(claim, &target);
                Some(target)
            }
            Err(refused) => {
                if let Some(backend) = self.backends.get_mut(&claim.backend) {
                    backend.usage.stop_waiting(&claim.key);
                }
                self.settle(claim, Outcome::Rejected(refusal(claim, &refused)));
                None
            }
        }
    }

    /// A Service that its source had removed is there again: what is left of it elsewhere is what it moves away from.
    fn come_back(&mut self, claim: &Claim) {
        for place in self.places.get(claim).into_iter().flatten() {
            if let Some(target) = self.targets.get_mut(place) {
                target.leaving.retain(|other| other != claim);
            }
        }
    }

    /// A claim leads elsewhere, or nowhere, from now on. What stands for it here stays until that is decided.
    fn withdraw(&mut self, claim: &Claim, from: &TargetKey) {
        if let Some(backend) = self.backends.get_mut(&claim.backend) {
            backend.routes.remove(&claim.key);
        }
        let Some(target) = self.targets.get_mut(from) else { return };
        target.claims.retain(|other| other != claim);
        if !target.observed.is_empty() || self.queue.is_in_flight(from) {
            self.places.entry(claim.clone()).or_default().insert(from.clone());
        }
    }

    /// The Service is gone from its source: takes the claim away wherever it stands, and returns those targets.
    pub(crate) fn leave(&mut self, claim: &Claim) -> Vec<TargetKey> {
        let guess = self.target_of(&claim.backend, &claim.key).and_then(Result::ok);
        let Some(backend) = self.backends.get_mut(&claim.backend) else { return Vec::new() };
        backend.usage.stop_waiting(&claim.key);
        let route = backend.routes.remove(&claim.key).or(guess);
        let mut places = self.places.remove(claim).unwrap_or_default();
        places.extend(route);
        places.retain(|place| self.targets.contains_key(place));
        if places.is_empty() {
            // Where a map goes by what the Service says, only what stands in the Gimbal cluster tells where that is.
            let standing = self.targets.places(claim.backend.as_str(), &claim.key, None);
            let whose = |place: &TargetKey| self.targets.get(place).and_then(|target| self.whose(place, target));
            places.extend(standing.into_iter().filter(|place| whose(place).as_ref() == Some(claim)));
        }
        for place in &places {
            self.leave_place(claim, place);
        }
        places.into_iter().collect()
    }

    /// A claim goes away from a target; it is settled when nothing of it is left there, unless it comes back before.
    pub(crate) fn leave_place(&mut self, claim: &Claim, place: &TargetKey) {
        let Some(target) = self.targets.get_mut(place) else { return };
        target.claims.retain(|other| other != claim);
        if !target.leaving.contains(claim) {
            target.leaving.push(claim.clone());
        }
        self.places.entry(claim.clone()).or_default().insert(place.clone());
    }

    /// Nothing of a claim is left in a target that it was leaving. Once that is so everywhere, its removal is done.
    pub(crate) fn left_place(&mut self, claim: &Claim, place: &TargetKey) {
        if self.targets.get(place).is_some_and(|target| target.charged.as_ref() == Some(claim)) {
            self.set_charged(place, None);
        }
        if let Some(places) = self.places.get_mut(claim) {
            places.remove(place);
            if places.iter().any(|other| self.targets.get(other).is_some_and(|t| t.leaving.contains(claim))) {
                return;
            }
            self.places.remove(claim);
        }
        self.left(claim);
    }

    /// Looks again at the places that a claim moves away from, for there is news of it. What is another's by now is none: of
    /// two that changed places each would have the other looked at, for ever.
    pub(crate) fn look_at_places(&mut self, claim: &Claim, but: &TargetKey, now: Instant) {
        let Some(places) = self.places.get(claim) else { return };
        let others: Vec<TargetKey> = places.iter().filter(|place| *place != but).cloned().collect();
        for place in others {
            if self.targets.get(&place).and_then(|target| self.whose(&place, target)).as_ref() == Some(claim) {
                self.weigh(&place, now);
                self.enqueue(&place, &claim.backend, Urgency::Bulk);
            } else {
                self.forget_move(claim, &place);
            }
        }
    }

    /// Looks again at every place that a backend's Services move away from.
    pub(crate) fn look_at_moves(&mut self, name: &BackendName, now: Instant) {
        let first = Claim { backend: name.clone(), key: SourceKey::new("", "") };
        let moving: Vec<(Claim, TargetKey)> = self
            .places
            .range(first..)
            .take_while(|(claim, _)| claim.backend == *name)
            .flat_map(|(claim, places)| places.iter().map(|place| (claim.clone(), place.clone())))
            .collect();
        for (claim, place) in moving {
            self.weigh(&place, now);
            self.enqueue(&place, &claim.backend, Urgency::Bulk);
        }
    }

    /// A target is no more, so nothing moves away from it and nothing counts there.
    pub(crate) fn forget_place(&mut self, place: &TargetKey, was: &Target) {
        if let Some(claim) = &was.owner {
            self.forget_move(claim, place);
        }
        if let Some(claim) = &was.charged
            && let Some(backend) = self.backends.get_mut(&claim.backend)
        {
            backend.usage.gone_from(&claim.key, place);
        }
    }

    fn forget_move(&mut self, claim: &Claim, place: &TargetKey) {
        let Some(places) = self.places.get_mut(claim) else { return };
        places.remove(place);
        if places.is_empty() {
            self.places.remove(claim);
        }
    }

    /// Nothing more is written here for now: only what is there counts.
    pub(crate) fn charge_what_stands(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key) else { return };
        let Some(claim) = target.charged.as_ref() else { return };
        let endpoints = target.observed.endpoint_count() as u64;
        if let Some(backend) = self.backends.get_mut(&claim.backend) {
            backend.usage.stopped_at(&claim.key, endpoints, key);
        }
    }

    /// What is there counts against the quota of whose it is, or is about to be, before anyone asks for room beside it. What
    /// the policy lets in no more is about to go: it must not stand in the way of others.
    pub(crate) fn count_what_stands(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key).filter(|target| !target.observed.is_empty()) else { return };
        let permitted = |claim: &Claim| {
            let backend = self.backends.get(&claim.backend);
            backend.is_some_and(|backend| backend.policy.namespaces.permits(&key.namespace).is_ok())
        };
        let charged = target.charged.clone().filter(|charged| target.claims.contains(charged));
        if let Some(claim) = charged.as_ref().filter(|claim| permitted(claim))
            && self.backends.get(&claim.backend).is_some_and(|backend| backend.usage.counts_at(&claim.key, key))
        {
            // It counts already, and its endpoints are many.
            return;
        }
        let whose = charged.or_else(|| self.whose(key, target)).filter(permitted);
        let endpoints = target.observed.endpoint_count() as u64;
        if let Some(claim) = &whose
            && let Some(backend) = self.backends.get_mut(&claim.backend)
        {
            backend.usage.stands(&claim.key, endpoints, key);
        }
        self.set_charged(key, whose);
    }

    /// From here on the target counts against the quota of `claim`'s backend, and of no other.
    pub(crate) fn set_charged(&mut self, key: &TargetKey, claim: Option<Claim>) {
        let Some(target) = self.targets.get_mut(key) else { return };
        let before = std::mem::replace(&mut target.charged, claim);
        if let Some(before) = before.filter(|before| target.charged.as_ref() != Some(before))
            && let Some(backend) = self.backends.get_mut(&before.backend)
        {
            backend.usage.gone_from(&before.key, key);
        }
    }

    /// Those that wait for room in a quota are looked at again, in their order, where something was given back.
    pub(crate) fn serve_waiting(&mut self) {
        let mut turns = Vec::new();
        for backend in self.backends.values_mut() {
            for key in backend.usage.take_turns() {
                turns.extend(backend.routes.get(&key).map(|target| (target.clone(), backend.name.clone())));
            }
        }
        for (target, backend) in turns {
            self.enqueue(&target, &backend, Urgency::Bulk);
        }
    }
}

fn refusal(claim: &Claim, refused: &NamespaceRefused) -> Reject {
    let reason = match refused {
        NamespaceRefused::NameTaken(_) => RejectReason::NameConflict,
        _ => RejectReason::NamespaceForbidden,
    };
    Reject { key: Some(claim.key.clone()), reason, retryable: false, message: refused.to_string() }
}
