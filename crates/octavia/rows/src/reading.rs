//! When an object was last read, compared with when the server last changed it.

use jiff::{SignedDuration, Timestamp};

use crate::ProvisioningStatus;

/// How long after `updated_at` a read may still miss the change: `updated_at` has a resolution of one second, and a read may
/// overlap the change.
const SETTLING: SignedDuration = SignedDuration::from_secs(3);

/// When the details of a listed object were last read. All times are the server's.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// `updated_at` of the row in the list that preceded the read.
    updated_at: Option<Timestamp>,
    /// The time of the read; `None` if the answer had no `Date` header.
    at: Option<Timestamp>,
    /// Without `Date`: `updated_at` had moved since the previous read, so this read may have overlapped that change.
    unsettled: bool,
}

impl Reading {
    /// Records a read at `at` of an object whose row said `updated_at`. `before` is the previous read of the same object.
    #[must_use]
    pub fn new(updated_at: Option<Timestamp>, at: Option<Timestamp>, before: Option<&Self>) -> Self {
        let unsettled =
            at.is_none() && updated_at.is_some() && before.is_none_or(|before| before.updated_at != updated_at);
        Self { updated_at, at, unsettled }
    }

    /// Returns whether an object listed with `updated_at` and `provisioning` may differ from what was read.
    #[must_use]
    pub fn is_stale(&self, updated_at: Option<Timestamp>, provisioning: ProvisioningStatus) -> bool {
        let overlaps = || match (self.at, updated_at) {
            (Some(at), Some(updated)) => at.duration_since(updated) < SETTLING,
            _ => false,
        };
        provisioning.is_pending() || updated_at != self.updated_at || self.unsettled || overlaps()
    }
}
