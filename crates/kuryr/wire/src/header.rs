//! The header of an entry, both ways.

use std::sync::Arc;

use gimbal_kuryr_model::{
    Algorithm, Balancing, ClientRanges, FloatingWish, HealthMonitor, ListenerId, ListenerKind, ListenerWish,
    LoadBalancerHeader, LoadBalancerPlacement, MemberMode, MonitorKind, ProxyVersion, SharedGroup, Timeouts, VipWish,
};
use gimbal_model::Family;
use gimbal_wire::Interner;
use gimbal_wire::parse::{self, Parsed, WireError, invalid};

use crate::check::{self, NAME, REFERENCE, id, ids, option_id, option_words, small, words};
use crate::pb::clients::{Clients, Everyone, NoOne, Ranges};
use crate::pb::entry_header::Header;
use crate::values::{Numbered, address, option_text, texts};
use crate::{DesiredHeader, pb, routing};

pub(crate) fn encode(header: &DesiredHeader) -> pb::EntryHeader {
    let header = match header {
        DesiredHeader::LoadBalancer { generation, header } => Header::LoadBalancer(load_balancer(*generation, header)),
        DesiredHeader::Deleting { owner } => Header::Deleting(pb::Deleting { owner: owner.to_string() }),
    };
    pb::EntryHeader { header: Some(header) }
}

pub(crate) fn parse(header: pb::EntryHeader, intern: &mut Interner) -> Parsed<Arc<DesiredHeader>> {
    let pb::EntryHeader { header } = header;
    Ok(Arc::new(match header.ok_or(WireError::Missing("content of a header"))? {
        Header::LoadBalancer(wanted) => parse_load_balancer(wanted, intern)?,
        Header::Deleting(pb::Deleting { owner }) => DesiredHeader::Deleting { owner: check::owner(owner, intern)? },
    }))
}

fn load_balancer(generation: i64, header: &LoadBalancerHeader) -> pb::LoadBalancer {
    let LoadBalancerHeader {
        owner,
        known,
        placement: LoadBalancerPlacement { project, provider, flavor, availability_zone },
        vip,
        floating,
        listeners,
        clients,
        balancing,
        timeouts,
        monitor,
        tls_containers,
        shared_group,
        adopt,
        routing,
    } = header;
    let listener = |ListenerWish { id: ListenerId { protocol, port }, kind, name }: &ListenerWish| pb::Listener {
        protocol: gimbal_wire::pb::Protocol::from(*protocol).into(),
        port: (*port).into(),
        kind: kind.number(),
        name: option_text(name.as_ref()),
    };
    pb::LoadBalancer {
        generation,
        owner: owner.to_string(),
        known: *known,
        placement: Some(pb::Placement {
            project: project.to_string(),
            provider: option_text(provider.as_ref()),
            flavor: option_text(flavor.as_ref()),
            availability_zone: option_text(availability_zone.as_ref()),
        }),
        vip: Some(encode_vip(vip)),
        floating: floating.as_deref().map(encode_floating),
        listeners: listeners.iter().map(listener).collect(),
        clients: Some(encode_clients(clients)),
        balancing: Some(encode_balancing(balancing)),
        timeouts: Some(encode_timeouts(timeouts)),
        monitor: monitor.as_deref().map(encode_monitor),
        tls_containers: texts(tls_containers),
        shared_group: shared_group.as_deref().map(|group| group.name.to_string()),
        adopt: option_text(adopt.as_ref()),
        owner_created: shared_group.as_deref().and_then(|group| option_text(group.created.as_ref())),
        routing: routing.as_deref().map(routing::encode),
    }
}

fn parse_load_balancer(wanted: pb::LoadBalancer, intern: &mut Interner) -> Parsed<DesiredHeader> {
    let pb::LoadBalancer {
        generation,
        owner,
        known,
        placement,
        vip,
        floating,
        listeners,
        clients,
        balancing,
        timeouts,
        monitor,
        tls_containers,
        shared_group,
        adopt,
        owner_created,
        routing,
    } = wanted;
    let created = option_words("creation of the owner", owner_created, NAME, intern)?;
    let shared_group = option_words("shared group", shared_group, NAME, intern)?;
    let listeners = listeners.into_iter().map(|pb::Listener { protocol, port, kind, name }| {
        Ok(ListenerWish {
            id: check::listener(protocol, port)?,
            kind: ListenerKind::from_number(kind)?,
            name: option_words("name of a listener", name, NAME, intern)?,
        })
    });
    let listeners: Box<[ListenerWish]> = listeners.collect::<Parsed<_>>()?;
    check::sorted("listeners", listeners.iter().map(|listener| listener.id))?;
    let containers =
        tls_containers.into_iter().map(|text| words("container of a certificate", text, REFERENCE, intern));
    let tls_containers = containers.collect::<Parsed<_>>()?;
    let header = LoadBalancerHeader {
        owner: check::owner(owner, intern)?,
        known,
        placement: parse_placement(placement.ok_or(WireError::Missing("placement"))?, intern)?,
        vip: parse_vip(vip.ok_or(WireError::Missing("vip"))?, intern)?,
        floating: floating.map(|floating| parse_floating(floating, intern).map(Box::new)).transpose()?,
        listeners,
        clients: parse_clients(clients)?,
        balancing: parse_balancing(balancing.ok_or(WireError::Missing("balancing"))?)?,
        timeouts: parse_timeouts(timeouts.ok_or(WireError::Missing("timeouts"))?),
        monitor: monitor.map(|monitor| parse_monitor(monitor, intern).map(Box::new)).transpose()?,
        tls_containers,
        shared_group: shared_group.map(|name| Box::new(SharedGroup { name, created })),
        adopt: option_id("adopted load balancer", adopt, intern)?,
        routing: routing.map(|routing| routing::parse(routing, intern).map(Box::new)).transpose()?,
    };
    Ok(DesiredHeader::LoadBalancer { generation, header: Arc::new(header) })
}

fn parse_placement(placement: pb::Placement, intern: &mut Interner) -> Parsed<LoadBalancerPlacement> {
    let pb::Placement { project, provider, flavor, availability_zone } = placement;
    Ok(LoadBalancerPlacement {
        project: if project.is_empty() { "".into() } else { id("project", project, intern)? },
        provider: option_words("provider", provider, NAME, intern)?,
        flavor: option_id("flavor", flavor, intern)?,
        availability_zone: option_words("availability zone", availability_zone, NAME, intern)?,
    })
}

fn encode_vip(vip: &VipWish) -> pb::Vip {
    let VipWish {
        subnet,
        network,
        port,
        address: wanted,
        additional_subnets,
        additional_addresses,
        security_groups,
        from_outside,
    } = vip;
    pb::Vip {
        subnet: option_text(subnet.as_ref()),
        network: option_text(network.as_ref()),
        port: option_text(port.as_ref()),
        address: wanted.map(address),
        additional_subnets: texts(additional_subnets),
        additional_addresses: additional_addresses.iter().copied().map(address).collect(),
        security_groups: texts(security_groups),
        from_outside: *from_outside,
    }
}

fn parse_vip(vip: pb::Vip, intern: &mut Interner) -> Parsed<VipWish> {
    let pb::Vip {
        subnet,
        network,
        port,
        address,
        additional_subnets,
        security_groups,
        from_outside,
        additional_addresses,
    } = vip;
    let additional_addresses = additional_addresses.iter().map(|address| parse::address(address));
    let security_groups: Box<[_]> = ids("security group", security_groups, intern)?;
    check::sorted("security groups", security_groups.iter())?;
    Ok(VipWish {
        subnet: option_id("subnet of the VIP", subnet, intern)?,
        network: option_id("network of the VIP", network, intern)?,
        port: option_id("port of the VIP", port, intern)?,
        address: check::option_address(address)?,
        additional_subnets: ids("additional subnet", additional_subnets, intern)?,
        additional_addresses: additional_addresses.collect::<Parsed<_>>()?,
        security_groups,
        from_outside,
    })
}

fn encode_floating(floating: &FloatingWish) -> pb::FloatingIp {
    let FloatingWish { network, subnet, address: wanted, keep } = floating;
    pb::FloatingIp {
        network: option_text(network.as_ref()),
        subnet: option_text(subnet.as_ref()),
        address: wanted.map(address),
        keep: *keep,
    }
}

fn parse_floating(floating: pb::FloatingIp, intern: &mut Interner) -> Parsed<FloatingWish> {
    let pb::FloatingIp { network, subnet, address, keep } = floating;
    Ok(FloatingWish {
        network: option_id("network of the floating IP", network, intern)?,
        subnet: option_id("subnet of the floating IP", subnet, intern)?,
        address: check::option_address(address)?,
        keep,
    })
}

fn encode_clients(clients: &ClientRanges) -> pb::Clients {
    let clients = match clients {
        ClientRanges::Everyone => Clients::Everyone(Everyone {}),
        ClientRanges::NoOne => Clients::NoOne(NoOne {}),
        ClientRanges::Only(ranges) => {
            Clients::Only(Ranges { ranges: ranges.iter().copied().map(Into::into).collect() })
        }
    };
    pb::Clients { clients: Some(clients) }
}

/// What is missing is an error: it must never mean everyone.
fn parse_clients(clients: Option<pb::Clients>) -> Parsed<ClientRanges> {
    match clients.and_then(|pb::Clients { clients }| clients).ok_or(WireError::Missing("clients"))? {
        Clients::Everyone(Everyone {}) => Ok(ClientRanges::Everyone),
        Clients::NoOne(NoOne {}) => Ok(ClientRanges::NoOne),
        Clients::Only(Ranges { ranges }) => {
            if ranges.is_empty() {
                return invalid("ranges of clients", "are empty");
            }
            let ranges: Box<[_]> = ranges.into_iter().map(check::cidr).collect::<Parsed<_>>()?;
            check::sorted("ranges of clients", ranges.iter())?;
            Ok(ClientRanges::Only(ranges))
        }
    }
}

fn encode_balancing(balancing: &Balancing) -> pb::Balancing {
    let Balancing { family, members, algorithm, affinity_seconds, proxy } = balancing;
    pb::Balancing {
        family: family.number(),
        members: members.number(),
        algorithm: Algorithm::option_number(*algorithm),
        affinity_seconds: *affinity_seconds,
        proxy: ProxyVersion::option_number(*proxy),
    }
}

fn parse_balancing(balancing: pb::Balancing) -> Parsed<Balancing> {
    let pb::Balancing { family, members, algorithm, affinity_seconds, proxy } = balancing;
    Ok(Balancing {
        family: Family::from_number(family)?,
        members: MemberMode::from_number(members)?,
        algorithm: Algorithm::from_option_number(algorithm)?,
        affinity_seconds,
        proxy: ProxyVersion::from_option_number(proxy)?,
    })
}

fn encode_timeouts(timeouts: &Timeouts) -> pb::Timeouts {
    let Timeouts { client_data, member_data, member_connect, tcp_inspect, connection_limit } = *timeouts;
    pb::Timeouts {
        client_data_ms: client_data,
        member_data_ms: member_data,
        member_connect_ms: member_connect,
        tcp_inspect_ms: tcp_inspect,
        connection_limit,
    }
}

fn parse_timeouts(timeouts: pb::Timeouts) -> Timeouts {
    let pb::Timeouts { client_data_ms, member_data_ms, member_connect_ms, tcp_inspect_ms, connection_limit } = timeouts;
    Timeouts {
        client_data: client_data_ms,
        member_data: member_data_ms,
        member_connect: member_connect_ms,
        tcp_inspect: tcp_inspect_ms,
        connection_limit,
    }
}

fn encode_monitor(monitor: &HealthMonitor) -> pb::HealthMonitor {
    let HealthMonitor { kind, port, delay, timeout, rise, fall, path, codes } = monitor;
    pb::HealthMonitor {
        kind: kind.number(),
        port: port.map(Into::into),
        delay_seconds: *delay,
        timeout_seconds: *timeout,
        rise: (*rise).into(),
        fall: (*fall).into(),
        path: option_text(path.as_ref()),
        codes: option_text(codes.as_ref()),
    }
}

fn parse_monitor(monitor: pb::HealthMonitor, intern: &mut Interner) -> Parsed<HealthMonitor> {
    let pb::HealthMonitor { kind, port, delay_seconds, timeout_seconds, rise, fall, path, codes } = monitor;
    Ok(HealthMonitor {
        kind: MonitorKind::from_number(kind)?,
        port: port.map(|port| parse::port("port of a monitor", port)).transpose()?,
        delay: delay_seconds,
        timeout: timeout_seconds,
        rise: small("rise", rise)?,
        fall: small("fall", fall)?,
        path: option_words("path of a monitor", path, REFERENCE, intern)?,
        codes: option_words("codes of a monitor", codes, NAME, intern)?,
    })
}
