//! Errors of calls to a cloud: one variant for each failure on which callers act differently.

use std::time::Duration;

use crate::calls::CallOutcome;

/// Why a call failed. The message is human-readable: method, URL and the server's error text. Clones are cheap, because
/// all callers that waited for one token get the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Keystone answered 401 to the credentials themselves. A retry with the same credentials does not help soon: for some
    /// minutes it returns the same error without a request.
    #[error("invalid credentials: {message}")]
    InvalidCredentials {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server answered 401 to a token that had just been issued.
    #[error("the token is not accepted: {message}")]
    Unauthorized {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server answered 403, or the user has no role on the project for which a token was requested.
    #[error("forbidden: {message}")]
    Forbidden {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server answered 404: the object does not exist, or this user may not see it.
    #[error("not found: {message}")]
    NotFound {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The object that served as page marker was deleted, more often than the list is restarted.
    #[error("the list changes faster than it can be read: {message}")]
    InvalidMarker {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server says that the list continues, but returns no further page.
    #[error("the list was cut off: {message}")]
    Cut {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server returns the same page again and again.
    #[error("the server repeats itself: {message}")]
    RepeatedPage {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server answered 429, with a `Retry-After` longer than the client waits, or without one.
    #[error("throttled: {message}")]
    RateLimited {
        /// Human-readable: the request and the server's error text.
        message: String,
        /// The server's `Retry-After`, if it sent one.
        retry_after: Option<Duration>,
    },
    /// The server answered with a 5xx status.
    #[error("server error: {message}")]
    Server {
        /// Human-readable: the request and the server's error text.
        message: String,
        /// The HTTP status. A gateway's 504 means that the server was too slow for the gateway.
        status: u16,
        /// The server's `Retry-After`, if it sent one.
        retry_after: Option<Duration>,
    },
    /// Any other status: the server did not understand the request, or it redirected. Redirects are not followed.
    #[error("refused: {message}")]
    Refused {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The answer did not arrive in time.
    #[error("timed out: {message}")]
    Timeout {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The server's certificate is not trusted, or is for another name.
    #[error("TLS: {message}")]
    Tls {
        /// Human-readable: the request and the server's error text.
        message: String,
        /// Whether the certificate is signed by no trusted authority. A retry fails likewise until other authorities
        /// are configured.
        unknown_authority: bool,
    },
    /// The connection could not be made, or broke.
    #[error("cannot reach the server: {message}")]
    Unreachable {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The answer does not have the form that the API documents.
    #[error("cannot read the answer: {message}")]
    Undecodable {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The answer is longer than any that makes sense. A list with smaller pages may be read.
    #[error("the answer is too large: {message}")]
    TooLarge {
        /// Human-readable: the request and the limit.
        message: String,
    },
    /// The catalog has no endpoint for the requested service, or more than one.
    #[error("service catalog: {message}")]
    Catalog {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The catalog has other regions, but not the configured one.
    #[error("service catalog: {message}")]
    Region {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
    /// The client cannot be set up.
    #[error("{message}")]
    Setup {
        /// Human-readable: the request and the server's error text.
        message: String,
    },
}

impl Error {
    /// Returns the server's `Retry-After`, if it sent one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns whether the server is briefly unavailable (502 or 503) and did not send `Retry-After`.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Server { status: 502 | 503, retry_after: None, .. })
    }

    /// Returns whether a smaller request, such as a smaller page, may succeed where this one timed out or was too large.
    pub(crate) fn asks_too_much(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Server { status: 504, .. } | Self::TooLarge { .. })
    }

    /// Returns the outcome under which the call is counted in metrics.
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
            | Self::TooLarge { .. }
            | Self::Cut { .. }
            | Self::RepeatedPage { .. }
            | Self::Catalog { .. }
            | Self::Region { .. }
            | Self::Setup { .. } => CallOutcome::Undecodable,
        }
    }
}
