//! How much there is, for metrics.

use std::sync::Arc;

use gimbal_kuryr_model::{DesiredKey, LoadBalancerReport, Phase, ReportedCondition};
use gimbal_kuryr_resource::{KeptReport, ResourceCounts};
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::{IngressPlace, RouterItem};
use crate::streaming::source_key;

/// How many Ingresses there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IngressCounts {
    /// Those that are known, whosever they are.
    pub known: usize,
    /// Those that are served by a router.
    pub served: usize,
}

/// Whether a router serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterUp {
    /// Namespace and name of the KuryrL7Router.
    pub router: SourceKey,
    /// Whether it is there and serves, as far as the writer has said.
    pub is_up: bool,
}

impl<T> RouterController<T> {
    /// Returns how many Ingresses there are.
    #[must_use]
    pub fn count_ingresses(&self) -> IngressCounts {
        let places = self.routers.values().flat_map(|item| item.ingresses.values());
        IngressCounts {
            known: self.index.ingresses().count(),
            served: places.filter(|place| **place == IngressPlace::Served).count(),
        }
    }

    /// Returns how many KuryrL7Routers there are, and writes, for metrics.
    #[must_use]
    pub fn counts(&self) -> ResourceCounts {
        let mut counts = ResourceCounts {
            queued: self.queue.len(),
            in_flight: self.queue.in_flight(),
            failing: self.ingresses.values().filter(|item| item.pauses.is_failing()).count(),
            ..ResourceCounts::default()
        };
        let is_disabled = self.facts.is_some() && !self.is_enabled();
        for item in self.routers.values() {
            let is_known = item.kept.object().is_some();
            counts.add(is_known, &item.offer);
            counts.failing += usize::from(item.pauses.is_failing());
            counts.not_offered += usize::from(item.not_offered.is_some() || (is_disabled && is_known));
        }
        if self.facts.is_none() {
            counts.waiting_for_writer = counts.known;
        }
        counts
    }

    /// Returns which routers serve.
    pub fn routers_up(&self) -> impl Iterator<Item = RouterUp> {
        let known = self.routers.iter().filter_map(|(key, item)| Some((key, item, item.kept.object()?)));
        known.map(|(router, item, held)| {
            let is_up = match item.offer.report_of(&held.metadata.meta.uid) {
                Some(report) => is_up(&report),
                None => RouterItem::<T>::shows_ready(&item.kept, held.metadata.generation),
            };
            RouterUp { router: router.clone(), is_up }
        })
    }

    /// Returns the latest report of an entry.
    #[must_use]
    pub fn report(&self, key: &DesiredKey) -> Option<Arc<LoadBalancerReport>> {
        self.routers.get(&source_key(key))?.offer.report.as_ref().map(KeptReport::get)
    }
}

/// Something is changed, or held, and what there is serves meanwhile.
fn is_up(report: &LoadBalancerReport) -> bool {
    let is_made = report.objects.load_balancer.is_some();
    let says = |reason: &str| report.conditions.iter().any(|condition| *condition.reason == *reason);
    // One that Octavia works on for too long serves, and so does one where something else is in the way.
    let is_left = || says(ReportedCondition::REPAIR_BUDGET);
    match report.phase {
        Phase::Removing | Phase::Gone => false,
        _ if says(ReportedCondition::NOT_SERVING) => false,
        Phase::Ready => true,
        Phase::Making | Phase::Waiting | Phase::Held => is_made,
        Phase::Degraded | Phase::Blocked => is_made && !is_left(),
    }
}
