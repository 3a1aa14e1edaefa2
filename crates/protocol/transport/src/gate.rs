//! Who may call inspection and administration, and how many calls at a time. For every payload's services.

use std::time::Instant;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::certificate_state::{CertificateState, refused};
use crate::connection::ConnectionInfo;
use crate::discovery::known;
use crate::turns::{Turn, Turns};
use crate::unread::taking;
use crate::{Peer, Quiet, Viewer};

/// Admits calls of an inspection service: what the peer may see, and a slot for it.
#[derive(Debug)]
pub struct InspectionGate {
    shutdown: CancellationToken,
    turns: Turns,
}

impl InspectionGate {
    /// Watches end with `shutdown`.
    pub(crate) fn new(shutdown: CancellationToken) -> Self {
        Self { shutdown, turns: Turns::default() }
    }

    /// Admits a call, after waiting for one of the slots of its peer.
    ///
    /// # Errors
    /// Returns an error when the peer may see nothing, its certificate is no longer accepted, or too many of its calls
    /// wait already.
    pub async fn call<T>(
        &self,
        request: &Request<T>,
        viewer: impl FnOnce(&Peer) -> Result<Viewer, Status>,
    ) -> Result<(Viewer, CallSlot), Status> {
        let peer = known(request)?.peer;
        let viewer = viewer(&peer)?;
        Ok((viewer, CallSlot(self.turns.ask(&peer).await?)))
    }

    /// Admits a watch.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`InspectionGate::call`], for too many open watches.
    pub fn watch<T>(
        &self,
        request: &Request<T>,
        viewer: impl FnOnce(&Peer) -> Result<Viewer, Status>,
    ) -> Result<(Viewer, WatchSlot), Status> {
        let ConnectionInfo { peer, certificate_state } = known(request)?;
        let viewer = viewer(&peer)?;
        let turn = self.turns.watch(&peer)?;
        Ok((viewer, WatchSlot { turn, certificate_state, shutdown: self.shutdown.clone() }))
    }
}

/// A slot for one call.
#[derive(Debug)]
pub struct CallSlot(Turn);

impl CallSlot {
    /// Returns the response, which holds the slot until it was read.
    #[must_use]
    pub fn answer<T>(self, answer: T) -> Response<T> {
        taking(self.0, answer)
    }
}

/// A slot for one watch.
pub struct WatchSlot {
    turn: Turn,
    certificate_state: CertificateState,
    shutdown: CancellationToken,
}

impl WatchSlot {
    /// Returns the response, which holds the slot. Its stream ends at shutdown, and when the peer's certificate is no
    /// longer accepted.
    #[must_use]
    pub fn answer<T: Send + 'static>(
        self,
        events: BoxStream<'static, Result<T, Status>>,
    ) -> Response<BoxStream<'static, Result<T, Status>>> {
        let Self { turn, certificate_state, shutdown } = self;
        let events = events.take_until(Box::pin(certificate_state.clone().lost()));
        let refusal = async move { certificate_state.problem().map(|problem| Err(refused(problem))) };
        let events = events.chain(futures::stream::once(refusal).filter_map(std::future::ready));
        let events = events.take_until(shutdown.cancelled_owned());
        let events = events.map(move |event| {
            let _held = &turn;
            event
        });
        Response::new(events.boxed())
    }
}

/// Admits calls of an admin service.
#[derive(Debug, Default)]
pub struct AdminGate {
    /// Limits the log lines about refused calls, by peer and call.
    refused: Quiet<(String, &'static str)>,
}

impl AdminGate {
    /// Refuses peers that are not administrators. Every call of an administrator is logged; refused calls are logged
    /// once a minute for each peer and call.
    ///
    /// # Errors
    /// Returns an error when the peer is no administrator, or its certificate is no longer accepted.
    pub fn check<T: std::fmt::Debug>(
        &self,
        call: &'static str,
        request: &Request<T>,
        is_admin: impl FnOnce(&Peer) -> bool,
    ) -> Result<(), Status> {
        let peer = known(request)?.peer;
        if !is_admin(&peer) {
            if let Some(untold) = self.refused.tell((peer.key().to_owned(), call), Instant::now()) {
                // The request is not logged: it may be large, and its sender is not trusted.
                tracing::warn!(%peer, call, untold, "refused a call that is for admins");
            }
            return Err(Status::permission_denied(
                "the certificate is not one of an admin (see admins in the writer's configuration)",
            ));
        }
        tracing::info!(%peer, call, request = ?request.get_ref(), "an admin decided");
        Ok(())
    }
}
