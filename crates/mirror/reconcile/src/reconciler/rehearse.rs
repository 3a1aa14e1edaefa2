//! What another configuration would change now, without changing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Action, Plan, Removals, difference as difference_of, plan};

use super::Tally;
use crate::decide::{Decision, GuardAnswer, Ownership, decide};
use crate::{Policy, Reconciler};

/// How a backend differs between two configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDifference {
    /// It would be admitted. What it publishes is known once its agent connects.
    Added,
    /// It would have another policy.
    Changed,
    /// It would be refused. Its objects stay.
    Removed,
}

/// A write that would follow.
#[derive(Debug, Clone, PartialEq)]
pub struct RehearsedWrite {
    /// The target.
    pub target: TargetKey,
    /// The write.
    pub action: Action,
    /// What it changes, in words.
    pub difference: Vec<String>,
}

/// What another configuration would change of a backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Rehearsal {
    /// How its policy differs.
    pub difference: PolicyDifference,
    /// How many objects would be written, if the guard let everything through.
    pub tally: Tally,
    /// Endpoints whose removal the guard would hold.
    pub held: u64,
    /// The first of the writes.
    pub first: Vec<RehearsedWrite>,
}

impl Reconciler {
    /// Returns what would follow, for each backend that differs, if these were the configured backends; with at most `most` writes of
    /// each. It works on a copy of the state, in which nothing is written, and so shows the first step of each target: room in a quota
    /// that another target would free does not count.
    #[must_use]
    pub fn rehearse(
        &self,
        policies: &BTreeMap<BackendName, Policy>,
        most: usize,
        now: Instant,
    ) -> BTreeMap<BackendName, Rehearsal> {
        let mut next = self.clone();
        next.configure(policies.clone(), now);
        let listed = self.desired.values().filter(|backend| backend.is_listed());
        let before: BTreeMap<&BackendName, &Policy> =
            listed.map(|backend| (backend.name(), backend.policy())).collect();
        let names: BTreeSet<&BackendName> = before.keys().copied().chain(policies.keys()).collect();
        let differs = names.into_iter().filter_map(|name| {
            let difference = match (before.get(name), policies.get(name)) {
                (None, _) => PolicyDifference::Added,
                (Some(_), None) => PolicyDifference::Removed,
                (Some(before), Some(after)) if *before != after => PolicyDifference::Changed,
                (Some(_), Some(_)) => return None,
            };
            Some((name.clone(), next.rehearsal(name, difference, most, now)))
        });
        differs.collect()
    }

    /// Returns what follows from the state as it is for the targets of a backend.
    fn rehearsal(&self, name: &BackendName, difference: PolicyDifference, most: usize, now: Instant) -> Rehearsal {
        let mut rehearsal = Rehearsal { difference, tally: Tally::default(), held: 0, first: Vec::new() };
        for (key, _) in self.targets.of(name.as_str()) {
            let plan = self.whole_plan(key, name, now);
            rehearsal.tally.add(&Tally::of(&plan));
            for action in plan.phases.into_iter().flatten().take(most.saturating_sub(rehearsal.first.len())) {
                let observed = self.targets.get(key).map(|target| target.observed());
                let difference = observed.map(|observed| difference_of(&action, observed)).unwrap_or_default();
                rehearsal.first.push(RehearsedWrite { target: key.clone(), action, difference });
            }
        }
        let guards = self.desired.get(name).map(|backend| backend.guards());
        let held = guards.and_then(|guards| guards.removals().held()).map(|held| held.endpoints_removed);
        rehearsal.held = held.unwrap_or_default();
        rehearsal
    }

    /// Returns the writes for a target in this backend's turn, as if the guard let everything through.
    fn whole_plan(&self, key: &TargetKey, name: &BackendName, now: Instant) -> Plan {
        let nothing = Plan { phases: Vec::new() };
        let Some(target) = self.targets.get(key).filter(|target| self.backend_of(target).as_ref() == Some(name)) else {
            return nothing;
        };
        match decide(self.view(), key, GuardAnswer::ALLOWED, None, now) {
            Some(Decision::Proceed { proposal, .. }) => proposal.plan,
            // It goes once its Service has arrived at the other place.
            Some(Decision::Leave { ownership: Ownership::Moving(..), .. }) => {
                plan(key, None, target.observed(), Removals::Allowed, target.taken())
            }
            _ => nothing,
        }
    }
}
