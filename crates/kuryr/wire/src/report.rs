//! Reports, both ways.

use gimbal_kuryr_model::{
    FloatingAllocation, LoadBalancerReport, Phase, PortRefusal, ReportedCondition, ReportedFloatingIp,
    ReportedListener, ReportedLoadBalancer, ReportedMember, ReportedMissing, ReportedObjects, ReportedPolicy,
    ReportedPool, ReportedRoutes, RouteDifference, RouteState, Text,
};
use gimbal_session::WriterMessage;
use gimbal_wire::Interner;
use gimbal_wire::parse::{self, Parsed, WireError, prose};

use crate::check::{self, CONDITION, NAME, words};
use crate::values::{Numbered, address, option_text, texts};
use crate::{Kuryr, certificate, encode, pb};

pub(crate) fn encode(report: &LoadBalancerReport) -> pb::LoadBalancerReport {
    let LoadBalancerReport { owner, generation, phase, conditions, refused_ports, objects, last_error, missing } =
        report;
    let refused = |PortRefusal { listener, reason, message }: &PortRefusal| {
        let (protocol, port) = encode::numbers(*listener);
        pb::RefusedPort { protocol, port, reason: reason.to_string(), message: message.to_string() }
    };
    pb::LoadBalancerReport {
        owner: owner.to_string(),
        generation: *generation,
        phase: phase.number(),
        conditions: conditions.iter().map(encode_condition).collect(),
        refused_ports: refused_ports.iter().map(refused).collect(),
        objects: Some(encode_objects(objects)),
        last_error: option_text(last_error.as_ref()),
        missing: missing.as_deref().map(encode_missing),
    }
}

fn encode_missing(missing: &ReportedMissing) -> pb::MissingObjects {
    let ReportedMissing { load_balancers, listeners, pools, members } = missing;
    pb::MissingObjects {
        load_balancers: texts(load_balancers),
        listeners: texts(listeners),
        pools: texts(pools),
        members: texts(members),
    }
}

fn encode_condition(condition: &ReportedCondition) -> pb::Condition {
    let ReportedCondition { kind, reason, message } = condition;
    pb::Condition { r#type: kind.to_string(), reason: reason.to_string(), message: message.to_string() }
}

fn encode_routes(routes: &ReportedRoutes) -> pb::MadeRoutes {
    let ReportedRoutes { generation, differences } = routes;
    let difference = |RouteDifference { route, state, why }: &RouteDifference| pb::RouteDifference {
        route: route.to_string(),
        state: state.number(),
        why: why.as_ref().map(encode_condition),
    };
    pb::MadeRoutes { generation: *generation, differences: differences.iter().map(difference).collect() }
}

fn encode_objects(objects: &ReportedObjects) -> pb::MadeObjects {
    let ReportedObjects {
        load_balancer,
        listeners,
        pools,
        members,
        member_count,
        floating_ip,
        policies,
        routes,
        certificates,
    } = objects;
    let listener = |listener: &ReportedListener| {
        let ReportedListener { id, name, protocol, port, timeout_client_data, timeout_member_data } = listener;
        pb::MadeListener {
            id: id.to_string(),
            name: name.to_string(),
            protocol: protocol.to_string(),
            port: (*port).into(),
            timeout_client_data_ms: *timeout_client_data,
            timeout_member_data_ms: *timeout_member_data,
        }
    };
    let pool = |ReportedPool { id, listener, name, protocol }: &ReportedPool| pb::MadePool {
        id: id.to_string(),
        listener: listener.to_string(),
        name: name.to_string(),
        protocol: protocol.to_string(),
    };
    let member = |ReportedMember { id, pool, name, address: at, port, subnet }: &ReportedMember| pb::MadeMember {
        id: id.to_string(),
        pool: pool.to_string(),
        name: name.to_string(),
        address: address(*at),
        port: (*port).into(),
        subnet: subnet.to_string(),
    };
    let floating = |ReportedFloatingIp { id, address: at, allocation }: &ReportedFloatingIp| pb::MadeFloatingIp {
        id: id.to_string(),
        address: address(*at),
        allocation: allocation.number(),
    };
    let policy = |ReportedPolicy { id, listener, position, name }: &ReportedPolicy| pb::MadePolicy {
        id: id.to_string(),
        listener: listener.to_string(),
        position: *position,
        name: name.to_string(),
    };
    pb::MadeObjects {
        load_balancer: load_balancer.as_ref().map(encode_load_balancer),
        listeners: listeners.iter().map(listener).collect(),
        pools: pools.iter().map(pool).collect(),
        members: members.iter().map(member).collect(),
        member_count: *member_count,
        floating_ip: floating_ip.as_ref().map(floating),
        policies: policies.iter().map(policy).collect(),
        routes: routes.as_ref().map(encode_routes),
        certificates: certificates.iter().map(certificate::encode_made).collect(),
    }
}

fn encode_load_balancer(load_balancer: &ReportedLoadBalancer) -> pb::MadeLoadBalancer {
    let ReportedLoadBalancer { id, name, address: at, port, subnet, project, provider, security_groups } =
        load_balancer;
    pb::MadeLoadBalancer {
        id: id.to_string(),
        name: name.to_string(),
        address: address(*at),
        port: port.to_string(),
        subnet: subnet.to_string(),
        project: project.to_string(),
        provider: provider.to_string(),
        security_groups: texts(security_groups),
    }
}

pub(crate) fn parse(report: pb::Report, intern: &mut Interner) -> Parsed<WriterMessage<Kuryr>> {
    let pb::Report { seq, key, load_balancer } = report;
    let report = load_balancer.ok_or(WireError::Missing("content of a report"))?;
    Ok(WriterMessage::Report { seq, key: check::key(key, intern)?, report: parse_report(report, intern)? })
}

pub(crate) fn parse_report(report: pb::LoadBalancerReport, intern: &mut Interner) -> Parsed<LoadBalancerReport> {
    let pb::LoadBalancerReport { owner, generation, phase, conditions, refused_ports, objects, last_error, missing } =
        report;
    let conditions = conditions.into_iter().map(|one| parse_condition(one, intern)).collect::<Parsed<_>>()?;
    let refused_ports = refused_ports.into_iter().map(|pb::RefusedPort { protocol, port, reason, message }| {
        Ok(PortRefusal {
            listener: check::listener(protocol, port)?,
            reason: words("reason of a refused port", reason, CONDITION, intern)?,
            message: prose(message).into(),
        })
    });
    let refused_ports = refused_ports.collect::<Parsed<_>>()?;
    Ok(LoadBalancerReport {
        owner: check::owner(owner, intern)?,
        generation,
        phase: Phase::from_number(phase)?,
        conditions,
        refused_ports,
        objects: parse_objects(objects.ok_or(WireError::Missing("objects"))?, intern)?,
        last_error: last_error.map(|text| prose(text).into()),
        missing: missing.map(|missing| parse_missing(missing, intern).map(Box::new)).transpose()?,
    })
}

fn parse_missing(missing: pb::MissingObjects, intern: &mut Interner) -> Parsed<ReportedMissing> {
    let pb::MissingObjects { load_balancers, listeners, pools, members } = missing;
    let mut ids = |all: Vec<String>| -> Parsed<Vec<Text>> {
        all.into_iter().map(|id| shown("ID of what is missing", id, intern)).collect()
    };
    Ok(ReportedMissing {
        load_balancers: ids(load_balancers)?,
        listeners: ids(listeners)?,
        pools: ids(pools)?,
        members: ids(members)?,
    })
}

fn parse_condition(condition: pb::Condition, intern: &mut Interner) -> Parsed<ReportedCondition> {
    let pb::Condition { r#type, reason, message } = condition;
    Ok(ReportedCondition {
        kind: words("type of a condition", r#type, CONDITION, intern)?,
        reason: words("reason of a condition", reason, CONDITION, intern)?,
        message: prose(message).into(),
    })
}

/// Parses an ID or name of OpenStack. It is shown in a status, and never becomes a part of a request.
fn shown(field: &'static str, text: String, intern: &mut Interner) -> Parsed<Text> {
    words(field, text, NAME, intern)
}

fn parse_objects(objects: pb::MadeObjects, intern: &mut Interner) -> Parsed<ReportedObjects> {
    let pb::MadeObjects {
        load_balancer,
        listeners,
        pools,
        members,
        member_count,
        floating_ip,
        policies,
        routes,
        certificates,
    } = objects;
    let load_balancer = load_balancer.map(|load_balancer| parse_load_balancer(load_balancer, intern)).transpose()?;
    let listeners = listeners.into_iter().map(|listener| {
        let pb::MadeListener { id, name, protocol, port, timeout_client_data_ms, timeout_member_data_ms } = listener;
        Ok(ReportedListener {
            id: shown("ID of a listener", id, intern)?,
            name: shown("name of a listener", name, intern)?,
            protocol: shown("protocol of a listener", protocol, intern)?,
            port: parse::port_or_zero("port of a listener", port)?,
            timeout_client_data: timeout_client_data_ms,
            timeout_member_data: timeout_member_data_ms,
        })
    });
    let listeners = listeners.collect::<Parsed<_>>()?;
    let pools = pools.into_iter().map(|pb::MadePool { id, listener, name, protocol }| {
        Ok(ReportedPool {
            id: shown("ID of a pool", id, intern)?,
            listener: shown("listener of a pool", listener, intern)?,
            name: shown("name of a pool", name, intern)?,
            protocol: shown("protocol of a pool", protocol, intern)?,
        })
    });
    let pools = pools.collect::<Parsed<_>>()?;
    let members = members.into_iter().map(|pb::MadeMember { id, pool, name, address, port, subnet }| {
        Ok(ReportedMember {
            id: shown("ID of a member", id, intern)?,
            pool: shown("pool of a member", pool, intern)?,
            name: shown("name of a member", name, intern)?,
            address: parse::address(&address)?,
            port: parse::port_or_zero("port of a member", port)?,
            subnet: shown("subnet of a member", subnet, intern)?,
        })
    });
    let members = members.collect::<Parsed<_>>()?;
    let floating_ip = floating_ip.map(|pb::MadeFloatingIp { id, address, allocation }| {
        Ok(ReportedFloatingIp {
            id: shown("ID of a floating IP", id, intern)?,
            address: parse::address(&address)?,
            allocation: FloatingAllocation::from_number(allocation)?,
        })
    });
    let floating_ip = floating_ip.transpose()?;
    let policies = policies.into_iter().map(|pb::MadePolicy { id, listener, position, name }| {
        Ok(ReportedPolicy {
            id: shown("ID of a policy", id, intern)?,
            listener: shown("listener of a policy", listener, intern)?,
            position,
            name: shown("name of a policy", name, intern)?,
        })
    });
    let policies = policies.collect::<Parsed<_>>()?;
    let routes = routes.map(|routes| parse_routes(routes, intern)).transpose()?;
    let certificates =
        certificates.into_iter().map(|one| certificate::parse_made(one, intern)).collect::<Parsed<_>>()?;
    Ok(ReportedObjects {
        load_balancer,
        listeners,
        pools,
        members,
        member_count,
        floating_ip,
        policies,
        routes,
        certificates,
    })
}

fn parse_routes(routes: pb::MadeRoutes, intern: &mut Interner) -> Parsed<ReportedRoutes> {
    let pb::MadeRoutes { generation, differences } = routes;
    let differences = differences.into_iter().map(|pb::RouteDifference { route, state, why }| {
        Ok(RouteDifference {
            route: shown("name of a route", route, intern)?,
            state: RouteState::from_number(state)?,
            why: why.map(|why| parse_condition(why, intern)).transpose()?,
        })
    });
    Ok(ReportedRoutes { generation, differences: differences.collect::<Parsed<_>>()? })
}

fn parse_load_balancer(load_balancer: pb::MadeLoadBalancer, intern: &mut Interner) -> Parsed<ReportedLoadBalancer> {
    let pb::MadeLoadBalancer { id, name, address, port, subnet, project, provider, security_groups } = load_balancer;
    let groups = security_groups.into_iter().map(|group| shown("security group", group, intern));
    let security_groups = groups.collect::<Parsed<_>>()?;
    Ok(ReportedLoadBalancer {
        id: shown("ID of a load balancer", id, intern)?,
        name: shown("name of a load balancer", name, intern)?,
        address: parse::address(&address)?,
        port: shown("port of a load balancer", port, intern)?,
        subnet: shown("subnet of a load balancer", subnet, intern)?,
        project: shown("project of a load balancer", project, intern)?,
        provider: shown("provider of a load balancer", provider, intern)?,
        security_groups,
    })
}
