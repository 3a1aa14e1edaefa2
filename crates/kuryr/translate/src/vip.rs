//! The address of a load balancer.

use std::net::IpAddr;

use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{CloudFacts, VipMode, VipWish};

use crate::address::address;
use crate::desired::named_service;
use crate::finding::shown;
use crate::{Finding, NotStreamed};

/// Returns where the load balancer of an object is.
///
/// # Errors
/// It cannot be there, or nothing says yet where.
pub(crate) fn vip(
    object: &KuryrLoadBalancer,
    facts: &CloudFacts,
    findings: &mut Vec<Finding>,
) -> Result<VipWish, NotStreamed> {
    let spec = &object.spec;
    if spec.subnet_id.is_none() && spec.vip_network_id.is_none() && spec.vip_port_id.is_none() {
        return Err(NotStreamed::WaitingForWriter);
    }
    let text = spec.ip.as_ref().filter(|text| !text.is_empty());
    let ip = text.map(|text| address(text).ok_or_else(|| NotStreamed::VipUnreadable(shown(text)))).transpose()?;
    let subnet = spec.subnet_id.as_ref().and_then(|id| Some((id, facts.subnets.get(id)?)));
    if let (Some(ip), Some((id, subnet))) = (ip, subnet)
        && !subnet.cidr.contains(&ip)
    {
        let (address, subnet, cidr) = (ip.to_string().into(), id.clone(), subnet.cidr);
        return Err(NotStreamed::VipOutsideSubnet { address, subnet, cidr });
    }
    // Else whoever may make such an object would have the cluster IP of a Service that comes later, of any namespace.
    if let (Some(address), Some(subnet)) = (ip, spec.subnet_id.as_ref().filter(|id| facts.service_subnets.contains(id)))
        && facts.vip == VipMode::ClusterIp
        && named_service(spec).is_none()
        && !has_address(object, address)
    {
        return Err(NotStreamed::ClusterIp { address: address.to_string().into(), subnet: subnet.clone() });
    }
    Ok(VipWish {
        subnet: spec.subnet_id.clone(),
        network: spec.vip_network_id.clone(),
        port: spec.vip_port_id.clone(),
        address: ip,
        additional_subnets: spec.additional_vip_subnet_ids.iter().cloned().collect(),
        additional_addresses: additional_addresses(spec, findings),
        security_groups: spec.security_groups_ids.iter().cloned().collect(),
        from_outside: spec.type_.as_deref() == Some("LoadBalancer"),
    })
}

/// Whether a load balancer serves at an address, so that no Service can have that.
fn has_address(object: &KuryrLoadBalancer, wanted: IpAddr) -> bool {
    let made = object.status.as_ref().and_then(|status| status.loadbalancer.as_ref());
    made.and_then(|made| address(&made.ip)) == Some(wanted)
}

fn additional_addresses(spec: &KuryrLoadBalancerSpec, findings: &mut Vec<Finding>) -> Box<[IpAddr]> {
    let mut addresses = Vec::new();
    for text in &spec.additional_ips {
        match address(text) {
            Some(address) => addresses.push(address),
            None => findings.push(Finding::Address { field: "additional_ips", value: shown(text) }),
        }
    }
    addresses.into()
}
