//! What is kept of one slice or one Endpoints object: its endpoints in a compact form, without anything that is not offered.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, keys};
use gimbal_model::{Conditions, Detail, Endpoint, EndpointPort, Endpoints, Family, PortSet};

use crate::Omission;
use crate::header::protocol;
use crate::pool::Pools;

/// The endpoints that one slice, or one Endpoints object, adds to its Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SliceContent {
    /// Endpoints by their ports. A slice has one group, an Endpoints object has one for each subset.
    pub groups: Vec<(PortSet, Endpoints)>,
    /// Set if the whole object is left out.
    pub skip: Option<Omission>,
    /// How many endpoints are left out because their address cannot be read.
    pub bad_addresses: u64,
}

impl SliceContent {
    fn skipped(skip: Omission) -> Self {
        Self { skip: Some(skip), ..Self::default() }
    }

    pub(crate) fn of_slice(slice: objects::EndpointSlice, pools: &mut Pools) -> Self {
        if slice.metadata.labels.contains_key(keys::BACKEND) {
            return Self::skipped(Omission::MirrorSlice);
        }
        let family = match &*slice.address_type {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            "FQDN" => return Self::skipped(Omission::Fqdn),
            _ => return Self::skipped(Omission::Unsupported),
        };
        let Some(ports) = slice.ports.into_iter().map(|from| slice_port(from, pools)).collect() else {
            return Self::skipped(Omission::Unsupported);
        };
        let count = slice.endpoints.len();
        let endpoints: Vec<Endpoint> =
            slice.endpoints.into_iter().filter_map(|from| endpoint(from, family, pools)).collect();
        let bad_addresses = (count - endpoints.len()) as u64;
        let groups =
            if endpoints.is_empty() { Vec::new() } else { vec![(pools.ports(PortSet::new(ports)), best(endpoints))] };
        Self { groups, skip: None, bad_addresses }
    }

    pub(crate) fn of_endpoints(object: objects::Endpoints, pools: &mut Pools) -> Self {
        if object.metadata.labels.contains_key(keys::BACKEND) {
            return Self::skipped(Omission::MirrorSlice);
        }
        let mut part = Self::default();
        for subset in object.subsets {
            let Some(ports) = subset.ports.into_iter().map(|from| subset_port(from, pools)).collect() else {
                return Self::skipped(Omission::Unsupported);
            };
            let count = subset.addresses.len() + subset.not_ready_addresses.len();
            let ready = subset.addresses.into_iter().map(|from| (from, Conditions::READY));
            let not_ready = subset.not_ready_addresses.into_iter().map(|from| (from, Conditions::NOT_READY));
            let endpoints: Vec<Endpoint> = ready
                .chain(not_ready)
                .filter_map(|(from, conditions)| {
                    let address = from.ip.parse().ok()?;
                    let detail = pools.detail(Detail { hostname: from.hostname, ..Detail::default() });
                    Some(Endpoint { address, conditions, detail })
                })
                .collect();
            part.bad_addresses += (count - endpoints.len()) as u64;
            if !endpoints.is_empty() {
                part.groups.push((pools.ports(PortSet::new(ports)), best(endpoints)));
            }
        }
        part
    }
}

fn slice_port(from: objects::EndpointPort, pools: &mut Pools) -> Option<EndpointPort> {
    // Unset means all ports, so an invalid number must not be read as unset.
    let port = from.port.map(u16::try_from).transpose().ok()?;
    endpoint_port(from.name, port, from.protocol.as_deref(), from.app_protocol, pools)
}

fn subset_port(from: objects::SubsetPort, pools: &mut Pools) -> Option<EndpointPort> {
    let port = Some(u16::try_from(from.port).ok()?);
    endpoint_port(from.name, port, from.protocol.as_deref(), from.app_protocol, pools)
}

fn endpoint_port(
    name: Option<Arc<str>>,
    port: Option<u16>,
    transport: Option<&str>,
    app_protocol: Option<Arc<str>>,
    pools: &mut Pools,
) -> Option<EndpointPort> {
    Some(EndpointPort {
        name: pools.text(name.unwrap_or_default()),
        port,
        protocol: protocol(transport)?,
        app_protocol: app_protocol.map(|text| pools.text(text)),
    })
}

/// Reads the first address only: further addresses of an endpoint are other names for it.
fn endpoint(from: objects::Endpoint, family: Family, pools: &mut Pools) -> Option<Endpoint> {
    let address: IpAddr = from.addresses.first()?.parse().ok()?;
    if Family::of(address) != family {
        return None;
    }
    let ready = from.conditions.ready.unwrap_or(true);
    let conditions = Conditions {
        ready,
        serving: from.conditions.serving.unwrap_or(ready),
        terminating: from.conditions.terminating.unwrap_or(false),
    };
    let mut for_zones: Vec<_> =
        from.hints.unwrap_or_default().for_zones.into_iter().map(|zone| pools.text(zone.name)).collect();
    for_zones.sort();
    for_zones.dedup();
    let zone = from.zone.map(|zone| pools.text(zone));
    let detail = pools.detail(Detail { hostname: from.hostname, zone, for_zones });
    Some(Endpoint { address, conditions, detail })
}

/// Keeps one endpoint for each address, the greatest by rank.
pub(crate) fn best(mut endpoints: Vec<Endpoint>) -> Endpoints {
    endpoints.sort_unstable_by(|a, b| a.address.cmp(&b.address).then_with(|| by_rank(a, b)));
    endpoints.into_iter().collect()
}

/// Orders two endpoints of one address, which exist while a controller moves an endpoint between slices. The greater one is
/// the better target for traffic. Ties are broken by all fields, so that the outcome never depends on the order of events.
fn by_rank(a: &Endpoint, b: &Endpoint) -> Ordering {
    a.conditions.rank().cmp(&b.conditions.rank()).then_with(|| a.cmp(b))
}
