//! The Services of a frame: each is read by itself, so that a bad one is alone with its trouble.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::{
    Conditions, Detail, Endpoint, EndpointChange, EndpointPort, Header, PortSet, ServicePort, SourceKey, TargetPort,
};
use gimbal_stream::{Piece, PieceChange, Unreadable};
use prost::bytes::Bytes;

use crate::intern::Interner;
use crate::parse::{self, LABEL, Parsed, QUALIFIED, SUBDOMAIN, WireError, invalid};
use crate::pb;
use crate::pb::service_change::Change;

// To the wire.

pub(crate) fn encode_piece(piece: Piece) -> pb::ServicePiece {
    pb::ServicePiece { key: Some((&piece.key).into()), ..piece_content(piece) }
}

fn piece_content(piece: Piece) -> pb::ServicePiece {
    pb::ServicePiece {
        key: None,
        header: piece.header.map(|header| encode_header(&header)),
        groups: encode_groups(piece.endpoints.iter().map(|(ports, endpoint)| (ports, endpoint))),
        more: piece.more,
    }
}

pub(crate) fn encode_change(change: PieceChange) -> pb::ServiceChange {
    match change {
        PieceChange::Replace(piece) => pb::ServiceChange {
            key: Some((&piece.key).into()),
            // The key is said once, by the change.
            change: Some(Change::Replace(piece_content(piece))),
        },
        PieceChange::Update { key, header, endpoints, more } => {
            let set = endpoints.iter().filter_map(|change| match change {
                EndpointChange::Set(ports, endpoint) => Some((ports, endpoint)),
                EndpointChange::Gone(..) => None,
            });
            let update = pb::ServiceUpdate {
                header: header.map(|header| encode_header(&header)),
                set: encode_groups(set),
                gone: encode_gone(&endpoints),
                more,
            };
            pb::ServiceChange { key: Some((&key).into()), change: Some(Change::Update(update)) }
        }
        PieceChange::Remove(key) => pb::ServiceChange {
            key: Some((&key).into()),
            change: Some(Change::Removed(pb::service_change::Removed {})),
        },
    }
}

fn encode_header(header: &Header) -> pb::Header {
    let map = |map: &BTreeMap<Arc<str>, Arc<str>>| map.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    pb::Header {
        labels: map(&header.labels),
        annotations: map(&header.annotations),
        ports: header.ports.iter().map(Into::into).collect(),
    }
}

/// Neighbours with equal ports share a group. Senders go through a Service in order of its port sets, so that is one
/// group for each.
fn encode_groups<'a>(endpoints: impl Iterator<Item = (&'a PortSet, &'a Endpoint)>) -> Vec<pb::PortGroup> {
    let mut groups: Vec<pb::PortGroup> = Vec::new();
    let mut last = None;
    for (ports, endpoint) in endpoints {
        if last != Some(ports) {
            groups.push(pb::PortGroup { ports: encode_ports(ports), endpoints: Vec::new() });
            last = Some(ports);
        }
        if let Some(group) = groups.last_mut() {
            group.endpoints.push(encode_endpoint(endpoint));
        }
    }
    groups
}

fn encode_gone(changes: &[EndpointChange]) -> Vec<pb::GoneGroup> {
    let mut groups: Vec<pb::GoneGroup> = Vec::new();
    let mut last = None;
    for change in changes {
        let EndpointChange::Gone(ports, address) = change else { continue };
        if last != Some(ports) {
            groups.push(pb::GoneGroup { ports: encode_ports(ports), addresses: Vec::new() });
            last = Some(ports);
        }
        if let Some(group) = groups.last_mut() {
            group.addresses.push(encode_address(*address));
        }
    }
    groups
}

fn encode_ports(ports: &PortSet) -> Vec<pb::EndpointPort> {
    ports.ports().iter().map(Into::into).collect()
}

fn encode_address(address: IpAddr) -> Bytes {
    match address {
        IpAddr::V4(v4) => Bytes::copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => Bytes::copy_from_slice(&v6.octets()),
    }
}

fn encode_endpoint(endpoint: &Endpoint) -> pb::Endpoint {
    let text = |text: &Option<Arc<str>>| text.as_deref().map(Into::into);
    let detail = endpoint.detail.as_deref();
    pb::Endpoint {
        address: encode_address(endpoint.address),
        not_ready: !endpoint.conditions.ready,
        not_serving: !endpoint.conditions.serving,
        terminating: endpoint.conditions.terminating,
        hostname: detail.and_then(|detail| text(&detail.hostname)),
        zone: detail.and_then(|detail| text(&detail.zone)),
        for_zones: detail.map(|d| d.for_zones.iter().map(ToString::to_string).collect()).unwrap_or_default(),
    }
}

// From the wire.

pub(crate) fn piece(piece: pb::ServicePiece, intern: &mut Interner) -> Result<Piece, Unreadable> {
    let pb::ServicePiece { key, header, groups, more } = piece;
    let key = entry_key(key, intern)?;
    match piece_parts(header, groups, intern) {
        Ok((header, endpoints)) => Ok(Piece { key, header, endpoints, more }),
        Err(error) => Err(unreadable(Some(key), &error)),
    }
}

pub(crate) fn change(change: pb::ServiceChange, intern: &mut Interner) -> Result<PieceChange, Unreadable> {
    let key = entry_key(change.key, intern)?;
    match parse_change(&key, change.change, intern) {
        Ok(change) => Ok(change),
        Err(error) => Err(unreadable(Some(key), &error)),
    }
}

fn parse_change(key: &SourceKey, change: Option<Change>, intern: &mut Interner) -> Parsed<PieceChange> {
    match change.ok_or(WireError::Missing("change"))? {
        Change::Replace(piece) => {
            if piece.key.is_some_and(|inner| inner.namespace != *key.namespace || inner.name != *key.name) {
                return invalid("key", "of the replacement is not the key of the change");
            }
            let (header, endpoints) = piece_parts(piece.header, piece.groups, intern)?;
            Ok(PieceChange::Replace(Piece { key: key.clone(), header, endpoints, more: piece.more }))
        }
        Change::Update(update) => {
            let header = update.header.map(|header| parse_header(header, intern)).transpose()?;
            let set = parse_groups(update.set, intern)?;
            let mut endpoints: Vec<_> = set.into_iter().map(|(p, endpoint)| EndpointChange::Set(p, endpoint)).collect();
            for group in update.gone {
                let ports = parse_ports(group.ports, intern)?;
                for address in &group.addresses {
                    endpoints.push(EndpointChange::Gone(ports.clone(), parse::address(address)?));
                }
            }
            Ok(PieceChange::Update { key: key.clone(), header, endpoints, more: update.more })
        }
        Change::Removed(_) => Ok(PieceChange::Remove(key.clone())),
    }
}

fn unreadable(key: Option<SourceKey>, error: &WireError) -> Unreadable {
    Unreadable { key, reason: error.to_string() }
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
    let target_port = match port.target_port {
        None => None,
        Some(TargetNumber(number)) => Some(TargetPort::Number(parse::port("target port", number)?)),
        Some(TargetName(name)) => Some(TargetPort::Name(text("name of a target port", name, LABEL, intern)?)),
    };
    Ok(ServicePort {
        name: text("name of a port", port.name, LABEL, intern)?,
        port: parse::port("port", port.port)?,
        protocol: parse::protocol(port.protocol)?,
        app_protocol: optional("appProtocol", port.app_protocol, QUALIFIED, intern)?,
        target_port,
    })
}

fn parse_ports(ports: Vec<pb::EndpointPort>, intern: &mut Interner) -> Parsed<PortSet> {
    let ports = ports.into_iter().map(|port| {
        Ok(EndpointPort {
            name: text("name of an endpoint port", port.name, LABEL, intern)?,
            port: port.port.map(|number| parse::port_or_zero("endpoint port", number)).transpose()?,
            protocol: parse::protocol(port.protocol)?,
            app_protocol: optional("appProtocol", port.app_protocol, QUALIFIED, intern)?,
        })
    });
    let ports = PortSet::new(ports.collect::<Parsed<_>>()?);
    Ok(intern.ports(ports))
}

fn parse_groups(groups: Vec<pb::PortGroup>, intern: &mut Interner) -> Parsed<Vec<(PortSet, Endpoint)>> {
    let mut all = Vec::with_capacity(groups.iter().map(|group| group.endpoints.len()).sum());
    for group in groups {
        let ports = parse_ports(group.ports, intern)?;
        for endpoint in group.endpoints {
            all.push((ports.clone(), parse_endpoint(endpoint, intern)?));
        }
    }
    Ok(all)
}

fn parse_endpoint(endpoint: pb::Endpoint, intern: &mut Interner) -> Parsed<Endpoint> {
    let address = parse::address(&endpoint.address)?;
    let conditions =
        Conditions { ready: !endpoint.not_ready, serving: !endpoint.not_serving, terminating: endpoint.terminating };
    let mut for_zones = Vec::with_capacity(endpoint.for_zones.len());
    for zone in endpoint.for_zones {
        for_zones.push(text("zone of a hint", zone, SUBDOMAIN, intern)?);
    }
    for_zones.sort();
    let detail = Detail {
        hostname: optional("hostname", endpoint.hostname, LABEL, intern)?,
        zone: optional("zone", endpoint.zone, SUBDOMAIN, intern)?,
        for_zones,
    };
    let detail = (detail != Detail::default()).then(|| intern.detail(detail));
    Ok(Endpoint { address, conditions, detail })
}
