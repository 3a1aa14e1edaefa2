//! Tracks whether the certificate of an open connection is still accepted, for the calls on that connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::Peer;
use crate::refusal::Problem;
use crate::trust::{Chain, Trust};

/// Time for streams to send their goodbye after the certificate is no longer accepted.
const GOODBYE: Duration = Duration::from_secs(2);

/// The state of a connection's certificate. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CertificateState(watch::Receiver<Option<Problem>>);

impl CertificateState {
    /// Creates the state of a plaintext connection, which never changes.
    pub(crate) fn without_certificate() -> Self {
        Self(watch::channel(None).1)
    }

    /// Creates the state of a connection whose client presented `chain`, and watches it. Once the certificate is no
    /// longer accepted, `cut` is cancelled after the time for a goodbye.
    pub(crate) fn of(trust: Trust, chain: Arc<Chain>, peer: Peer, cut: CancellationToken) -> Self {
        let (lost, certificate_state) = watch::channel(None);
        tokio::spawn(guard(trust, chain, peer, lost, cut));
        Self(certificate_state)
    }

    /// Returns why the certificate is no longer accepted; `None` while it is accepted.
    pub(crate) fn problem(&self) -> Option<Problem> {
        *self.0.borrow()
    }

    /// Waits until the certificate is no longer accepted.
    pub(crate) async fn lost(mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the message that is sent to the peer. It names expiry only, which the peer can read in its own certificate;
/// our other reasons stay private.
pub(crate) fn farewell(problem: Problem) -> &'static str {
    match problem {
        Problem::Expired => "the certificate has expired",
        _ => "the certificate is not accepted any more",
    }
}

/// Returns the status of a call on a connection whose certificate is no longer accepted.
pub(crate) fn refused(problem: Problem) -> Status {
    Status::unauthenticated(farewell(problem))
}

/// Watches one certificate. Returns after the connection was cut, or when it and all of its streams have ended, because
/// every [`CertificateState`] is dropped by then.
async fn guard(
    trust: Trust,
    chain: Arc<Chain>,
    peer: Peer,
    certificate_state: watch::Sender<Option<Problem>>,
    cut: CancellationToken,
) {
    let (problem, why) = tokio::select! {
        () = certificate_state.closed() => return,
        () = cut.cancelled() => return,
        lost = trust.lost(&chain) => lost,
    };
    tracing::warn!(%peer, problem = problem.as_str(), why, certificate = %chain.certificate, "ends a connection");
    certificate_state.send_replace(Some(problem));
    tokio::select! {
        () = certificate_state.closed() => {}
        () = tokio::time::sleep(GOODBYE) => cut.cancel(),
    }
}
