//! Liveness of the task that owns a process's state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Alive while [`Liveness::beat`] is called often enough. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Liveness {
    limit: Duration,
    begun: Instant,
    /// Milliseconds after `begun`.
    last: Arc<AtomicU64>,
}

impl Liveness {
    /// Creates a health that is dead after `limit` without a beat. The creation counts as a beat.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, begun: Instant::now(), last: Arc::default() }
    }

    /// Records a beat. The task that owns the state calls this regularly.
    pub fn beat(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// Returns the time since the last beat.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.begun.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Returns whether the last beat is within the limit.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.silence() <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn alive_while_it_beats() {
        let health = Liveness::new(Duration::from_secs(30));
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(29)).await;
            assert!(health.is_alive());
            health.clone().beat();
        }
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(!health.is_alive());
        health.beat();
        assert!(health.is_alive());
    }
}
