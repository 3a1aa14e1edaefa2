//! What is heard of the Gimbal cluster: by each watch for itself, for one may be refused or fail while all else goes well.

use std::sync::Arc;
use std::time::Duration;

use gimbal_reconcile::Watched;
use gimbal_runtime::Health;

/// When the API server said something of each kind that is watched. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reach(Arc<[Health]>);

impl Reach {
    /// Out of reach is a kind of which nothing is heard for `limit`. Now counts as heard.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self(Watched::ALL.iter().map(|_| Health::new(limit)).collect())
    }

    /// The API server said something of a kind.
    pub fn heard(&self, kind: Watched) {
        if let Some(health) = self.of(kind) {
            health.beat();
        }
    }

    /// The kinds of which nothing is heard, each with its silence.
    #[must_use]
    pub fn silent(&self) -> Vec<(Watched, Duration)> {
        let all = Watched::ALL.iter().zip(&*self.0);
        all.filter(|(_, health)| !health.is_alive()).map(|(kind, health)| (*kind, health.silence())).collect()
    }

    fn of(&self, kind: Watched) -> Option<&Health> {
        Watched::ALL.iter().zip(&*self.0).find(|(each, _)| **each == kind).map(|(_, health)| health)
    }

    /// For how long nothing was heard of a kind.
    #[cfg(test)]
    pub(crate) fn silence(&self, kind: Watched) -> Duration {
        self.of(kind).map(Health::silence).unwrap_or_default()
    }
}
