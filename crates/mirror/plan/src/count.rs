//! Counts the endpoints of a Service in the way the mass-change guard does, whether they are observed or wanted.

use gimbal_model::{AddressRules, PortGroup, Service};

use crate::{EndpointsApi, wanted};

/// A number of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// All endpoints.
    pub endpoints: usize,
    /// The ready ones.
    pub ready: usize,
}

impl Count {
    /// Returns the larger of each number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { endpoints: self.endpoints.max(other.endpoints), ready: self.ready.max(other.ready) }
    }

    /// Returns the smaller of each number.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { endpoints: self.endpoints.min(other.endpoints), ready: self.ready.min(other.ready) }
    }

    pub(crate) fn of(ready: impl Iterator<Item = bool>) -> Self {
        ready.fold(Self::default(), |count, ready| Self {
            endpoints: count.endpoints + 1,
            ready: count.ready + usize::from(ready),
        })
    }
}

/// Counts the endpoints of a Service that may be published under `addresses`, in the way in which
/// [`crate::Observed::count`] counts them once they are written.
#[must_use]
pub fn publishable(service: &Service, addresses: &AddressRules, api: EndpointsApi) -> Count {
    let allowed = |address| addresses.check(address).is_ok();
    if api.slices() {
        let endpoints = service.endpoints().filter(|(_, endpoint)| allowed(endpoint.address));
        return Count::of(endpoints.map(|(_, endpoint)| endpoint.conditions.ready));
    }
    let packed = packed(service, addresses);
    Count::of(packed.iter().flat_map(|group| group.endpoints.conditions()).map(|conditions| conditions.ready))
}

/// Returns the permitted endpoints of a Service as an `Endpoints` object holds them.
pub(crate) fn packed(service: &Service, addresses: &AddressRules) -> Vec<PortGroup> {
    let groups = service.groups().iter().map(|group| {
        let endpoints = group.endpoints.iter().filter(|endpoint| addresses.check(endpoint.address).is_ok());
        (group.ports.clone(), endpoints.collect())
    });
    wanted::packed(&wanted::by_family(groups.collect()))
}
