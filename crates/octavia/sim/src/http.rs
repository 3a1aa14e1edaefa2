//! Requests, responses, and the services' forms of a refusal.

use serde_json::{Value, json};

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // HTTP's own words.
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

/// A request to Octavia (`/v2/lbaas/..`) or Neutron (`/v2.0/..`).
#[derive(Debug, Clone, PartialEq)]
pub struct SimRequest {
    /// The method.
    pub method: Method,
    /// The path, without a query.
    pub path: String,
    /// The query's parameters, decoded.
    pub query: Vec<(String, String)>,
    /// The revision that Neutron's object must have: `If-Match: revision_number=<it>`.
    pub revision: Option<u64>,
    /// The body; null if there is none.
    pub body: Value,
}

impl SimRequest {
    /// Returns a GET.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new(Method::Get, path, Value::Null)
    }

    /// Returns a POST.
    #[must_use]
    pub fn post(path: &str, body: Value) -> Self {
        Self::new(Method::Post, path, body)
    }

    /// Returns a PUT.
    #[must_use]
    pub fn put(path: &str, body: Value) -> Self {
        Self::new(Method::Put, path, body)
    }

    /// Returns a DELETE.
    #[must_use]
    pub fn delete(path: &str) -> Self {
        Self::new(Method::Delete, path, Value::Null)
    }

    /// Returns a request.
    #[must_use]
    pub fn new(method: Method, path: &str, body: Value) -> Self {
        Self { method, path: path.to_owned(), query: Vec::new(), revision: None, body }
    }

    /// Adds a parameter to the query.
    #[must_use]
    pub fn with_query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Makes the change conditional.
    #[must_use]
    pub fn with_revision(mut self, revision: Option<u64>) -> Self {
        self.revision = revision;
        self
    }

    /// Returns the first value of a parameter.
    pub(crate) fn parameter(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns whether a parameter is true as `oslo_utils.strutils.bool_from_string` reads it.
    pub(crate) fn flag(&self, key: &str) -> bool {
        let truths = ["1", "t", "true", "on", "y", "yes"];
        self.parameter(key).is_some_and(|value| truths.contains(&value.to_ascii_lowercase().as_str()))
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct SimResponse {
    /// The status code.
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

impl SimResponse {
    pub(crate) fn ok(status: u16, body: Value) -> Self {
        Self { status, body }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { status, body: Value::Null }
    }
}

/// A refusal, before it has the form of its service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiRefusal {
    pub(crate) status: u16,
    pub(crate) words: String,
}

impl ApiRefusal {
    pub(crate) fn new(status: u16, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    pub(crate) fn not_found(resource: &str, id: &str) -> Self {
        Self::new(404, format!("{resource} {id} not found."))
    }

    pub(crate) fn immutable(resource: &str, id: &str) -> Self {
        Self::new(409, format!("{resource} {id} is immutable and cannot be updated."))
    }

    pub(crate) fn quota(resource: &str) -> Self {
        Self::new(403, format!("Quota has been met for resources: {resource}"))
    }

    pub(crate) fn invalid(detail: impl std::fmt::Display) -> Self {
        Self::new(400, format!("Validation failure: {detail}"))
    }

    /// Returns the refusal as Octavia's framework sends it.
    pub(crate) fn by_octavia(self) -> SimResponse {
        let faultcode = if self.status < 500 { "Client" } else { "Server" };
        SimResponse::ok(self.status, json!({"faultcode": faultcode, "faultstring": self.words, "debuginfo": null}))
    }

    /// Returns the refusal as Barbican sends it.
    pub(crate) fn by_barbican(self) -> SimResponse {
        let Self { status, words } = self;
        SimResponse::ok(status, json!({"code": status, "title": "Refused", "description": words}))
    }

    /// Returns the refusal as Neutron sends it.
    pub(crate) fn by_neutron(self) -> SimResponse {
        let Self { status, words } = self;
        SimResponse::ok(status, json!({"NeutronError": {"type": "ApiRefusal", "message": words, "detail": ""}}))
    }
}
