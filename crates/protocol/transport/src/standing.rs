//! Whether the certificate of an open connection is still accepted, for those who serve calls on it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::Peer;
use crate::refusal::Problem;
use crate::trust::{Chain, Trust};

/// Time for streams to say goodbye once the certificate is not accepted any more.
const GOODBYE: Duration = Duration::from_secs(2);

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Standing(watch::Receiver<Option<Problem>>);

impl Standing {
    /// Of a connection that showed no certificate, and so can lose none.
    pub(crate) fn without_certificate() -> Self {
        Self(watch::channel(None).1)
    }

    /// Of a connection that showed `chain`. It is cut by `cut` soon after its standing is lost.
    pub(crate) fn of(trust: Trust, chain: Arc<Chain>, peer: Peer, cut: CancellationToken) -> Self {
        let (lost, standing) = watch::channel(None);
        tokio::spawn(guard(trust, chain, peer, lost, cut));
        Self(standing)
    }

    /// What is wrong with the certificate by now.
    pub(crate) fn problem(&self) -> Option<Problem> {
        *self.0.borrow()
    }

    /// Until something is wrong with the certificate.
    pub(crate) async fn lost(mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What the other end is told. It knows what its certificate says; what we hold against it is ours.
pub(crate) fn farewell(problem: Problem) -> &'static str {
    match problem {
        Problem::Expired => "the certificate has expired",
        _ => "the certificate is not accepted any more",
    }
}

/// The refusal of a call on a connection whose standing is lost.
pub(crate) fn refused(problem: Problem) -> Status {
    Status::unauthenticated(farewell(problem))
}

/// Ends with the connection and all of its streams: then nobody holds a [`Standing`].
async fn guard(
    trust: Trust,
    chain: Arc<Chain>,
    peer: Peer,
    standing: watch::Sender<Option<Problem>>,
    cut: CancellationToken,
) {
    let (problem, why) = tokio::select! {
        () = standing.closed() => return,
        () = cut.cancelled() => return,
        lost = trust.lost(&chain) => lost,
    };
    tracing::warn!(%peer, problem = problem.as_str(), why, certificate = %chain.certificate, "ends a connection");
    standing.send_replace(Some(problem));
    tokio::select! {
        () = standing.closed() => {}
        () = tokio::time::sleep(GOODBYE) => cut.cancel(),
    }
}
