//! What to do about one target: a pure function of the state at one moment.
//!
//! [`decide`] reads a [`View`] and returns a [`Decision`]; `Reconciler::apply` is the only code that carries one out.

mod lost;
mod ownership;
mod proposal;
mod waiting;
mod weight;

use std::time::Instant;

use gimbal_guard::Passage;
use gimbal_model::TargetKey;
use gimbal_plan::Removals;

pub(crate) use ownership::{Ownership, RemovalReason};
pub(crate) use proposal::{Proposal, QuotaShare, reject};
pub(crate) use weight::PendingLoss;

use crate::cluster::WatchedCluster;
use crate::desired::Desired;
use crate::targets::Targets;

/// Read access to everything that a decision depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    desired: &'a Desired,
    targets: &'a Targets,
    cluster: &'a WatchedCluster,
}

/// The mass-change guard's answer for one target: whether its removals may be written now, and what may be written if
/// not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardAnswer {
    pub(crate) passage: Passage,
    pub(crate) removals: Removals,
}

impl GuardAnswer {
    pub(crate) const ALLOWED: Self = Self { passage: Passage::Allowed, removals: Removals::Allowed };
}

/// What to do about a target.
#[derive(Debug)]
pub(crate) enum Decision {
    /// Write nothing yet: the removals wait until the guard's record of them is stored, which normally takes
    /// milliseconds.
    AwaitRecord,
    /// Write nothing: no backend that may write wants the target, or what exists has to stay.
    Leave { ownership: Ownership, passage: Passage },
    /// Carry out a proposal.
    Proceed {
        proposal: Proposal,
        /// The objects that exist belong to another claim than the proposal's owner, or to none.
        contested: bool,
        step: NextStep,
    },
}

/// How a proposal is carried out.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// Send its writes. If it `closes`, nothing remains to be decided once all of them are answered as sent.
    Write { closes: bool },
    /// The Service was written a moment ago: write this with what else comes until then.
    WriteLater(Instant),
    /// The guard's record of the remaining removals is overdue: notify the claims, and ask again later.
    AwaitRecord,
    /// The owner cannot be written, and the objects of another claim keep the name: reject the owner and the leaving
    /// claims.
    TurnAway,
    /// Everything that the API server accepts is written. Try the refused writes again at this time.
    RetryRefused(Instant),
    /// Nothing is left to write.
    Converge,
}

/// Decides what to do about `key`. Writes that may wait do until `batch_ends`. `None` if there is no such target.
pub(crate) fn decide(
    view: View<'_>,
    key: &TargetKey,
    permit: GuardAnswer,
    batch_ends: Option<Instant>,
    now: Instant,
) -> Option<Decision> {
    let GuardAnswer { passage, removals } = permit;
    // The gains and losses of an object are one write. Gains go first only if the losses may wait for long.
    if passage == Passage::Unkept && !view.record_is_late(key, now) {
        return Some(Decision::AwaitRecord);
    }
    let target = view.targets.get(key)?;
    let ownership = view.ownership_if(key, target, passage != Passage::Allowed);
    let Some(proposal) = view.propose(key, target, &ownership, removals, now) else {
        return Some(Decision::Leave { ownership, passage });
    };
    let contested = proposal.owner.as_ref().is_some_and(|owner| target.belongs_to_other(key, owner));
    let step = if !proposal.plan.is_empty() {
        let whole = matches!(proposal.share, QuotaShare::Whole(_)) && proposal.retry_at.is_none();
        let closes = proposal.owner.is_some() && whole && passage == Passage::Allowed;
        match batch_ends.filter(|_| closes && !contested && view.may_wait(target, &proposal)) {
            Some(until) => NextStep::WriteLater(until),
            None => NextStep::Write { closes },
        }
    } else if proposal.held && passage == Passage::Unkept {
        NextStep::AwaitRecord
    } else if let Some(until) = proposal.retry_at {
        NextStep::RetryRefused(until)
    } else if contested && proposal.is_rejected() {
        NextStep::TurnAway
    } else {
        NextStep::Converge
    };
    Some(Decision::Proceed { proposal, contested, step })
}

impl<'a> View<'a> {
    pub(crate) fn new(desired: &'a Desired, targets: &'a Targets, cluster: &'a WatchedCluster) -> Self {
        Self { desired, targets, cluster }
    }

    /// Whether the guard's record of what `key` would lose is so late that its gains should no longer wait for it.
    fn record_is_late(self, key: &TargetKey, now: Instant) -> bool {
        let name = self.targets.get(key).and_then(|target| target.counted_for());
        name.and_then(|name| self.desired.get(name)).is_none_or(|backend| backend.guards().record_is_late(now))
    }
}
