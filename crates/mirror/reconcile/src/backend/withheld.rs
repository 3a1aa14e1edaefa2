//! A backend whose stored state only a newer writer may use: nothing of it is removed.

use std::time::Instant;

use gimbal_guard::Passage;
use gimbal_model::TargetKey;
use gimbal_plan::Removals;

use crate::decide::GuardAnswer;
use crate::{Backend, Output};

impl Backend {
    /// Returns why its stored state must not be used, if a newer writer stored it. Nothing of the backend is removed then.
    #[must_use]
    pub fn withheld(&self) -> Option<&str> {
        self.withheld.as_deref()
    }

    /// Its stored state must not be used, for this reason. Its present one is given to be stored, which works once the other one is
    /// gone.
    pub(crate) fn withhold(&mut self, why: &str, outputs: &mut Vec<Output>) {
        self.withheld = Some(why.into());
        self.keep(outputs);
    }

    /// Its state is stored. Returns whether nothing was removed because that was not possible.
    pub(crate) fn end_withholding(&mut self) -> bool {
        self.withheld.take().is_some()
    }

    /// Returns whether a target's removals may be written, and what may be written if not.
    pub(crate) fn permit(&mut self, target: &TargetKey, now: Instant) -> GuardAnswer {
        if self.withheld.is_none() {
            return self.guards_mut().permit(target, now);
        }
        let removals = if self.policy.guard.readiness { Removals::HeldReady } else { Removals::Held };
        GuardAnswer { passage: Passage::Held, removals }
    }

    /// Whether the removals of a target are held.
    pub(crate) fn holds_back(&self, target: &TargetKey) -> bool {
        self.withheld.is_some() || self.guards().hold_back(target)
    }
}
