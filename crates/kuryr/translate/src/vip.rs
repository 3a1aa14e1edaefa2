//! The address of a load balancer.

use std::net::IpAddr;

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::{CloudFacts, VipMode, VipWish};

use crate::address::address;
use crate::desired::{named_service, not_placed};
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
        return Err(not_placed(spec));
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
    let ip = ip.filter(|ip| is_for_it(*ip, object, facts, "ip", findings));
    Ok(VipWish {
        subnet: spec.subnet_id.clone(),
        network: spec.vip_network_id.clone(),
        port: spec.vip_port_id.clone(),
        address: ip,
        additional_subnets: spec.additional_vip_subnet_ids.iter().cloned().collect(),
        additional_addresses: additional_addresses(object, facts, findings),
        security_groups: spec.security_groups_ids.iter().cloned().collect(),
        from_outside: spec.type_.as_deref() == Some("LoadBalancer"),
    })
}

/// Whether an object may ask for an address. Where load balancers are at cluster IPs, those of the subnets of Services are for
/// Services: else whoever may make such an object would have the cluster IP of a Service that comes later, of any namespace. One that
/// has such an address keeps it, as any load balancer does whose wish names none.
fn is_for_it(
    ip: IpAddr,
    object: &KuryrLoadBalancer,
    facts: &CloudFacts,
    field: &'static str,
    findings: &mut Vec<Finding>,
) -> bool {
    // Of a subnet that cannot be read nothing is known.
    let is_of_services =
        || facts.service_subnets.iter().any(|id| facts.subnets.get(id).is_none_or(|subnet| subnet.cidr.contains(&ip)));
    let is_taken = facts.vip == VipMode::ClusterIp && named_service(&object.spec).is_none() && is_of_services();
    if is_taken {
        findings.push(Finding::ClusterIp { field, address: ip.to_string().into() });
    }
    !is_taken
}

fn additional_addresses(object: &KuryrLoadBalancer, facts: &CloudFacts, findings: &mut Vec<Finding>) -> Box<[IpAddr]> {
    const FIELD: &str = "additional_ips";
    let mut addresses = Vec::new();
    for text in &object.spec.additional_ips {
        match address(text) {
            Some(address) if !is_for_it(address, object, facts, FIELD, findings) => {}
            Some(address) => addresses.push(address),
            None => findings.push(Finding::Address { field: FIELD, value: shown(text) }),
        }
    }
    addresses.into()
}
