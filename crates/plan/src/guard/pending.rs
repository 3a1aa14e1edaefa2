//! What one target would lose.

use std::time::{Duration, Instant};

use super::hold::{Hold, Since};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pending {
    pub(super) loss: u64,
    /// The part of `loss` that may go.
    pub(super) released: u64,
    /// The largest loss so far, and since when.
    peak: u64,
    pub(super) since: Option<Since>,
}

impl Pending {
    pub(super) fn waiting(&self) -> u64 {
        self.loss - self.released
    }

    /// The loss is another number from now on.
    pub(super) fn set(&mut self, loss: u64, now: Instant) {
        *self = match loss {
            0 => Self::default(),
            loss if loss > self.peak => {
                Self { loss, released: self.released, peak: loss, since: Some(Since::new(now)) }
            }
            loss => Self { loss, released: self.released.min(loss), ..*self },
        };
    }

    /// So much of it is gone; what was released goes first.
    pub(super) fn fell(&mut self, by: u64) {
        let left = self.loss.saturating_sub(by);
        *self = match left {
            0 => Self::default(),
            loss => Self { loss, released: self.released.saturating_sub(by), ..*self },
        };
    }

    /// Whether it waits, and did so for `after` at `at`, in this hold.
    pub(super) fn is_due(&self, hold: &Hold, at: Instant, after: Duration) -> bool {
        let old_enough = |since: &Since| since.age(at).is_some_and(|age| age >= after);
        self.loss > self.released && old_enough(&hold.since) && self.since.as_ref().is_none_or(old_enough)
    }
}
