//! How a call to a cloud fails, told apart as far as callers act differently.

use std::time::Duration;

use crate::calls::CallOutcome;

/// Why a call failed. The message is for people: method, address and what the server said. Cheap to copy, since all who
/// waited for one token get the same one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 401 to the credentials themselves. To ask again with the same ones is of no use.
    #[error("invalid credentials: {message}")]
    InvalidCredentials {
        /// For people.
        message: String,
    },
    /// 401 to a token that had just been made.
    #[error("the token is not accepted: {message}")]
    Unauthorized {
        /// For people.
        message: String,
    },
    /// 403, or no role on the project that a token was asked for.
    #[error("forbidden: {message}")]
    Forbidden {
        /// For people.
        message: String,
    },
    /// 404.
    #[error("not found: {message}")]
    NotFound {
        /// For people.
        message: String,
    },
    /// The object after which a page was to start is gone, again and again.
    #[error("the list changes faster than it can be read: {message}")]
    InvalidMarker {
        /// For people.
        message: String,
    },
    /// A list that the server says it has cut off, and of which it gives no more.
    #[error("the list was cut off: {message}")]
    Cut {
        /// For people.
        message: String,
    },
    /// A server that gives the same page for ever.
    #[error("the server repeats itself: {message}")]
    RepeatedPage {
        /// For people.
        message: String,
    },
    /// 429, with a wait longer than we take, or none said.
    #[error("throttled: {message}")]
    RateLimited {
        /// For people.
        message: String,
        /// When the server would like to be asked again.
        retry_after: Option<Duration>,
    },
    /// 5xx.
    #[error("server error: {message}")]
    Server {
        /// For people.
        message: String,
        /// The HTTP status: a gateway's 504 says that the server was too slow for it.
        status: u16,
        /// When the server would like to be asked again.
        retry_after: Option<Duration>,
    },
    /// Any other status: a request that the server does not understand, or a redirect, which is not followed.
    #[error("refused: {message}")]
    Refused {
        /// For people.
        message: String,
    },
    /// No answer in time.
    #[error("timed out: {message}")]
    Timeout {
        /// For people.
        message: String,
    },
    /// The server's certificate is not trusted, or is another's.
    #[error("TLS: {message}")]
    Tls {
        /// For people.
        message: String,
        /// No authority that we trust has signed it. It stays so until other authorities are named.
        unknown_authority: bool,
    },
    /// No connection, or one that broke.
    #[error("cannot reach the server: {message}")]
    Unreachable {
        /// For people.
        message: String,
    },
    /// An answer that is not what the API promises.
    #[error("cannot read the answer: {message}")]
    Undecodable {
        /// For people.
        message: String,
    },
    /// The catalog has no endpoint for what was asked, or too many.
    #[error("service catalog: {message}")]
    Catalog {
        /// For people.
        message: String,
    },
    /// The catalog does not have the region that was named, but others.
    #[error("service catalog: {message}")]
    Region {
        /// For people.
        message: String,
    },
    /// The client cannot be set up.
    #[error("{message}")]
    Setup {
        /// For people.
        message: String,
    },
}

impl Error {
    /// When the server would like to be asked again, if it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a server is away for a moment, and does not say for how long.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Server { status: 502 | 503, retry_after: None, .. })
    }

    /// Whether a smaller question may be answered where this one was not.
    pub(crate) fn too_slow(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Server { status: 504, .. })
    }

    /// How the call is counted.
    #[must_use]
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::InvalidCredentials { .. } | Self::Unauthorized { .. } => CallOutcome::Unauthorized,
            Self::Forbidden { .. } => CallOutcome::Forbidden,
            Self::NotFound { .. } => CallOutcome::NotFound,
            Self::InvalidMarker { .. } => CallOutcome::InvalidMarker,
            Self::RateLimited { .. } => CallOutcome::RateLimited,
            Self::Server { .. } => CallOutcome::Server,
            Self::Refused { .. } => CallOutcome::Refused,
            Self::Timeout { .. } => CallOutcome::Timeout,
            Self::Tls { .. } | Self::Unreachable { .. } => CallOutcome::Unreachable,
            Self::Undecodable { .. }
            | Self::Cut { .. }
            | Self::RepeatedPage { .. }
            | Self::Catalog { .. }
            | Self::Region { .. }
            | Self::Setup { .. } => CallOutcome::Undecodable,
        }
    }
}
