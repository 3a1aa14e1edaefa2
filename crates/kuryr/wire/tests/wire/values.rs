//! Arbitrary values.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kuryr_model::{
    Algorithm, ApiVersion, Balancing, CertificateHash, CertificateWish, ClassDefaults, ClientRanges, CloudFacts,
    DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, DesiredMember, DesiredMembers, ExternalNetwork,
    FloatingAllocation, FloatingWish, FreeQuota, HealthMonitor, HostMatch, ListenerId, ListenerKind, ListenerWish,
    LoadBalancerDefaults, LoadBalancerHeader, LoadBalancerPlacement, LoadBalancerReport, MemberAddressing, MemberId,
    MemberMode, MonitorKind, PathMatch, Phase, PoolId, PortRefusal, ProviderAbilities, ProxyVersion,
    ReportedCertificate, ReportedCondition, ReportedFloatingIp, ReportedListener, ReportedLoadBalancer, ReportedMember,
    ReportedMissing, ReportedObjects, ReportedPolicy, ReportedPool, ReportedRoutes, Route, RouteDifference, RouteState,
    RouteTarget, RoutedPool, Routing, SharedGroup, SubnetFacts, Text, Timeouts, VipMode, VipWish,
};
use gimbal_kuryr_wire::DesiredHeader;
use gimbal_model::{Family, Protocol};
use ipnet::IpNet;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub fn id() -> impl Strategy<Value = Text> {
    "[a-z0-9-]{1,12}".prop_map(Into::into)
}

pub fn text() -> impl Strategy<Value = Text> {
    "[a-zA-Z0-9 é/:_-]{0,12}".prop_map(Into::into)
}

pub fn key() -> impl Strategy<Value = DesiredKey> {
    (select(DesiredKind::ALL.to_vec()), "[ab]", "[a-z0-9.é-]{1,6}")
        .prop_map(|(kind, namespace, name)| DesiredKey::new(kind, &*namespace, &*name))
}

fn listener_id() -> impl Strategy<Value = ListenerId> {
    let protocol = select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp]);
    (protocol, 1u16..).prop_map(|(protocol, port)| ListenerId { protocol, port })
}

fn placement() -> BoxedStrategy<LoadBalancerPlacement> {
    (prop_oneof![Just("".into()), id()], option::of(text()), option::of(id()), option::of(text()))
        .prop_map(|(project, provider, flavor, availability_zone)| LoadBalancerPlacement {
            project,
            provider,
            flavor,
            availability_zone,
        })
        .boxed()
}

fn vip() -> BoxedStrategy<VipWish> {
    let ids = (option::of(id()), option::of(id()), option::of(id()), vec(id(), 0..3), btree_set(id(), 0..3));
    (ids, option::of(any::<IpAddr>()), vec(any::<IpAddr>(), 0..3), any::<bool>())
        .prop_map(
            |((subnet, network, port, additional_subnets, groups), address, additional_addresses, from_outside)| {
                VipWish {
                    subnet,
                    network,
                    port,
                    address,
                    additional_subnets: additional_subnets.into(),
                    additional_addresses: additional_addresses.into(),
                    security_groups: groups.into_iter().collect(),
                    from_outside,
                }
            },
        )
        .boxed()
}

fn floating() -> BoxedStrategy<Box<FloatingWish>> {
    (option::of(id()), option::of(id()), option::of(any::<IpAddr>()), any::<bool>())
        .prop_map(|(network, subnet, address, keep)| Box::new(FloatingWish { network, subnet, address, keep }))
        .boxed()
}

fn listeners() -> BoxedStrategy<Box<[ListenerWish]>> {
    let kind = select(vec![ListenerKind::Plain, ListenerKind::Http, ListenerKind::TerminatedHttps]);
    btree_map(listener_id(), (kind, option::of(text())), 0..4)
        .prop_map(|map| map.into_iter().map(|(id, (kind, name))| ListenerWish { id, kind, name }).collect())
        .boxed()
}

fn range() -> impl Strategy<Value = IpNet> {
    (any::<IpAddr>(), 0u8..=32).prop_map(|(address, len)| IpNet::new(address, len).unwrap())
}

fn clients() -> BoxedStrategy<ClientRanges> {
    let only = btree_set(range(), 1..4).prop_map(|ranges| ClientRanges::Only(ranges.into_iter().collect()));
    prop_oneof![Just(ClientRanges::Everyone), Just(ClientRanges::NoOne), only].boxed()
}

pub fn algorithm() -> impl Strategy<Value = Option<Algorithm>> {
    use Algorithm as A;
    option::of(select(vec![A::RoundRobin, A::LeastConnections, A::SourceIp, A::SourceIpPort]))
}

fn member_mode() -> impl Strategy<Value = MemberMode> {
    select(vec![MemberMode::Pod, MemberMode::Node])
}

fn balancing() -> BoxedStrategy<Balancing> {
    let proxy = option::of(select(vec![ProxyVersion::V1, ProxyVersion::V2]));
    (select(vec![Family::V4, Family::V6]), member_mode(), algorithm(), any::<Option<u32>>(), proxy)
        .prop_map(|(family, members, algorithm, affinity_seconds, proxy)| Balancing {
            family,
            members,
            algorithm,
            affinity_seconds,
            proxy,
        })
        .boxed()
}

fn timeouts() -> BoxedStrategy<Timeouts> {
    any::<([Option<u32>; 4], Option<i32>)>()
        .prop_map(|([client_data, member_data, member_connect, tcp_inspect], connection_limit)| Timeouts {
            client_data,
            member_data,
            member_connect,
            tcp_inspect,
            connection_limit,
        })
        .boxed()
}

fn monitor() -> BoxedStrategy<Box<HealthMonitor>> {
    use MonitorKind as M;
    let kind = select(vec![M::Connect, M::Http, M::Https, M::TlsHello, M::Ping]);
    (kind, option::of(1u16..), any::<(u32, u32, u8, u8)>(), option::of(text()), option::of(text()))
        .prop_map(|(kind, port, (delay, timeout, rise, fall), path, codes)| {
            Box::new(HealthMonitor { kind, port, delay, timeout, rise, fall, path, codes })
        })
        .boxed()
}

fn shared_group() -> BoxedStrategy<Box<SharedGroup>> {
    (text(), option::of(text())).prop_map(|(name, created)| Box::new(SharedGroup { name, created })).boxed()
}

/// IDs of the pools of Services that there may be.
const SERVICES: [&str; 3] = ["shop/api/8080", "shop/web/80", "shop/web/443"];

pub fn hash() -> impl Strategy<Value = CertificateHash> {
    any::<[u8; 32]>().prop_map(CertificateHash::from_bytes)
}

fn certificates() -> BoxedStrategy<Box<[CertificateWish]>> {
    let wish = |(hash, secret)| CertificateWish { secret, hash };
    btree_map(hash(), text(), 0..3).prop_map(move |all| all.into_iter().map(wish).collect()).boxed()
}

fn route(listeners: Vec<ListenerId>, pools: Vec<Text>) -> BoxedStrategy<Route> {
    let host = prop_oneof![Just(HostMatch::Any), id().prop_map(HostMatch::Exact), id().prop_map(HostMatch::Wildcard),];
    let path = "/[a-z/]{0,5}[a-z]".prop_map(Text::from);
    let path =
        prop_oneof![Just(PathMatch::Any), path.clone().prop_map(PathMatch::Exact), path.prop_map(PathMatch::Prefix)];
    let redirect = id().prop_map(RouteTarget::Redirect).boxed();
    let to = if pools.is_empty() {
        redirect
    } else {
        prop_oneof![redirect, select(pools).prop_map(RouteTarget::Pool)].boxed()
    };
    (select(listeners), host, path, to, text())
        .prop_map(|(listener, host, path, to, name)| Route { listener, host, path, to, name })
        .boxed()
}

/// Routing from these listeners.
fn routing(listeners: &[ListenerWish]) -> BoxedStrategy<Box<Routing>> {
    let listeners: Vec<ListenerId> = listeners.iter().map(|listener| listener.id).collect();
    let pools = btree_map(select(SERVICES.to_vec()), text(), 0..4);
    let shape = pools.prop_flat_map(move |pools| {
        let ids: Vec<Text> = pools.keys().map(|id| Text::from(*id)).collect();
        let default = if ids.is_empty() { Just(None).boxed() } else { option::of(select(ids.clone())).boxed() };
        let routes = match listeners.is_empty() {
            true => Just(Vec::new()).boxed(),
            false => vec(route(listeners.clone(), ids), 0..5).boxed(),
        };
        (Just(pools), default, routes, certificates())
    });
    shape
        .prop_map(|(pools, default, mut routes, certificates)| {
            routes.sort_by_key(|route| route.listener);
            let pool = |(id, name): (&str, Text)| RoutedPool { id: id.into(), name };
            let pools = pools.into_iter().map(pool).collect();
            Box::new(Routing { pools, default, routes: routes.into(), certificates })
        })
        .boxed()
}

/// Of what it may be: a load balancer of a Service, a router, or something of a later version.
pub fn header() -> BoxedStrategy<Arc<LoadBalancerHeader>> {
    let with_routing = plain_header().prop_flat_map(|header| {
        let routing = routing(&header.listeners);
        routing.prop_map(move |routing| {
            let routing = Some(routing);
            Arc::new(LoadBalancerHeader { routing, shared_group: None, ..(*header).clone() })
        })
    });
    prop_oneof![2 => plain_header(), 1 => with_routing].boxed()
}

fn plain_header() -> BoxedStrategy<Arc<LoadBalancerHeader>> {
    let shape = (placement(), vip(), option::of(floating()), listeners(), clients(), balancing(), timeouts());
    let rest = (select(vec!["one", "two"]), any::<bool>(), option::of(monitor()), vec(text(), 0..3));
    (shape, rest, option::of(shared_group()), option::of(id()))
        .prop_map(
            |(
                (placement, vip, floating, listeners, clients, balancing, timeouts),
                (owner, known, monitor, containers),
                shared_group,
                adopt,
            )| {
                Arc::new(LoadBalancerHeader {
                    owner: owner.into(),
                    known,
                    placement,
                    vip,
                    floating,
                    listeners,
                    clients,
                    balancing,
                    timeouts,
                    monitor,
                    tls_containers: containers.into(),
                    shared_group,
                    adopt,
                    routing: None,
                })
            },
        )
        .boxed()
}

pub fn desired_header() -> BoxedStrategy<Arc<DesiredHeader>> {
    let wanted = (any::<i64>(), header());
    prop_oneof![
        4 => wanted.prop_map(|(generation, header)| Arc::new(DesiredHeader::LoadBalancer { generation, header })),
        1 => id().prop_map(|owner| Arc::new(DesiredHeader::Deleting { owner })),
    ]
    .boxed()
}

/// One of few, so that changes meet.
pub fn member_id() -> impl Strategy<Value = MemberId> {
    let listener = select(vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443), (Protocol::Udp, 53)]);
    let listener = listener.prop_map(|(protocol, port)| PoolId::Listener(ListenerId { protocol, port }));
    let pool = prop_oneof![2 => listener, 1 => select(SERVICES.to_vec()).prop_map(|id| PoolId::Service(id.into()))];
    let address = prop_oneof![
        (0u8..8).prop_map(|host| IpAddr::from([10, 0, 0, host])),
        (0u16..3).prop_map(|host| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host])),
    ];
    (pool, address, 8080u16..8082).prop_map(|(pool, address, port)| MemberId { pool, address, port })
}

pub fn member() -> BoxedStrategy<DesiredMember> {
    let subnet = option::of(select(vec!["net-a", "net-b"]).prop_map(Into::into));
    (member_id(), 0u8..2, option::of(text()), subnet)
        .prop_map(|(id, weight, name, subnet)| DesiredMember { id, weight, name, subnet })
        .boxed()
}

/// Members without those that the header has no pool for.
pub fn fitting(header: &DesiredHeader, mut members: Vec<DesiredMember>) -> Vec<DesiredMember> {
    match header {
        DesiredHeader::LoadBalancer { header, .. } => {
            members.retain(|member| header.lost_members([&member.id.pool]).is_none());
            members
        }
        DesiredHeader::Deleting { .. } => Vec::new(),
    }
}

/// The key as one that may have the header.
pub fn fitting_key(key: DesiredKey, header: &DesiredHeader) -> DesiredKey {
    let routing = match header {
        DesiredHeader::LoadBalancer { header, .. } => header.routing.is_some(),
        DesiredHeader::Deleting { .. } => return key,
    };
    let kind = match key.kind {
        DesiredKind::LoadBalancer if routing => DesiredKind::L7Router,
        DesiredKind::L7Router if !routing => DesiredKind::LoadBalancer,
        kind => kind,
    };
    DesiredKey { kind, ..key }
}

pub fn entry() -> BoxedStrategy<DesiredEntry> {
    let wanted = (0i64..5, header(), vec(member(), 0..12)).prop_map(|(generation, header, members)| {
        let members = fitting(&DesiredHeader::LoadBalancer { generation, header: header.clone() }, members);
        DesiredEntry::LoadBalancer(DesiredLoadBalancer { generation, header, members: DesiredMembers::new(members) })
    });
    prop_oneof![5 => wanted, 1 => id().prop_map(|owner| DesiredEntry::Deleting { owner })].boxed()
}

pub fn objects() -> BoxedStrategy<ReportedObjects> {
    let load_balancer =
        (vec(text(), 6), any::<IpAddr>(), vec(text(), 0..3)).prop_map(|(t, address, security_groups)| {
            ReportedLoadBalancer {
                id: t[0].clone(),
                name: t[1].clone(),
                address,
                port: t[2].clone(),
                subnet: t[3].clone(),
                project: t[4].clone(),
                provider: t[5].clone(),
                security_groups,
            }
        });
    let listener = (vec(text(), 3), any::<(u16, Option<u32>, Option<u32>)>());
    let listener = listener.prop_map(|(t, (port, timeout_client_data, timeout_member_data))| ReportedListener {
        id: t[0].clone(),
        name: t[1].clone(),
        protocol: t[2].clone(),
        port,
        timeout_client_data,
        timeout_member_data,
    });
    let pool = vec(text(), 4).prop_map(|t| ReportedPool {
        id: t[0].clone(),
        listener: t[1].clone(),
        name: t[2].clone(),
        protocol: t[3].clone(),
    });
    let member = (vec(text(), 4), any::<(IpAddr, u16)>()).prop_map(|(t, (address, port))| ReportedMember {
        id: t[0].clone(),
        pool: t[1].clone(),
        name: t[2].clone(),
        address,
        port,
        subnet: t[3].clone(),
    });
    let allocation = select(vec![FloatingAllocation::User, FloatingAllocation::Pool]);
    let floating = (text(), any::<IpAddr>(), allocation).prop_map(|(id, address, allocation)| ReportedFloatingIp {
        id,
        address,
        allocation,
    });
    let policy = (vec(text(), 3), any::<u32>()).prop_map(|(t, position)| ReportedPolicy {
        id: t[0].clone(),
        listener: t[1].clone(),
        position,
        name: t[2].clone(),
    });
    let lists = (vec(listener, 0..3), vec(pool, 0..3), vec(member, 0..4), vec(policy, 0..3));
    let certificate = (text(), hash()).prop_map(|(reference, hash)| ReportedCertificate { reference, hash });
    let of_router = (option::of(routes()), vec(certificate, 0..3));
    (option::of(load_balancer), lists, any::<u32>(), option::of(floating), of_router)
        .prop_map(|(load_balancer, lists, member_count, floating_ip, (routes, certificates))| {
            let (listeners, pools, members, policies) = lists;
            ReportedObjects {
                load_balancer,
                listeners,
                pools,
                members,
                member_count,
                floating_ip,
                policies,
                routes,
                certificates,
            }
        })
        .boxed()
}

fn condition() -> BoxedStrategy<ReportedCondition> {
    (text(), text(), text()).prop_map(|(kind, reason, message)| ReportedCondition { kind, reason, message }).boxed()
}

fn routes() -> BoxedStrategy<ReportedRoutes> {
    let state = select(vec![RouteState::Left, RouteState::Missing, RouteState::Partial]);
    let difference =
        (text(), state, option::of(condition())).prop_map(|(route, state, why)| RouteDifference { route, state, why });
    (any::<i64>(), vec(difference, 0..3))
        .prop_map(|(generation, differences)| ReportedRoutes { generation, differences })
        .boxed()
}

fn missing() -> BoxedStrategy<Box<ReportedMissing>> {
    let ids = || vec(text(), 0..3);
    (ids(), ids(), ids(), ids())
        .prop_map(|(load_balancers, listeners, pools, members)| {
            Box::new(ReportedMissing { load_balancers, listeners, pools, members })
        })
        .boxed()
}

pub fn report() -> BoxedStrategy<LoadBalancerReport> {
    use Phase as P;
    let phase = select(vec![P::Waiting, P::Making, P::Ready, P::Degraded, P::Blocked, P::Held, P::Removing, P::Gone]);
    let refusal = (listener_id(), text(), text());
    let refusal = refusal.prop_map(|(listener, reason, message)| PortRefusal { listener, reason, message });
    let lists = (vec(condition(), 0..3), vec(refusal, 0..3));
    (id(), any::<i64>(), phase, lists, objects(), option::of(text()), option::of(missing()))
        .prop_map(|(owner, generation, phase, (conditions, refused_ports), objects, last_error, missing)| {
            LoadBalancerReport { owner, generation, phase, conditions, refused_ports, objects, last_error, missing }
        })
        .boxed()
}

fn class() -> BoxedStrategy<ClassDefaults> {
    (vec(option::of(text()), 8), vec(text(), 0..3))
        .prop_map(|(t, floating_subnet_tags)| ClassDefaults {
            floating_network: t[0].clone(),
            floating_subnet: t[1].clone(),
            floating_subnet_tags,
            network: t[2].clone(),
            subnet: t[3].clone(),
            member_subnet: t[4].clone(),
            provider: t[5].clone(),
            flavor: t[6].clone(),
            availability_zone: t[7].clone(),
        })
        .boxed()
}

pub fn facts() -> BoxedStrategy<CloudFacts> {
    let abilities =
        any::<[bool; 6]>().prop_map(|[batch_members, populated_create, weights, client_ranges, l7, own_port]| {
            ProviderAbilities { batch_members, populated_create, weights, client_ranges, l7, own_port }
        });
    let subnet = (text(), range(), text(), btree_set(text(), 0..3), any::<u32>())
        .prop_map(|(network, cidr, name, tags, mtu)| SubnetFacts { network, cidr, name, tags, mtu });
    let external = (text(), option::of(text()), btree_set(text(), 0..3), any::<bool>()).prop_map(
        |(network, subnet, allowed, user_addresses)| ExternalNetwork { network, subnet, allowed, user_addresses },
    );
    let defaults = (select(vec![MemberAddressing::L2, MemberAddressing::L3]), algorithm(), any::<(u32, u32)>())
        .prop_map(|(addressing, algorithm, (timeout_client_data, timeout_member_data))| LoadBalancerDefaults {
            addressing,
            algorithm,
            timeout_client_data,
            timeout_member_data,
        });
    let quota =
        any::<[Option<u32>; 6]>().prop_map(|[load_balancers, listeners, pools, members, ports, floating_ips]| {
            FreeQuota { load_balancers, listeners, pools, members, ports, floating_ips }
        });
    let maps = (btree_map(text(), abilities, 0..3), btree_map(text(), subnet, 0..3), btree_map(text(), class(), 0..3));
    let lists = (btree_set(text(), 0..3), vec(text(), 0..3), vec(text(), 0..3), vec(text(), 0..3));
    let modes = (select(vec![VipMode::ClusterIp, VipMode::Allocate]), member_mode(), defaults, quota);
    let rest = (any::<(u16, u16)>(), option::of(text()), text(), any::<(bool, bool)>(), any::<Option<IpAddr>>());
    (maps, lists, modes, option::of(external), rest)
        .prop_map(
            |(
                (providers, subnets, classes),
                (allowed_projects, service_subnets, pod_subnets, security_groups),
                (vip, members, defaults, quota),
                external,
                ((major, minor), provider, project, (enable_ingress, certificates), l7_router_ip),
            )| CloudFacts {
                api_version: ApiVersion { major, minor },
                providers,
                provider,
                project,
                allowed_projects,
                subnets,
                service_subnets,
                pod_subnets,
                security_groups,
                external,
                vip,
                members,
                defaults,
                classes,
                quota,
                enable_ingress,
                l7_router_ip,
                certificates,
            },
        )
        .boxed()
}
