//! An answer takes its asker's turn for as long as it is held here: until it is read, or nobody wants it any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tonic::Response;

use crate::turns::Turn;

/// On its way from the answer to its body.
#[derive(Clone)]
struct Taken(#[expect(dead_code, reason = "held, and given back when it is dropped")] Arc<Turn>);

/// An answer for which a turn was taken.
pub(crate) fn taking<T>(turn: Turn, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(Taken(Arc::new(turn)));
    response
}

/// Gives the body the turn, to end with it.
pub(crate) fn until_read<B>(mut response: http::Response<B>) -> http::Response<Unread<B>> {
    let turn = response.extensions_mut().remove::<Taken>();
    response.map(|body| Unread { body, _turn: turn })
}

pub(crate) struct Unread<B> {
    body: B,
    _turn: Option<Taken>,
}

impl<B: Body + Unpin> Body for Unread<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
