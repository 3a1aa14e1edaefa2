//! What goes on in Octavia while a change of another service waits for its turn: members must not wait for a service that asks for a
//! pause or does not answer, nor for a crowd there.

use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, BalancerStep, CloudChange, CloudLook};
use gimbal_schedule::{Queue, Urgency};

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
        let BalancerStep::Change(change) = &step else { return step };
        let (line, service) = (Line::of(change, &cell.project), change.request().service);
        // First what the other service beside Octavia may change now.
        for services in [&[service][..], &BESIDE] {
            for _ in 0..CHANGES_IN_A_TURN {
                let other = cell.actor.step_without(services, &self.facts, shared.at(now));
                if !is_of_use(cell, &other) || self.is_to_wait(cell, &other, turn, shared, now) {
                    break;
                }
                // Without the quota for it, it is the turn of what waits again, and there may be something else.
                let next = self.within_quotas(owner, cell, other, shared, now);
                if next != step {
                    // It waits in its own line as well: that may be the shorter one, and is not to end behind the others.
                    self.lines.entry(line).or_default().push(owner, &cell.key.namespace, Urgency::Fresh);
                    return next;
                }
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

/// Whether a step may be taken out of turn. What a killed writer may have asked for already is neither made nor removed before it is
/// its turn.
fn is_of_use(cell: &Cell, step: &BalancerStep) -> bool {
    use CloudChange::{
        CreateBalancer, CreateFloatingIp, CreatePort, CreateSecret, DeleteBalancer, DeletePort, DeleteSecret,
        FailoverBalancer,
    };
    match step {
        BalancerStep::Change(
            CreateBalancer { .. }
            | CreatePort { .. }
            | CreateFloatingIp { .. }
            | CreateSecret { .. }
            | DeleteBalancer { .. }
            | DeletePort { .. }
            | DeleteSecret { .. }
            | FailoverBalancer { .. },
        ) => false,
        BalancerStep::Change(change) => {
            let line = Line::of(change, &cell.project);
            line == Line::Octavia || line.is_beside()
        }
        BalancerStep::Look(look) => matches!(look, CloudLook::Members { .. }),
        _ => false,
    }
}
