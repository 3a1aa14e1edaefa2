//! The next step: the first that applies.

use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, DesiredEntry};

use crate::actor::Actor;
use crate::change::{ApiService, CloudChange};
use crate::make::delete_balancer;

/// What to do next about a load balancer.
#[derive(Debug, Clone, PartialEq)]
pub enum BalancerStep {
    /// Read something, and tell the actor.
    Look(CloudLook),
    /// Send one change, once, and tell the actor what came of it.
    Change(CloudChange),
    /// Nothing until then.
    Wait(Wait),
    /// Everything is as it is wanted.
    Done,
    /// Nothing can be done.
    Blocked(Block),
    /// Nothing of the owner is left.
    Gone,
}

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudLook {
    /// Everything with the owner's mark, and the floating IPs of the VIPs' ports, marked or not: [`Actor::looked`]. In Neutron
    /// the mark is one of [`Mark::descriptions`](crate::Mark::descriptions).
    Owner,
    /// The members of a pool: [`Actor::read_members`].
    Members {
        /// The pool.
        pool: String,
    },
    /// The floating IP that has an address, whoever made it: [`Actor::found_floating_ip`].
    FloatingIp {
        /// The address.
        address: String,
        /// The network; unset: any.
        network: Option<String>,
    },
    /// Whether there is a load balancer with this ID, whoever made it: [`Actor::found_balancer`].
    Balancer {
        /// The load balancer.
        id: String,
    },
    /// The port that has an address, whoever made it: [`Actor::found_holder`].
    AddressHolder {
        /// The subnet.
        subnet: String,
        /// The address.
        address: String,
    },
}

/// What to wait for. Whatever it is, read the row of each load balancer of the owner that Octavia works on until it has settled,
/// and tell [`Actor::tracked`]: the one that serves changes while another one is made, or while something else is awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Octavia works on this load balancer.
    Pending {
        /// The load balancer.
        balancer: String,
    },
    /// A time.
    Until(Duration),
}

/// Why nothing can be done, as far as is known for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A quota is used up; the service's words.
    Quota(String),
    /// The role does not allow it; the service's words.
    Forbidden(String),
    /// The request is invalid; the service's words.
    Invalid(String),
    /// The provider cannot do it; its words.
    Unsupported(String),
    /// Somebody else has what is wanted; who has what, in words.
    Conflict(String),
    /// A request fails, and is tried again after a pause that grows.
    Failing,
    /// The load balancer was repaired too often.
    RepairBudget,
    /// A certificate cannot be stored, or is not to be had; which and why, in words.
    Certificate(String),
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quota(words) => write!(f, "a quota is used up: {words}"),
            Self::Forbidden(words) => write!(f, "the role does not allow it: {words}"),
            Self::Invalid(words) => write!(f, "the request is invalid: {words}"),
            Self::Unsupported(words) => write!(f, "the provider cannot do it: {words}"),
            Self::Conflict(words) | Self::Certificate(words) => f.write_str(words),
            Self::Failing => f.write_str("a request fails"),
            Self::RepairBudget => f.write_str("it was made again too often"),
        }
    }
}

impl Actor {
    /// Returns the next step. `now` is the time of any clock that goes on while the process lives.
    #[must_use]
    pub fn step(&self, facts: &CloudFacts, now: Duration) -> BalancerStep {
        let memory = &self.memory;
        if let Some(then) = memory.paused(now) {
            return BalancerStep::Wait(Wait::Until(then));
        }
        if !memory.looked {
            return BalancerStep::Look(CloudLook::Owner);
        }
        if let Some(then) = memory.next_look() {
            return if then > now {
                BalancerStep::Wait(Wait::Until(then))
            } else {
                BalancerStep::Look(CloudLook::Owner)
            };
        }
        if memory.is_retry_blind(now) || self.looks_for_hidden(now) {
            return BalancerStep::Look(CloudLook::Owner);
        }
        match &self.desired {
            DesiredEntry::Deleting { .. } => self.unless_refused(self.remove(now), now),
            DesiredEntry::LoadBalancer(wanted) => self.make(wanted, facts, now),
        }
    }

    /// Returns the next step that needs none of these services, while changes of theirs wait for their turn. Without one it is the
    /// change that waits, or something to wait for.
    pub fn step_without(&mut self, services: &[ApiService], facts: &CloudFacts, now: Duration) -> BalancerStep {
        let blocks = self.memory.blocks.clone();
        let mut step = self.step(facts, now);
        while let BalancerStep::Change(change) = &step {
            let part = self.part_of(change);
            // Where it is asked for once more, nothing goes on without it.
            if !services.contains(&change.request().service) || self.memory.block_of(&part, now).is_some() {
                break;
            }
            self.memory.set_aside(part, now);
            step = self.step(facts, now);
        }
        self.memory.blocks = blocks;
        step
    }

    /// Returns a step, unless its part is left alone: then the other parts go on.
    pub(crate) fn unless_blocked(&self, step: BalancerStep, now: Duration) -> Option<BalancerStep> {
        let BalancerStep::Change(change) = &step else { return Some(step) };
        self.memory.block_of(&self.part_of(change), now).is_none().then_some(step)
    }

    /// Returns a step, or what is in its way: a removal is one thing after another.
    pub(crate) fn unless_refused(&self, step: BalancerStep, now: Duration) -> BalancerStep {
        let BalancerStep::Change(change) = &step else { return step };
        self.memory.left_alone(&self.part_of(change), now).unwrap_or(step)
    }

    fn remove(&self, now: Duration) -> BalancerStep {
        // Floating IPs first, so that no new connection comes.
        if let Some(step) = self.floating_marked_again().or_else(|| self.detached()) {
            return step;
        }
        if let Some(step) = self.marked_again(now) {
            return step;
        }
        let all = &self.seen.balancers;
        if let Some(balancer) = all.iter().min_by_key(|one| (one.provisioning.is_pending(), &one.created_at, &one.id)) {
            return delete_balancer(balancer);
        }
        if let Some(step) = self.last_floating() {
            return step;
        }
        if let Some(step) = self.port_left_behind(now) {
            return step;
        }
        if let Some(port) = self.seen.ports.first() {
            let delete = BalancerStep::Change(CloudChange::DeletePort { id: port.id.clone() });
            // One that cannot be deleted now needs no look.
            return match self.unless_refused(delete, now) {
                BalancerStep::Change(_) => self.port_deleted(port, now),
                refused => refused,
            };
        }
        // Listeners referred to them until now.
        self.suspect_step(now).or_else(|| self.last_secret(now)).unwrap_or(BalancerStep::Gone)
    }
}
