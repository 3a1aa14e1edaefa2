//! EndpointSlices as the spec has them.

use std::sync::Arc;

use gimbal_kubernetes_objects::{BalancedEndpoint, BalancedSlice, EndpointPort, TargetReference};
use gimbal_kuryr_crd::{KlbEndpoint, KlbEndpointConditions, KlbSlice, KlbSlicePort, KlbTarget};
use gimbal_kuryr_packed::PackedValue;
use gimbal_model::Family;

use crate::address::{address, canonical};

/// What is kept of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePart {
    /// Family of its addresses.
    pub family: Family,
    /// Whether it has endpoints.
    pub has_endpoints: bool,
    slice: PackedValue<KlbSlice>,
}

impl SlicePart {
    /// Reads a slice; `None` if it has names instead of addresses. Addresses become canonical; those that cannot be read,
    /// or are of another family, are left out.
    #[must_use]
    pub fn of(slice: BalancedSlice) -> Option<Self> {
        let family = match &*slice.address_type {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return None,
        };
        let endpoints: Vec<_> = slice.endpoints.into_iter().filter_map(|one| endpoint(one, family)).collect();
        let ports = slice.ports.into_iter().map(port).collect();
        let has_endpoints = !endpoints.is_empty();
        Some(Self { family, has_endpoints, slice: PackedValue::new(Arc::new(KlbSlice { endpoints, ports })) })
    }

    /// Returns its content, in the form of the spec.
    #[must_use]
    pub fn slice(&self) -> Arc<KlbSlice> {
        self.slice.get()
    }
}

fn endpoint(endpoint: BalancedEndpoint, family: Family) -> Option<KlbEndpoint> {
    let BalancedEndpoint { addresses, conditions, hostname, node_name, target_ref } = endpoint;
    let of_family = |text: &_| address(text).is_some_and(|address| Family::of(address) == family);
    let addresses: Vec<_> = addresses.iter().filter(|text| of_family(text)).filter_map(canonical).collect();
    if addresses.is_empty() {
        return None;
    }
    // What is unset means ready, serving and not terminating; one form for both keeps a spec from changing without meaning.
    let ready = conditions.ready.unwrap_or(true);
    let terminating = conditions.terminating.unwrap_or(false);
    let conditions = KlbEndpointConditions {
        ready: Some(ready),
        serving: terminating.then_some(conditions.serving.unwrap_or(ready)),
        terminating: terminating.then_some(true),
    };
    let target_ref = target_ref.map(|TargetReference { kind, namespace, name, uid }| KlbTarget {
        kind: Some(kind),
        name: Some(name),
        namespace,
        resource_version: None,
        uid,
    });
    Some(KlbEndpoint { addresses, conditions, hostname, node_name, target_ref, topology: None })
}

fn port(port: EndpointPort) -> KlbSlicePort {
    let EndpointPort { name, port, protocol, app_protocol: _ } = port;
    KlbSlicePort {
        name: name.filter(|name| !name.is_empty()),
        port: port.map(i64::from),
        protocol: Some(protocol.unwrap_or_else(|| "TCP".into())),
    }
}
