//! Puts together what came in pieces. Nothing is used before its last piece is there.

use std::sync::Arc;

use crate::{Entry, Payload, Piece};

/// Most parts, or changes of them, of one Service in pieces: as many as a large backend has in all. Pieces are
/// acknowledged before the last one comes, so the credit does not bound them.
pub(super) const MOST: usize = 1 << 20;

/// A Service of which pieces are still to come.
#[derive(Debug, Clone)]
pub(super) struct Pieces<P: Payload> {
    header: Arc<P::Header>,
    parts: Vec<P::Part>,
}

/// An update of which parts are still to come.
#[derive(Debug, Clone)]
pub(super) struct Parts<P: Payload> {
    pub(super) header: Option<Arc<P::Header>>,
    pub(super) parts: Vec<P::PartChange>,
}

/// Why a piece could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("a piece goes on with a Service whose first piece, the one with the header, did not come")]
    NoFirst,
    #[error("it has more than {MOST} {0}")]
    TooMany(&'static str),
    #[error("it lies outside of the snapshot's scope")]
    OutOfScope,
}

impl<P: Payload> Pieces<P> {
    /// Adds a piece to those that came before. Gives the Service when it is whole, and keeps it in `staged` until then.
    pub(super) fn add(staged: Option<Self>, piece: Piece<P>) -> Result<Staged<Self, P::Entry>, Misplaced> {
        let mut pieces = match (piece.header, staged) {
            // A header begins anew, whatever came before.
            (Some(header), _) => Self { header, parts: piece.parts },
            (None, Some(mut staged)) => {
                staged.parts.extend(piece.parts);
                staged
            }
            (None, None) => return Err(Misplaced::NoFirst),
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

/// What there is after a piece.
#[derive(Debug, Clone)]
pub(super) enum Staged<P, W> {
    /// More pieces follow.
    Partial(P),
    /// That was the last one.
    Whole(W),
}

impl<P: Payload> Parts<P> {
    /// As [`Pieces::add`].
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

/// A change of which parts are still to come. There is one at most: the agent sends them one after the other.
#[derive(Debug, Clone)]
pub(super) enum Unfinished<P: Payload> {
    Replace(P::Key, Pieces<P>),
    Update(P::Key, Parts<P>),
}

impl<P: Payload> Unfinished<P> {
    pub(super) fn key(&self) -> &P::Key {
        match self {
            Self::Replace(key, _) | Self::Update(key, _) => key,
        }
    }
}
