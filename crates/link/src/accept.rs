//! From a listener to connections whose peer is known.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::Peer;
use crate::connection::Connection;
use crate::error::chain;
use crate::serve::HandshakeFailed;

/// Handshakes at a time; the next ones wait in the kernel's queue.
const HANDSHAKES: usize = 256;
/// A client that is slower is none.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept: without file descriptors it would fail as fast as it is called.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections as they are ready. A failed handshake is told to `failed` and is no connection.
pub(crate) fn connections(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    failed: Option<HandshakeFailed>,
    abort: CancellationToken,
) -> impl Stream<Item = Result<Connection, Infallible>> {
    let sockets = futures::stream::unfold(listener, |listener| async move {
        let socket = accept(&listener).await;
        Some((socket, listener))
    });
    sockets
        .map(move |(socket, address)| {
            let (tls, failed, abort) = (tls.clone(), failed.clone(), abort.clone());
            async move {
                match handshake(socket, address, tls, abort).await {
                    Ok(connection) => Some(Ok(connection)),
                    Err(reason) => {
                        tracing::warn!(peer = %address, reason, "refused a connection");
                        if let Some(failed) = failed {
                            failed(address, &reason);
                        }
                        None
                    }
                }
            }
        })
        .buffer_unordered(HANDSHAKES)
        .filter_map(std::future::ready)
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

async fn handshake(
    socket: TcpStream,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    abort: CancellationToken,
) -> Result<Connection, String> {
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    let Some(tls) = tls else { return Ok(Connection::plain(socket, abort)) };
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(chain(&error)),
        Err(_) => return Err(format!("no TLS handshake within {} s", HANDSHAKE_TIMEOUT.as_secs())),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.ok_or("no client certificate")?;
    let peer = Peer::from_certificate(certificate, address);
    Ok(Connection::tls(stream, peer, abort))
}
