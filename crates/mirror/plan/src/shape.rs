//! Conversions between the model's compact endpoints and the two Kubernetes forms of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects as objects;
use gimbal_model::{Conditions, Detail, Endpoint, EndpointPort, Endpoints, Family, PortGroup, PortSet, Protocol};

/// Returns the ports of a slice. Name and protocol are always written, because what is written is what is compared.
pub(crate) fn slice_ports(ports: &PortSet) -> Vec<objects::EndpointPort> {
    let port = |port: &EndpointPort| objects::EndpointPort {
        name: Some(port.name.clone()),
        port: port.port.map(i32::from),
        protocol: Some(port.protocol.as_str().into()),
        app_protocol: port.app_protocol.clone(),
    };
    ports.ports().iter().map(port).collect()
}

/// Returns an endpoint of a lost backend: neither ready nor serving.
pub(crate) fn not_ready(endpoint: &Endpoint) -> Endpoint {
    let conditions = Conditions { terminating: endpoint.conditions.terminating, ..Conditions::NOT_READY };
    Endpoint { conditions, ..endpoint.clone() }
}

/// Like [`not_ready`], for all addresses of an `Endpoints` object.
pub(crate) fn flat_not_ready(mut flat: Flat) -> Flat {
    flat.values_mut().for_each(|state| state.ready = false);
    flat
}

/// Returns an endpoint as a slice holds it.
pub(crate) fn slice_endpoint(endpoint: &Endpoint) -> objects::Endpoint {
    let Conditions { ready, serving, terminating } = endpoint.conditions;
    let detail = endpoint.detail.as_deref();
    let zones = detail.map(|detail| detail.for_zones.as_slice()).unwrap_or_default();
    let for_zones: Vec<_> = zones.iter().map(|name| objects::ForZone { name: name.clone() }).collect();
    objects::Endpoint {
        addresses: vec![endpoint.address.to_string().into()],
        conditions: objects::EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: detail.and_then(|detail| detail.hostname.clone()),
        zone: detail.and_then(|detail| detail.zone.clone()),
        hints: (!for_zones.is_empty()).then_some(objects::EndpointHints { for_zones }),
    }
}

/// Reads a slice's ports. Second: whether they have exactly the form that we write.
pub(crate) fn read_ports(ports: &[objects::EndpointPort]) -> (PortSet, bool) {
    let mut regular = true;
    let read = |port: &objects::EndpointPort| {
        let protocol = port.protocol.as_deref().and_then(Protocol::parse);
        let number = port.port.map(u16::try_from);
        regular &= port.name.is_some() && protocol.is_some() && !matches!(number, Some(Err(_)));
        EndpointPort {
            name: port.name.clone().unwrap_or_default(),
            port: number.and_then(Result::ok),
            protocol: protocol.unwrap_or(Protocol::Tcp),
            app_protocol: port.app_protocol.clone(),
        }
    };
    let set = PortSet::new(ports.iter().map(read).collect());
    let regular = regular && set.ports().len() == ports.len();
    (set, regular)
}

/// Reads a slice's endpoints, without those that are no addresses of `family`. Second: whether they have exactly the
/// form that we write.
pub(crate) fn read_endpoints(from: &[objects::Endpoint], family: Option<Family>) -> (Endpoints, bool) {
    let mut regular = family.is_some();
    let mut details = BTreeSet::<Arc<Detail>>::new();
    let mut endpoints = Vec::with_capacity(from.len());
    for endpoint in from {
        let conditions = endpoint.conditions;
        let ready = conditions.ready.unwrap_or(true);
        let hints = endpoint.hints.as_ref();
        regular &= endpoint.addresses.len() == 1
            && conditions.ready.is_some()
            && conditions.serving.is_some()
            && conditions.terminating.is_some()
            && hints.is_none_or(|hints| !hints.for_zones.is_empty());
        let detail = Detail {
            hostname: endpoint.hostname.clone(),
            zone: endpoint.zone.clone(),
            for_zones: hints.into_iter().flat_map(|hints| &hints.for_zones).map(|zone| zone.name.clone()).collect(),
        };
        let conditions = Conditions {
            ready,
            serving: conditions.serving.unwrap_or(ready),
            terminating: conditions.terminating.unwrap_or(false),
        };
        for text in &endpoint.addresses {
            let address = text.parse::<IpAddr>().ok().filter(|address| Some(Family::of(*address)) == family);
            regular &= address.is_some_and(|address| address.to_string() == **text);
            if let Some(address) = address {
                endpoints.push(Endpoint { address, conditions, detail: shared(&mut details, &detail) });
            }
        }
    }
    let count = endpoints.len();
    // Of duplicates, the first counts.
    let endpoints: Endpoints = endpoints.into_iter().rev().collect();
    let regular = regular && endpoints.len() == count;
    (endpoints, regular)
}

fn shared(known: &mut BTreeSet<Arc<Detail>>, detail: &Detail) -> Option<Arc<Detail>> {
    if *detail == Detail::default() {
        return None;
    }
    let detail = known.get(detail).cloned().unwrap_or_else(|| Arc::new(detail.clone()));
    known.insert(detail.clone());
    Some(detail)
}

/// The state of one address on one port in an `Endpoints` object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressState {
    pub(crate) ready: bool,
    pub(crate) hostname: Option<Arc<str>>,
}

/// An `Endpoints` object by address and port. No port: the address is in a subset without ports.
pub(crate) type Flat = BTreeMap<(IpAddr, Option<EndpointPort>), AddressState>;

/// Adds one address on a set of ports; where two subsets say different things, not ready wins, as in Kubernetes. Ports
/// without a number have no place in this form.
pub(crate) fn add_flat(flat: &mut Flat, address: IpAddr, ports: &PortSet, state: &AddressState) {
    let mut add = |port: Option<EndpointPort>| {
        flat.entry((address, port))
            .and_modify(|old| {
                if old.ready && !state.ready {
                    *old = state.clone();
                }
            })
            .or_insert_with(|| state.clone());
    };
    let mut numbered = ports.ports().iter().filter(|port| port.port.is_some()).peekable();
    if numbered.peek().is_none() {
        add(None);
    }
    for port in numbered {
        add(Some(port.clone()));
    }
}

/// Splits an object into single addresses. Second: what could not be read. We never write that, so it must go.
pub(crate) fn flatten(endpoints: &objects::Endpoints) -> (Flat, Vec<Arc<str>>) {
    let mut flat = Flat::new();
    let mut odd = Vec::new();
    for subset in &endpoints.subsets {
        let port = |port: &objects::SubsetPort| EndpointPort {
            name: port.name.clone().unwrap_or_default(),
            port: u16::try_from(port.port).ok(),
            protocol: port.protocol.as_deref().and_then(Protocol::parse).unwrap_or(Protocol::Tcp),
            app_protocol: port.app_protocol.clone(),
        };
        let ports = PortSet::new(subset.ports.iter().map(port).collect());
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            match address.ip.parse() {
                Ok(ip) => add_flat(&mut flat, ip, &ports, &AddressState { ready, hostname: address.hostname.clone() }),
                Err(_) => odd.push(address.ip.clone()),
            }
        }
    }
    (flat, odd)
}

/// Groups addresses that have the same state on the same ports.
pub(crate) fn group(flat: &Flat) -> Vec<PortGroup> {
    let mut addresses = BTreeMap::<(IpAddr, &AddressState), Vec<EndpointPort>>::new();
    for ((address, port), state) in flat {
        addresses.entry((*address, state)).or_default().extend(port.clone());
    }
    let mut groups = BTreeMap::<PortSet, Vec<Endpoint>>::new();
    for ((address, state), ports) in addresses {
        let conditions = if state.ready { Conditions::READY } else { Conditions::NOT_READY };
        let detail = state.hostname.clone().map(|name| Detail { hostname: Some(name), ..Detail::default() });
        let endpoint = Endpoint { address, conditions, detail: detail.map(Arc::new) };
        groups.entry(PortSet::new(ports)).or_default().push(endpoint);
    }
    let group =
        |(ports, endpoints): (PortSet, Vec<Endpoint>)| PortGroup { ports, endpoints: endpoints.into_iter().collect() };
    groups.into_iter().map(group).collect()
}

/// Reverses [`group`].
pub(crate) fn ungroup(groups: &[PortGroup]) -> Flat {
    let mut flat = Flat::new();
    for group in groups {
        for endpoint in group.endpoints.iter() {
            let hostname = endpoint.detail.as_ref().and_then(|detail| detail.hostname.clone());
            let state = AddressState { ready: endpoint.conditions.ready, hostname };
            add_flat(&mut flat, endpoint.address, &group.ports, &state);
        }
    }
    flat
}

/// Returns the subsets of an `Endpoints` object.
pub(crate) fn subsets(groups: &[PortGroup]) -> Vec<objects::EndpointSubset> {
    let port = |port: &EndpointPort| objects::SubsetPort {
        name: (!port.name.is_empty()).then(|| port.name.clone()),
        port: port.port.map_or(0, i32::from),
        protocol: Some(port.protocol.as_str().into()),
        app_protocol: port.app_protocol.clone(),
    };
    let addresses = |group: &PortGroup, ready: bool| {
        let of = group.endpoints.iter().filter(|endpoint| endpoint.conditions.ready == ready);
        of.map(|endpoint| objects::EndpointAddress {
            ip: endpoint.address.to_string().into(),
            hostname: endpoint.detail.as_ref().and_then(|detail| detail.hostname.clone()),
        })
        .collect()
    };
    let subset = |group: &PortGroup| objects::EndpointSubset {
        addresses: addresses(group, true),
        not_ready_addresses: addresses(group, false),
        ports: group.ports.ports().iter().map(port).collect(),
    };
    groups.iter().map(subset).collect()
}
