//! Whether the Gimbal cluster can be reached, for each watch by itself, because one may be refused or fail while others
//! work.

use std::sync::Arc;
use std::time::Duration;

use gimbal_reconcile::Watched;
use gimbal_runtime::Liveness;

/// When the API server last gave a sign of life for each watched kind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WatchLiveness(Arc<[Liveness]>);

impl WatchLiveness {
    /// Creates a state in which a kind is out of reach after `limit` without a sign of life. The creation counts as
    /// one.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self(Watched::ALL.iter().map(|_| Liveness::new(limit)).collect())
    }

    /// Records a sign of life of a kind.
    pub fn heard(&self, kind: Watched) {
        if let Some(health) = self.of(kind) {
            health.beat();
        }
    }

    /// Returns the kinds that are out of reach, each with the time since its last sign of life.
    #[must_use]
    pub fn silent(&self) -> Vec<(Watched, Duration)> {
        let all = Watched::ALL.iter().zip(&*self.0);
        all.filter(|(_, health)| !health.is_alive()).map(|(kind, health)| (*kind, health.silence())).collect()
    }

    fn of(&self, kind: Watched) -> Option<&Liveness> {
        Watched::ALL.iter().zip(&*self.0).find(|(each, _)| **each == kind).map(|(_, health)| health)
    }

    /// Returns the time since the last sign of life of a kind.
    #[cfg(test)]
    pub(crate) fn silence(&self, kind: Watched) -> Duration {
        self.of(kind).map(Liveness::silence).unwrap_or_default()
    }
}
