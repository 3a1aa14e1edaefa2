//! What one target would lose.

use std::time::{Duration, Instant};

use super::floors::Part;
use super::hold::{Hold, Since};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pending {
    pub(super) loss: u64,
    /// Endpoints that the target has, those included.
    pub(super) of: u64,
    /// The part of `loss` that may go.
    pub(super) released: u64,
    /// The part that was let pass, and is not known to be gone.
    pub(super) granted: u64,
    /// The largest loss so far, and since when.
    pub(super) peak: u64,
    pub(super) since: Option<Since>,
}

impl Pending {
    pub(super) fn waiting(&self) -> u64 {
        self.loss - self.released
    }

    pub(super) fn part(&self) -> Part {
        Part { of: self.of, loss: self.loss, waiting: self.waiting() }
    }

    /// Whether it waits, and did so for `after` at `at`, in this hold.
    pub(super) fn is_due(&self, hold: &Hold, at: Instant, after: Duration) -> bool {
        let old_enough = |since: &Since| since.age(at).is_some_and(|age| age >= after);
        self.loss > self.released && old_enough(&hold.since) && self.since.as_ref().is_none_or(old_enough)
    }
}
