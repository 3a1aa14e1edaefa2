//! Parses the Services of a frame, each by itself, so that an invalid one does not affect the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_model::{
    Conditions, Detail, Endpoint, EndpointChange, EndpointPort, Header, PortSet, ServicePort, SourceKey, TargetPort,
};
use gimbal_session::{Piece, PieceChange, Unreadable};

use crate::intern::Interner;
use crate::parse::{self, LABEL, Parsed, QUALIFIED, SUBDOMAIN, WireError, invalid};
use crate::pb;
use crate::pb::service_change::Change;

pub(crate) fn piece(piece: pb::ServicePiece, intern: &mut Interner) -> Result<Piece, Unreadable> {
    let pb::ServicePiece { key, header, groups, more } = piece;
    let key = entry_key(key, intern)?;
    match piece_parts(header, groups, intern) {
        Ok((header, endpoints)) => Ok(Piece { key, header, parts: endpoints, more }),
        Err(error) => Err(Unreadable { more, ..unreadable(Some(key), &error) }),
    }
}

pub(crate) fn change(change: pb::ServiceChange, intern: &mut Interner) -> Result<PieceChange, Unreadable> {
    let pb::ServiceChange { key, change } = change;
    let key = entry_key(key, intern)?;
    match parse_change(&key, change, intern) {
        Ok(change) => Ok(change),
        Err(error) => Err(unreadable(Some(key), &error)),
    }
}

fn parse_change(key: &SourceKey, change: Option<Change>, intern: &mut Interner) -> Parsed<PieceChange> {
    match change.ok_or(WireError::Missing("change"))? {
        Change::Replace(pb::ServicePiece { key: inner, header, groups, more }) => {
            if inner.is_some_and(|inner| inner.namespace != *key.namespace || inner.name != *key.name) {
                return invalid("key", "of the replacement is not the key of the change");
            }
            let (header, parts) = piece_parts(header, groups, intern)?;
            Ok(PieceChange::Replace(Piece { key: key.clone(), header, parts, more }))
        }
        Change::Update(pb::ServiceUpdate { header, set, gone, more }) => {
            let header = header.map(|header| parse_header(header, intern)).transpose()?;
            let set = parse_groups(set, intern)?;
            let mut parts: Vec<_> = set.into_iter().map(|(p, endpoint)| EndpointChange::Set(p, endpoint)).collect();
            for pb::GoneGroup { ports, addresses } in gone {
                let ports = parse_ports(ports, intern)?;
                for address in &addresses {
                    parts.push(EndpointChange::Gone(ports.clone(), parse::address(address)?));
                }
            }
            Ok(PieceChange::Update { key: key.clone(), header, parts, more })
        }
        Change::Removed(pb::service_change::Removed {}) => Ok(PieceChange::Remove(key.clone())),
    }
}

fn unreadable(key: Option<SourceKey>, error: &WireError) -> Unreadable {
    Unreadable { key, reason: error.to_string(), more: false }
}

fn entry_key(key: Option<pb::ServiceKey>, intern: &mut Interner) -> Result<SourceKey, Unreadable> {
    let key = key.ok_or_else(|| unreadable(None, &WireError::Missing("key")))?;
    parse::check_key(&key).map_err(|error| unreadable(None, &error))?;
    Ok(SourceKey { namespace: intern.text(key.namespace), name: key.name.into() })
}

type PieceParts = (Option<Arc<Header>>, Vec<(PortSet, Endpoint)>);

fn piece_parts(header: Option<pb::Header>, groups: Vec<pb::PortGroup>, intern: &mut Interner) -> Parsed<PieceParts> {
    let header = header.map(|header| parse_header(header, intern)).transpose()?;
    Ok((header, parse_groups(groups, intern)?))
}

fn parse_header(header: pb::Header, intern: &mut Interner) -> Parsed<Arc<Header>> {
    let pb::Header { labels, annotations, ports } = header;
    let mut map = |field, map: BTreeMap<String, String>| {
        let entries = map.into_iter().map(|(key, value)| {
            if key.is_empty() {
                return invalid(field, "has an empty key");
            }
            parse::bounded(field, &key, QUALIFIED)?;
            Ok((intern.text(key), intern.text(value)))
        });
        entries.collect::<Parsed<_>>()
    };
    let (labels, annotations) = (map("label", labels)?, map("annotation", annotations)?);
    let ports = ports.into_iter().map(|port| parse_service_port(port, intern)).collect::<Parsed<_>>()?;
    Ok(Arc::new(Header { labels, annotations, ports }))
}

fn text(field: &'static str, text: String, limit: usize, intern: &mut Interner) -> Parsed<Arc<str>> {
    parse::bounded(field, &text, limit)?;
    Ok(intern.text(text))
}

fn optional(f: &'static str, value: Option<String>, limit: usize, intern: &mut Interner) -> Parsed<Option<Arc<str>>> {
    value.map(|value| text(f, value, limit, intern)).transpose()
}

fn parse_service_port(port: pb::ServicePort, intern: &mut Interner) -> Parsed<ServicePort> {
    use pb::service_port::TargetPort::{TargetName, TargetNumber};
    let pb::ServicePort { name, port, protocol, app_protocol, target_port } = port;
    let target_port = match target_port {
        None => None,
        Some(TargetNumber(number)) => Some(TargetPort::Number(parse::port("target port", number)?)),
        Some(TargetName(name)) => Some(TargetPort::Name(text("name of a target port", name, LABEL, intern)?)),
    };
    Ok(ServicePort {
        name: text("name of a port", name, LABEL, intern)?,
        port: parse::port("port", port)?,
        protocol: parse::protocol(protocol)?,
        app_protocol: optional("appProtocol", app_protocol, QUALIFIED, intern)?,
        target_port,
    })
}

fn parse_ports(ports: Vec<pb::EndpointPort>, intern: &mut Interner) -> Parsed<PortSet> {
    let ports = ports.into_iter().map(|pb::EndpointPort { name, port, protocol, app_protocol }| {
        Ok(EndpointPort {
            name: text("name of an endpoint port", name, LABEL, intern)?,
            port: port.map(|number| parse::port_or_zero("endpoint port", number)).transpose()?,
            protocol: parse::protocol(protocol)?,
            app_protocol: optional("appProtocol", app_protocol, QUALIFIED, intern)?,
        })
    });
    let ports = PortSet::new(ports.collect::<Parsed<_>>()?);
    Ok(intern.ports(ports))
}

fn parse_groups(groups: Vec<pb::PortGroup>, intern: &mut Interner) -> Parsed<Vec<(PortSet, Endpoint)>> {
    let mut all = Vec::with_capacity(groups.iter().map(|group| group.endpoints.len()).sum());
    for pb::PortGroup { ports, endpoints } in groups {
        let ports = parse_ports(ports, intern)?;
        for endpoint in endpoints {
            all.push((ports.clone(), parse_endpoint(endpoint, intern)?));
        }
    }
    Ok(all)
}

fn parse_endpoint(endpoint: pb::Endpoint, intern: &mut Interner) -> Parsed<Endpoint> {
    let pb::Endpoint { address, not_ready, not_serving, terminating, hostname, zone, for_zones: zones } = endpoint;
    let address = parse::address(&address)?;
    let conditions = Conditions { ready: !not_ready, serving: !not_serving, terminating };
    let mut for_zones = Vec::with_capacity(zones.len());
    for zone in zones {
        for_zones.push(text("zone of a hint", zone, SUBDOMAIN, intern)?);
    }
    for_zones.sort();
    let detail = Detail {
        hostname: optional("hostname", hostname, LABEL, intern)?,
        zone: optional("zone", zone, SUBDOMAIN, intern)?,
        for_zones,
    };
    let detail = (detail != Detail::default()).then(|| intern.detail(detail));
    Ok(Endpoint { address, conditions, detail })
}
