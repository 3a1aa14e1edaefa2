//! Requests that must not be sent once a permit has ended.
//!
//! Connecting and waiting for a connection takes time, in which a permit can end. So the permit is checked when a connection
//! is ready and the request is about to be written to it: the body is polled at that moment, and a body that fails cancels
//! the request before a byte is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tower::BoxError;

/// Returns whether a write may be sent at this moment. Attached to its request as an extension.
#[derive(Clone)]
pub(crate) struct Permit(Arc<dyn Fn() -> bool + Send + Sync>);

impl Permit {
    pub(crate) fn new(permit: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(permit))
    }
}

/// A body that checks the permit. Empty bodies, which reads have, are never polled and need no permit.
pub(crate) struct Guarded {
    body: Full<Bytes>,
    permit: Option<Permit>,
}

/// The permit has ended.
#[derive(Debug, thiserror::Error)]
#[error("the permit to send it ended")]
pub(crate) struct NotPermitted;

/// Moves the permit from the request's extensions into its body.
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
