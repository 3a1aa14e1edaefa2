//! Accepts connections and identifies their peers.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;

use crate::Peer;
use crate::certificate_state::CertificateState;
use crate::connection::{Connection, ConnectionInfo};
use crate::quiet::Quiet;
use crate::refusal::{Problem, Refusal};
use crate::serve::OnRefusal;
use crate::trust::Trust;

/// Largest number of concurrent handshakes. Further connections wait in the kernel's queue.
const HANDSHAKES: usize = 256;
/// Time limit of a handshake. A slower client is refused.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. Without it, a process that has run out of file descriptors would retry in a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns a stream of the connections that completed their handshake. A refused connection is logged and passed to
/// `on_refusal`.
pub(crate) fn connections(
    listener: TcpListener,
    trust: Option<Trust>,
    on_refusal: Option<OnRefusal>,
    abort: CancellationToken,
) -> impl Stream<Item = Result<Connection, Infallible>> {
    let sockets = futures::stream::unfold((listener, Quiet::default()), |(listener, quiet)| async move {
        let socket = accept(|| listener.accept(), &quiet).await;
        Some((socket, (listener, quiet)))
    });
    let quiet = Quiet::default();
    sockets
        .map(move |(socket, address)| Box::pin(connect(socket, address, trust.clone(), abort.clone())))
        .buffer_unordered(HANDSHAKES)
        .filter_map(move |connected| {
            std::future::ready(match connected {
                Ok(connection) => Some(Ok(connection)),
                Err(refusal) => {
                    log(&refusal, &quiet);
                    if let Some(on_refusal) = &on_refusal {
                        on_refusal(&refusal);
                    }
                    None
                }
            })
        })
}

fn log(refusal: &Refusal, quiet: &Quiet<(IpAddr, Problem)>) {
    let Refusal { address, problem, message: why, asked_for, certificate } = refusal;
    if *problem == Problem::Silent {
        tracing::debug!(peer = %address, why, "a connection without a word");
        return;
    }
    // The key ignores the port, and treats an IPv4-mapped IPv6 address as its IPv4 address.
    if let Some(untold) = quiet.tell((address.ip().to_canonical(), *problem), Instant::now()) {
        let certificate = certificate.as_ref().map(tracing::field::display);
        let problem = problem.as_str();
        tracing::warn!(peer = %address, problem, why, asked_for, certificate, untold, "refused a connection");
    }
}

/// Returns the next socket that `next` yields. Logs its failures, one line of each kind a minute.
async fn accept<T, F: Future<Output = io::Result<T>>>(next: impl Fn() -> F, quiet: &Quiet<ErrorKind>) -> T {
    loop {
        match next().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                if let Some(untold) = quiet.tell(error.kind(), Instant::now()) {
                    tracing::warn!(%error, untold, "cannot accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connect(
    socket: TcpStream,
    address: SocketAddr,
    trust: Option<Trust>,
    abort: CancellationToken,
) -> Result<Connection, Refusal> {
    socket.set_nodelay(true).map_err(|error| Refusal::of_io(address, &error))?;
    let Some(trust) = trust else { return Ok(Connection::plain(socket, abort)) };
    let late = || {
        let message = format!("no TLS handshake within {} s", HANDSHAKE_TIMEOUT.as_secs());
        Refusal::new(address, Problem::Timeout, message)
    };
    let handshake = handshake(socket, address, trust, abort);
    tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(|_| late())?
}

async fn handshake(
    socket: TcpStream,
    address: SocketAddr,
    trust: Trust,
    abort: CancellationToken,
) -> Result<Connection, Refusal> {
    // A reset counts as silent too: some load balancers end their health checks with one.
    if !matches!(socket.peek(&mut [0]).await, Ok(1..)) {
        return Err(Refusal::new(address, Problem::Silent, "it closed the connection before it said anything"));
    }
    let broken = |error: &std::io::Error| Refusal::of_io(address, error);
    let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await.map_err(|error| broken(&error))?;
    let asked_for = start.client_hello().server_name().map(str::to_owned);
    let (config, examiner) = trust.handshake().map_err(|error| broken(&std::io::Error::other(error)))?;
    let shown = || examiner.shown().map(|chain| chain.certificate.clone());
    let stream = start.into_stream(Arc::new(config)).await;
    let stream = stream.map_err(|error| Refusal { asked_for, certificate: shown(), ..broken(&error) })?;
    let no_certificate = || Refusal::new(address, Problem::NoCertificate, "it showed no certificate");
    let chain = Arc::new(examiner.shown().ok_or_else(no_certificate)?.clone());
    let peer = Peer::from_certificate(&chain.certificate, address);
    let cut = abort.child_token();
    let certificate_state = CertificateState::of(trust, chain, peer.clone(), cut.clone());
    Ok(Connection::tls(stream, ConnectionInfo { peer, certificate_state }, cut))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_lasts_is_one_line_a_minute() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let _guard = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(writer).finish());
        let kinds = [ErrorKind::OutOfMemory, ErrorKind::OutOfMemory, ErrorKind::ConnectionAborted];
        let failures = (0..300).map(|n| Err(io::Error::from(kinds[n % kinds.len()])));
        let answers = RefCell::new(failures.chain([Ok(7)]));
        let start = tokio::time::Instant::now();
        let socket = accept(|| std::future::ready(answers.borrow_mut().next().unwrap()), &Quiet::default()).await;
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!((socket, text.matches("cannot accept a connection").count()), (7, 2), "{text}");
        assert_eq!(start.elapsed(), 300 * ACCEPT_PAUSE);
    }
}
