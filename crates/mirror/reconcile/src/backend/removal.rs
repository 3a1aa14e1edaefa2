//! The removal of a backend, as far as it concerns that backend alone.

use std::time::{Duration, Instant, SystemTime};

use crate::{Backend, BackendState, Decommission, DecommissionOrder, Output};

impl Backend {
    /// Returns until when its endpoints are not ready because its removal was ordered, by the wall clock; `None` unless nothing of it
    /// is deleted yet.
    #[must_use]
    pub fn not_ready_until(&self) -> Option<SystemTime> {
        let waits = matches!(self.decommission, Some(Decommission::Ordered { .. } | Decommission::NotReady { .. }));
        self.state.decommission.as_ref().filter(|order| waits && !order.not_ready_for.is_zero())?.ends()
    }

    /// Its removal was ordered under an id, and begins once that is stored.
    pub(crate) fn order_decommission(&mut self, id: String, wall: SystemTime, outputs: &mut Vec<Output>) {
        // What no configuration names has no policy.
        let not_ready_for = if self.listed { self.policy.on_removal.not_ready_for } else { Duration::ZERO };
        self.state.decommission = Some(DecommissionOrder { id, since: wall, not_ready_for });
        let version = self.keep(outputs);
        self.decommission = Some(Decommission::Ordered { version });
    }

    /// The order to remove it is stored.
    pub(crate) fn begin_decommission(&mut self, now: Instant, wall: SystemTime) {
        self.decommission = self.state.decommission.as_ref().map(|order| order.stage(now, wall));
    }

    /// Follows the time for which its endpoints are not ready before its objects are deleted. Its policy may have changed since: whoever
    /// has seen enough makes it shorter.
    pub(crate) fn follow_decommission(&mut self, now: Instant, wall: SystemTime, outputs: &mut Vec<Output>) {
        let Some(Decommission::NotReady { until }) = self.decommission else { return };
        let asked = self.policy.on_removal.not_ready_for;
        let order = self.state.decommission.as_mut();
        if let Some(order) = order.filter(|order| self.listed && order.not_ready_for != asked) {
            order.not_ready_for = asked;
            self.decommission = Some(order.stage(now, wall));
            self.keep(outputs);
        } else if now >= until {
            self.set_decommission_look(now);
        }
    }

    /// The order to remove it is taken back, and returned. What was removed until now is no loss, and what was counted before is over.
    pub(crate) fn withdraw_decommission(&mut self, outputs: &mut Vec<Output>) -> Option<DecommissionOrder> {
        self.decommission = None;
        let order = self.state.decommission.take();
        self.state = BackendState { incarnation: self.state.incarnation.take(), ..BackendState::default() };
        self.guards_mut().forget();
        self.budgets.forget_loss();
        self.keep(outputs);
        order
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
