//! How much there is, for metrics.

use gimbal_kuryr_model::Phase;

use crate::OfferedEntry;

/// How many custom resources of a kind there are, and writes for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceCounts {
    /// Those that are known.
    pub known: usize,
    /// Entries that are offered and wanted.
    pub offered: usize,
    /// Entries that are offered as being deleted.
    pub deleting: usize,
    /// Those whose latest report says that they are as they should be.
    pub ready: usize,
    /// Those that are not offered because the writer has not said where they are made.
    pub waiting_for_writer: usize,
    /// Those that are not offered because they contradict themselves, or are not served.
    pub not_offered: usize,
    /// Those that are offered, and that the writer does not try.
    pub rejected: usize,
    /// Objects that wait for a write, or for the end of a pause.
    pub queued: usize,
    /// Objects with a write in flight.
    pub in_flight: usize,
    /// Objects whose last write failed.
    pub failing: usize,
}

impl ResourceCounts {
    /// Counts one, which is known or not.
    pub fn add<T>(&mut self, is_known: bool, offer: &OfferedEntry<T>) {
        self.known += usize::from(is_known);
        self.deleting += usize::from(offer.is_deleting());
        self.offered += usize::from(offer.wanted_owner().is_some());
        self.ready += usize::from(offer.report.as_ref().is_some_and(|report| report.phase == Phase::Ready));
        self.rejected += usize::from(offer.reject.is_some() && offer.drained.is_some());
    }
}
