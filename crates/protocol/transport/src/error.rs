//! Errors of an open stream or a server, each in one line.

use std::error::Error;
use std::net::SocketAddr;

use gimbal_error_text::append_causes;
use gimbal_wire::WireError;
use tonic::{Code, Status};

/// An error of a stream or a server.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The call failed: the peer refused it, or the connection broke.
    #[error("{code:?}: {message}")]
    Call {
        /// The gRPC status code.
        code: Code,
        /// The message of the peer, or the error of the connection with all its causes.
        message: String,
    },
    /// A message of the writer could not be parsed. The stream continues.
    #[error("unreadable message from the writer: {0}")]
    Unreadable(#[from] WireError),
    /// The peer's certificate is no longer accepted; the connection is closed soon.
    #[error("{0}")]
    Refused(&'static str),
    /// A plaintext listener on an address that other machines can reach.
    #[error("refused to listen on {0} without TLS: use a loopback address, or give --tls-cert, --tls-key and --tls-ca")]
    Plaintext(SocketAddr),
    /// The server failed.
    #[error("the gRPC server failed: {0}")]
    Serve(String),
}

impl LinkError {
    /// Returns whether the stream is over. Only an unreadable message leaves it open.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Unreadable(_))
    }
}

impl From<Status> for LinkError {
    fn from(status: Status) -> Self {
        let mut message = status.message().to_owned();
        if let Some(source) = status.source() {
            append_causes(&mut message, source);
        }
        Self::Call { code: status.code(), message }
    }
}
