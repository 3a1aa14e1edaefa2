//! Divides what is too large for one frame.

use std::collections::VecDeque;
use std::sync::Arc;

use gimbal_model::{Change, EndpointChange, Header, Service, SourceKey};

use crate::size::{Groups, endpoint_len, entry_len, header_len, ports_len};
use crate::{Piece, PieceChange};

/// The size that frames aim at: large enough to cost little, small enough that a fresh change is not kept waiting; and an
/// end holds a few at once, each with ten times its bytes while it is taken apart. In a small window it is less, for
/// several frames should fit in any.
pub(crate) const TARGET: usize = 128 << 10;
/// The largest part of a Service that is sent; what is larger fits in no frame together with its wrapping.
pub(crate) const LARGEST_PART: usize = 900 << 10;

/// A Service in pieces of at most the target size, apart from one that a single header or endpoint makes larger.
pub(crate) fn pieces(key: &SourceKey, service: &Service, target: usize) -> VecDeque<Piece> {
    let new = |header| Piece { key: key.clone(), header, endpoints: Vec::new(), more: false };
    let start = 2 * entry_len(key);
    let mut done = VecDeque::new();
    let mut piece = new(Some(service.header.clone()));
    let mut used = start + header_len(&service.header);
    let mut last = None;
    for (ports, endpoint) in service.endpoints() {
        let alone = ports_len(ports) + endpoint_len(&endpoint);
        let len = if last.replace(ports) == Some(ports) { endpoint_len(&endpoint) } else { alone };
        // A piece is never empty here: its first has the header, a later one begins with an endpoint.
        if used + len > target {
            piece.more = true;
            done.push_back(std::mem::replace(&mut piece, new(None)));
            used = start + alone;
        } else {
            used += len;
        }
        piece.endpoints.push((ports.clone(), endpoint));
    }
    done.push_back(piece);
    done
}

/// A change in parts of at most the target size, with the same exception.
pub(crate) fn parts(key: &SourceKey, change: Change, target: usize) -> VecDeque<PieceChange> {
    match change {
        Change::Remove => [PieceChange::Remove(key.clone())].into(),
        Change::Replace(service) => pieces(key, &service, target).into_iter().map(PieceChange::Replace).collect(),
        Change::Update { header, endpoints } => updates(key, header, &endpoints, target),
    }
}

fn updates(
    key: &SourceKey,
    mut header: Option<Arc<Header>>,
    endpoints: &[EndpointChange],
    target: usize,
) -> VecDeque<PieceChange> {
    let start = 2 * entry_len(key);
    let mut done = VecDeque::new();
    let mut used = start + header.as_deref().map_or(0, header_len);
    let mut groups = Groups::default();
    let mut first = 0;
    for (at, change) in endpoints.iter().enumerate() {
        let len = groups.change_len(change);
        if used + len > target && (header.is_some() || at > first) {
            let part = endpoints[first..at].to_vec();
            done.push_back(PieceChange::Update {
                key: key.clone(),
                header: header.take(),
                endpoints: part,
                more: true,
            });
            groups = Groups::default();
            used = start + groups.change_len(change);
            first = at;
        } else {
            used += len;
        }
    }
    let part = endpoints[first..].to_vec();
    done.push_back(PieceChange::Update { key: key.clone(), header, endpoints: part, more: false });
    done
}
