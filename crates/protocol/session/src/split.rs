//! Divides entries and changes that are too large for one frame.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::size::entry_len;
use crate::{Entry, EntryChange, Payload, Piece, PieceChange};

/// Target size of a frame in bytes. Smaller frames cost more each; larger ones delay fresh changes, and need ten times
/// their size in memory while they are parsed. A small window lowers the target, so that several frames fit in it.
pub(crate) const TARGET: usize = 128 << 10;
/// Size limit of an indivisible piece. Larger ones do not fit in a frame together with their overhead.
pub(crate) const LARGEST_PART: usize = 900 << 10;

/// Divides an entry into pieces of at most `target` bytes. A piece is larger only if one header or part is.
pub(crate) fn pieces<P: Payload>(key: &P::Key, entry: &P::Entry, target: usize) -> VecDeque<Piece<P>> {
    let new = |header| Piece { key: key.clone(), header, parts: Vec::new(), more: false };
    let start = 2 * entry_len(key);
    let mut done = VecDeque::new();
    let header = entry.header();
    let mut used = start + P::Entry::header_len(&header);
    let mut piece = new(Some(header));
    for part in entry.parts() {
        let len = P::Entry::part_len(piece.parts.last(), &part);
        // A piece is never empty here: the first one has the header, and a later one begins with a part.
        if used + len > target {
            piece.more = true;
            done.push_back(std::mem::replace(&mut piece, new(None)));
            used = start + P::Entry::part_len(None, &part);
        } else {
            used += len;
        }
        piece.parts.push(part);
    }
    done.push_back(piece);
    done
}

/// Divides a change in the same way.
pub(crate) fn parts<P: Payload>(key: &P::Key, change: EntryChange<P>, target: usize) -> VecDeque<PieceChange<P>> {
    match change {
        EntryChange::Remove => [PieceChange::Remove(key.clone())].into(),
        EntryChange::Replace(entry) => pieces(key, &entry, target).into_iter().map(PieceChange::Replace).collect(),
        EntryChange::Update { header, parts } => updates(key, header, &parts, target),
    }
}

fn updates<P: Payload>(
    key: &P::Key,
    mut header: Option<Arc<P::Header>>,
    changes: &[P::PartChange],
    target: usize,
) -> VecDeque<PieceChange<P>> {
    let start = 2 * entry_len(key);
    let mut done = VecDeque::new();
    let mut used = start + header.as_deref().map_or(0, P::Entry::header_len);
    let mut before = <P::Entry as Entry<P>>::Changes::default();
    let mut first = 0;
    for (at, change) in changes.iter().enumerate() {
        let len = P::Entry::change_len(&mut before, change);
        if used + len > target && (header.is_some() || at > first) {
            let parts = changes[first..at].to_vec();
            done.push_back(PieceChange::Update { key: key.clone(), header: header.take(), parts, more: true });
            before = <P::Entry as Entry<P>>::Changes::default();
            used = start + P::Entry::change_len(&mut before, change);
            first = at;
        } else {
            used += len;
        }
    }
    let parts = changes[first..].to_vec();
    done.push_back(PieceChange::Update { key: key.clone(), header, parts, more: false });
    done
}
