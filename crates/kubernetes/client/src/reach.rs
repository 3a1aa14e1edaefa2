//! Whether the API server can be reached, shared by all who call it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Who finds a server that was away wakes those who wait to ask it again: each by itself would find it later.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    away: AtomicBool,
    back: Notify,
}

impl Reach {
    /// A call was answered, or was not.
    pub(crate) fn saw(&self, answered: bool) {
        let was_away = self.away.swap(!answered, Ordering::Relaxed);
        if was_away && answered {
            self.back.notify_waiters();
        }
    }

    /// Waits for so long, or until the server is back.
    pub(crate) async fn pause(&self, pause: Duration) {
        // Both ends of the wait mean the same: ask now.
        timeout(pause, self.back.notified()).await.ok();
    }
}
