//! Which backends there are, under which policies: at the start, and whenever the configuration changes. What a change
//! newly forbids goes through the guard, what it newly allows is taken up, without the agents sending anything again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};
use gimbal_session::{Goodbye, GoodbyeReason, WriterEnd, WriterMessage};

use crate::guards::Guards;
use crate::target::Target;
use crate::{Backend, BackendState, Claim, Loss, Output, Policy, Reconciler, Urgency, Usage};

impl Reconciler {
    /// These backends there are from now on, and no others. One that is not among them any more is refused; its objects
    /// stay until it is decommissioned. A backend whose policy is the same notices nothing.
    pub fn configure(&mut self, policies: BTreeMap<BackendName, Policy>, now: Instant) {
        let listed = self.desired.values().filter(|backend| backend.listed).map(|backend| backend.name.clone());
        let gone: Vec<BackendName> = listed.filter(|name| !policies.contains_key(name)).collect();
        for name in gone {
            self.dismiss(&name, now);
        }
        for (name, policy) in policies {
            self.admit_under(&name, policy, now);
        }
    }

    /// Makes a backend known, if it is not. What the Gimbal cluster holds of it counts from here on.
    pub fn add_backend(&mut self, name: &BackendName, policy: Policy, now: Instant) {
        if !self.desired.get(name).is_some_and(|backend| backend.listed) {
            self.admit_under(name, policy, now);
        }
    }

    fn admit_under(&mut self, name: &BackendName, policy: Policy, now: Instant) {
        self.queue.set_rate_limit(name, policy.quota.changes_per_second);
        match self.desired.get_mut(name) {
            Some(backend) if backend.listed && backend.policy == policy => return,
            Some(backend) => {
                backend.listed = true;
                if backend.policy.guard != policy.guard {
                    backend.guards.configure(policy.guard, now);
                }
                backend.policy = policy;
            }
            None => self.put_backend(name, policy, true, now),
        }
        self.follow_policy(name, now);
    }

    pub(super) fn put_backend(&mut self, name: &BackendName, policy: Policy, listed: bool, now: Instant) {
        let backend = Backend {
            name: name.clone(),
            end: WriterEnd::new(self.settings.limits.clone()),
            guards: Guards::new(policy.guard),
            measured: BTreeMap::new(),
            policy,
            listed,
            usage: Usage::default(),
            routes: BTreeMap::new(),
            generation: 0,
            connected: false,
            state: BackendState::default(),
            refused_incarnation: None,
            endpoints: 0,
            loss: Loss::default(),
            drained: 0,
            decommission: None,
            version: 0,
            kept: 0,
            changed: false,
        };
        self.desired.insert(backend);
        for target in self.concerned(name) {
            if self.targets.get(&target).is_some_and(|target| target.counted_for.is_none()) {
                self.recount(&target, now);
            }
        }
    }

    /// Decides everything of a backend anew under the policy that it has now.
    fn follow_policy(&mut self, name: &BackendName, now: Instant) {
        let Some(backend) = self.desired.get(name) else { return };
        let keys: Vec<_> = backend.end.services().map(|(key, _)| key.clone()).collect();
        let mut concerned: BTreeSet<TargetKey> = self.concerned(name).into_iter().collect();
        for key in keys {
            let claim = Claim { backend: name.clone(), key };
            self.desired.measure(&claim);
            concerned.extend(self.route(&claim));
        }
        self.take_stock(name);
        // Each is weighed before the first is decided, so that the guard sees all of it.
        for target in &concerned {
            self.update_guard(target, now);
        }
        for target in &concerned {
            self.enqueue(target, name, Urgency::Bulk);
        }
    }

    /// A backend is named no more: its agent is sent away, and what it said is forgotten.
    fn dismiss(&mut self, name: &BackendName, now: Instant) {
        let goodbye = Goodbye {
            reason: GoodbyeReason::UnknownBackend,
            message: format!("backend {name} is not configured any more"),
            retry_after: None,
        };
        self.end_stream(name, goodbye);
        let Some(backend) = self.desired.get_mut(name) else { return };
        backend.listed = false;
        backend.end = WriterEnd::new(self.settings.limits.clone());
        backend.routes.clear();
        backend.usage = Usage::default();
        backend.measured.clear();
        let concerned = self.forget_claims(name);
        for target in concerned {
            self.update_guard(&target, now);
            let next = self.targets.get(&target).and_then(|target| self.backend_of(target));
            self.enqueue(&target, next.as_ref().unwrap_or(name), Urgency::Bulk);
        }
    }

    /// Nobody of the backend wants anything. Returns where it did.
    pub(super) fn forget_claims(&mut self, name: &BackendName) -> Vec<TargetKey> {
        self.desired.retain_old_places(|claim| claim.backend != *name);
        let mut concerned = Vec::new();
        let theirs: Vec<TargetKey> = self.targets.of(name.as_str()).map(|(key, _)| key.clone()).collect();
        for key in theirs {
            let Some(target) = self.targets.get_mut(&key) else { continue };
            let before = target.claims.len() + target.leaving.len();
            target.claims.retain(|claim| claim.backend != *name);
            target.leaving.retain(|claim| claim.backend != *name);
            let owned = target.owner.as_ref().is_some_and(|owner| owner.backend == *name);
            if owned || target.claims.len() + target.leaving.len() != before {
                concerned.push(key);
            }
        }
        concerned
    }

    /// Says goodbye to the agent of a backend, if one is connected.
    pub(super) fn end_stream(&mut self, name: &BackendName, goodbye: Goodbye) {
        let Some(backend) = self.desired.get_mut(name).filter(|backend| backend.connected) else { return };
        let generation = backend.generation;
        backend.connected = false;
        backend.end.closed();
        let message = WriterMessage::Goodbye(goodbye);
        self.outputs.push(Output::Send { backend: name.clone(), generation, message });
        self.outputs.push(Output::Close { backend: name.clone(), generation });
    }

    /// Backends that only their objects know, so that people see them and can decommission them.
    pub(super) fn find_unlisted(&mut self, now: Instant) {
        let unknown = self.targets.backends().filter(|label| self.desired.name(label).is_none());
        let unknown: Vec<_> = unknown.cloned().collect();
        let stands = |target: &Target, label: &str| target.observed.owner().is_some_and(|(name, _)| **name == *label);
        for label in unknown {
            if !self.targets.of(&label).any(|(_, target)| stands(target, &label)) {
                continue;
            }
            if let Ok(name) = BackendName::parse(&label) {
                self.put_backend(&name, Policy::default(), false, now);
            }
        }
    }

    /// Counts what stands already, before anyone who comes later asks for room beside it.
    fn take_stock(&mut self, name: &BackendName) {
        for key in self.concerned(name) {
            self.charge_existing(&key);
        }
    }

    /// Every target that has to do with a backend, by a claim or by the label of any object: one that a hand edited may say
    /// less than the others.
    fn concerned(&self, name: &BackendName) -> Vec<TargetKey> {
        self.targets.of(name.as_str()).map(|(key, _)| key.clone()).collect()
    }
}
