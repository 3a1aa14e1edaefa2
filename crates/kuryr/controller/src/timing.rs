//! How long it takes until what is wanted is there, and what does not come about.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredKey, LoadBalancerReport};
use gimbal_kuryr_resource::{KeptReport, LateCounts};
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::held::HeldBalancer;

impl<T> KuryrController<T> {
    /// Returns how long those load balancers took that became ready since the last call: from when a change of theirs was first
    /// offered to when everything that was offered by then is there.
    pub fn drain_times(&mut self) -> Vec<Duration> {
        self.measured.drain_times()
    }

    /// Returns how often since the last call a load balancer was reported as degraded that was not before.
    pub fn drain_stuck(&mut self) -> u64 {
        self.measured.drain_stuck()
    }

    /// Looks which load balancers are ready, and counts those that have not been for long. Call it about once a second. A
    /// process counts from when it began to lead, at the earliest.
    pub fn count_late(&mut self, now: Instant) -> LateCounts {
        let mut counts = LateCounts::default();
        for item in self.items.values_mut() {
            let shows_ready = |generation| is_shown_ready(item.held.as_ref(), generation);
            counts.add(item.offer.note_unready(now, shows_ready));
        }
        counts
    }

    /// Returns the latest report of an entry.
    #[must_use]
    pub fn report(&self, key: &DesiredKey) -> Option<Arc<LoadBalancerReport>> {
        let key = SourceKey { namespace: key.namespace.clone(), name: key.name.clone() };
        self.items.get(&key)?.offer.report.as_ref().map(KeptReport::get)
    }
}

/// Whether the status of a KuryrLoadBalancer says that a generation is there.
pub(crate) fn is_shown_ready(held: Option<&HeldBalancer>, generation: i64) -> bool {
    held.is_some_and(|held| held.ready == Some(generation))
}
