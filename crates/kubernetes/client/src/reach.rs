//! Whether the API server can be reached, shared by all calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// The first call that reaches a server after an outage ends the pauses of all others.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    away: AtomicBool,
    back: Notify,
}

impl Reach {
    /// Called after each call.
    pub(crate) fn saw(&self, answered: bool) {
        let was_away = self.away.swap(!answered, Ordering::Relaxed);
        if was_away && answered {
            self.back.notify_waiters();
        }
    }

    /// Waits for `pause`, or until the server is back.
    pub(crate) async fn pause(&self, pause: Duration) {
        // The caller retries in either case.
        timeout(pause, self.back.notified()).await.ok();
    }
}
