//! What is left to do where a quota is used up.

use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{BalancerStep, Block, CloudChange, Wait};

use crate::cell::Cell;
use crate::cluster::ManagedCluster;
use crate::pace::named_resource;
use crate::shared::RegistryCore;

/// At most this many parts that lack a quota are passed over in one turn.
const PARTS_IN_A_TURN: usize = 64;
/// The time from one such turn to the next.
const BETWEEN_TURNS: std::time::Duration = std::time::Duration::from_millis(50);

impl ManagedCluster {
    /// Returns the step that is left where the quota that a step needs is known to be used up: only the part that needs it waits.
    pub(crate) fn within_quotas(
        &mut self,
        owner: &Text,
        cell: &mut Cell,
        mut step: BalancerStep,
        shared: &mut RegistryCore,
        now: Instant,
    ) -> BalancerStep {
        for _ in 0..PARTS_IN_A_TURN {
            let BalancerStep::Change(change) = &step else { return step };
            self.in_project(cell, change);
            let (words, until) = if let Some(words) = self.over_limit(owner, cell, change) {
                (words, now + shared.settings.drift_interval)
            } else if let Some(full) =
                shared.pace.is_full(&cell.project, change, now).filter(|_| !has_place(cell, change))
            {
                full
            } else {
                return step;
            };
            self.works(owner, cell, now);
            cell.actor.quota_is_used_up(change, words.to_string(), shared.at(until));
            self.wait_for_quota(owner, cell, shared, now);
            self.told.insert(owner.clone());
            let next = cell.actor.step(&self.facts, shared.at(now));
            if next == step {
                return BalancerStep::Blocked(Block::Quota(words.to_string()));
            }
            step = next;
        }
        // Others have their turn.
        BalancerStep::Wait(Wait::Until(shared.at(now + BETWEEN_TURNS)))
    }

    /// Lets an owner hear when something was deleted that it lacks room for.
    pub(crate) fn wait_for_quota(&self, owner: &Text, cell: &Cell, shared: &mut RegistryCore, now: Instant) {
        let lacks = cell.actor.blocks(shared.at(now)).filter_map(|(_, block)| match block {
            Block::Quota(words) => Some(named_resource(words)),
            _ => None,
        });
        shared.pace.wait_for_quota(&cell.project, (self.settings.name.clone(), owner.clone()), lacks.collect());
    }
}

/// Whether a creation takes the place of what its owner had until a moment ago.
fn has_place(cell: &Cell, change: &CloudChange) -> bool {
    cell.frees.contains(&change.request().resource)
}
