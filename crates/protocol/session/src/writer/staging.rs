//! Assembles entries and updates from pieces. The result is used when the last piece has come.

use std::sync::Arc;

use crate::{Entry, Payload, Piece};

/// Largest number of parts, or changes of parts, of one divided entry: as many as a large backend has in all. Pieces
/// are acknowledged before the last one comes, so the credit does not bound them.
pub(super) const MOST: usize = 1 << 20;

/// An entry whose last piece has not come.
#[derive(Debug, Clone)]
pub(super) struct PartialEntry<P: Payload> {
    header: Arc<P::Header>,
    parts: Vec<P::Part>,
}

/// An update whose last piece has not come.
#[derive(Debug, Clone)]
pub(super) struct PartialUpdate<P: Payload> {
    pub(super) header: Option<Arc<P::Header>>,
    pub(super) parts: Vec<P::PartChange>,
}

/// Why a piece could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("a piece goes on with {0} whose first piece, the one with the header, did not come")]
    NoFirst(&'static str),
    #[error("it has more than {MOST} {0}")]
    TooMany(&'static str),
    #[error("it lies outside of the snapshot's scope")]
    OutOfScope,
}

impl<P: Payload> PartialEntry<P> {
    /// Adds a piece to those that came before.
    pub(super) fn add(staged: Option<Self>, piece: Piece<P>) -> Result<Staged<Self, P::Entry>, Misplaced> {
        let mut pieces = match (piece.header, staged) {
            // A header begins a new entry, whatever came before.
            (Some(header), _) => Self { header, parts: piece.parts },
            (None, Some(mut staged)) => {
                staged.parts.extend(piece.parts);
                staged
            }
            (None, None) => return Err(Misplaced::NoFirst(P::AN_ENTRY)),
        };
        match (pieces.parts.len() > MOST, piece.more) {
            (true, _) => Err(Misplaced::TooMany(P::PARTS)),
            (false, true) => {
                pieces.parts.shrink_to_fit();
                Ok(Staged::Partial(pieces))
            }
            (false, false) => Ok(Staged::Whole(P::Entry::new(pieces.header, pieces.parts))),
        }
    }
}

/// The state after a piece.
#[derive(Debug, Clone)]
pub(super) enum Staged<P, W> {
    /// More pieces have to come.
    Partial(P),
    /// The piece was the last one.
    Whole(W),
}

impl<P: Payload> PartialUpdate<P> {
    /// Adds a piece to those that came before, as [`PartialEntry::add`] does. Without any before, it is the first one.
    pub(super) fn add(
        staged: Option<Self>,
        header: Option<Arc<P::Header>>,
        parts: Vec<P::PartChange>,
        more: bool,
    ) -> Result<Staged<Self, Self>, Misplaced> {
        let mut staged = staged.unwrap_or_else(|| Self { header: None, parts: Vec::new() });
        staged.header = header.or(staged.header);
        staged.parts.extend(parts);
        match (staged.parts.len() > MOST, more) {
            (true, _) => Err(Misplaced::TooMany(P::PARTS)),
            (false, true) => Ok(Staged::Partial(staged)),
            (false, false) => Ok(Staged::Whole(staged)),
        }
    }
}

/// A divided change whose last piece has not come. There is at most one, because the agent finishes one before the
/// next.
#[derive(Debug, Clone)]
pub(super) enum Unfinished<P: Payload> {
    Replace(P::Key, PartialEntry<P>),
    Update(P::Key, PartialUpdate<P>),
}

impl<P: Payload> Unfinished<P> {
    pub(super) fn key(&self) -> &P::Key {
        match self {
            Self::Replace(key, _) | Self::Update(key, _) => key,
        }
    }
}
