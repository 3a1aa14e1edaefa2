//! The desired state: all backends with their ends of the stream, and the targets that each of their Services leads to.

use std::collections::BTreeMap;

use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_plan::{Count, EndpointsApi};

use crate::backend::Measured;
use crate::quota::{Amount, Exceeded};
use crate::{Backend, Claim, Decommission, Mode, NamespaceRefused, test_probe};

/// The desired state.
///
/// A backend has something to send or to store only after it was changed. Every backend that was lent out mutably is
/// visited by the next [`Desired::drain_changed`], so that no caller has to mark it, and a change costs the same
/// however many backends exist.
#[derive(Debug, Clone)]
pub(crate) struct Desired {
    api: EndpointsApi,
    backends: BTreeMap<BackendName, Backend>,
    changed: Vec<BackendName>,
    /// The largest version of the stored state of any backend that was removed.
    last_version: u64,
}

impl Desired {
    /// Knows no backend. `api`: which objects hold endpoints.
    pub(crate) fn new(api: EndpointsApi) -> Self {
        Self { api, backends: BTreeMap::new(), changed: Vec::new(), last_version: 0 }
    }

    pub(crate) fn api(&self) -> EndpointsApi {
        self.api
    }

    pub(crate) fn all(&self) -> &BTreeMap<BackendName, Backend> {
        &self.backends
    }

    pub(crate) fn get(&self, name: &BackendName) -> Option<&Backend> {
        test_probe::looked();
        self.backends.get(name)
    }

    pub(crate) fn contains_key(&self, name: &BackendName) -> bool {
        self.backends.contains_key(name)
    }

    /// Returns the name of the backend that a label names, if there is such a backend.
    pub(crate) fn name(&self, label: &str) -> Option<&BackendName> {
        self.backends.get_key_value(label).map(|(name, _)| name)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &BackendName> {
        self.backends.keys().inspect(|_| test_probe::looked())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Backend> {
        self.backends.values().inspect(|_| test_probe::looked())
    }

    pub(crate) fn get_mut(&mut self, name: &BackendName) -> Option<&mut Backend> {
        let backend = self.backends.get_mut(name)?;
        Self::mark_changed(&mut self.changed, backend);
        Some(backend)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Backend> {
        self.backends.values_mut().for_each(|backend| Self::mark_changed(&mut self.changed, backend));
        self.backends.values_mut()
    }

    pub(crate) fn insert(&mut self, mut backend: Backend) {
        backend.continue_versions_after(self.last_version);
        self.backends.insert(backend.name().clone(), backend);
    }

    pub(crate) fn remove(&mut self, name: &BackendName) -> Option<Backend> {
        let backend = self.backends.remove(name)?;
        self.last_version = self.last_version.max(backend.last_version());
        Some(backend)
    }

    /// Calls `visit` for each backend that was changed since the last call. One for which it returns true is visited by
    /// the next call too.
    pub(crate) fn drain_changed(&mut self, mut visit: impl FnMut(&mut Backend) -> bool) {
        for name in std::mem::take(&mut self.changed) {
            if let Some(backend) = self.backends.get_mut(&name) {
                test_probe::looked();
                backend.clear_changed();
                if visit(backend) {
                    Self::mark_changed(&mut self.changed, backend);
                }
            }
        }
    }

    fn mark_changed(changed: &mut Vec<BackendName>, backend: &mut Backend) {
        test_probe::looked();
        if backend.mark_changed() {
            changed.push(backend.name().clone());
        }
    }

    /// Whether a backend is configured and in quarantine.
    pub(crate) fn is_frozen(&self, name: &BackendName) -> bool {
        self.get(name).is_some_and(|backend| backend.is_listed() && backend.policy().mode == Mode::Quarantine)
    }

    /// Whether the removal of a backend was ordered, and that is stored.
    pub(crate) fn is_being_decommissioned(&self, name: &BackendName) -> bool {
        self.get(name).is_some_and(Backend::is_being_decommissioned)
    }

    /// Whether objects of a backend are being deleted, because its removal was ordered.
    pub(crate) fn is_being_removed(&self, name: &BackendName) -> bool {
        self.get(name).is_some_and(|backend| matches!(backend.decommission(), Some(Decommission::Running { .. })))
    }

    /// Whether the removal of a backend was ordered, and its endpoints are to be not ready for a while before that.
    pub(crate) fn is_not_ready_for_removal(&self, name: &BackendName) -> bool {
        let waits = |stage| matches!(stage, Decommission::MakingNotReady { .. } | Decommission::NotReady { .. });
        self.get(name).and_then(Backend::decommission).is_some_and(waits)
    }

    /// Returns the target that the policy of a backend chooses for a source Service now. `None` if the backend is not
    /// known.
    pub(crate) fn target_of(
        &self,
        backend: &BackendName,
        key: &SourceKey,
    ) -> Option<Result<TargetKey, NamespaceRefused>> {
        let backend = self.get(backend)?;
        Some(backend.policy().target(backend.name(), key, backend.end().service(key).map(|service| &**service)))
    }

    /// Whether a claim waits for room in its backend's quota, and there is none yet.
    pub(crate) fn waits_for_room(&self, claim: &Claim) -> bool {
        let waits = self.get(&claim.backend).is_some_and(|backend| backend.usage().waits(&claim.key));
        waits && self.room_for(claim).is_err()
    }

    /// Returns what a claim's Service takes of its backend's quota, or the limit that it would exceed.
    pub(crate) fn room_for(&self, claim: &Claim) -> Result<Amount, Exceeded> {
        let Some(backend) = self.get(&claim.backend) else { return Ok(Amount::default()) };
        let Some(Measured { count, bytes, .. }) = self.measured(claim) else { return Ok(Amount::default()) };
        let amount = Amount { services: 1, endpoints: count.endpoints as u64, bytes };
        backend.usage().check(&claim.key, amount, &backend.policy().quota).map(|()| amount)
    }

    /// Whether the agent holds the Service of a claim.
    pub(crate) fn has_service(&self, claim: &Claim) -> bool {
        self.get(&claim.backend).is_some_and(|backend| backend.end().service(&claim.key).is_some())
    }

    /// Returns how many endpoints of a claim's Service its policy admits, as the Gimbal cluster will hold them.
    pub(crate) fn publishable(&self, claim: &Claim) -> Count {
        self.measured(claim).map_or_else(Count::default, |measured| measured.count)
    }

    /// Whether a claim's Service can be written at the target that its policy chooses.
    pub(crate) fn is_valid(&self, claim: &Claim) -> bool {
        self.measured(claim).is_none_or(|measured| measured.valid)
    }

    /// Returns the size of a claim's Service, as measured when it changed last.
    fn measured(&self, claim: &Claim) -> Option<Measured> {
        let backend = self.get(&claim.backend)?;
        backend.measured(&claim.key).or_else(|| backend.measure(&claim.key, self.api))
    }

    /// Measures a claim's Service, so that its endpoints are counted once and not at each look. To be called when the
    /// Service or its policy changed.
    pub(crate) fn measure(&mut self, claim: &Claim) {
        let api = self.api;
        if let Some(backend) = self.get_mut(&claim.backend) {
            backend.measure_again(&claim.key, api);
        }
    }

    /// Returns the targets that a claim leaves or moves away from.
    pub(crate) fn old_places(&self, claim: &Claim) -> impl Iterator<Item = &TargetKey> {
        self.get(&claim.backend).into_iter().flat_map(|backend| backend.routes().old(&claim.key))
    }

    /// Records that a claim leaves a target or moves away from it.
    pub(crate) fn add_old_place(&mut self, claim: &Claim, place: &TargetKey) {
        if let Some(backend) = self.get_mut(&claim.backend) {
            backend.routes_mut().add_old(&claim.key, place);
        }
    }

    /// Records that a claim has left a target.
    pub(crate) fn remove_old_place(&mut self, claim: &Claim, place: &TargetKey) {
        if let Some(backend) = self.get_mut(&claim.backend) {
            backend.routes_mut().remove_old(&claim.key, place);
        }
    }
}
