//! What can go wrong on an open link, in one line.

use std::error::Error;
use std::net::SocketAddr;

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
            add_chain(&mut message, source);
        }
        Self::Call { code: status.code(), message }
    }
}

/// An error and its causes in one line, each said once.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    add_chain(&mut line, error);
    line
}

fn add_chain(line: &mut String, error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // Many errors repeat their cause in their own words.
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
        next = error.source();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn a_chain_is_one_line_without_repetition() {
        let alert = Layer { text: "received fatal alert", source: None };
        let io = Layer { text: "connection error: received fatal alert", source: Some(Box::new(alert)) };
        let top = Layer { text: "transport error", source: Some(Box::new(io)) };
        assert_eq!(chain(&top), "transport error: connection error: received fatal alert");
    }
}
