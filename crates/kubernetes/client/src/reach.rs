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
    /// Called after a call without an answer.
    pub(crate) fn nobody_answered(&self) {
        self.away.store(true, Ordering::Relaxed);
    }

    /// Called after a complete answer. The headers alone do not count: a server that breaks off all its answers would end the
    /// pauses of one call with the headers of another.
    pub(crate) fn answered(&self) {
        if self.away.swap(false, Ordering::Relaxed) {
            self.back.notify_waiters();
        }
    }

    /// Waits for `pause`, or until the server is back.
    pub(crate) async fn pause(&self, pause: Duration) {
        // The caller retries in either case.
        timeout(pause, self.back.notified()).await.ok();
    }
}
