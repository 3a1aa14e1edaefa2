//! Requests that must not leave after something ended.
//!
//! To dial, to shake hands and to wait for a connection takes time, in which whatever was asked before may change. So it is
//! asked when a connection is there and the request is about to be written to it: a body is polled then, and one that fails
//! takes its request with it before a byte was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tower::BoxError;

/// Whether a write may be sent at this moment. Travels with its request.
#[derive(Clone)]
pub(crate) struct Permit(Arc<dyn Fn() -> bool + Send + Sync>);

impl Permit {
    pub(crate) fn new(permit: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(permit))
    }
}

/// A body that asks. An empty one, as that of every read, asks nobody.
pub(crate) struct Guarded {
    body: Full<Bytes>,
    permit: Option<Permit>,
}

/// There is no permit any more.
#[derive(Debug, thiserror::Error)]
#[error("the permit to send it ended")]
pub(crate) struct NotPermitted;

/// The request with the permit that it brought.
pub(crate) fn guarded(mut request: Request<Full<Bytes>>) -> Request<Guarded> {
    let permit = request.extensions_mut().remove();
    request.map(|body| Guarded { body, permit })
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.permit.take().is_some_and(|permit| !(permit.0)()) {
            return Poll::Ready(Some(Err(NotPermitted.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
