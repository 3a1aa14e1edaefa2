//! The observed objects that have an endpoint with one address.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, Object as _};
use gimbal_model::{AddressObject, Conditions, PortGroup};

use super::Observed;

impl Observed {
    /// Returns the objects that have an endpoint with this address, in order. `own_name` is the target's name, which an
    /// Endpoints object has.
    #[must_use]
    pub fn with_address(&self, address: IpAddr, own_name: &Arc<str>) -> Vec<AddressObject> {
        let slices = self.slices.iter().filter_map(|slice| {
            let conditions = slice.endpoints.get(address)?.conditions;
            Some(AddressObject { kind: objects::EndpointSlice::KIND.kind, name: slice.name.clone(), conditions })
        });
        let packed = self.packed.iter().filter_map(|packed| {
            let of_group = |group: &PortGroup| Some(group.endpoints.get(address)?.conditions);
            let conditions = packed.groups.iter().filter_map(of_group).reduce(Conditions::better)?;
            Some(AddressObject { kind: objects::Endpoints::KIND.kind, name: own_name.clone(), conditions })
        });
        slices.chain(packed).collect()
    }
}
