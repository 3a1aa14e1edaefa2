//! One change of the cloud, as it is sent.

use std::fmt;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{CallLabels, Error, ServiceType, Verb};

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

    /// Returns a POST of `body` with a payload in base64 under `payload`. The request is wiped from memory when it was sent, as far as
    /// it is held here.
    #[must_use]
    pub fn create_secret(resource: &'static str, path: &[&str], body: &Value, payload: &[u8]) -> Self {
        let encoded = Zeroizing::new(BASE64_STANDARD.encode(payload));
        let body = body.to_string();
        let start = body.strip_suffix('}').unwrap_or_default();
        let mut bytes = Zeroizing::new(Vec::with_capacity(start.len() + encoded.len() + 16));
        for part in [start, ",\"payload\":\"", encoded.as_str(), "\"}"] {
            bytes.extend_from_slice(part.as_bytes());
        }
        Self::new(Verb::Create, resource, path, Bytes::from_owner(bytes))
    }

    /// Returns a PUT of `body` to `path`; without a body if that is null.
    #[must_use]
    pub fn update(resource: &'static str, path: &[&str], body: &Value) -> Self {
        // Octavia refuses a failover with any.
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        Self::new(Verb::Update, resource, path, body)
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

    /// Sets how long to wait for the answer. Default: the client's [`ClientOptions::timeout`](crate::ClientOptions::timeout).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the labels that the call is counted under.
    #[must_use]
    pub fn labels(&self, service: ServiceType) -> CallLabels {
        CallLabels { service, verb: self.verb, resource: self.resource }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_of_nothing_has_no_body() {
        let failover = Mutation::update("loadbalancer", &["loadbalancers", "1", "failover"], &Value::Null);
        assert_eq!(failover.body().len(), 0);
    }

    #[test]
    fn a_payload_is_one_more_field_of_the_body() {
        let mutation = Mutation::create_secret("secret", &["secrets"], &serde_json::json!({"name": "n"}), b"PK\x00");
        let body: Value = serde_json::from_slice(mutation.body()).unwrap();
        assert_eq!(body, serde_json::json!({"name": "n", "payload": "UEsA"}));
        assert!(!format!("{mutation:?}").contains("UEsA"));
    }

    #[test]
    fn debug_shows_no_body() {
        let mutation = Mutation::create("secret", &["secrets"], &serde_json::json!({"payload": "very-secret"}));
        let shown = format!("{mutation:?}");
        assert!(shown.contains("secrets") && !shown.contains("very-secret"), "{shown}");
    }
}
