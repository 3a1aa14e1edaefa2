//! Endpoints of the spec as members.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gimbal_kuryr_crd::{KlbEndpoint, KlbPort, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{
    CloudFacts, DesiredMember, DesiredMembers, ListenerId, LoadBalancerHeader, MemberAddressing, MemberId, Text,
};
use gimbal_model::Family;

use crate::address::address;

/// Returns the members of these listeners: each address and port once, of one family, joined with the listeners by the name of
/// the port. Of several slices that have it, the best condition counts.
pub(crate) fn members(
    spec: &KuryrLoadBalancerSpec,
    listeners: &[(ListenerId, &KlbPort)],
    family: Family,
    facts: &CloudFacts,
) -> DesiredMembers {
    let mut members: BTreeMap<MemberId, DesiredMember> = BTreeMap::new();
    for slice in &spec.endpoint_slices {
        for port in &slice.ports {
            let name = |name: &Option<Text>| name.clone().unwrap_or_default();
            let same = |(id, listener): &&(ListenerId, &KlbPort)| {
                name(&listener.name) == name(&port.name)
                    && port.protocol.as_deref().unwrap_or("TCP") == id.protocol.as_str()
            };
            let Some((listener, of_service)) = listeners.iter().find(same) else { continue };
            let Some(number) = number(port.port, of_service) else { continue };
            for endpoint in &slice.endpoints {
                let Some(weight) = weight(endpoint) else { continue };
                let addresses = endpoint.addresses.iter().filter_map(|text| address(text));
                for address in addresses.filter(|address| Family::of(*address) == family) {
                    let id = MemberId { listener: *listener, address, port: number };
                    let member = DesiredMember {
                        id,
                        weight,
                        name: member_name(endpoint, number),
                        subnet: subnet(spec, facts, address),
                    };
                    let known = members.entry(id).or_insert_with(|| member.clone());
                    if known.weight < weight {
                        *known = member;
                    }
                }
            }
        }
    }
    DesiredMembers::new(members.into_values().collect())
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
fn weight(endpoint: &KlbEndpoint) -> Option<u8> {
    let conditions = endpoint.conditions;
    if conditions.ready.unwrap_or(true) {
        return Some(1);
    }
    (conditions.terminating == Some(true) && conditions.serving == Some(true)).then_some(0)
}

fn member_name(endpoint: &KlbEndpoint, port: u16) -> Option<Text> {
    let target = endpoint.target_ref.as_ref()?;
    let name = target.name.as_deref()?;
    Some(match (target.kind.as_deref(), target.namespace.as_deref()) {
        (Some("Node"), _) | (_, None) => LoadBalancerHeader::cut(name.to_owned()).into(),
        (_, Some(namespace)) => LoadBalancerHeader::cut(format!("{namespace}/{name}:{port}")).into(),
    })
}

fn subnet(spec: &KuryrLoadBalancerSpec, facts: &CloudFacts, address: IpAddr) -> Option<Text> {
    if spec.member_subnet_id.is_some() {
        return spec.member_subnet_id.clone();
    }
    match facts.defaults.addressing {
        MemberAddressing::L2 => facts.subnet_of(&facts.pod_subnets, address).cloned(),
        MemberAddressing::L3 => None,
    }
}
