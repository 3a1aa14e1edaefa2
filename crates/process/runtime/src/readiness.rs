//! What a process waits for before it is ready, by name, so that "not ready" comes with its reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// Whether a process is ready: it is when nothing blocks it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<watch::Sender<Blocks>>);

#[derive(Debug, Default)]
struct Blocks {
    last: u64,
    awaited: BTreeMap<u64, String>,
}

/// Keeps a process from being ready for as long as it lives.
#[derive(Debug)]
#[must_use = "dropping it says that what is awaited is there"]
pub struct ReadinessGuard {
    id: u64,
    readiness: Readiness,
}

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Blocks::default())))
    }
}

impl Readiness {
    /// Creates a readiness that is ready until something blocks it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks readiness until the guard is dropped or [`ReadinessGuard::done`] is called. Call it again when the same
    /// thing is lost again.
    pub fn block(&self, what: impl Into<String>) -> ReadinessGuard {
        let mut id = 0;
        self.0.send_modify(|blocks| {
            blocks.last += 1;
            id = blocks.last;
            blocks.awaited.insert(id, what.into());
        });
        ReadinessGuard { id, readiness: self.clone() }
    }

    /// Returns the names of what blocks, the oldest first; empty if ready.
    #[must_use]
    pub fn awaited(&self) -> Vec<String> {
        self.0.borrow().awaited.values().cloned().collect()
    }

    /// Waits until the process is ready (`ready` is true) or not ready (`ready` is false).
    pub async fn becomes(&self, ready: bool) {
        let mut changes = self.0.subscribe();
        // This fails only without a sender, and `self` is one.
        if changes.wait_for(|blocks| blocks.awaited.is_empty() == ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until nothing blocks.
    pub async fn ready(&self) {
        self.becomes(true).await;
    }
}

impl ReadinessGuard {
    /// Ends the block: what was awaited is there.
    pub fn done(self) {
        drop(self);
    }
}

impl Drop for ReadinessGuard {
    fn drop(&mut self) {
        let mut done = None;
        self.readiness.0.send_modify(|blocks| done = blocks.awaited.remove(&self.id));
        let awaited = self.readiness.awaited();
        tracing::info!(done, still_awaited = awaited.join(", "), ready = awaited.is_empty(), "readiness changed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_when_nothing_blocks() {
        let readiness = Readiness::new();
        assert!(readiness.awaited().is_empty());
        let watches = readiness.block("watches");
        let lease = readiness.block("lease");
        assert_eq!(readiness.awaited(), ["watches", "lease"]);
        watches.done();
        assert_eq!(readiness.awaited(), ["lease"]);
        let waiting = tokio::spawn({
            let readiness = readiness.clone();
            async move { readiness.ready().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(lease);
        waiting.await.unwrap();

        let again = readiness.block("watches");
        assert_eq!(readiness.awaited(), ["watches"]);
        again.done();
        readiness.ready().await;
    }
}
