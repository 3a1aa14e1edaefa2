//! A key manager: secrets by name, as much of Barbican as load balancers need.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, Method, SimRequest, SimResponse};
use crate::objects::uuid;
use crate::render::time;
use crate::schema::Fields;

/// Where the references of secrets lead.
const AT: &str = "http://key-manager.example/v1/secrets";
/// The length of a page where none is asked for.
const PAGE: usize = 10;

/// What a key manager lets be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyManagerMode {
    /// Everything.
    #[default]
    Open,
    /// Nothing: each request is refused with 403, and Octavia cannot read certificates either.
    Forbidden,
    /// It does not answer in time.
    Broken,
}

/// Secrets by ID: their names, and when they were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyManager {
    secrets: BTreeMap<String, (String, Value)>,
    made: u64,
    pub(crate) mode: KeyManagerMode,
}

impl CloudModel {
    /// Sets what the key manager lets be done.
    pub fn set_key_manager(&mut self, mode: KeyManagerMode) {
        self.keys.mode = mode;
    }

    /// Returns the names of all secrets, by reference.
    #[must_use]
    pub fn secrets(&self) -> BTreeMap<String, String> {
        self.keys.secrets.iter().map(|(id, (name, _))| (format!("{AT}/{id}"), name.clone())).collect()
    }

    pub(crate) fn key_manager(&mut self, path: &[&str], request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        match self.keys.mode {
            KeyManagerMode::Open => {}
            KeyManagerMode::Forbidden => {
                return Err(ApiRefusal::new(
                    403,
                    "Secret operation attempt not allowed - please review your user/project privileges",
                ));
            }
            KeyManagerMode::Broken => return Err(ApiRefusal::new(503, "Service Unavailable")),
        }
        let not_found = || ApiRefusal::new(404, "Not Found. Sorry but your secret is in another castle.");
        match (request.method, path) {
            (Method::Get, ["secrets"]) => Ok(self.keys.list(request)),
            (Method::Post, ["secrets"]) => {
                let id = self.keys.create(&request.body, time(self.now))?;
                Ok(SimResponse::ok(201, json!({"secret_ref": format!("{AT}/{id}")})))
            }
            (Method::Delete, ["secrets", id]) => {
                self.keys.secrets.remove(*id).ok_or_else(not_found)?;
                Ok(SimResponse::empty(204))
            }
            _ => Err(not_found()),
        }
    }

    /// Checks that Octavia can read what a listener refers to: `_validate_tls_refs`.
    pub(crate) fn check_certificates(&self, protocol: &str, fields: &Fields) -> Result<(), ApiRefusal> {
        let references = references(fields);
        if protocol != "TERMINATED_HTTPS" && !references.is_empty() {
            let words = "Certificate container references are only allowed on TERMINATED_HTTPS protocol listeners.";
            return Err(ApiRefusal::invalid(words));
        }
        let is_bad = |one: &&&str| self.keys.mode != KeyManagerMode::Open || self.keys.named(one).is_none();
        let bad: Vec<&&str> = references.iter().filter(is_bad).collect();
        if bad.is_empty() {
            Ok(())
        } else {
            Err(ApiRefusal::new(400, format!("Could not retrieve certificate: {bad:?}")))
        }
    }

    /// Returns the names of the secrets that a listener refers to, the default first.
    pub(crate) fn named_certificates(&self, fields: &Fields) -> Vec<String> {
        references(fields).into_iter().filter_map(|one| self.keys.named(one)).map(str::to_owned).collect()
    }
}

impl KeyManager {
    fn named(&self, reference: &str) -> Option<&str> {
        let id = reference.strip_prefix(AT)?.strip_prefix('/')?;
        self.secrets.get(id).map(|(name, _)| name.as_str())
    }

    fn create(&mut self, body: &Value, created: Value) -> Result<String, ApiRefusal> {
        let name = body["name"].as_str().filter(|name| name.len() <= 255);
        let name = name.ok_or_else(|| ApiRefusal::new(400, "Provided object does not match schema 'Secret'"))?;
        self.made += 1;
        let id = uuid(2, self.made);
        self.secrets.insert(id.clone(), (name.to_owned(), created));
        Ok(id)
    }

    fn list(&self, request: &SimRequest) -> SimResponse {
        let number = |key: &str, usual| request.parameter(key).and_then(|value| value.parse().ok()).unwrap_or(usual);
        let row = |(id, (name, created)): (&String, &(String, Value))| json!({"name": name, "created": created, "secret_ref": format!("{AT}/{id}"), "status": "ACTIVE"});
        let rows: Vec<Value> =
            self.secrets.iter().skip(number("offset", 0)).take(number("limit", PAGE)).map(row).collect();
        SimResponse::ok(200, json!({"secrets": rows, "total": self.secrets.len()}))
    }
}

fn references(fields: &Fields) -> Vec<&str> {
    let others = fields.get("sni_container_refs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let default = fields.get("default_tls_container_ref").and_then(Value::as_str);
    default.into_iter().chain(others.iter().filter_map(Value::as_str)).collect()
}
