//! What would be written for a backend in quarantine if it were admitted now.

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Action, Plan, Removals, Wanted, difference, plan};

use crate::Reconciler;
use crate::decide::Ownership;
use crate::target::Target;

/// How many objects would be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Objects that would be created.
    pub created: u64,
    /// Objects that would be replaced or patched.
    pub changed: u64,
    /// Objects that would be deleted.
    pub deleted: u64,
}

impl Tally {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut tally = Self::default();
        for action in plan.phases.iter().flatten() {
            match action {
                Action::Create(_) => tally.created += 1,
                Action::Replace(_) | Action::Patch(_) => tally.changed += 1,
                Action::Delete { .. } => tally.deleted += 1,
            }
        }
        tally
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.created += other.created;
        self.changed += other.changed;
        self.deleted += other.deleted;
    }
}

impl Reconciler {
    /// Returns how many objects would be written for a backend in quarantine, as each target was decided last.
    #[must_use]
    pub fn preview(&self, name: &BackendName) -> Tally {
        let mut sum = Tally::default();
        for (_, target) in self.targets.of(name.as_str()) {
            let Some(tally) = target.preview().filter(|_| self.frozen_in(target) == Some(name)) else { continue };
            sum.add(&tally);
        }
        sum
    }

    /// Returns the writes that a target waits for while its backend is in quarantine, in order, each with its
    /// difference in words. The mass-change guard may still hold deletions among them.
    #[must_use]
    pub fn preview_of(&self, key: &TargetKey) -> Vec<(Action, Vec<String>)> {
        let Some(target) = self.targets.get(key) else { return Vec::new() };
        if !matches!(self.view().ownership(key, target), Ownership::Frozen(_)) {
            return Vec::new();
        }
        let actions = self.planned(key, target).phases.into_iter().flatten();
        actions.map(|action| (action.clone(), difference(&action, target.observed()))).collect()
    }

    pub(super) fn tally(&self, key: &TargetKey, target: &Target) -> Tally {
        Tally::of(&self.planned(key, target))
    }

    fn frozen_in<'a>(&'a self, target: &'a Target) -> Option<&'a BackendName> {
        let mut claims = target.owner().into_iter().chain(target.claims()).chain(target.leaving());
        let claim = claims.find(|claim| self.desired.is_frozen(&claim.backend)).map(|claim| &claim.backend);
        claim.or_else(|| {
            let (label, _) = target.observed().owner()?;
            self.desired.name(label)
        })
    }

    /// Returns the plan as if the backend were admitted. It is empty if the Service would be rejected for another
    /// reason. If another backend would get the name, only the deletion of the existing objects is shown.
    fn planned(&self, key: &TargetKey, target: &Target) -> Plan {
        let nothing = Plan { phases: Vec::new() };
        let Ownership::Frozen(frozen) = self.view().ownership(key, target) else { return nothing };
        let claim = match self.view().ownership_admitted(key, target) {
            Ownership::Owned(claim) if claim.backend == frozen.backend => claim,
            Ownership::Owned(_) | Ownership::Gone(_) => {
                return plan(key, None, target.observed(), Removals::Allowed, target.taken());
            }
            _ => return nothing,
        };
        let Some(backend) = self.desired.get(&claim.backend) else { return nothing };
        let Some(service) = backend.end().service(&claim.key) else { return nothing };
        let there = self.cluster.has_namespace(&key.namespace) || backend.policy().namespaces.create;
        let rules = backend.policy().rules(self.desired.api());
        match Wanted::new(&claim.backend, &claim.key, key, service, &rules) {
            Ok(wanted) if there => plan(key, Some(&wanted), target.observed(), Removals::Allowed, target.taken()),
            _ => nothing,
        }
    }
}
