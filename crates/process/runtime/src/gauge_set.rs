//! Series with labels that end: what no longer applies must not stay in Prometheus until a restart.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{Atomic, Gauge};

use crate::TableMetric;

/// Gauges that are set as a whole: a series that is left out the next time ends.
#[derive(Debug)]
pub struct GaugeSet<L: Clone + Hash + Eq, N, A> {
    family: Family<L, Gauge<N, A>>,
    shown: Mutex<HashSet<L>>,
}

impl<L: Clone + Hash + Eq, N, A: Default> Default for GaugeSet<L, N, A> {
    fn default() -> Self {
        Self { family: Family::default(), shown: Mutex::default() }
    }
}

impl<L: Clone + Hash + Eq, N, A: Atomic<N> + Default> GaugeSet<L, N, A> {
    /// Sets the series, and ends those that are not among them.
    pub fn show(&self, now: impl IntoIterator<Item = (L, N)>) {
        let mut shown = HashSet::new();
        for (labels, value) in now {
            self.family.get_or_create_owned(&labels).set(value);
            shown.insert(labels);
        }
        let mut before = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        before.iter().filter(|labels| !shown.contains(*labels)).for_each(|labels| {
            self.family.remove(labels);
        });
        *before = shown;
    }
}

impl<L, N, A> TableMetric for GaugeSet<L, N, A>
where
    L: Clone + Hash + Eq,
    Family<L, Gauge<N, A>>: TableMetric,
{
    type Handle = <Family<L, Gauge<N, A>> as TableMetric>::Handle;
    const KIND: &str = "gauge";

    fn handle(&self) -> Self::Handle {
        self.family.handle()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use prometheus_client::encoding::EncodeLabelSet;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Labels {
        backend: String,
    }

    fn labels(backend: &str) -> Labels {
        Labels { backend: backend.to_owned() }
    }

    #[test]
    fn what_is_gone_is_shown_no_more() {
        let shown = GaugeSet::<Labels, i64, AtomicI64>::default();
        shown.show([(labels("a"), 1), (labels("b"), 2)]);
        shown.show([(labels("b"), 3)]);
        let value = |backend: &str| shown.family.get(&labels(backend)).map(|gauge| gauge.get());
        assert_eq!((value("a"), value("b")), (None, Some(3)));
    }
}
