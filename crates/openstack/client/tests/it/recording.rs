//! Answers of real services as files: what they say now is compared with what was recorded.
#![allow(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::path::Path;

use gimbal_testkit::openstack::{Credentials, OpenStack, Service};
use reqwest::Method;
use serde_json::{Value, json};

/// Sends requests as they are, with one user's token of one project.
pub struct Raw {
    http: reqwest::Client,
    token: String,
    octavia: String,
    neutron: String,
}

/// A request and its answer.
pub struct Exchange {
    request: String,
    status: u16,
    body: String,
}

impl Exchange {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Raw {
    pub async fn connect(cloud: &OpenStack, credentials: &Credentials, project: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let user = json!({
            "name": credentials.username, "domain": {"name": credentials.user_domain}, "password": credentials.password,
        });
        let auth = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": {"id": project}},
        }});
        let answer = http.post(format!("{}/auth/tokens", credentials.keystone_url)).json(&auth).send().await.unwrap();
        let token = answer.headers()["x-subject-token"].to_str().unwrap().to_owned();
        let (octavia, neutron) = (cloud.url(Service::Octavia), cloud.url(Service::Neutron));
        Self { http, token, octavia, neutron }
    }

    /// Returns the same with another token.
    pub fn with_token(&self, token: &str) -> Self {
        let (octavia, neutron) = (self.octavia.clone(), self.neutron.clone());
        Self { http: self.http.clone(), token: token.to_owned(), octavia, neutron }
    }

    pub async fn octavia(&self, method: Method, path: &str, body: &Value) -> Exchange {
        self.send(&self.octavia, method, &format!("/v2/lbaas/{path}"), &[], body).await
    }

    pub async fn neutron(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Exchange {
        self.send(&self.neutron, method, &format!("/v2.0/{path}"), headers, body).await
    }

    async fn send(&self, url: &str, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Exchange {
        let mut request = self.http.request(method.clone(), format!("{url}{path}")).header("x-auth-token", &self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        Exchange { request: format!("{method} {path}"), status, body: answer.text().await.unwrap() }
    }
}

/// Compares an answer with the one that was recorded under `name`, apart from IDs.
pub fn keep(name: &str, exchange: &Exchange) {
    let Exchange { request, status, body } = exchange;
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.clone()));
    let recorded = json!({"request": request, "status": status, "body": body});
    let text = without_ids(&format!("{}\n", serde_json::to_string_pretty(&recorded).unwrap()));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/openstack/recorded/mutations");
    let file = dir.join(format!("{name}.json"));
    if std::env::var_os("GIMBAL_RECORD").is_some() {
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    let before = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}; now {text}"));
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parse(&text), parse(&before), "{name}");
}

/// Numbers the IDs in a text, which differ with each run.
fn without_ids(text: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut result = text.to_owned();
    for start in 0..text.len() {
        let Some(id) = text.get(start..start + 36).filter(|id| is_id(id)) else { continue };
        if !seen.contains(&id) {
            seen.push(id);
            result = result.replace(id, &format!("00000000-0000-4000-8000-{:012}", seen.len()));
        }
    }
    result
}

fn is_id(text: &str) -> bool {
    text.char_indices().all(|(place, char)| match place {
        8 | 13 | 18 | 23 => char == '-',
        _ => char.is_ascii_hexdigit() && !char.is_ascii_uppercase(),
    })
}
