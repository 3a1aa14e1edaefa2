//! One change of the cloud: sent exactly once, with an outcome that says whether it may have happened.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::answer::{refusal, retry_after, words};
use crate::complaint::complaint;
use crate::{Complaint, Error, ServiceType};

/// What a change does to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
}

impl Verb {
    /// Returns the word for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Delete => Method::DELETE,
        }
    }
}

/// A change to send with [`Session::mutate`](crate::Session::mutate). Its `Debug` never shows the body, which may hold
/// a private key.
#[derive(Clone)]
pub struct Mutation {
    verb: Verb,
    resource: &'static str,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    if_match: Option<String>,
    body: Bytes,
    timeout: Option<Duration>,
}

impl fmt::Debug for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutation")
            .field("verb", &self.verb)
            .field("path", &self.path)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

impl Mutation {
    /// Returns a POST of `body` to `path` below the service's endpoint. `resource` is the word for metric labels, so it
    /// must be one of a few.
    #[must_use]
    pub fn create(resource: &'static str, path: &[&str], body: &Value) -> Self {
        Self::new(Verb::Create, resource, path, Bytes::from(body.to_string()))
    }

    /// Returns a PUT of `body` to `path`.
    #[must_use]
    pub fn update(resource: &'static str, path: &[&str], body: &Value) -> Self {
        Self::new(Verb::Update, resource, path, Bytes::from(body.to_string()))
    }

    /// Returns a DELETE of `path`.
    #[must_use]
    pub fn delete(resource: &'static str, path: &[&str]) -> Self {
        Self::new(Verb::Delete, resource, path, Bytes::new())
    }

    fn new(verb: Verb, resource: &'static str, path: &[&str], body: Bytes) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        Self { verb, resource, path, query: Vec::new(), if_match: None, body, timeout: None }
    }

    /// Adds a query parameter, for example `cascade=true`.
    #[must_use]
    pub fn with_query(mut self, key: &'static str, value: &str) -> Self {
        self.query.push((key, value.to_owned()));
        self
    }

    /// Makes the change conditional, for example on Neutron's `revision_number=4`.
    #[must_use]
    pub fn with_if_match(mut self, condition: &str) -> Self {
        self.if_match = Some(condition.to_owned());
        self
    }

    /// Sets how long to wait for the answer. Default: the client's [`Options::timeout`](crate::Options::timeout).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns what the call is counted as.
    #[must_use]
    pub fn kind(&self, service: ServiceType) -> MutationKind {
        MutationKind { service, verb: self.verb, resource: self.resource }
    }

    pub(crate) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    pub(crate) fn query(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.query.iter().map(|(key, value)| (*key, value.as_str()))
    }

    pub(crate) fn method(&self) -> Method {
        self.verb.method()
    }

    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the request's headers, or an error if the condition cannot be a header.
    pub(crate) fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if let Some(condition) = &self.if_match {
            let value = HeaderValue::from_str(condition)
                .map_err(|_| Error::Refused { message: format!("{condition:?} cannot be a header") })?;
            headers.insert(header::IF_MATCH, value);
        }
        Ok(headers)
    }
}

/// What a mutation is counted as: three bounded labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MutationKind {
    /// The service that the change is sent to.
    pub service: ServiceType,
    /// What the change does.
    pub verb: Verb,
    /// The kind of object that is changed.
    pub resource: &'static str,
}

/// The outcome of a mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutationResult {
    /// The service took the change: the JSON body of its answer, empty if there is none.
    Accepted(Bytes),
    /// The change did not happen.
    Refused(Refusal),
    /// The change may or may not have happened. Look it up before anything is repeated.
    Unknown(Error),
}

/// A change that did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error, human-readable, with the server's `Retry-After` if there is one.
    pub error: Error,
    /// The status of the service's answer; `None` if nothing was sent, for example for want of a token.
    pub status: Option<u16>,
    /// What the refusal means; `None` for a refusal that `error` describes well enough.
    pub complaint: Option<Complaint>,
}

impl Refusal {
    /// Returns the refusal of a change that was not sent.
    pub(crate) fn unsent(error: Error) -> Self {
        Self { error, status: None, complaint: None }
    }
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl MutationResult {
    /// Classifies the answer to a mutation. `name` is the request's name in errors. With `secret`, the service's words
    /// are left out, since they may repeat the request's body.
    pub(crate) fn of(name: &str, answer: RawAnswer, secret: bool) -> Self {
        let RawAnswer { status, headers, body } = answer;
        let code = status.as_u16();
        if status.is_success() {
            // A proxy's page with status 200 is not an answer of the service.
            let is_json = body.is_empty() || serde_json::from_slice::<IgnoredAny>(&body).is_ok();
            let message = || format!("{name}: {status} with a body that is not JSON");
            return if is_json {
                Self::Accepted(body)
            } else {
                Self::Unknown(Error::Undecodable { message: message() })
            };
        }
        let said = words(&body);
        let error = refusal(name, status, &headers, if secret { &[] } else { &body });
        let complaint = complaint(code, said.as_deref().unwrap_or_default());
        let happened_not = match code {
            // Tokens are checked before anything else.
            401 => true,
            // A proxy in front of the service gave up waiting for it.
            502 | 504 => false,
            // A limit on the rate of calls, possibly by a proxy, refuses before the service begins.
            429 => said.is_some() || retry_after(&headers).is_some(),
            // The driver failed, and Octavia has rolled its own change back. Any other fault may come after the commit.
            500 => said.is_some() && complaint.is_some(),
            // Only the service itself answers in JSON.
            _ => said.is_some() && !status.is_redirection(),
        };
        if !happened_not {
            return Self::Unknown(error);
        }
        let complaint = complaint.map(|complaint| if secret { without_words(complaint) } else { complaint });
        Self::Refused(Refusal { error, status: Some(code), complaint })
    }

    /// Returns the error, unless the change was accepted.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Accepted(_) => None,
            Self::Refused(refusal) => Some(&refusal.error),
            Self::Unknown(error) => Some(error),
        }
    }
}

fn without_words(complaint: Complaint) -> Complaint {
    match complaint {
        Complaint::Validation { .. } => Complaint::Validation { detail: String::new() },
        Complaint::Unsupported { .. } => Complaint::Unsupported { what: String::new() },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: u16, headers: &[(header::HeaderName, &'static str)], body: &'static str, secret: bool) -> String {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let status = StatusCode::from_u16(status).unwrap();
        let answer = RawAnswer { status, headers, body: Bytes::from_static(body.as_bytes()) };
        match MutationResult::of("POST http://o/v2/lbaas/pools", answer, secret) {
            MutationResult::Accepted(_) => "accepted".into(),
            MutationResult::Refused(Refusal { complaint, .. }) => format!("refused {complaint:?}"),
            MutationResult::Unknown(_) => "unknown".into(),
        }
    }

    #[test]
    fn only_an_answer_of_the_service_itself_settles_a_change() {
        let fault = r#"{"faultcode":"Client","faultstring":"Load Balancer 1 is immutable and cannot be updated."}"#;
        let busy = r#"{"faultcode":"Server","faultstring":"Project busy.  Unable to lock the project."}"#;
        let driver = r#"{"faultcode":"Server","faultstring":"Provider 'lab' reports error: it broke"}"#;
        let page = "<html>It works!</html>";
        for (status, body, expected) in [
            (201, r#"{"pool":{"id":"1"}}"#, "accepted"),
            (204, "", "accepted"),
            (200, page, "unknown"),
            (302, "", "unknown"),
            (307, fault, "unknown"),
            (409, fault, "refused Some(Immutable)"),
            (409, page, "unknown"),
            (404, r#"{"faultstring":"Pool 1 not found."}"#, "refused None"),
            (404, page, "unknown"),
            (429, page, "unknown"),
            (500, driver, "refused Some(ProviderFailed)"),
            (500, r#"{"faultstring":"no idea"}"#, "unknown"),
            (502, busy, "unknown"),
            (503, busy, "refused Some(Busy)"),
            (503, page, "unknown"),
            (504, busy, "unknown"),
        ] {
            assert_eq!(result(status, &[], body, false), expected, "{status} {body}");
        }
        assert_eq!(result(429, &[(header::RETRY_AFTER, "7")], page, false), "refused Some(Busy)");
    }

    #[test]
    fn a_key_managers_words_are_left_out() {
        let echo = r#"{"title":"Bad Request","description":"very-secret is not base64"}"#;
        assert_eq!(result(400, &[], echo, true), r#"refused Some(Validation { detail: "" })"#);
        let answer = RawAnswer {
            status: StatusCode::BAD_REQUEST,
            headers: HeaderMap::new(),
            body: Bytes::from_static(echo.as_bytes()),
        };
        let shown = format!("{:?}", MutationResult::of("POST http://b/v1/secrets", answer, true));
        assert!(!shown.contains("very-secret"), "{shown}");
    }

    #[test]
    fn debug_shows_no_body() {
        let mutation = Mutation::create("secret", &["secrets"], &serde_json::json!({"payload": "very-secret"}));
        let shown = format!("{mutation:?}");
        assert!(shown.contains("secrets") && !shown.contains("very-secret"), "{shown}");
    }
}
