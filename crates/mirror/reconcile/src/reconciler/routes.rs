//! Where each source Service leads: the target that its backend's policy chooses for it now, and the targets that it
//! leaves.

use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};
use gimbal_session::{Outcome, Reject, RejectReason};

use crate::target::Target;
use crate::{Claim, NamespaceRefused, Reconciler, Urgency};

impl Reconciler {
    /// Moves the claim of a Service that its agent holds to the target that the policy chooses, and returns that
    /// target. The caller has to update the guard for it and for the one before, and to enqueue both. If the policy
    /// admits no target, the claim is rejected.
    pub(super) fn route(&mut self, claim: &Claim) -> Option<TargetKey> {
        let wanted = self.desired.target_of(&claim.backend, &claim.key)?;
        let before = self.desired.get(&claim.backend)?.routes().current(&claim.key).cloned();
        if let Some(before) = before.filter(|before| wanted.as_ref() != Ok(before)) {
            self.withdraw(claim, &before);
        }
        self.cancel_leaving(claim);
        match wanted {
            Ok(target) => {
                self.targets.get_or_default(&target).add_claim(claim);
                if let Some(backend) = self.desired.get_mut(&claim.backend) {
                    backend.routes_mut().set_current(&claim.key, &target);
                }
                Some(target)
            }
            Err(refused) => {
                if let Some(backend) = self.desired.get_mut(&claim.backend) {
                    backend.usage_mut().stop_waiting(&claim.key);
                }
                self.report(claim, Outcome::Rejected(refusal(claim, &refused)));
                None
            }
        }
    }

    /// A Service that its source had removed exists again: it moves away from its old targets instead of leaving them.
    fn cancel_leaving(&mut self, claim: &Claim) {
        for place in self.desired.old_places(claim) {
            if let Some(target) = self.targets.get_mut(place) {
                target.cancel_leaving(claim);
            }
        }
    }

    /// Takes a claim away from a target because it leads elsewhere, or nowhere, from now on. Its objects stay until
    /// the target is decided.
    fn withdraw(&mut self, claim: &Claim, from: &TargetKey) {
        if let Some(backend) = self.desired.get_mut(&claim.backend) {
            backend.routes_mut().remove_current(&claim.key);
        }
        let Some(target) = self.targets.get_mut(from) else { return };
        target.remove_claim(claim);
        if !target.observed().is_empty() || self.queue.is_in_flight(from) {
            self.desired.add_old_place(claim, from);
        }
    }

    /// Takes a claim away from all of its targets because the source no longer has the Service. Returns those targets.
    pub(super) fn leave(&mut self, claim: &Claim) -> Vec<TargetKey> {
        let guess = self.desired.target_of(&claim.backend, &claim.key).and_then(Result::ok);
        let Some(backend) = self.desired.get_mut(&claim.backend) else { return Vec::new() };
        backend.usage_mut().stop_waiting(&claim.key);
        let route = backend.routes_mut().remove_current(&claim.key).or(guess);
        let mut places = backend.routes_mut().take_old(&claim.key);
        places.extend(route);
        places.retain(|place| self.targets.contains_key(place));
        if places.is_empty() {
            // Where the target depends on an annotation of the Service, only the existing objects show which one it
            // was.
            let existing = self.targets.places(claim.backend.as_str(), &claim.key, None);
            let owner = |place: &TargetKey| self.targets.get(place).and_then(|target| target.belongs_to(place));
            places.extend(existing.into_iter().filter(|place| owner(place).as_ref() == Some(claim)));
        }
        for place in &places {
            self.leave_place(claim, place);
        }
        places.into_iter().collect()
    }

    /// Takes a claim away from one target. Its removal is reported as applied when none of its objects is left there,
    /// unless the Service comes back before.
    pub(super) fn leave_place(&mut self, claim: &Claim, place: &TargetKey) {
        let Some(target) = self.targets.get_mut(place) else { return };
        target.add_leaving(claim);
        self.desired.add_old_place(claim, place);
    }

    /// None of a leaving claim's objects is left in a target. Once that is so everywhere, its removal is done.
    pub(super) fn left_place(&mut self, claim: &Claim, place: &TargetKey) {
        if self.targets.get(place).is_some_and(|target| target.charged() == Some(claim)) {
            self.set_charged(place, None);
        }
        self.desired.remove_old_place(claim, place);
        let leaves = |other: &TargetKey| self.targets.get(other).is_some_and(|target| target.leaving().contains(claim));
        if self.desired.old_places(claim).any(leaves) {
            return;
        }
        if let Some(backend) = self.desired.get_mut(&claim.backend) {
            backend.routes_mut().take_old(&claim.key);
        }
        self.left(claim);
    }

    /// Enqueues the old targets of a moving claim, except for `but`. Skips targets that belong to another claim by
    /// now; otherwise two claims that swapped names would enqueue each other's target forever.
    pub(super) fn enqueue_old_places(&mut self, claim: &Claim, but: &TargetKey, now: Instant) {
        let others: Vec<TargetKey> = self.desired.old_places(claim).filter(|place| *place != but).cloned().collect();
        for place in others {
            if self.targets.get(&place).and_then(|target| target.belongs_to(&place)).as_ref() == Some(claim) {
                self.update_guard(&place, now);
                self.enqueue(&place, &claim.backend, Urgency::Bulk);
            } else {
                self.desired.remove_old_place(claim, &place);
            }
        }
    }

    /// Enqueues every target that a backend's Services leave or move away from.
    pub(super) fn enqueue_moves(&mut self, name: &BackendName, now: Instant) {
        let Some(backend) = self.desired.get(name) else { return };
        let places: Vec<TargetKey> = backend.routes().all_old().cloned().collect();
        for place in places {
            self.update_guard(&place, now);
            self.enqueue(&place, name, Urgency::Bulk);
        }
    }

    /// A target was dropped: no claim moves away from it, and nothing is charged for it.
    pub(super) fn forget_place(&mut self, place: &TargetKey, was: &Target) {
        if let Some(claim) = was.owner() {
            self.desired.remove_old_place(claim, place);
        }
        if let Some(claim) = was.charged()
            && let Some(backend) = self.desired.get_mut(&claim.backend)
        {
            backend.usage_mut().release(&claim.key, place);
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
