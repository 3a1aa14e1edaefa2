//! What is written for a backend that is lost, where its policy says more than to hold, or that is not ready before it is removed.

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Lost, Plan, Removals, plan_lost};

use super::{Ownership, RemovalReason, View};
use crate::target::Target;
use crate::{Backend, Stage};

impl View<'_> {
    /// Returns how the loss policy changes the target's existing endpoints.
    pub(super) fn lost(self, target: &Target) -> Option<Lost> {
        self.stage_of(target).lost()
    }

    /// Returns the loss stage that applies to the endpoints that a new `owner` wants. The loss of the backend whose
    /// endpoints exist does not affect them.
    pub(super) fn lost_for(self, owner: &BackendName) -> Option<Lost> {
        self.desired.get(owner)?.stage().lost()
    }

    /// Returns the loss stage of the backend that the target's endpoints count for.
    pub(crate) fn stage_of(self, target: &Target) -> Stage {
        let backend = target.counted_for().and_then(|name| self.desired.get(name));
        backend.map(Backend::stage).unwrap_or_default()
    }

    /// Returns the plan for objects of a lost backend, and whether removals wait, for the guard or for the backend to
    /// come back. `None` where the ordinary plan applies.
    pub(super) fn plan_of_lost(
        self,
        key: &TargetKey,
        target: &Target,
        ownership: &Ownership,
        removals: Removals,
    ) -> Option<(Plan, bool)> {
        let lost = self.lost(target)?;
        let plan = || plan_lost(key, target.observed(), lost);
        match ownership {
            Ownership::Owned(_) | Ownership::Frozen(_) | Ownership::Vacant => None,
            // The removal was due before the backend was lost, and the guard may have held it. The loss policy must not
            // release it, so the Service stays, like any other.
            Ownership::Gone(RemovalReason::Source) if lost == Lost::Drained => Some((plan(), true)),
            Ownership::Gone(_) => (removals != Removals::Allowed).then(|| (plan(), true)),
            Ownership::Kept(_) | Ownership::Moving(..) => Some((plan(), false)),
            Ownership::Blocked(_) => {
                let plan = plan();
                let counted = target.settled() == target.observed().count();
                (!plan.is_empty() || !counted).then_some((plan, removals != Removals::Allowed))
            }
        }
    }
}
