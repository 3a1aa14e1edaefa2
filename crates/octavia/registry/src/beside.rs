//! What goes on in Octavia while a change of another service waits for its turn: members must not wait for a service that asks for a
//! pause or does not answer, nor for a crowd there.

use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, BalancerStep, CloudChange, CloudLook};
use gimbal_schedule::Queue;

use crate::cell::Cell;
use crate::cluster::ManagedCluster;
use crate::pace::Line;
use crate::shared::RegistryCore;

/// The services beside Octavia.
const BESIDE: [ApiService; 2] = [ApiService::Neutron, ApiService::KeyManager];
/// At most this many changes that lack a quota are passed over in one turn.
const CHANGES_IN_A_TURN: usize = 16;

impl ManagedCluster {
    /// Returns the step that is taken in the place of a change which has to wait for its turn in a line beside Octavia's, or the step
    /// itself. `turn` is the line in which it is the owner's turn.
    pub(crate) fn meanwhile(
        &mut self,
        owner: &Text,
        cell: &mut Cell,
        step: BalancerStep,
        turn: Option<&Line>,
        shared: &mut RegistryCore,
        now: Instant,
    ) -> BalancerStep {
        if !self.is_to_wait(cell, &step, turn, shared, now) {
            return step;
        }
        for _ in 0..CHANGES_IN_A_TURN {
            let other = cell.actor.step_without(&BESIDE, &self.facts, shared.at(now));
            let is_of_use = match &other {
                // Another load balancer is neither made nor removed before it is its turn.
                BalancerStep::Change(CloudChange::DeleteBalancer { .. } | CloudChange::FailoverBalancer { .. }) => {
                    false
                }
                BalancerStep::Change(change) => Line::of(change, &cell.project) == Line::Octavia,
                BalancerStep::Look(look) => matches!(look, CloudLook::Members { .. }),
                _ => false,
            };
            if !is_of_use {
                break;
            }
            // Without the quota for it, it is the turn of what waits again, and there may be something else.
            let next = self.within_quotas(owner, cell, other, shared, now);
            if next != step {
                return next;
            }
        }
        step
    }

    /// Whether a step is a change that has to wait for its turn beside a load balancer that may serve.
    fn is_to_wait(
        &mut self,
        cell: &Cell,
        step: &BalancerStep,
        turn: Option<&Line>,
        shared: &RegistryCore,
        now: Instant,
    ) -> bool {
        let BalancerStep::Change(change) = step else { return false };
        let line = Line::of(change, &cell.project);
        if !line.is_beside() || !cell.actor.has_balancer() || turn == Some(&line) {
            return false;
        }
        let is_next = || self.lines.get(&line).is_none_or(Queue::is_empty) && shared.pace.may_change(&line, now);
        turn.is_some() || !is_next() || self.bucket.as_mut().is_some_and(|bucket| bucket.rests_until(now).is_some())
    }
}
