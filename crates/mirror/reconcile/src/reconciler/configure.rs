//! The configured backends and their policies. What a change forbids is removed through the mass-change guard, and
//! what it allows is published, without the agents sending anything again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};
use gimbal_session::{Goodbye, GoodbyeReason, WriterMessage};

use crate::target::Target;
use crate::{Backend, Claim, Output, Policy, Reconciler, Urgency};

impl Reconciler {
    /// Sets the configured backends. A backend that is missing is refused from now on, and its objects stay until it is
    /// decommissioned. A backend whose policy is unchanged is not affected.
    pub fn configure(&mut self, policies: BTreeMap<BackendName, Policy>, now: Instant) {
        let listed = self.desired.values().filter(|backend| backend.is_listed()).map(|backend| backend.name().clone());
        let gone: Vec<BackendName> = listed.filter(|name| !policies.contains_key(name)).collect();
        for name in gone {
            self.dismiss(&name, now);
        }
        for (name, policy) in policies {
            self.admit_under(&name, policy, now);
            if let Some(backend) = self.desired.get_mut(&name) {
                backend.set_configured();
            }
            if self.end_order_of_before(&name) {
                self.decide_anew(&name, now);
            }
        }
    }

    /// Decides all targets of a backend again whose removal is taken back.
    pub(super) fn decide_anew(&mut self, name: &BackendName, now: Instant) {
        for target in self.concerned(name) {
            self.update_guard(&target, now);
        }
        self.enqueue_backend(name);
    }

    /// Adds a backend whose agent said Hello, where there is no configuration, unless it is known already.
    pub fn add_backend(&mut self, name: &BackendName, policy: Policy, now: Instant) {
        if !self.desired.get(name).is_some_and(|backend| backend.is_listed()) {
            self.admit_under(name, policy, now);
        }
    }

    fn admit_under(&mut self, name: &BackendName, policy: Policy, now: Instant) {
        self.queue.set_rate_limit(name, policy.quota.changes_per_second);
        match self.desired.get_mut(name) {
            Some(backend) if backend.is_listed() && *backend.policy() == policy => return,
            Some(backend) => backend.set_policy(policy, now),
            None => self.put_backend(name, policy, true, now),
        }
        self.apply_policy(name, now);
    }

    pub(super) fn put_backend(&mut self, name: &BackendName, policy: Policy, listed: bool, now: Instant) {
        let backend = Backend::new(name.clone(), policy, listed, &self.settings.limits);
        self.desired.insert(backend);
        for target in self.concerned(name) {
            if self.targets.get(&target).is_some_and(|target| target.counted_for().is_none()) {
                self.recount(&target, now);
            }
        }
    }

    /// Applies the current policy of a backend to all of its targets.
    fn apply_policy(&mut self, name: &BackendName, now: Instant) {
        let Some(backend) = self.desired.get(name) else { return };
        let keys: Vec<_> = backend.end().services().map(|(key, _)| key.clone()).collect();
        let mut concerned: BTreeSet<TargetKey> = self.concerned(name).into_iter().collect();
        for key in keys {
            let claim = Claim { backend: name.clone(), key };
            self.desired.measure(&claim);
            concerned.extend(self.route(&claim));
        }
        self.charge_existing_of(name);
        // The guard counts all of them before the first is decided.
        for target in &concerned {
            self.update_guard(target, now);
        }
        for target in &concerned {
            self.enqueue(target, name, Urgency::Bulk);
        }
    }

    /// Removes a backend from the configured ones: its stream ends, and what its agent said is forgotten.
    fn dismiss(&mut self, name: &BackendName, now: Instant) {
        let goodbye = Goodbye {
            reason: GoodbyeReason::UnknownBackend,
            message: format!("backend {name} is not configured any more"),
            retry_after: None,
        };
        self.end_stream(name, goodbye);
        let Some(backend) = self.desired.get_mut(name) else { return };
        backend.dismiss(&self.settings.limits);
        let concerned = self.forget_claims(name);
        for target in concerned {
            self.update_guard(&target, now);
            let next = self.targets.get(&target).and_then(|target| self.backend_of(target));
            self.enqueue(&target, next.as_ref().unwrap_or(name), Urgency::Bulk);
        }
    }

    /// Removes all claims of a backend. Returns the targets that it wanted, left or owned.
    pub(super) fn forget_claims(&mut self, name: &BackendName) -> Vec<TargetKey> {
        if let Some(backend) = self.desired.get_mut(name) {
            backend.routes_mut().clear_old();
        }
        let mut concerned = Vec::new();
        let theirs: Vec<TargetKey> = self.targets.of(name.as_str()).map(|(key, _)| key.clone()).collect();
        for key in theirs {
            let Some(target) = self.targets.get_mut(&key) else { continue };
            if target.remove_claims_of(name) {
                concerned.push(key);
            }
        }
        concerned
    }

    /// Ends the stream of a backend with a goodbye, if it is connected.
    pub(super) fn end_stream(&mut self, name: &BackendName, goodbye: Goodbye) {
        let Some(backend) = self.desired.get_mut(name).filter(|backend| backend.is_connected()) else { return };
        let generation = backend.generation();
        backend.close_stream();
        let message = WriterMessage::Goodbye(goodbye);
        self.outputs.push(Output::Send { backend: name.clone(), generation, message });
        self.outputs.push(Output::Close { backend: name.clone(), generation });
    }

    /// Adds the backends that are known only by their objects, so that admins see them and can decommission them.
    pub(super) fn find_unlisted(&mut self, now: Instant) {
        let unknown = self.targets.backends().filter(|label| self.desired.name(label).is_none());
        let unknown: Vec<_> = unknown.cloned().collect();
        let stands = |target: &Target, label: &str| target.observed().owner().is_some_and(|(name, _)| **name == *label);
        for label in unknown {
            if !self.targets.of(&label).any(|(_, target)| stands(target, &label)) {
                continue;
            }
            if let Ok(name) = BackendName::parse(&label) {
                self.put_backend(&name, Policy::default(), false, now);
            }
        }
    }

    /// Charges the quota for all existing objects of a backend, before any new claim asks for room.
    fn charge_existing_of(&mut self, name: &BackendName) {
        for key in self.concerned(name) {
            self.charge_existing(&key);
        }
    }

    /// Returns every target that a claim or the label of any object ties to a backend. Any object: one that was
    /// edited may say less than the others.
    pub(super) fn concerned(&self, name: &BackendName) -> Vec<TargetKey> {
        self.targets.of(name.as_str()).map(|(key, _)| key.clone()).collect()
    }
}
