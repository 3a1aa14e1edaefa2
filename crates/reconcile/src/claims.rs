//! Who has a name in the Gimbal cluster, and what the guard has to count.

use std::time::Instant;

use gimbal_model::{BackendName, TargetKey, service_name};

use crate::target::Target;
use crate::{Claim, Reconciler};

/// Whose a target is, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is wanted, and this claim has it.
    Owned(Claim),
    /// It is wanted, but stands for another source Service that may still be there.
    Blocked(Claim),
    /// Nobody wants what is there, and that is proven.
    Gone,
    /// Nobody is known to want what is there; it stays, for the reason given.
    Kept(String),
    /// Nobody wants it and nothing is there.
    Nothing,
}

impl Reconciler {
    /// Decides whose the target is. Whoever's object stands keeps the name, in whatever order agents come back; without
    /// an object the first claim has it.
    pub(crate) fn standing(&self, key: &TargetKey, target: &Target) -> Standing {
        if let Some(owner) = target.owner.as_ref().filter(|owner| target.claims.contains(owner)) {
            return Standing::Owned(owner.clone());
        }
        // What we decided outlives the claim: labels and annotations may have been edited since.
        let holder = target.owner.clone().or_else(|| self.holder(key, target));
        match (holder, target.claims.first()) {
            (Some(holder), _) if target.claims.contains(&holder) => Standing::Owned(holder),
            (Some(holder), Some(first)) => {
                if self.proven_gone(&holder) {
                    Standing::Owned(first.clone())
                } else {
                    Standing::Blocked(holder)
                }
            }
            (None, Some(first)) => Standing::Owned(first.clone()),
            (Some(holder), None) => {
                if self.proven_gone(&holder) {
                    Standing::Gone
                } else {
                    Standing::Kept(self.why_kept(&holder))
                }
            }
            (None, None) if target.observed.is_empty() => Standing::Nothing,
            (None, None) => {
                Standing::Kept("its labels and annotations name no source Service that could have it".into())
            }
        }
    }

    /// The claim that the objects in the Gimbal cluster stand for. One whose name would be another was edited by hand
    /// and says nothing.
    pub(crate) fn holder(&self, key: &TargetKey, target: &Target) -> Option<Claim> {
        target.observed.owners().find_map(|(label, source)| {
            let backend = BackendName::parse(label).ok()?;
            let plausible = match self.target_of(&backend, source) {
                Some(Ok(wanted)) => wanted == *key,
                // A policy that does not let the backend in any more takes nothing away by itself.
                Some(Err(_)) | None => *service_name(&backend, &source.name) == *key.name,
            };
            plausible.then(|| Claim { backend, key: source.clone() })
        })
    }

    /// Whether the source said that it has this Service no more: explicitly, or by a complete snapshot without it.
    fn proven_gone(&self, claim: &Claim) -> bool {
        let Some(backend) = self.backends.get(&claim.backend) else { return false };
        if backend.end.service(&claim.key).is_some() {
            return false;
        }
        backend.end.removed_explicitly(&claim.key) || backend.end.knows(&claim.key.namespace)
    }

    fn why_kept(&self, claim: &Claim) -> String {
        match self.backends.get(&claim.backend) {
            None => format!("backend {} is not configured; its objects stay until it is decommissioned", claim.backend),
            Some(backend) if !backend.connected => {
                format!("{claim} is what it stands for, and no agent of that backend is connected")
            }
            Some(_) => format!("{claim} is what it stands for, and no complete snapshot has shown that it is gone"),
        }
    }

    /// Tells the guard of the backend that has the target's endpoints what they would lose, whoever gets the target next.
    pub(crate) fn weigh(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get(key) else { return };
        let Some(backend) = target.counted_for.clone() else { return };
        let held = target.settled_endpoints;
        let wanted = match self.standing(key, target) {
            Standing::Owned(claim) => self.publishable(&claim),
            Standing::Gone => 0,
            Standing::Blocked(_) | Standing::Kept(_) | Standing::Nothing => held,
        };
        let loss = held.saturating_sub(wanted) as u64;
        if let Some(target) = self.targets.get_mut(key) {
            target.loss = loss;
        }
        if let Some(backend) = self.backends.get_mut(&backend) {
            backend.guard.pending(key, loss, now);
        }
    }

    /// Endpoints of a claim that its policy lets through.
    fn publishable(&self, claim: &Claim) -> usize {
        let Some(backend) = self.backends.get(&claim.backend) else { return 0 };
        let Some(service) = backend.end.service(&claim.key) else { return 0 };
        service.endpoints().filter(|(_, endpoint)| backend.policy.addresses.check(endpoint.address).is_ok()).count()
    }

    /// Brings a backend's total up to date with what a target holds now that nothing is under way for it.
    pub(crate) fn recount(&mut self, key: &TargetKey, now: Instant) {
        let observing = self.has_observed();
        let Some(target) = self.targets.get(key) else { return };
        let count = target.observed.endpoint_count();
        let name = self.backend_of(target).filter(|name| self.backends.contains_key(name));
        if target.counted_for != name {
            self.uncount(key, now);
        }
        let Some(target) = self.targets.get_mut(key) else { return };
        let before = std::mem::replace(&mut target.settled_endpoints, count);
        target.counted_for.clone_from(&name);
        if let Some(backend) = name.and_then(|name| self.backends.get_mut(&name)) {
            backend.endpoints = backend.endpoints.saturating_sub(before as u64) + count as u64;
            // While the first lists come in, the total grows from nothing: no base to measure a loss by.
            if observing {
                backend.guard.observed(backend.endpoints, now);
            }
        }
    }

    /// Takes a target out of the total of the backend that it was counted for.
    pub(crate) fn uncount(&mut self, key: &TargetKey, now: Instant) {
        let Some(target) = self.targets.get_mut(key) else { return };
        let count = std::mem::take(&mut target.settled_endpoints) as u64;
        if let Some(backend) = target.counted_for.take().and_then(|name| self.backends.get_mut(&name)) {
            backend.endpoints = backend.endpoints.saturating_sub(count);
            backend.guard.pending(key, 0, now);
        }
    }
}
