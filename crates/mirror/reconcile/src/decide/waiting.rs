//! Which writes may wait for later changes of the same Service.

use gimbal_plan::{Action, Body};

use super::proposal::readiness;
use super::{Proposal, View};
use crate::Backend;
use crate::target::Target;

impl View<'_> {
    /// Whether the writes of a proposal may wait for a short time. Only slices that exist change, and meanwhile most requests are led
    /// to where they should be: of the endpoints that are published as ready, at least half stay so. So the first ready endpoint, the
    /// loss of the last one, and a Service that moves as a whole wait for nothing. Nothing waits while its agent has hardly any credit
    /// left: no frame after that of a change that waits is acknowledged, whatever Services it is about.
    pub(super) fn may_wait(self, target: &Target, proposal: &Proposal) -> bool {
        let changes =
            |action: &Action| matches!(action, Action::Replace(Body::Slice(_)) | Action::Patch(Body::Slice(_)));
        if !proposal.plan.actions().all(changes) || self.lost(target).is_some() {
            return false;
        }
        let Some(claim) = &proposal.owner else { return false };
        let end = self.desired.get(&claim.backend).map(Backend::end).filter(|end| !end.is_credit_scarce());
        let Some(service) = end.and_then(|end| end.service(&claim.key)) else { return false };
        let ready = target.observed().count().ready;
        let stays = target.observed().count_at(&readiness(service)).ready;
        ready > 0 && 2 * stays >= ready
    }
}
