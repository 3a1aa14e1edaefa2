//! What a backend has in the Gimbal cluster, and the id of that.

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Object as _, Service};
use gimbal_model::{BackendName, Digest, TargetKey};

use crate::target::Target;

/// A difference of endpoints that is as good as none, where a quarter is less.
const FEW_ENDPOINTS: u64 = 10;

/// The number of a backend's objects in the Gimbal cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Services.
    pub services: u64,
    /// EndpointSlices.
    pub slices: u64,
    /// Endpoints objects.
    pub endpoints_objects: u64,
    /// Endpoints in these objects.
    pub endpoints: u64,
    /// The sum of the digests of the targets' names.
    pub names: Digest,
}

impl Inventory {
    pub(super) fn add(&mut self, key: &TargetKey, target: &Target) {
        self.names = self.names + key.digest();
        for held in target.observed().objects() {
            let count = match held.kind {
                kind if kind == Service::KIND => &mut self.services,
                kind if kind == EndpointSlice::KIND => &mut self.slices,
                kind if kind == Endpoints::KIND => &mut self.endpoints_objects,
                _ => continue,
            };
            *count += 1;
        }
        self.endpoints += target.observed().endpoint_count() as u64;
    }

    /// Returns an id for a backend, these figures and the names of the targets. Ordering the removal requires it, as a
    /// proof that the admin has seen them.
    #[must_use]
    pub fn id(&self, backend: &BackendName) -> String {
        let Self { services, slices, endpoints_objects, endpoints, .. } = self;
        format!("{backend}-{services}-{slices}-{endpoints_objects}-{endpoints}-{}", self.mark_of_names())
    }

    /// Whether an id that was given out earlier still names what the backend has: the targets are the same ones, and the
    /// endpoints, which change all the time, are about as many.
    #[must_use]
    pub fn is_named_by(&self, backend: &BackendName, id: &str) -> bool {
        let near = |said: u64| self.endpoints.abs_diff(said) <= tolerance(said);
        Self::read(backend, id).is_some_and(|(_, said, names)| names == self.mark_of_names() && near(said))
    }

    /// Whether this may be what a removal that was ordered under an id has left: it is all of that, or less. Of which names is known
    /// only while no Service is gone.
    #[must_use]
    pub fn may_be_left_of(&self, backend: &BackendName, id: &str) -> bool {
        Self::read(backend, id).is_some_and(|(services, endpoints, names)| {
            let is_less = self.services < services || names == self.mark_of_names();
            is_less && self.endpoints <= endpoints.saturating_add(tolerance(endpoints))
        })
    }

    /// Returns the Services, the endpoints and the mark of the names in an id.
    fn read<'a>(backend: &BackendName, id: &'a str) -> Option<(u64, u64, &'a str)> {
        let figures = id.strip_prefix(backend.as_str())?.strip_prefix('-')?;
        let [services, _, _, endpoints, names] = figures.split('-').collect::<Vec<_>>()[..] else { return None };
        Some((services.parse().ok()?, endpoints.parse().ok()?, names))
    }

    /// Returns what differs for other targets. It is short because it guards against a mistake, and not against a source,
    /// which may remove all of its Services anyway.
    fn mark_of_names(&self) -> String {
        let mut text = self.names.to_string();
        text.truncate(8);
        text
    }
}

/// Returns by how many endpoints a backend may differ from what was said.
fn tolerance(said: u64) -> u64 {
    (said / 4).max(FEW_ENDPOINTS)
}
