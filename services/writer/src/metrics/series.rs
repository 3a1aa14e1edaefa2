//! Series with labels that end: what no longer applies to a backend must not stay in Prometheus until a restart.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, PoisonError};

use gimbal_runtime::{GaugeSet, TableMetric};
use prometheus_client::metrics::family::Family;

/// Gauges of whole numbers.
pub(super) type Counts<L> = GaugeSet<L, i64, AtomicI64>;
/// Gauges of seconds.
pub(super) type Seconds<L> = GaugeSet<L, f64, AtomicU64>;

impl<L, M> TableMetric for BackendSeries<L, M>
where
    L: OfBackend,
    Family<L, M>: TableMetric,
{
    type Handle = <Family<L, M> as TableMetric>::Handle;
    const KIND: &str = <Family<L, M> as TableMetric>::KIND;

    fn handle(&self) -> Self::Handle {
        self.family.handle()
    }
}

/// Labels that name a backend.
pub(super) trait OfBackend: Clone + Hash + Eq {
    /// Returns the backend's name.
    fn backend(&self) -> &str;
}

/// Counters or histograms of events of backends. The series of a backend end when it is no longer known.
#[derive(Debug)]
pub(super) struct BackendSeries<L: OfBackend, M> {
    family: Family<L, M>,
    used: Mutex<HashSet<L>>,
}

impl<L: OfBackend, M: Default> Default for BackendSeries<L, M> {
    fn default() -> Self {
        Self::of(Family::default())
    }
}

impl<L: OfBackend, M> BackendSeries<L, M> {
    pub(super) fn of(family: Family<L, M>) -> Self {
        Self { family, used: Mutex::default() }
    }
}

impl<L: OfBackend, M: Clone> BackendSeries<L, M> {
    /// Returns the metric with these labels.
    pub(super) fn of_labels(&self, labels: L) -> M {
        let metric = self.family.get_or_create_owned(&labels);
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(labels);
        metric
    }

    /// Ends the series of backends that are no longer known.
    pub(super) fn keep(&self, is_known: impl Fn(&str) -> bool) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).retain(|labels| {
            let known = is_known(labels.backend());
            if !known {
                self.family.remove(labels);
            }
            known
        });
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelSet;
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Labels {
        backend: String,
    }

    impl OfBackend for Labels {
        fn backend(&self) -> &str {
            &self.backend
        }
    }

    fn labels(backend: &str) -> Labels {
        Labels { backend: backend.to_owned() }
    }

    #[test]
    fn what_is_gone_is_shown_no_more() {
        let events = BackendSeries::<Labels, Counter>::default();
        events.of_labels(labels("a")).inc();
        events.of_labels(labels("b")).inc();
        events.keep(|backend| backend == "b");
        let value = |backend: &str| events.family.get(&labels(backend)).map(|counter| counter.get());
        assert_eq!((value("a"), value("b")), (None, Some(1)));
    }
}
