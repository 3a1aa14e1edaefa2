//! Puts together what came in pieces. Nothing is used before its last piece is there.

use std::sync::Arc;

use gimbal_model::{Endpoint, EndpointChange, Header, PortSet, Service, SourceKey};

use crate::Piece;

/// Most endpoints, or changes of them, of one Service in pieces: as many as a large backend has in all. Pieces are
/// acknowledged before the last one comes, so the credit does not bound them.
pub(super) const MOST: usize = 1 << 20;

/// A Service of which pieces are still to come.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    header: Arc<Header>,
    endpoints: Vec<(PortSet, Endpoint)>,
}

/// An update of which parts are still to come.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) header: Option<Arc<Header>>,
    pub(super) endpoints: Vec<EndpointChange>,
}

/// Why a piece could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("a piece goes on with a Service whose first piece, the one with the header, did not come")]
    NoFirst,
    #[error("it has more than {MOST} endpoints")]
    TooMany,
    #[error("it lies outside of the snapshot's scope")]
    OutOfScope,
}

impl Pieces {
    /// Adds a piece to those that came before. Gives the Service when it is whole, and keeps it in `staged` until then.
    pub(super) fn add(staged: Option<Self>, piece: Piece) -> Result<Staged<Self, Service>, Misplaced> {
        let mut pieces = match (piece.header, staged) {
            // A header begins anew, whatever came before.
            (Some(header), _) => Self { header, endpoints: piece.endpoints },
            (None, Some(mut staged)) => {
                staged.endpoints.extend(piece.endpoints);
                staged
            }
            (None, None) => return Err(Misplaced::NoFirst),
        };
        match (pieces.endpoints.len() > MOST, piece.more) {
            (true, _) => Err(Misplaced::TooMany),
            (false, true) => {
                pieces.endpoints.shrink_to_fit();
                Ok(Staged::Partial(pieces))
            }
            (false, false) => Ok(Staged::Whole(Service::new(pieces.header, pieces.endpoints))),
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

impl Parts {
    /// As [`Pieces::add`].
    pub(super) fn add(
        staged: Option<Self>,
        header: Option<Arc<Header>>,
        endpoints: Vec<EndpointChange>,
        more: bool,
    ) -> Result<Staged<Self, Self>, Misplaced> {
        let mut parts = staged.unwrap_or_default();
        parts.header = header.or(parts.header);
        parts.endpoints.extend(endpoints);
        match (parts.endpoints.len() > MOST, more) {
            (true, _) => Err(Misplaced::TooMany),
            (false, true) => Ok(Staged::Partial(parts)),
            (false, false) => Ok(Staged::Whole(parts)),
        }
    }
}

/// A change of which parts are still to come. There is one at most: the agent sends them one after the other.
#[derive(Debug, Clone)]
pub(super) enum Unfinished {
    Replace(SourceKey, Pieces),
    Update(SourceKey, Parts),
}

impl Unfinished {
    pub(super) fn key(&self) -> &SourceKey {
        match self {
            Self::Replace(key, _) | Self::Update(key, _) => key,
        }
    }
}
