//! Errors of calls to an API server, one variant for each way in which callers react.

use std::time::Duration;

use gimbal_error_text::first_line;
use gimbal_kubernetes_objects::Status;
use http::StatusCode;

/// The longest Retry-After that is obeyed. A wrong value from a server or a proxy must not stop a client for a day.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Why a call failed. The message is human-readable and may name the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// 404, and the answer names the object: it does not exist, or its namespace does not. The kind is served, so this is
    /// proof that the object is absent, unless the call was for its status: a custom resource that has none answers so too.
    #[error("not found: {message}")]
    NotFound {
        /// Human-readable message.
        message: String,
        /// Whether it is the namespace that is missing (an answer to a create).
        namespace: bool,
    },
    /// 404, and the answer names no object: the server does not serve this kind, version or subresource, or something else
    /// than an API server answers. This proves nothing about objects: the kind is unknown, not empty.
    #[error("not served: {message}")]
    NotServed {
        /// Human-readable message.
        message: String,
    },
    /// 409 to a create: the name is taken.
    #[error("already exists: {message}")]
    AlreadyExists {
        /// Human-readable message.
        message: String,
    },
    /// 409: the object has another version or another UID than the call named.
    #[error("conflict: {message}")]
    Conflict {
        /// Human-readable message.
        message: String,
    },
    /// 403: missing rights, an exceeded quota, or an admission rule.
    #[error("forbidden: {message}")]
    Forbidden {
        /// Human-readable message.
        message: String,
    },
    /// 403 to a create in a namespace that is being deleted.
    #[error("the namespace is being deleted: {message}")]
    NamespaceTerminating {
        /// Human-readable message.
        message: String,
    },
    /// 400, 422 and every other refusal of the request.
    #[error("refused: {message}")]
    Invalid {
        /// Human-readable message.
        message: String,
        /// The HTTP status; `None` if it was refused before it was sent.
        status: Option<u16>,
    },
    /// 413, or a request above the size limit of etcd.
    #[error("too large: {message}")]
    TooLarge {
        /// Human-readable message.
        message: String,
    },
    /// 429: too many requests.
    #[error("throttled: {message}")]
    Throttled {
        /// Human-readable message.
        message: String,
        /// The pause that the server asks for, at most five minutes.
        retry_after: Option<Duration>,
    },
    /// 410: the version or the page is too old.
    #[error("gone: {message}")]
    Gone {
        /// Human-readable message.
        message: String,
    },
    /// 401: the credentials are not accepted.
    #[error("unauthorized: {message}")]
    Unauthorized {
        /// Human-readable message.
        message: String,
    },
    /// 5xx. Whether a write took place is unknown.
    #[error("server error: {message}")]
    Server {
        /// Human-readable message.
        message: String,
        /// The HTTP status.
        status: u16,
        /// The pause that the server asks for, at most five minutes.
        retry_after: Option<Duration>,
    },
    /// No answer within the time-out. Whether a write took place is unknown.
    #[error("timed out: {message}")]
    Timeout {
        /// Human-readable message.
        message: String,
    },
    /// No connection, or a broken one. Whether a write took place is unknown.
    #[error("cannot reach the API server: {message}")]
    Transport {
        /// Human-readable message.
        message: String,
    },
    /// An answer began and did not end, because the connection broke. Whether a write took place is unknown.
    #[error("the answer broke off: {message}")]
    Truncated {
        /// Human-readable message.
        message: String,
    },
    /// The write was not sent, because the permit had ended (see [`Cluster::only_while`](crate::Cluster::only_while)).
    #[error("not sent: the permit to write had ended")]
    Withheld,
    /// An answer that does not follow the API.
    #[error("cannot read the answer: {message}")]
    Undecodable {
        /// Human-readable message.
        message: String,
    },
}

impl ApiError {
    /// Whether a create failed because its namespace does not exist (yet).
    #[must_use]
    pub fn namespace_missing(&self) -> bool {
        matches!(self, Self::NotFound { namespace: true, .. })
    }

    /// Whether there was no answer: the server is down or cannot be reached. False for [`ApiError::Truncated`]: retries
    /// cost such a server as much as any other call.
    #[must_use]
    pub fn nobody_answered(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Transport { .. })
    }

    /// Returns the HTTP status that stands for this answer; `None` if there was none. What etcd finds too large, or a patch
    /// of another object, has a different one on the wire.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Unauthorized { .. } => Some(401),
            Self::Forbidden { .. } | Self::NamespaceTerminating { .. } => Some(403),
            Self::NotFound { .. } | Self::NotServed { .. } => Some(404),
            Self::AlreadyExists { .. } | Self::Conflict { .. } => Some(409),
            Self::Gone { .. } => Some(410),
            Self::TooLarge { .. } => Some(413),
            Self::Throttled { .. } => Some(429),
            Self::Invalid { status, .. } => *status,
            Self::Server { status, .. } => Some(*status),
            Self::Timeout { .. } | Self::Transport { .. } | Self::Withheld => None,
            // An answer began, and its status was lost with the rest.
            Self::Truncated { .. } | Self::Undecodable { .. } => None,
        }
    }

    /// Returns the pause that the server asks for, if it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the API server is unusable: it cannot be reached, fails itself, breaks off its answers, or does not accept the credentials.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Transport { .. }
                | Self::Timeout { .. }
                | Self::Truncated { .. }
                | Self::Server { .. }
                | Self::Unauthorized { .. }
        )
    }

    /// Reads a refusal: the HTTP status, the Retry-After header and a body that should be a `Status`.
    pub(crate) fn from_answer(code: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| Status {
            // A proxy answers in plain text, and so does the server for an unknown path.
            message: first_line(&String::from_utf8_lossy(body)),
            ..Status::default()
        });
        Self::from_status(code, retry_after, status)
    }

    /// Reads a `Status`, whether it came as an answer or as an event of a watch.
    pub(crate) fn from_status(code: StatusCode, retry_after: Option<Duration>, status: Status) -> Self {
        let details = status.details.unwrap_or_default();
        let message = match status.message {
            message if message.is_empty() => format!("status {code}"),
            message => message,
        };
        let asked = u64::from(details.retry_after_seconds);
        let retry_after = retry_after.or_else(|| (asked > 0).then(|| Duration::from_secs(asked)));
        let retry_after = retry_after.map(|time| time.min(LONGEST_RETRY_AFTER));
        let terminating = || details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
        let another_uid = || details.causes.iter().any(|cause| cause.field == "metadata.uid");
        match code.as_u16() {
            // etcd's own limits come back as internal errors.
            _ if message.contains("request is too large") || message.contains("larger than max") => {
                Self::TooLarge { message }
            }
            401 => Self::Unauthorized { message },
            403 if terminating() => Self::NamespaceTerminating { message },
            403 => Self::Forbidden { message },
            // A path that the server does not know is answered in plain text ("404 page not found"), and one below a
            // group that it does know by a Status whose details are empty.
            404 if details.name.is_empty() => Self::NotServed { message },
            404 => Self::NotFound { message, namespace: details.kind == "namespaces" },
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists { message },
            409 => Self::Conflict { message },
            // A patch that names the UID of another object: to the server it tries to change an immutable field.
            422 if another_uid() => Self::Conflict { message },
            410 => Self::Gone { message },
            413 => Self::TooLarge { message },
            429 => Self::Throttled { message, retry_after },
            status @ 500.. => Self::Server { message, status, retry_after },
            status => Self::Invalid { message, status: Some(status) },
        }
    }

    pub(crate) fn undecodable(what: &str, error: &serde_json::Error) -> Self {
        Self::Undecodable { message: format!("{what}: {error}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: u16, body: &str) -> ApiError {
        ApiError::from_answer(StatusCode::from_u16(code).unwrap(), None, body.as_bytes())
    }

    #[test]
    fn statuses() {
        let m = || "m".to_owned();
        for (code, body, expected) in [
            (400, r#"{"message":"m","reason":"BadRequest"}"#, ApiError::Invalid { message: m(), status: Some(400) }),
            (401, r#"{"message":"m"}"#, ApiError::Unauthorized { message: m() }),
            (403, r#"{"message":"m","reason":"Forbidden"}"#, ApiError::Forbidden { message: m() }),
            (
                403,
                r#"{"message":"m","reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
                ApiError::NamespaceTerminating { message: m() },
            ),
            (
                404,
                r#"{"message":"m","reason":"NotFound","details":{"name":"x","kind":"services"}}"#,
                ApiError::NotFound { message: m(), namespace: false },
            ),
            (
                404,
                r#"{"message":"m","reason":"NotFound","details":{"name":"x","kind":"namespaces"}}"#,
                ApiError::NotFound { message: m(), namespace: true },
            ),
            (409, r#"{"message":"m","reason":"AlreadyExists"}"#, ApiError::AlreadyExists { message: m() }),
            (409, r#"{"message":"m","reason":"Conflict"}"#, ApiError::Conflict { message: m() }),
            (410, r#"{"message":"m","reason":"Expired"}"#, ApiError::Gone { message: m() }),
            (413, r#"{"message":"m"}"#, ApiError::TooLarge { message: m() }),
            (422, r#"{"message":"m","reason":"Invalid"}"#, ApiError::Invalid { message: m(), status: Some(422) }),
            (
                422,
                r#"{"message":"m","reason":"Invalid","details":{"causes":[{"field":"metadata.uid"}]}}"#,
                ApiError::Conflict { message: m() },
            ),
            (
                429,
                r#"{"message":"m","details":{"retryAfterSeconds":7}}"#,
                ApiError::Throttled { message: m(), retry_after: Some(Duration::from_secs(7)) },
            ),
            (500, r#"{"message":"m"}"#, ApiError::Server { message: m(), status: 500, retry_after: None }),
            (503, "m\nmore", ApiError::Server { message: m(), status: 503, retry_after: None }),
            (502, "", ApiError::Server { message: "status 502 Bad Gateway".into(), status: 502, retry_after: None }),
            (
                500,
                r#"{"message":"etcdserver: request is too large"}"#,
                ApiError::TooLarge { message: "etcdserver: request is too large".into() },
            ),
        ] {
            let error = read(code, body);
            assert_eq!(error, expected, "{code} {body}");
            let stands_for = match (code, &error) {
                (422, ApiError::Conflict { .. }) => 409,
                (500, ApiError::TooLarge { .. }) => 413,
                _ => code,
            };
            assert_eq!(error.status(), Some(stands_for), "{code} {body}");
        }
    }

    #[test]
    fn nobody_is_asked_to_wait_for_ever() {
        for seconds in [301, u64::MAX] {
            let error = ApiError::from_answer(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_secs(seconds)), b"");
            assert_eq!(error.retry_after(), Some(Duration::from_secs(300)), "{seconds}");
        }
        let error = read(503, r#"{"details":{"retryAfterSeconds":4294967295}}"#);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(300)));
    }

    #[test]
    fn only_a_missing_namespace_is_one() {
        assert!(read(404, r#"{"details":{"name":"n","kind":"namespaces"}}"#).namespace_missing());
        assert!(!read(404, r#"{"details":{"name":"n","kind":"services"}}"#).namespace_missing());
        assert!(!read(403, r#"{"details":{"name":"n","kind":"namespaces"}}"#).namespace_missing());
    }

    #[test]
    fn only_an_answer_that_names_an_object_says_that_it_is_absent() {
        for body in [
            "404 page not found\n",
            "<html>404</html>",
            "",
            r#"{"message":"m","reason":"NotFound"}"#,
            r#"{"message":"m","reason":"NotFound","details":{}}"#,
            r#"{"message":"m","reason":"NotFound","details":{"kind":"services"}}"#,
        ] {
            assert!(matches!(read(404, body), ApiError::NotServed { .. }), "{body}");
        }
    }
}
