//! Listening sockets.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::Exit;

/// Binds the address that a flag names.
///
/// # Errors
/// Returns an error if the address cannot be bound: the port is taken, or the address is not this machine's.
pub async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, Exit> {
    TcpListener::bind(address).await.map_err(|error| Exit::Failure(format!("{flag} {address}: {error}")))
}
