//! Where each source Service leads: the target that its backend's policy names for it now, and those that it leaves.

use std::time::Instant;

use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_stream::{Outcome, Reject, RejectReason};

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
        match wanted {
            Ok(target) => {
                let entry = self.targets.get_or_default(&target);
                entry.leaving.retain(|other| other != claim);
                if !entry.claims.contains(claim) {
                    entry.claims.push(claim.clone());
                }
                if let Some(backend) = self.backends.get_mut(&claim.backend) {
                    backend.routes.insert(claim.key.clone(), target.clone());
                }
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
        for place in &places {
            if let Some(target) = self.targets.get_mut(place) {
                target.claims.retain(|other| other != claim);
                if !target.leaving.contains(claim) {
                    target.leaving.push(claim.clone());
                }
            }
        }
        let all = places.iter().cloned().collect();
        if places.len() > 1 {
            self.places.insert(claim.clone(), places);
        }
        all
    }

    /// Nothing of a claim is left in a target that it was leaving. Once that is so everywhere, its removal is done.
    pub(crate) fn left_place(&mut self, claim: &Claim, place: &TargetKey) {
        if let Some(backend) = self.backends.get_mut(&claim.backend) {
            backend.usage.gone_from(&claim.key, place);
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

    /// Looks again at the places that a claim moves away from, for there is news of it.
    pub(crate) fn look_at_places(&mut self, claim: &Claim, but: &TargetKey, now: Instant) {
        let Some(places) = self.places.get(claim) else { return };
        let others: Vec<TargetKey> = places.iter().filter(|place| *place != but).cloned().collect();
        for place in others {
            self.weigh(&place, now);
            self.enqueue(&place, &claim.backend, Urgency::Bulk);
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
        if let Some(claim) = &was.owner
            && let Some(places) = self.places.get_mut(claim)
        {
            places.remove(place);
            if places.is_empty() {
                self.places.remove(claim);
            }
        }
        if let Some(claim) = &was.charged
            && let Some(backend) = self.backends.get_mut(&claim.backend)
        {
            backend.usage.gone_from(&claim.key, place);
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

    /// What nobody wants and an edit by hand made nobody's counts against nobody's quota.
    pub(crate) fn stop_charging(&mut self, key: &TargetKey) {
        let Some(target) = self.targets.get(key).filter(|target| target.owner.is_none()) else { return };
        let Some(claim) = target.charged.clone().filter(|charged| !target.claims.contains(charged)) else { return };
        if self.holder(key, target).as_ref() == Some(&claim) {
            return;
        }
        if let Some(target) = self.targets.get_mut(key) {
            target.charged = None;
        }
        if let Some(backend) = self.backends.get_mut(&claim.backend) {
            backend.usage.gone_from(&claim.key, key);
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
