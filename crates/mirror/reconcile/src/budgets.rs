//! What limits a backend: its quota, the mass-change guards, and the loss policy, with what is counted for each.

use gimbal_guard::GuardConfig;
use gimbal_plan::Count;

use crate::guards::Guards;
use crate::{Loss, Usage};

/// The counts of one backend against its limits.
#[derive(Debug, Clone)]
pub(crate) struct Budgets {
    /// What its Services take of its quota.
    usage: Usage,
    guards: Guards,
    /// Whether and for how long the backend is lost.
    loss: Loss,
    /// Its endpoints in the Gimbal cluster.
    endpoints: u64,
    /// Total of the endpoints that were removed because it was lost.
    drained: u64,
}

impl Budgets {
    /// Nothing is counted yet.
    pub(crate) fn new(guard: GuardConfig) -> Self {
        Self { usage: Usage::default(), guards: Guards::new(guard), loss: Loss::default(), endpoints: 0, drained: 0 }
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn usage_mut(&mut self) -> &mut Usage {
        &mut self.usage
    }

    pub(crate) fn guards(&self) -> &Guards {
        &self.guards
    }

    pub(crate) fn guards_mut(&mut self) -> &mut Guards {
        &mut self.guards
    }

    pub(crate) fn loss(&self) -> &Loss {
        &self.loss
    }

    pub(crate) fn loss_mut(&mut self) -> &mut Loss {
        &mut self.loss
    }

    pub(crate) fn set_loss(&mut self, loss: Loss) {
        self.loss = loss;
    }

    /// The backend is not lost, because it is not expected to be there.
    pub(crate) fn forget_loss(&mut self) {
        self.loss = Loss::default();
    }

    pub(crate) fn endpoints(&self) -> u64 {
        self.endpoints
    }

    /// The endpoints of one of its targets were counted again.
    pub(crate) fn recount(&mut self, before: Count, after: Count) {
        self.endpoints = self.endpoints.saturating_sub(before.endpoints as u64) + after.endpoints as u64;
    }

    pub(crate) fn drained(&self) -> u64 {
        self.drained
    }

    /// This many endpoints were removed because the backend is lost.
    pub(crate) fn add_drained(&mut self, endpoints: u64) {
        self.drained += endpoints;
    }

    /// Forgets what its Services take of the quota.
    pub(crate) fn forget_usage(&mut self) {
        self.usage = Usage::default();
    }

    /// Forgets everything but the endpoints that exist and the totals: another process leads.
    pub(crate) fn forget(&mut self) {
        self.forget_usage();
        self.forget_loss();
        self.guards.forget();
        self.guards.forget_awaited();
    }
}
