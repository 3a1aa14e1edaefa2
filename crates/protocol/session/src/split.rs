//! Divides what is too large for one frame.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::size::entry_len;
use crate::{Change, Entry, Payload, Piece, PieceChange};

/// The size that frames aim at: large enough to cost little, small enough that a fresh change is not kept waiting; and an
/// end holds a few at once, each with ten times its bytes while it is taken apart. In a small window it is less, for
/// several frames should fit in any.
pub(crate) const TARGET: usize = 128 << 10;
/// The largest part of an entry that is sent; what is larger fits in no frame together with its wrapping.
pub(crate) const LARGEST_PART: usize = 900 << 10;

/// An entry in pieces of at most the target size, apart from one that a single header or part makes larger.
pub(crate) fn pieces<P: Payload>(key: &P::Key, entry: &P::Entry, target: usize) -> VecDeque<Piece<P>> {
    let new = |header| Piece { key: key.clone(), header, parts: Vec::new(), more: false };
    let start = 2 * entry_len(key);
    let mut done = VecDeque::new();
    let mut piece = new(Some(entry.header().clone()));
    let mut used = start + P::Entry::header_len(entry.header());
    for part in entry.parts() {
        let len = P::Entry::part_len(piece.parts.last(), &part);
        // A piece is never empty here: its first has the header, a later one begins with a part.
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

/// A change in parts of at most the target size, with the same exception.
pub(crate) fn parts<P: Payload>(key: &P::Key, change: Change<P>, target: usize) -> VecDeque<PieceChange<P>> {
    match change {
        Change::Remove => [PieceChange::Remove(key.clone())].into(),
        Change::Replace(entry) => pieces(key, &entry, target).into_iter().map(PieceChange::Replace).collect(),
        Change::Update { header, parts } => updates(key, header, &parts, target),
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
