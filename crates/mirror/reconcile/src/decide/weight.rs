//! What the mass-change guard has to count for a target.

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::Count;

use super::{Ownership, RemovalReason, View};
use crate::Stage;
use crate::target::Target;

/// The endpoints that a target would lose if its next plan were applied.
#[derive(Debug)]
pub(crate) struct PendingLoss {
    /// The backend that loses them.
    pub(crate) backend: BackendName,
    /// What the target holds.
    pub(crate) held: Count,
    /// What of that its Service has in a larger target too, while it moves.
    pub(crate) twice: Count,
    /// What would remain.
    pub(crate) wanted: Count,
    /// How many ready endpoints would remain.
    pub(crate) wanted_ready: usize,
}

impl View<'_> {
    /// Returns what a target's backend would lose there, whichever claim gets the target next. `None` where nothing
    /// is counted.
    pub(crate) fn pending_loss(self, key: &TargetKey) -> Option<PendingLoss> {
        let target = self.targets.get(key)?;
        let backend = target.counted_for().cloned()?;
        let held = target.settled();
        let twice = self.counted_twice(key, target).min(held);
        let settled = |to: &TargetKey| self.targets.get(to).map_or_else(Count::default, |to| to.settled());
        // The guard judges what would go if it held nothing.
        let wanted = match self.ownership_if(key, target, false) {
            // What the loss policy removes is the operator's decision, not a loss to judge.
            _ if self.stage_of(target) == Stage::Drained => held,
            // Endpoints that another backend publishes instead do not make up for the loss. What the backend already
            // has at the target that its Service leads to now does.
            Ownership::Owned(claim) if claim.backend != backend => {
                let home = target.counted_as();
                let home = home.and_then(|source| self.desired.target_of(&backend, source)?.ok());
                home.filter(|home| home != key).map_or_else(Count::default, |home| settled(&home))
            }
            Ownership::Owned(claim) => self.attainable(&claim, key, target, held),
            Ownership::Gone(RemovalReason::Source | RemovalReason::Policy(_)) => Count::default(),
            // Moved, not lost.
            Ownership::Gone(RemovalReason::Moved(to)) => settled(&to),
            // Nothing is left to be judged. That the endpoints are gone is counted once nothing is under way.
            Ownership::Vacant => return None,
            _ => held,
        };
        let not_ready = self.stage_of(target) == Stage::NotReady;
        let wanted_ready = if not_ready { held.ready } else { wanted.ready };
        Some(PendingLoss { backend, held, twice, wanted, wanted_ready })
    }

    /// Returns what of a target's endpoints its source Service also has at a larger target.
    fn counted_twice(self, key: &TargetKey, target: &Target) -> Count {
        let own = (target.settled().endpoints, key);
        let others = self.other_places(target, key).into_iter();
        let larger = others.filter(|(place, there)| (there.endpoints, place) > own);
        larger.map(|(_, there)| there).max_by_key(|there| there.endpoints).unwrap_or_default()
    }

    /// Returns the other targets that hold objects of a target's source Service, each with the endpoints that count
    /// there.
    pub(crate) fn other_places(self, target: &Target, key: &TargetKey) -> Vec<(TargetKey, Count)> {
        let (Some(name), Some(source)) = (target.counted_for(), target.counted_as()) else { return Vec::new() };
        let places = self.targets.places(name.as_str(), source, Some(key));
        let counts = places.into_iter().filter_map(|place| {
            let there = self.targets.get(&place).filter(|there| there.counted_for() == Some(name))?;
            Some((place, there.settled()))
        });
        counts.collect()
    }
}
