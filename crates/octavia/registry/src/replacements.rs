//! Load balancers that are deleted to be made again. Only some of a project are at a time: where Octavia fails, or the configuration is
//! changed, all of them would go at once and come back one after the other, or not at all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{BalancerStep, Block, CloudChange};

use crate::cell::Cell;
use crate::cluster::ManagedCluster;
use crate::shared::RegistryCore;

/// How long the others wait for one that does not come back: it may never do.
const AWAITED: Duration = Duration::from_secs(600);
/// When those that wait try again.
const BETWEEN_TRIES: Duration = Duration::from_secs(5);

/// Owners whose load balancer was deleted to be made again, by project, and since when.
#[derive(Debug, Default)]
pub(crate) struct Replacements(BTreeMap<Text, BTreeMap<Text, Instant>>);

impl Replacements {
    /// Whether the load balancer of an owner may go now, where at most `most` of a project are missing at a time.
    fn has_place(&mut self, owner: &Text, project: &Text, most: u32, now: Instant) -> bool {
        let Some(missing) = self.0.get_mut(project) else { return true };
        missing.retain(|_, since| now < *since + AWAITED);
        missing.contains_key(owner) || u32::try_from(missing.len()).is_ok_and(|missing| missing < most.max(1))
    }

    fn begins(&mut self, owner: &Text, project: &Text, now: Instant) {
        self.0.entry(project.clone()).or_default().entry(owner.clone()).or_insert(now);
    }

    fn ended(&mut self, owner: &Text) {
        self.0.values_mut().for_each(|missing| _ = missing.remove(owner));
        self.0.retain(|_, missing| !missing.is_empty());
    }
}

impl ManagedCluster {
    /// Lets the load balancer of an owner stay as it is for a while if too many others are missing.
    pub(crate) fn stays_for_now(&mut self, owner: &Text, cell: &mut Cell, shared: &RegistryCore, now: Instant) {
        let most = shared.settings.creates_by_project;
        let has_place = self.replacements.has_place(owner, &cell.project, most, now);
        cell.actor.stay_until((!has_place).then(|| shared.at(now + BETWEEN_TRIES)));
    }

    /// Takes note of a step that takes the only load balancer of an owner away that is to have one, or with which it has all that is
    /// wanted.
    pub(crate) fn note_replacement(&mut self, owner: &Text, cell: &Cell, step: &BalancerStep, now: Instant) {
        match step {
            BalancerStep::Change(CloudChange::DeleteBalancer { .. })
                if matches!(cell.wanted(), DesiredEntry::LoadBalancer(_)) && has_served(cell) =>
            {
                self.replacements.begins(owner, &cell.project, now);
            }
            // What is not let go is there, and what no repair makes well is not waited for.
            BalancerStep::Blocked(block) if cell.actor.has_balancer() || *block == Block::RepairBudget => {
                self.replacements.ended(owner);
            }
            BalancerStep::Done | BalancerStep::Gone => self.replacements.ended(owner),
            _ => {}
        }
    }
}

/// Whether the only load balancer of an owner may have served. One that never has leaves no gap.
fn has_served(cell: &Cell) -> bool {
    matches!(cell.actor.seen().balancers.as_slice(), [only] if only.has_served())
}
