//! The permit to send a change, which is asked when the request is about to be written.
//!
//! A token's renewal, a connection, or a place in a queue takes time, in which a caller's reason to send a change can end.
//! hyper reads a request's body (`is_end_stream`, then `poll_frame`) when a connection is ready, before it writes the first
//! byte. So the body asks the permit there, and a body that fails cancels the request. This holds for HTTP/1, the only
//! version that the client speaks.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Returns whether a change may be sent at this moment.
#[derive(Clone)]
pub(crate) struct SendPermit(Arc<dyn Fn() -> bool + Send + Sync>);

impl SendPermit {
    pub(crate) fn new(permit: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(permit))
    }
}

impl fmt::Debug for SendPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendPermit")
    }
}

/// The permit refused, so nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("the permit to send it has ended")]
pub(crate) struct PermitRefused;

impl PermitRefused {
    /// Returns whether `error` was caused by a permit that refused.
    pub(crate) fn caused(error: &(dyn StdError + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<Self>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// A request's body that asks the permit before the request is written.
pub(crate) struct PermittedBody {
    /// What is left to send; `None` after it was handed over.
    content: Option<Bytes>,
    permit: SendPermit,
    refused: AtomicBool,
}

impl PermittedBody {
    pub(crate) fn new(content: Bytes, permit: SendPermit) -> Self {
        Self { content: Some(content), permit, refused: AtomicBool::new(false) }
    }

    fn may_be_sent(&self) -> bool {
        if !(self.permit.0)() {
            self.refused.store(true, SeqCst);
        }
        !self.refused.load(SeqCst)
    }
}

impl Body for PermittedBody {
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.content.is_some() && !self.may_be_sent() {
            return Poll::Ready(Some(Err(PermitRefused.into())));
        }
        Poll::Ready(self.content.take().map(|content| Ok(Frame::data(content))))
    }

    /// An empty body is never polled. To cancel its request, it claims to have content once the permit has refused, so that
    /// it is polled for it.
    fn is_end_stream(&self) -> bool {
        match &self.content {
            None => true,
            Some(content) => content.is_empty() && self.may_be_sent(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Some(_) if self.refused.load(SeqCst) => SizeHint::default(),
            Some(content) => SizeHint::with_exact(content.len().try_into().unwrap_or(u64::MAX)),
            None => SizeHint::with_exact(0),
        }
    }
}
