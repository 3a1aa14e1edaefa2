//! Encodes the Services of a frame.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::{Conditions, Detail, Endpoint, EndpointChange, Header, PortSet};
use gimbal_session::{Piece, PieceChange};
use prost::bytes::Bytes;

use crate::pb;
use crate::pb::service_change::Change;

pub(crate) fn piece(piece: Piece) -> pb::ServicePiece {
    let (key, content) = piece_content(piece);
    pb::ServicePiece { key: Some(key), ..content }
}

/// Returns the key of a piece, and the piece without it.
fn piece_content(piece: Piece) -> (pb::ServiceKey, pb::ServicePiece) {
    let Piece { key, header, parts, more } = piece;
    let content = pb::ServicePiece {
        key: None,
        header: header.map(|header| encode_header(&header)),
        groups: encode_groups(parts.iter().map(|(ports, endpoint)| (ports, endpoint))),
        more,
    };
    ((&key).into(), content)
}

pub(crate) fn change(change: PieceChange) -> pb::ServiceChange {
    match change {
        PieceChange::Replace(piece) => {
            // The change has the key, so the piece has none.
            let (key, content) = piece_content(piece);
            pb::ServiceChange { key: Some(key), change: Some(Change::Replace(content)) }
        }
        PieceChange::Update { key, header, parts: endpoints, more } => {
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
    let Header { labels, annotations, ports } = header;
    pb::Header { labels: map(labels), annotations: map(annotations), ports: ports.iter().map(Into::into).collect() }
}

/// Groups consecutive endpoints with equal ports. Senders iterate over a Service in order of its port sets, so each
/// port set becomes one group.
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
    let Endpoint { address, conditions, detail } = endpoint;
    let Conditions { ready, serving, terminating } = conditions;
    let plain = pb::Endpoint {
        address: encode_address(*address),
        not_ready: !ready,
        not_serving: !serving,
        terminating: *terminating,
        ..pb::Endpoint::default()
    };
    let Some(detail) = detail.as_deref() else { return plain };
    let Detail { hostname, zone, for_zones } = detail;
    pb::Endpoint {
        hostname: hostname.as_deref().map(Into::into),
        zone: zone.as_deref().map(Into::into),
        for_zones: for_zones.iter().map(ToString::to_string).collect(),
        ..plain
    }
}
