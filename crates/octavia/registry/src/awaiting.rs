//! Whether an entry waits for anything.

use gimbal_kuryr_model::DesiredKey;

use crate::Registry;
use crate::cell::CellState;

impl Registry {
    /// Returns whether what an entry wants was found not to be there yet, or what is to go not to be gone. Of an entry that
    /// shares a load balancer that is not known by itself: `false`.
    #[must_use]
    pub fn awaits(&self, cluster: &str, key: &DesiredKey) -> bool {
        let Some(cluster) = self.clusters.get(cluster) else { return false };
        let cell = cluster.keys.get(key).and_then(|owner| cluster.cells.get(owner)).filter(|cell| cell.key == *key);
        cell.is_some_and(|cell| {
            let goes = cell.is_deleting() && !matches!(cell.state, CellState::Gone);
            goes || cell.wanted_at.is_some()
        })
    }
}
