//! How long load balancers have waited to be as they are wanted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredKey, DesiredLoadBalancer, LoadBalancerReport, Phase};
use gimbal_kuryr_wire::PackedReport;

/// Ages that waiting entries are counted by: up to this, and the last for all that are older.
pub const AGES: [(&str, Duration); 4] = [
    ("1m", Duration::from_secs(60)),
    ("5m", Duration::from_secs(300)),
    ("15m", Duration::from_secs(900)),
    ("older", Duration::MAX),
];

/// Entries of a cluster that are not as they are wanted yet.
#[derive(Debug, Default)]
pub(super) struct WaitingEntries(BTreeMap<DesiredKey, Instant>);

impl WaitingEntries {
    /// Takes note that an entry is wanted. `reported` is its latest report.
    pub(super) fn wanted(
        &mut self,
        key: &DesiredKey,
        wanted: &DesiredLoadBalancer,
        reported: Option<&PackedReport>,
        now: Instant,
    ) {
        let reported = reported.filter(|report| *report.owner() == wanted.header.owner);
        if reported.is_some_and(|report| report.phase() == Phase::Ready && report.generation() == wanted.generation) {
            return;
        }
        // Of several changes one after the other, the first one has waited.
        self.0.entry(key.clone()).or_insert(now);
    }

    /// Takes note of a report of what is wanted in this generation.
    pub(super) fn reported(&mut self, key: &DesiredKey, generation: i64, report: &LoadBalancerReport) {
        if report.phase == Phase::Ready && report.generation == generation {
            self.0.remove(key);
        }
    }

    /// Takes note that an entry is refused, deleted or gone.
    pub(super) fn ended(&mut self, key: &DesiredKey) {
        self.0.remove(key);
    }

    /// Returns the number of entries by age, in the order of [`AGES`].
    pub(super) fn by_age(&self, now: Instant) -> [u64; AGES.len()] {
        let mut counts = [0; AGES.len()];
        for since in self.0.values() {
            let age = now.saturating_duration_since(*since);
            if let Some(at) = AGES.iter().position(|(_, most)| age <= *most) {
                counts[at] += 1;
            }
        }
        counts
    }
}
