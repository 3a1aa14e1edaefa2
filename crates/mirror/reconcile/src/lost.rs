//! What is written for a backend that is lost, where its policy says more than to hold.

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Lost, Plan, Removals, plan_lost};

use crate::claims::{Gone, Standing};
use crate::target::Target;
use crate::{Reconciler, Stage};

impl Reconciler {
    /// What is made of a target's endpoints while the backend that has them is lost.
    pub(crate) fn lost(&self, target: &Target) -> Option<Lost> {
        self.stage_of(target).lost()
    }

    /// What is made of the endpoints that its owner wants there: the loss of the one before it, whose they still are, is no
    /// concern of the owner's; and what is not there yet is nobody's but the owner's.
    pub(crate) fn lost_for(&self, owner: &BackendName) -> Option<Lost> {
        self.backends.get(owner)?.loss.stage().lost()
    }

    pub(crate) fn stage_of(&self, target: &Target) -> Stage {
        let backend = target.counted_for.as_ref().and_then(|name| self.backends.get(name));
        backend.map(|backend| backend.loss.stage()).unwrap_or_default()
    }

    /// What went because its backend is lost is told apart from what the source took away.
    pub(crate) fn count_drained(&mut self, key: &TargetKey, before: usize, drained: bool) {
        let Some(target) = self.targets.get(key).filter(|_| drained) else { return };
        let gone = before.saturating_sub(target.settled.endpoints) as u64;
        if let Some(backend) = target.counted_for.as_ref().and_then(|name| self.backends.get_mut(name)) {
            backend.drained += gone;
        }
    }

    /// The plan for what nobody can tell more of now, and whether a removal waits for the backend to come back. `None` where
    /// the ordinary verdict stands.
    pub(crate) fn plan_of_lost(
        &self,
        key: &TargetKey,
        target: &Target,
        standing: &Standing,
        removals: Removals,
    ) -> Option<(Plan, bool)> {
        let lost = self.lost(target)?;
        let plan = || plan_lost(key, &target.observed, lost);
        match standing {
            Standing::Owned(_) | Standing::Frozen(_) | Standing::Nothing => None,
            // The source took it away before it was lost, or a policy does. What the guard holds of that, a policy of loss does not
            // release: the Service stays, like any other.
            Standing::Gone(Gone::Source) if lost == Lost::Drained => Some((plan(), true)),
            Standing::Gone(_) => (removals != Removals::Allowed).then(|| (plan(), true)),
            Standing::Kept(_) | Standing::Moving(..) => Some((plan(), false)),
            Standing::Blocked(_) => {
                let plan = plan();
                let counted = target.settled == target.observed.count();
                (!plan.is_empty() || !counted).then_some((plan, removals != Removals::Allowed))
            }
        }
    }
}
