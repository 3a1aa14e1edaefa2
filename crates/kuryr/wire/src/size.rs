//! Sizes on the wire, before anything is encoded. Each is at least the real one.

use gimbal_kuryr_model::{
    ClassDefaults, ClientRanges, CloudFacts, DesiredMember, ExternalNetwork, FloatingWish, HealthMonitor, HostMatch,
    LoadBalancerHeader, LoadBalancerPlacement, LoadBalancerReport, PathMatch, PoolId, PortRefusal, ReportedCondition,
    ReportedFloatingIp, ReportedListener, ReportedLoadBalancer, ReportedMember, ReportedMissing, ReportedObjects,
    ReportedPolicy, ReportedPool, ReportedRoutes, Route, RouteDifference, RouteTarget, RoutedPool, Routing,
    SubnetFacts, Text, VipWish,
};

use crate::DesiredHeader;

/// Tag and length of a text, list or message.
const FIELD: usize = 8;
/// An address of 16 bytes with its tag and length.
const ADDRESS: usize = 18;
/// Everything of a load balancer that has no text and is no list.
const FIXED: usize = 320;
/// Protocol, number and kind of a listener, with its own tag and length.
const LISTENER: usize = FIELD + 8;
/// A range of clients.
const RANGE: usize = FIELD + ADDRESS + 3;
/// Numbers of a member, with its own tag and length.
const MEMBER: usize = FIELD + ADDRESS + 8;
/// The hash of a certificate with its tag and length.
const HASH: usize = FIELD + 32;
/// Protocol and number of a group of members, with its own tag and length.
const GROUP: usize = FIELD + 6;
/// A member that is gone.
pub(crate) const GONE: usize = FIELD + ADDRESS + 4;
/// Numbers of a message within a report or facts, with its own tag and length.
const NUMBERS: usize = FIELD + 48;

fn text(text: &Text) -> usize {
    FIELD + text.len()
}

fn option(value: Option<&Text>) -> usize {
    value.map_or(0, text)
}

fn texts<'a>(list: impl IntoIterator<Item = &'a Text>) -> usize {
    list.into_iter().map(text).sum()
}

pub(crate) fn header(header: &DesiredHeader) -> usize {
    2 * FIELD
        + match header {
            DesiredHeader::LoadBalancer { generation: _, header } => load_balancer(header),
            DesiredHeader::Deleting { owner } => text(owner),
        }
}

fn load_balancer(header: &LoadBalancerHeader) -> usize {
    let LoadBalancerHeader {
        owner,
        known: _,
        placement: LoadBalancerPlacement { project, provider, flavor, availability_zone },
        vip:
            VipWish {
                subnet,
                network,
                port,
                address: _,
                additional_subnets,
                additional_addresses,
                security_groups,
                from_outside: _,
            },
        floating,
        listeners,
        clients,
        balancing: _,
        timeouts: _,
        monitor,
        tls_containers,
        shared_group,
        adopt,
        routing,
    } = header;
    let single = [provider, flavor, availability_zone, subnet, network, port, adopt];
    let floating = floating.as_deref().map_or(0, |FloatingWish { network, subnet, address: _, keep: _ }| {
        option(network.as_ref()) + option(subnet.as_ref())
    });
    let ranges = match clients {
        ClientRanges::Everyone | ClientRanges::NoOne => 0,
        ClientRanges::Only(ranges) => ranges.len() * RANGE,
    };
    let monitor = monitor.as_deref().map_or(0, |monitor| {
        let HealthMonitor { kind: _, port: _, delay: _, timeout: _, rise: _, fall: _, path, codes } = monitor;
        option(path.as_ref()) + option(codes.as_ref())
    });
    FIXED
        + text(owner)
        + text(project)
        + shared_group.as_deref().map_or(0, |group| text(&group.name) + option(group.created.as_ref()))
        + single.into_iter().map(|one| option(one.as_ref())).sum::<usize>()
        + texts(additional_subnets.iter().chain(security_groups).chain(tls_containers))
        + additional_addresses.len() * (FIELD + ADDRESS)
        + floating
        + listeners.iter().map(|listener| LISTENER + option(listener.name.as_ref())).sum::<usize>()
        + ranges
        + monitor
        + routing.as_deref().map_or(0, routes)
}

fn routes(routing: &Routing) -> usize {
    let Routing { pools, default, routes, certificates } = routing;
    let route = |Route { listener: _, host, path, to, name }: &Route| {
        let host = match host {
            HostMatch::Any => None,
            HostMatch::Exact(host) | HostMatch::Wildcard(host) => Some(host),
        };
        let path = match path {
            PathMatch::Any => None,
            PathMatch::Exact(path) | PathMatch::Prefix(path) => Some(path),
        };
        let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = to;
        LISTENER + 2 * FIELD + option(host) + option(path) + text(to) + text(name)
    };
    FIELD
        + pools.iter().map(|RoutedPool { id, name }| FIELD + text(id) + text(name)).sum::<usize>()
        + option(default.as_ref())
        + routes.iter().map(route).sum::<usize>()
        + certificates.iter().map(|one| FIELD + HASH + text(&one.secret)).sum::<usize>()
}

/// What members have in common that share a group.
pub(crate) fn group_of(member: &DesiredMember) -> (&PoolId, Option<&Text>) {
    (&member.id.pool, member.subnet.as_ref())
}

pub(crate) fn group(member: &DesiredMember) -> usize {
    gone_group(&member.id.pool) + option(member.subnet.as_ref())
}

/// A group of members that are gone, without them.
pub(crate) fn gone_group(pool: &PoolId) -> usize {
    GROUP + option(pool.of_service())
}

pub(crate) fn member(member: &DesiredMember) -> usize {
    MEMBER + option(member.name.as_ref())
}

pub(crate) fn report(report: &LoadBalancerReport) -> usize {
    let LoadBalancerReport { owner, generation: _, phase: _, conditions, refused_ports, objects, last_error, missing } =
        report;
    let condition =
        |ReportedCondition { kind, reason, message }: &ReportedCondition| FIELD + texts([kind, reason, message]);
    let refused = |PortRefusal { listener: _, reason, message }: &PortRefusal| NUMBERS + texts([reason, message]);
    let missing = missing.as_deref().map_or(0, |ReportedMissing { load_balancers, listeners, pools, members }| {
        FIELD + texts(load_balancers.iter().chain(listeners).chain(pools).chain(members))
    });
    2 * NUMBERS
        + text(owner)
        + option(last_error.as_ref())
        + conditions.iter().map(condition).sum::<usize>()
        + refused_ports.iter().map(refused).sum::<usize>()
        + made(objects)
        + missing
}

fn made(objects: &ReportedObjects) -> usize {
    let ReportedObjects {
        load_balancer,
        listeners,
        pools,
        members,
        member_count: _,
        floating_ip,
        policies,
        routes,
        certificates,
    } = objects;
    let load_balancer = load_balancer.as_ref().map_or(0, |load_balancer| {
        let ReportedLoadBalancer { id, name, address: _, port, subnet, project, provider, security_groups } =
            load_balancer;
        NUMBERS + texts([id, name, port, subnet, project, provider]) + texts(security_groups)
    });
    let listener = |listener: &ReportedListener| {
        let ReportedListener { id, name, protocol, port: _, timeout_client_data: _, timeout_member_data: _ } = listener;
        NUMBERS + texts([id, name, protocol])
    };
    let pool =
        |ReportedPool { id, listener, name, protocol }: &ReportedPool| FIELD + texts([id, listener, name, protocol]);
    let member = |ReportedMember { id, pool, name, address: _, port: _, subnet }: &ReportedMember| {
        NUMBERS + texts([id, pool, name, subnet])
    };
    let floating =
        floating_ip.as_ref().map_or(0, |ReportedFloatingIp { id, address: _, allocation: _ }| NUMBERS + text(id));
    let policy =
        |ReportedPolicy { id, listener, position: _, name }: &ReportedPolicy| FIELD + 8 + texts([id, listener, name]);
    NUMBERS
        + load_balancer
        + listeners.iter().map(listener).sum::<usize>()
        + pools.iter().map(pool).sum::<usize>()
        + members.iter().map(member).sum::<usize>()
        + floating
        + policies.iter().map(policy).sum::<usize>()
        + routes.as_ref().map_or(0, made_routes)
        + certificates.iter().map(|one| FIELD + HASH + text(&one.reference)).sum::<usize>()
}

fn made_routes(routes: &ReportedRoutes) -> usize {
    let difference = |RouteDifference { route, state: _, why }: &RouteDifference| {
        let why = why
            .as_ref()
            .map_or(0, |ReportedCondition { kind, reason, message }| FIELD + texts([kind, reason, message]));
        NUMBERS + text(route) + why
    };
    NUMBERS + routes.differences.iter().map(difference).sum::<usize>()
}

pub(crate) fn facts(facts: &CloudFacts) -> usize {
    let CloudFacts {
        api_version: _,
        providers,
        provider,
        project,
        allowed_projects,
        subnets,
        service_subnets,
        pod_subnets,
        security_groups,
        external,
        vip: _,
        members: _,
        defaults: _,
        classes,
        quota: _,
        enable_ingress: _,
        l7_router_ip: _,
        certificates: _,
    } = facts;
    let subnet = |(id, subnet): (&Text, &SubnetFacts)| {
        let SubnetFacts { network, cidr: _, name, tags, mtu: _ } = subnet;
        2 * NUMBERS + texts([id, network, name]) + texts(tags)
    };
    let external = external.as_ref().map_or(0, |external| {
        let ExternalNetwork { network, subnet, allowed, user_addresses: _ } = external;
        NUMBERS + text(network) + option(subnet.as_ref()) + texts(allowed)
    });
    4 * NUMBERS
        + providers.keys().map(|name| NUMBERS + text(name)).sum::<usize>()
        + option(provider.as_ref())
        + text(project)
        + texts(allowed_projects)
        + subnets.iter().map(subnet).sum::<usize>()
        + texts(service_subnets.iter().chain(pod_subnets).chain(security_groups))
        + external
        + classes.iter().map(|(name, class)| NUMBERS + text(name) + class_defaults(class)).sum::<usize>()
}

fn class_defaults(class: &ClassDefaults) -> usize {
    let ClassDefaults {
        floating_network,
        floating_subnet,
        floating_subnet_tags,
        network,
        subnet,
        member_subnet,
        provider,
        flavor,
        availability_zone,
    } = class;
    let single =
        [floating_network, floating_subnet, network, subnet, member_subnet, provider, flavor, availability_zone];
    single.into_iter().map(|one| option(one.as_ref())).sum::<usize>() + texts(floating_subnet_tags)
}
