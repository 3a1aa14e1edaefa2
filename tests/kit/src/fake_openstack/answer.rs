//! Routes a request to its answer.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use reqwest::Url;
use serde_json::{Value, json};

use super::FakeCloud;

/// A received request.
pub(super) struct Asked {
    pub method: String,
    pub path: String,
    pub token: String,
    /// The token that the request asks about (`X-Subject-Token`).
    pub subject: String,
    pub body: Value,
    url: String,
    query: Vec<(String, String)>,
}

impl Asked {
    pub(super) fn new(head: &Parts, body: Bytes) -> Self {
        let query = Url::parse(&format!("http://fake{}", head.uri));
        let query = query.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            token: header("x-auth-token").to_owned(),
            subject: header("x-subject-token").to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            url: head.uri.to_string(),
            query,
        }
    }

    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.url)
    }

    pub(super) fn query(&self, key: &str) -> Option<String> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    pub(super) fn marker(&self) -> Option<String> {
        self.query("marker")
    }

    pub(super) fn limit(&self) -> Option<usize> {
        self.query("limit")?.parse().ok()
    }
}

/// An answer.
#[derive(Clone)]
pub(super) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Answer {
    pub(super) fn text(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.to_owned() }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, &body.to_string()).with_header("content-type", "application/json")
    }

    /// Returns an answer with a body like that of an uncaught error.
    pub(super) fn status(status: u16) -> Self {
        Self::text(status, "<h1><p>fake</p></h1>")
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn unauthorized() -> Self {
        let message = "The request you have made requires authentication.";
        Self::json(401, &json!({"error": {"code": 401, "message": message, "title": "Unauthorized"}}))
    }

    /// Keystone's answer from version 28 on; earlier versions answer 500.
    pub(super) fn no_rescoping() -> Self {
        let message = "Using an application credential token to create a scoped token is not allowed.";
        Self::json(403, &json!({"error": {"code": 403, "message": message, "title": "Forbidden"}}))
    }

    pub(super) fn forbidden() -> Self {
        Self::fault(403, "Policy does not allow this request to be performed.")
    }

    pub(super) fn marker_gone(marker: &str) -> Self {
        Self::fault(400, &format!("Supplied pagination marker {marker} is not valid"))
    }

    fn not_found(id: &str) -> Self {
        Self::fault(404, &format!("{id} not found."))
    }

    fn fault(status: u16, text: &str) -> Self {
        Self::json(status, &json!({"faultcode": "Client", "faultstring": text, "debuginfo": null}))
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().append(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

impl FakeCloud {
    pub(super) fn answer(&mut self, asked: &Asked) -> Answer {
        let path: Vec<_> = asked.path.split('/').filter(|part| !part.is_empty()).collect();
        match (asked.method.as_str(), path.as_slice()) {
            ("POST", ["v3", "auth", "tokens"]) => self.issue_token(asked),
            ("GET", ["v3", rest @ ..]) => self.keystone(rest, asked),
            ("GET", []) => Answer::json(200, &json!({"versions": [{"id": "v2.0"}, {"id": "v2.26"}]})),
            ("GET", ["v2", "lbaas", rest @ ..]) if self.octavia => self.load_balancing(rest, asked),
            ("GET", ["v2.0", "lbaas", rest @ ..]) if !self.octavia => self.load_balancing(rest, asked),
            ("GET", ["v2.0", "lbaas", kind])
                if self.catalog.as_ref().is_some_and(|kinds| kinds.contains(&"network")) =>
            {
                Answer::json(200, &json!({*kind: []}))
            }
            _ => Answer::status(404),
        }
    }

    fn load_balancing(&self, path: &[&str], asked: &Asked) -> Answer {
        let Some(token) = self.token(asked) else { return Answer::unauthorized() };
        let project = match &token.project {
            Some(project) => project,
            None if token.system && self.global => "",
            None => return Answer::forbidden(),
        };
        match path {
            ["loadbalancers"] => self.page("loadbalancers", &self.load_balancers, asked, project),
            ["listeners"] => self.page("listeners", &self.listeners, asked, project),
            ["pools"] => self.page("pools", &self.pools, asked, project),
            ["l7policies"] => self.page("l7policies", &self.l7_policies, asked, project),
            ["pools", id, "members"] => match self.pools.iter().find(|row| row["id"] == *id) {
                None => Answer::not_found(id),
                Some(pool) if !self.shows_all("members") && pool["project_id"] != *project => self.hidden(id),
                Some(_) => {
                    let members = self.members.get(*id).map(Vec::as_slice).unwrap_or_default();
                    self.page("members", members, asked, project)
                }
            },
            [kind @ "loadbalancers", id] => self.one(kind, "loadbalancer", &self.load_balancers, id, project),
            [kind @ "listeners", id] => self.one(kind, "listener", &self.listeners, id, project),
            [kind @ "pools", id] => self.one(kind, "pool", &self.pools, id, project),
            _ => Answer::status(404),
        }
    }

    fn one(&self, kind: &str, singular: &str, rows: &[Value], id: &str, project: &str) -> Answer {
        match rows.iter().find(|row| row["id"] == *id) {
            None => Answer::not_found(id),
            Some(row) if !self.shows_all(kind) && row["project_id"] != *project => self.hidden(id),
            Some(row) => Answer::json(200, &json!({singular: self.shaped(row)})),
        }
    }

    /// Returns the answer for an object that exists and that the user may not see: Octavia says so, Neutron does not.
    fn hidden(&self, id: &str) -> Answer {
        if self.octavia { Answer::forbidden() } else { Answer::not_found(id) }
    }
}
