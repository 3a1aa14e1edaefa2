//! What a cloud would have made, and the cloud itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use gimbal_kuryr_model::{
    ApiVersion, CloudFacts, DesiredKey, DesiredLoadBalancer, ExternalNetwork, FloatingAllocation, LoadBalancerHeader,
    LoadBalancerReport, Phase, PoolId, ReportedCertificate, ReportedFloatingIp, ReportedListener, ReportedLoadBalancer,
    ReportedMember, ReportedObjects, ReportedPolicy, ReportedPool, ReportedRoutes, SubnetFacts, Text,
};

/// A cloud whose Services have the addresses of the test clusters, and floating IPs in 172.24.4.0/24.
///
/// # Panics
/// Never.
#[must_use]
pub fn facts() -> CloudFacts {
    let subnet = |network: &str, cidr: &str| SubnetFacts {
        network: network.into(),
        cidr: cidr.parse().unwrap(),
        name: network.into(),
        tags: BTreeSet::new(),
        mtu: 1500,
    };
    CloudFacts {
        api_version: ApiVersion { major: 2, minor: 27 },
        provider: Some("amphora".into()),
        project: "project".into(),
        subnets: BTreeMap::from([
            ("services".into(), subnet("internal", "10.96.0.0/16")),
            ("floating".into(), subnet("external", "172.24.4.0/24")),
        ]),
        service_subnets: vec!["services".into()],
        external: Some(ExternalNetwork {
            network: "external".into(),
            subnet: None,
            allowed: BTreeSet::new(),
            user_addresses: true,
        }),
        ..CloudFacts::default()
    }
}

/// Reports that everything that is wanted is there.
#[must_use]
pub fn made(key: &DesiredKey, wanted: &DesiredLoadBalancer) -> LoadBalancerReport {
    let header = &wanted.header;
    let name = |id| LoadBalancerHeader::listener_name(&key.namespace, &key.name, id);
    let of = |what: &str, id: gimbal_kuryr_model::ListenerId| {
        format!("{what}-{}-{}-{}", header.owner, id.protocol.as_str(), id.port)
    };
    let subnet = header.vip.subnet.clone().unwrap_or_default();
    let listener = |wish: &gimbal_kuryr_model::ListenerWish| ReportedListener {
        id: of("listener", wish.id).into(),
        name: name(wish.id).into(),
        protocol: wish.id.protocol.as_str().into(),
        port: wish.id.port,
        timeout_client_data: header.timeouts.client_data,
        timeout_member_data: header.timeouts.member_data,
    };
    let pool = |wish: &gimbal_kuryr_model::ListenerWish| ReportedPool {
        id: of("pool", wish.id).into(),
        listener: of("listener", wish.id).into(),
        name: name(wish.id).into(),
        protocol: wish.id.protocol.as_str().into(),
    };
    let in_pool = |what: &str, pool: &PoolId| match pool {
        PoolId::Listener(id) => of(what, *id),
        PoolId::Service(id) => format!("{what}-{}-{}", header.owner, id.replace('/', "-")),
    };
    let listener_id = |id| Text::from(of("listener", id));
    let routing = header.routing.as_deref();
    let routed = routing.map(|routing| routing.pools.iter()).into_iter().flatten().map(|pool| ReportedPool {
        id: in_pool("pool", &PoolId::Service(pool.id.clone())).into(),
        listener: Text::default(),
        name: pool.name.clone(),
        protocol: "HTTP".into(),
    });
    let policies = routing.map(|routing| {
        let of_listener = |wish: &gimbal_kuryr_model::ListenerWish| {
            let listener = listener_id(wish.id);
            let policy = move |(route, position): (&gimbal_kuryr_model::Route, u32)| ReportedPolicy {
                id: format!("policy-{position}-{listener}").into(),
                listener: listener.clone(),
                position,
                name: route.name.clone(),
            };
            routing.routes_of(wish.id).iter().zip(1..).map(policy)
        };
        header.listeners.iter().flat_map(of_listener).collect()
    });
    let certificates = routing.map(|routing| {
        let certificate = |wish: &gimbal_kuryr_model::CertificateWish| ReportedCertificate {
            reference: format!("https://barbican.example.com/v1/secrets/{}", wish.hash).into(),
            hash: wish.hash,
        };
        routing.certificates.iter().map(certificate).collect()
    });
    let member = |member: &gimbal_kuryr_model::DesiredMember| ReportedMember {
        id: format!("{}-{}-{}", in_pool("member", &member.id.pool), member.id.address, member.id.port).into(),
        pool: in_pool("pool", &member.id.pool).into(),
        name: member.name.clone().unwrap_or_default(),
        address: member.id.address,
        port: member.id.port,
        subnet: subnet.clone(),
    };
    let members: Vec<_> = wanted.members.as_slice().iter().map(member).collect();
    let address = header.vip.address.unwrap_or(IpAddr::V4(Ipv4Addr::new(10, 96, 255, 1)));
    let floating = header.floating.as_ref().map(|wish| ReportedFloatingIp {
        id: format!("floating-{}", header.owner).into(),
        address: wish.address.unwrap_or(IpAddr::V4(Ipv4Addr::new(172, 24, 4, 7))),
        allocation: if wish.address.is_some() { FloatingAllocation::User } else { FloatingAllocation::Pool },
    });
    let balancer = ReportedLoadBalancer {
        id: format!("balancer-{}", header.owner).into(),
        name: LoadBalancerHeader::display_name(&key.namespace, &key.name).into(),
        address,
        port: format!("port-{}", header.owner).into(),
        subnet: subnet.clone(),
        project: header.placement.project.clone(),
        provider: header.placement.provider.clone().unwrap_or_else(|| "amphora".into()),
        security_groups: header.vip.security_groups.to_vec(),
    };
    LoadBalancerReport {
        owner: header.owner.clone(),
        generation: wanted.generation,
        phase: Phase::Ready,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: ReportedObjects {
            load_balancer: Some(balancer),
            listeners: header.listeners.iter().map(listener).collect(),
            pools: if routing.is_some() { routed.collect() } else { header.listeners.iter().map(pool).collect() },
            member_count: u32::try_from(members.len()).unwrap_or(u32::MAX),
            members,
            floating_ip: floating,
            policies: policies.unwrap_or_default(),
            routes: routing.map(|_| ReportedRoutes { generation: wanted.generation, differences: Vec::new() }),
            certificates: certificates.unwrap_or_default(),
        },
        last_error: None,
        missing: None,
    }
}

/// Reports that nothing of this owner is left.
#[must_use]
pub fn gone(owner: &str) -> LoadBalancerReport {
    LoadBalancerReport {
        owner: owner.into(),
        generation: 0,
        phase: Phase::Gone,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: ReportedObjects::default(),
        last_error: None,
        missing: None,
    }
}
