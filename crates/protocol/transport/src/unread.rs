//! Holds the caller's slot until the response body has been sent, or the caller is gone. So responses that are not read
//! count towards the peer's limit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tonic::Response;

use crate::turns::Turn;

/// The slot of a call, passed from the response to its body.
#[derive(Clone)]
struct Taken(#[expect(dead_code, reason = "held, and given back when it is dropped")] Arc<Turn>);

/// Returns a response that carries the caller's slot.
pub(crate) fn taking<T>(turn: Turn, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(Taken(Arc::new(turn)));
    response
}

/// Moves the slot into the body, which releases it when it is dropped.
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
