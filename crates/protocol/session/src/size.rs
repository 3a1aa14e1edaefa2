//! How large a frame becomes when it is encoded, never less than it really does: credit and the limit of a frame are
//! counted in these numbers, long before there is an encoding.

use gimbal_model::{
    Endpoint, EndpointChange, EndpointPort, Header, PortGroup, PortSet, Service, SourceKey, TargetPort,
};

use crate::{Data, Frame, Piece, PieceChange, Scope, Unreadable};

/// The wrapping of one frame: request, data, number, frame, and the fields beside its list.
pub(crate) const FRAME: usize = 128;
/// A string, list or message: tag and length.
const FIELD: usize = 8;
/// A map entry: its own wrapping and that of key and value.
const ENTRY: usize = 3 * FIELD;
/// A port's or an endpoint's numbers and flags, and its wrapping.
const NUMBERS: usize = 24;

/// Estimated size of an encoded data frame, in bytes.
#[must_use]
pub fn estimated_len(data: &Data) -> usize {
    let content = match &data.frame {
        Frame::SnapshotBegin { scope } => scope_len(scope),
        Frame::SnapshotEnd { .. } => 0,
        Frame::SnapshotChunk { pieces, .. } => pieces.iter().map(|piece| readable(piece, piece_len)).sum(),
        Frame::Delta { changes, .. } => changes.iter().map(|change| readable(change, change_len)).sum(),
    };
    FRAME + content
}

fn readable<T>(entry: &Result<T, Unreadable>, len: impl Fn(&T) -> usize) -> usize {
    entry.as_ref().map_or(0, len)
}

pub(crate) fn scope_len(scope: &Scope) -> usize {
    match scope {
        Scope::All => 0,
        Scope::Namespaces(namespaces) => namespaces.iter().map(|namespace| FIELD + namespace.len()).sum(),
    }
}

pub(crate) fn piece_len(piece: &Piece) -> usize {
    let mut last = None;
    let endpoints: usize =
        piece.endpoints.iter().map(|(ports, endpoint)| group_len(&mut last, ports) + endpoint_len(endpoint)).sum();
    entry_len(&piece.key) + piece.header.as_deref().map_or(0, header_len) + endpoints
}

pub(crate) fn change_len(change: &PieceChange) -> usize {
    match change {
        // The piece is a message of its own within the change.
        PieceChange::Replace(piece) => FIELD + entry_len(&piece.key) + piece_len(piece),
        PieceChange::Remove(key) => entry_len(key),
        PieceChange::Update { key, header, endpoints, .. } => {
            let mut groups = Groups::default();
            let endpoints: usize = endpoints.iter().map(|change| groups.change_len(change)).sum();
            entry_len(key) + FIELD + header.as_deref().map_or(0, header_len) + endpoints
        }
    }
}

/// What is common to every entry of a frame: its key and its wrapping.
pub(crate) fn entry_len(key: &SourceKey) -> usize {
    5 * FIELD + key.namespace.len() + key.name.len()
}

pub(crate) fn header_len(header: &Header) -> usize {
    let maps = header.labels.iter().chain(&header.annotations);
    let entries: usize = maps.map(|(key, value)| ENTRY + key.len() + value.len()).sum();
    let ports: usize = header
        .ports
        .iter()
        .map(|port| {
            let target = match &port.target_port {
                Some(TargetPort::Name(name)) => name.len(),
                _ => 0,
            };
            NUMBERS + 3 * FIELD + port.name.len() + port.app_protocol.as_deref().map_or(0, str::len) + target
        })
        .sum();
    FIELD + entries + ports
}

pub(crate) fn ports_len(ports: &PortSet) -> usize {
    let port_len =
        |port: &EndpointPort| NUMBERS + 2 * FIELD + port.name.len() + port.app_protocol.as_deref().map_or(0, str::len);
    FIELD + ports.ports().iter().map(port_len).sum::<usize>()
}

pub(crate) fn endpoint_len(endpoint: &Endpoint) -> usize {
    let detail = endpoint.detail.as_deref().map_or(0, |detail| {
        let names = [&detail.hostname, &detail.zone].into_iter().flatten().chain(&detail.for_zones);
        names.map(|name| FIELD + name.len()).sum()
    });
    2 * FIELD + NUMBERS + detail
}

/// Endpoints that follow each other with the same ports share one group, which carries the ports once.
fn group_len<'a>(last: &mut Option<&'a PortSet>, ports: &'a PortSet) -> usize {
    if last.replace(ports) == Some(ports) { 0 } else { ports_len(ports) }
}

/// An update has two lists of groups.
#[derive(Default)]
pub(crate) struct Groups<'a> {
    set: Option<&'a PortSet>,
    gone: Option<&'a PortSet>,
}

impl<'a> Groups<'a> {
    pub(crate) fn change_len(&mut self, change: &'a EndpointChange) -> usize {
        match change {
            EndpointChange::Set(ports, endpoint) => group_len(&mut self.set, ports) + endpoint_len(endpoint),
            EndpointChange::Gone(ports, _) => group_len(&mut self.gone, ports) + NUMBERS,
        }
    }
}

/// Estimated size of a whole Service as it travels, in bytes.
#[must_use]
pub fn service_len(key: &SourceKey, service: &Service) -> usize {
    let group = |group: &PortGroup| {
        ports_len(&group.ports) + group.endpoints.iter().map(|endpoint| endpoint_len(&endpoint)).sum::<usize>()
    };
    entry_len(key) + header_len(&service.header) + service.groups().iter().map(group).sum::<usize>()
}

/// The size of the largest part of a Service that cannot be divided: its header, or an endpoint with its ports.
pub(crate) fn largest_part(key: &SourceKey, service: &Service) -> usize {
    let groups = service.groups().iter().map(|group| {
        let endpoint = group.endpoints.iter().map(|endpoint| endpoint_len(&endpoint)).max().unwrap_or(0);
        ports_len(&group.ports) + endpoint
    });
    2 * entry_len(key) + FIELD + groups.chain([header_len(&service.header)]).max().unwrap_or(0)
}
