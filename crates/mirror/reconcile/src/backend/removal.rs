//! The removal of a backend, as far as it concerns that backend alone.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::{Backend, BackendState, Decommission, DecommissionOrder, Output, Withdrawal};

impl Backend {
    /// Returns when its objects are deleted, by the wall clock, while none of its endpoints is ready before that; else `None`.
    #[must_use]
    pub fn not_ready_until(&self) -> Option<SystemTime> {
        let waits = matches!(self.decommission, Some(Decommission::NotReady { .. }));
        self.state.decommission.as_ref().filter(|_| waits)?.ends()
    }

    /// Returns why the last order to remove it was taken back, if this process did that and none was given since.
    #[must_use]
    pub fn withdrawal(&self) -> Option<Withdrawal> {
        self.withdrawal
    }

    /// Whether the order to remove it is stored. Before that, it is as if there were none.
    pub(crate) fn is_being_decommissioned(&self) -> bool {
        self.decommission.is_some_and(|stage| !matches!(stage, Decommission::Ordered { .. }))
    }

    /// Its removal was ordered under an id, and begins once that is stored. `object`: the UID of the object that it is about.
    pub(crate) fn order_decommission(&mut self, id: String, object: Option<Arc<str>>, outputs: &mut Vec<Output>) {
        // What no configuration names has no policy.
        let not_ready_for = if self.listed { self.policy.on_removal.not_ready_for } else { Duration::ZERO };
        self.state.decommission = Some(Box::new(DecommissionOrder { id, object, since: None, not_ready_for }));
        let version = self.keep(outputs);
        self.decommission = Some(Decommission::Ordered { version });
        self.withdrawal = None;
    }

    /// The order to remove it is stored.
    pub(crate) fn begin_decommission(&mut self, now: Instant, wall: SystemTime) {
        self.decommission = self.state.decommission.as_ref().map(|order| order.stage(now, wall));
    }

    /// None of its endpoints is ready any more: the time before its objects are deleted begins.
    pub(crate) fn begin_time_before_removal(&mut self, now: Instant, wall: SystemTime, outputs: &mut Vec<Output>) {
        let Some(order) = &mut self.state.decommission else { return };
        order.since = Some(wall);
        self.decommission = Some(order.stage(now, wall));
        self.keep(outputs);
    }

    /// Follows the time for which its endpoints are not ready before its objects are deleted. Its policy may have changed since: whoever
    /// has seen enough makes it shorter.
    pub(crate) fn follow_decommission(&mut self, now: Instant, wall: SystemTime, outputs: &mut Vec<Output>) {
        let is_over = match self.decommission {
            Some(Decommission::MakingNotReady { .. }) => false,
            Some(Decommission::NotReady { until }) => now >= until,
            _ => return,
        };
        let asked = self.policy.on_removal.not_ready_for;
        let order = self.state.decommission.as_mut();
        if let Some(order) = order.filter(|order| self.listed && order.not_ready_for != asked) {
            order.not_ready_for = asked;
            self.decommission = Some(order.stage(now, wall));
            self.keep(outputs);
        } else if is_over {
            self.set_decommission_look(now);
        }
    }

    /// The order to remove it is taken back, and returned. What was removed until now is no loss, and what was counted before is over.
    pub(crate) fn withdraw_decommission(
        &mut self,
        why: Withdrawal,
        outputs: &mut Vec<Output>,
    ) -> Option<Box<DecommissionOrder>> {
        let had_begun = self.is_being_decommissioned();
        self.withdrawal = Some(why);
        self.decommission = None;
        let order = self.state.decommission.take();
        if had_begun {
            self.state = BackendState { incarnation: self.state.incarnation.take(), ..BackendState::default() };
            self.guards_mut().forget();
            self.budgets.forget_loss();
        }
        self.keep(outputs);
        order
    }

    /// Its endpoints are being made not ready, and looked at again at this time.
    pub(crate) fn set_readiness_look(&mut self, look: Instant) {
        self.decommission = Some(Decommission::MakingNotReady { look });
    }

    /// It is being removed, and looked at again at this time.
    pub(crate) fn set_decommission_look(&mut self, look: Instant) {
        self.decommission = Some(Decommission::Running { look, is_over: false });
    }

    /// Nothing of it is left, which is looked at again at this time.
    pub(crate) fn end_decommission(&mut self, look: Instant) {
        self.decommission = Some(Decommission::Running { look, is_over: true });
    }
}
