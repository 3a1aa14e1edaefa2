//! The pause that the API server asked for, shared by all writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_schedule::Pause;
use tokio::sync::watch;

/// A [`Pause`] that every write checks right before it is sent, so that no further write follows the one that was
/// refused. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Throttle(Arc<watch::Sender<Pause>>);

impl Throttle {
    /// Begins a pause, or extends the current one.
    pub fn begin(&self, retry_after: Option<Duration>, now: Instant) {
        self.0.send_if_modified(|pause| pause.begin(retry_after, now));
    }

    /// Returns when the pause ends, if there is one at `now`.
    #[must_use]
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.0.borrow().until(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_pause() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let other = throttle.clone();
        assert_eq!(other.until(now), None);
        throttle.begin(Some(Duration::from_secs(2)), now);
        assert_eq!(other.until(now), Some(now + Duration::from_secs(2)));
    }
}
