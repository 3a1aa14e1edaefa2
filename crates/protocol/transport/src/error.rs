//! What can go wrong on an open link, in one line.

use std::error::Error;
use std::net::SocketAddr;

use gimbal_error_text::append_causes;
use gimbal_wire::WireError;
use tonic::{Code, Status};

/// Trouble on a link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The call ended: the other end refused it, or the connection broke.
    #[error("{code:?}: {message}")]
    Call {
        /// gRPC's code.
        code: Code,
        /// The other end's words, or what broke the connection, with all its causes.
        message: String,
    },
    /// One message of the writer could not be read. The stream goes on.
    #[error("unreadable message from the writer: {0}")]
    Unreadable(#[from] WireError),
    /// The certificate of the other end is not accepted any more; the connection is cut soon.
    #[error("{0}")]
    Refused(&'static str),
    /// A plaintext listener where others can reach it.
    #[error("refused to listen on {0} without TLS: use a loopback address, or give --tls-cert, --tls-key and --tls-ca")]
    Plaintext(SocketAddr),
    /// The server ended by itself.
    #[error("the gRPC server failed: {0}")]
    Serve(String),
}

impl LinkError {
    /// Whether the stream is over. Only an unreadable message leaves it open.
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
