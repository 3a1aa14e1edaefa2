//! Encodes the entries of a frame.

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredMember, ListenerId, MemberChange, MemberId, PoolId};
use gimbal_session::{Entry, Piece, PieceChange};

use crate::pb::entry_change::Change;
use crate::values::{address, option_text};
use crate::{Kuryr, header, pb, size};

/// Returns a whole entry as inspection shows it.
#[must_use]
pub fn shown_entry(key: &DesiredKey, entry: &DesiredEntry) -> pb::EntryPiece {
    let parts = Entry::<Kuryr>::parts(entry).collect();
    piece(Piece { key: key.clone(), header: Some(entry.header()), parts, more: false })
}

pub(crate) fn piece(piece: Piece<Kuryr>) -> pb::EntryPiece {
    let (key, content) = piece_content(piece);
    pb::EntryPiece { key: Some(key), ..content }
}

/// Returns the key of a piece, and the piece without it.
fn piece_content(piece: Piece<Kuryr>) -> (pb::EntryKey, pb::EntryPiece) {
    let Piece { key, header, parts, more } = piece;
    let header = header.map(|header| header::encode(&header));
    ((&key).into(), pb::EntryPiece { key: None, header, members: set(parts.iter()), more })
}

pub(crate) fn change(change: PieceChange<Kuryr>) -> pb::EntryChange {
    match change {
        PieceChange::Replace(piece) => {
            // The change has the key, so the piece has none.
            let (key, content) = piece_content(piece);
            pb::EntryChange { key: Some(key), change: Some(Change::Replace(content)) }
        }
        PieceChange::Update { key, header, parts, more } => {
            let came = parts.iter().filter_map(|change| match change {
                MemberChange::Set(member) => Some(member),
                MemberChange::Gone(_) => None,
            });
            let header = header.map(|header| header::encode(&header));
            let update = pb::EntryUpdate { header, set: set(came), gone: gone(&parts), more };
            pb::EntryChange { key: Some((&key).into()), change: Some(Change::Update(update)) }
        }
        PieceChange::Remove(key) => {
            pb::EntryChange { key: Some((&key).into()), change: Some(Change::Removed(pb::entry_change::Removed {})) }
        }
    }
}

/// Groups members that follow each other in one pool and subnet. Senders go through them in order of their pools.
pub(crate) fn set<'a>(members: impl Iterator<Item = &'a DesiredMember>) -> Vec<pb::MemberGroup> {
    let mut groups: Vec<pb::MemberGroup> = Vec::new();
    let mut last = None;
    for member in members {
        let DesiredMember { id: MemberId { pool, address: at, port }, weight, name, subnet } = member;
        if last.replace(size::group_of(member)) != Some(size::group_of(member)) {
            let (protocol, port, pool) = pool_numbers(pool);
            let subnet = option_text(subnet.as_ref());
            groups.push(pb::MemberGroup { protocol, port, subnet, members: Vec::new(), pool });
        }
        if let Some(group) = groups.last_mut() {
            group.members.push(pb::Member {
                address: address(*at),
                port: (*port).into(),
                weight: (*weight).into(),
                name: option_text(name.as_ref()),
            });
        }
    }
    groups
}

fn gone(changes: &[MemberChange]) -> Vec<pb::GoneMembers> {
    let mut groups: Vec<pb::GoneMembers> = Vec::new();
    let mut last = None;
    for change in changes {
        let MemberChange::Gone(MemberId { pool, address: at, port }) = change else { continue };
        if last.replace(pool) != Some(pool) {
            let (protocol, port, pool) = pool_numbers(pool);
            groups.push(pb::GoneMembers { protocol, port, members: Vec::new(), pool });
        }
        if let Some(group) = groups.last_mut() {
            group.members.push(pb::GoneMember { address: address(*at), port: (*port).into() });
        }
    }
    groups
}

/// Returns protocol and number of a listener, or the ID of a Service's pool.
fn pool_numbers(pool: &PoolId) -> (i32, u32, Option<String>) {
    match pool {
        PoolId::Listener(listener) => {
            let (protocol, port) = numbers(*listener);
            (protocol, port, None)
        }
        PoolId::Service(id) => (0, 0, Some(id.to_string())),
    }
}

pub(crate) fn numbers(listener: ListenerId) -> (i32, u32) {
    let ListenerId { protocol, port } = listener;
    (gimbal_wire::pb::Protocol::from(protocol).into(), port.into())
}
