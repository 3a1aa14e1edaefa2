//! Parses the entries of a frame, each by itself, so that an invalid one does not affect the others.

use std::sync::Arc;

use gimbal_kuryr_model::{DesiredKey, DesiredKind, DesiredMember, MemberChange, MemberId};
use gimbal_session::{Piece, PieceChange, Unreadable};
use gimbal_wire::Interner;
use gimbal_wire::parse::{self, Parsed, WireError, invalid};

use crate::check::{self, NAME, option_id, option_words, small};
use crate::pb::entry_change::Change;
use crate::{DesiredHeader, Kuryr, header, pb};

pub(crate) fn piece(piece: pb::EntryPiece, intern: &mut Interner) -> Result<Piece<Kuryr>, Unreadable<Kuryr>> {
    let pb::EntryPiece { key, header, members, more } = piece;
    let key = check::key(key, intern).map_err(|error| unreadable(None, &error))?;
    match piece_parts(key.kind, header, members, intern) {
        Ok((header, parts)) => Ok(Piece { key, header, parts, more }),
        Err(error) => Err(Unreadable { more, ..unreadable(Some(key), &error) }),
    }
}

pub(crate) fn change(change: pb::EntryChange, intern: &mut Interner) -> Result<PieceChange<Kuryr>, Unreadable<Kuryr>> {
    let pb::EntryChange { key, change } = change;
    let key = check::key(key, intern).map_err(|error| unreadable(None, &error))?;
    match parse_change(&key, change, intern) {
        Ok(change) => Ok(change),
        Err(error) => Err(unreadable(Some(key), &error)),
    }
}

fn parse_change(key: &DesiredKey, change: Option<Change>, intern: &mut Interner) -> Parsed<PieceChange<Kuryr>> {
    match change.ok_or(WireError::Missing("change"))? {
        Change::Replace(pb::EntryPiece { key: inner, header, members, more }) => {
            if inner.is_some_and(|inner| inner != pb::EntryKey::from(key)) {
                return invalid("key", "of the replacement is not the key of the change");
            }
            let (header, parts) = piece_parts(key.kind, header, members, intern)?;
            Ok(PieceChange::Replace(Piece { key: key.clone(), header, parts, more }))
        }
        Change::Update(pb::EntryUpdate { header, set, gone, more }) => {
            let header = header.map(|header| header::parse(header, intern)).transpose()?;
            let set = parse_set(set, intern)?;
            fits(key.kind, header.as_deref(), &set)?;
            let mut parts: Vec<_> = set.into_iter().map(MemberChange::Set).collect();
            for pb::GoneMembers { protocol, port, members, pool } in gone {
                let pool = check::pool(protocol, port, pool, intern)?;
                for pb::GoneMember { address, port } in members {
                    parts.push(MemberChange::Gone(MemberId {
                        pool: pool.clone(),
                        address: parse::address(&address)?,
                        port: parse::port("port of a member", port)?,
                    }));
                }
            }
            Ok(PieceChange::Update { key: key.clone(), header, parts, more })
        }
        Change::Removed(pb::entry_change::Removed {}) => Ok(PieceChange::Remove(key.clone())),
    }
}

fn unreadable(key: Option<DesiredKey>, error: &WireError) -> Unreadable<Kuryr> {
    Unreadable { key, reason: error.to_string(), more: false }
}

type PieceParts = (Option<Arc<DesiredHeader>>, Vec<DesiredMember>);

fn piece_parts(
    kind: DesiredKind,
    header: Option<pb::EntryHeader>,
    members: Vec<pb::MemberGroup>,
    intern: &mut Interner,
) -> Parsed<PieceParts> {
    let header = header.map(|header| header::parse(header, intern)).transpose()?;
    if !members.is_empty() && matches!(header.as_deref(), Some(DesiredHeader::Deleting { .. })) {
        return invalid("members", "of what is going were sent");
    }
    let members = parse_set(members, intern)?;
    fits(kind, header.as_deref(), &members)?;
    Ok((header, members))
}

/// Checks what came together. Whether members fit a header that came in another message, the writer checks when it has both.
fn fits(kind: DesiredKind, header: Option<&DesiredHeader>, members: &[DesiredMember]) -> Parsed<()> {
    let Some(DesiredHeader::LoadBalancer { generation: _, header }) = header else { return Ok(()) };
    let lost_members = || header.lost_members(members.iter().map(|member| &member.id.pool));
    let contradiction = header.contradiction(kind).or_else(lost_members);
    contradiction.map_or(Ok(()), |contradiction| Err(WireError::Contradiction(contradiction)))
}

pub(crate) fn parse_set(groups: Vec<pb::MemberGroup>, intern: &mut Interner) -> Parsed<Vec<DesiredMember>> {
    let mut all = Vec::with_capacity(groups.iter().map(|group| group.members.len()).sum());
    for pb::MemberGroup { protocol, port, subnet, members, pool } in groups {
        let pool = check::pool(protocol, port, pool, intern)?;
        let subnet = option_id("subnet of a member", subnet, intern)?;
        for pb::Member { address, port, weight, name } in members {
            let (address, port) = (parse::address(&address)?, parse::port("port of a member", port)?);
            all.push(DesiredMember {
                id: MemberId { pool: pool.clone(), address, port },
                weight: small("weight", weight)?,
                name: option_words("name of a member", name, NAME, intern)?,
                subnet: subnet.clone(),
            });
        }
    }
    Ok(all)
}
