//! Accepts connections and identifies their peers.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;

use crate::Peer;
use crate::connection::{Connection, Known};
use crate::quiet::Quiet;
use crate::refusal::{Problem, Refusal};
use crate::serve::OnRefusal;
use crate::standing::Standing;
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
    let sockets = futures::stream::unfold(listener, |listener| async move {
        let socket = accept(&listener).await;
        Some((socket, listener))
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

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
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
    let nobody = || Refusal::new(address, Problem::NoCertificate, "it showed no certificate");
    let chain = Arc::new(examiner.shown().ok_or_else(nobody)?.clone());
    let peer = Peer::from_certificate(&chain.certificate, address);
    let cut = abort.child_token();
    let standing = Standing::of(trust, chain, peer.clone(), cut.clone());
    Ok(Connection::tls(stream, Known { peer, standing }, cut))
}
