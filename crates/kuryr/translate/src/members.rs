//! Endpoints of the spec as members.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gimbal_kuryr_crd::{KlbEndpoint, KlbPort, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{
    CloudFacts, DesiredMember, DesiredMembers, ListenerId, LoadBalancerHeader, MemberAddressing, MemberId, PoolId, Text,
};
use gimbal_model::Family;

use crate::address::address;
use crate::{Finding, MOST_DESIRED_MEMBERS};

/// Returns the members of these listeners, joined with the listeners by the name of the port.
pub(crate) fn members(
    spec: &KuryrLoadBalancerSpec,
    listeners: &[(ListenerId, &KlbPort)],
    family: Family,
    facts: &CloudFacts,
    findings: &mut Vec<Finding>,
) -> DesiredMembers {
    let mut by_name = BTreeMap::new();
    for (id, port) in listeners {
        by_name.entry((port.name.as_deref().unwrap_or_default(), id.protocol.as_str())).or_insert((*id, *port));
    }
    let slices = spec.endpoint_slices.iter().map(|slice| {
        let pools = slice.ports.iter().filter_map(|port| {
            let name = (port.name.as_deref().unwrap_or_default(), port.protocol.as_deref().unwrap_or("TCP"));
            let (listener, of_service) = by_name.get(&name)?;
            Some((PoolId::Listener(*listener), number(port.port, of_service)?))
        });
        (&slice.endpoints, pools.collect())
    });
    of_slices(slices, family, |address| subnet(spec, facts, address), findings)
}

/// Returns the members that these endpoints are in pools: each address and port once, of one family. Of several slices that have it, the
/// best condition counts. Ports and endpoints stand side by side in a spec, and multiply here, so whole endpoints are left out from
/// where there would be more than [`MOST_DESIRED_MEMBERS`].
pub(crate) fn of_slices<'a>(
    slices: impl Iterator<Item = (&'a Vec<KlbEndpoint>, Vec<(PoolId, u16)>)>,
    family: Family,
    subnet: impl Fn(IpAddr) -> Option<Text>,
    findings: &mut Vec<Finding>,
) -> DesiredMembers {
    let mut members: BTreeMap<MemberId, DesiredMember> = BTreeMap::new();
    let (mut kept, mut total, mut is_full) = (0, 0, false);
    for (endpoints, pools) in slices {
        if pools.is_empty() {
            continue;
        }
        for endpoint in endpoints {
            let Some(weight) = weight(endpoint) else { continue };
            let addresses = endpoint.addresses.iter().filter_map(|text| address(text));
            let addresses: Vec<IpAddr> = addresses.filter(|address| Family::of(*address) == family).collect();
            let room = MOST_DESIRED_MEMBERS - members.len();
            // What another slice has as well takes no room.
            let count_new = || {
                let ids = addresses.iter().flat_map(|address| pools.iter().map(move |pool| member_id(*address, pool)));
                ids.filter(|id| !members.contains_key(id)).count()
            };
            total += 1;
            // What comes after it is not served either: who is served must not depend on how much fits.
            is_full |= room < pools.len() * addresses.len() && room < count_new();
            if is_full {
                continue;
            }
            kept += 1;
            for address in addresses {
                let subnet = subnet(address);
                for pool in &pools {
                    let id = member_id(address, pool);
                    let known = members.get(&id);
                    if known.is_none_or(|known| known.weight < weight) {
                        let name = member_name(endpoint, id.port);
                        let member = DesiredMember { id: id.clone(), weight, name, subnet: subnet.clone() };
                        members.insert(id, member);
                    }
                }
            }
        }
    }
    if kept < total {
        findings.push(Finding::TooManyMembers { kept, total });
    }
    DesiredMembers::new(members.into_values().collect())
}

fn member_id(address: IpAddr, (pool, port): &(PoolId, u16)) -> MemberId {
    MemberId { pool: pool.clone(), address, port: *port }
}

/// A slice without a number means all ports; the target of the Service says which one is meant.
fn number(port: Option<i64>, of_service: &KlbPort) -> Option<u16> {
    let number = match port {
        Some(number) => u16::try_from(number).ok(),
        None => of_service.target_port.parse().ok(),
    };
    number.filter(|number| *number > 0)
}

/// Ready, or unknown: 1. Going, and still serving: 0, so that its connections end by themselves. Else it is no member.
pub(crate) fn weight(endpoint: &KlbEndpoint) -> Option<u8> {
    let conditions = endpoint.conditions;
    if conditions.ready.unwrap_or(true) {
        return Some(1);
    }
    (conditions.terminating == Some(true) && conditions.serving == Some(true)).then_some(0)
}

/// The API server takes any text as the name of a target.
fn member_name(endpoint: &KlbEndpoint, port: u16) -> Option<Text> {
    let target = endpoint.target_ref.as_ref()?;
    let name = target.name.as_deref()?;
    Some(match (target.kind.as_deref(), target.namespace.as_deref()) {
        (Some("Node"), _) | (_, None) => LoadBalancerHeader::clean_name(name),
        (_, Some(namespace)) => LoadBalancerHeader::clean_name(&format!("{namespace}/{name}:{port}")),
    })
}

fn subnet(spec: &KuryrLoadBalancerSpec, facts: &CloudFacts, address: IpAddr) -> Option<Text> {
    spec.member_subnet_id.as_ref().or_else(|| own_subnet(facts, address)).cloned()
}

/// The subnet that a member is in if none was chosen.
pub(crate) fn own_subnet(facts: &CloudFacts, address: IpAddr) -> Option<&Text> {
    match facts.defaults.addressing {
        MemberAddressing::L2 => facts.subnet_of(&facts.pod_subnets, address),
        MemberAddressing::L3 => None,
    }
}
