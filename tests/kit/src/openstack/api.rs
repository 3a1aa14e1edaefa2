//! OpenStack's APIs in plain JSON, as the administrator.

use std::path::Path;

use anyhow::Context as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::layout::Layout;
use super::{ADMIN_PASSWORD, Service};
pub use crate::cluster::{Refused, USER_AGENT};

/// One service, with a token that is renewed when it has expired.
pub struct Api {
    base: String,
    identity: String,
    client: reqwest::Client,
    token: Mutex<Option<String>>,
}

impl Api {
    /// Returns Keystone's API.
    pub(super) fn admin(layout: &Layout) -> anyhow::Result<Self> {
        Self::new(layout, layout.identity())
    }

    /// Returns Octavia's API, below `/v2/lbaas`.
    pub(super) fn octavia(layout: &Layout) -> anyhow::Result<Self> {
        Self::new(layout, format!("{}/v2/lbaas", layout.url(Service::Octavia)))
    }

    /// Returns the test hooks of a service.
    pub(super) fn hooks(layout: &Layout, service: Service) -> anyhow::Result<Self> {
        Self::new(layout, format!("{}/lab", layout.url(service)))
    }

    /// Returns the key manager's API, below `/v1`.
    pub(super) fn key_manager(layout: &Layout) -> anyhow::Result<Self> {
        Self::new(layout, format!("{}/v1", layout.url(Service::Barbican)))
    }

    /// Returns the API of Neutron or neutron-lbaas, below `/v2.0`: `/lbaas/…`, networks and subnets.
    pub(super) fn neutron(layout: &Layout, service: Service) -> anyhow::Result<Self> {
        Self::new(layout, format!("{}/v2.0", layout.url(service)))
    }

    fn new(layout: &Layout, base: String) -> anyhow::Result<Self> {
        let client = client(layout.ca.as_deref())?;
        Ok(Self { base, identity: layout.identity(), client, token: Mutex::new(None) })
    }

    /// GET.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// POST.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send(Method::POST, path, body).await
    }

    /// PUT; without a body if `body` is null.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send(Method::PUT, path, body).await
    }

    /// PUT, if the object of Neutron has this revision.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn put_at(&self, path: &str, body: &Value, revision: u64) -> Result<Value, Refused> {
        self.send_if(Method::PUT, path, body, Some(format!("revision_number={revision}"))).await
    }

    /// PATCH.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send(Method::PATCH, path, body).await
    }

    /// DELETE.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn delete(&self, path: &str) -> Result<Value, Refused> {
        self.send(Method::DELETE, path, &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send_if(method, path, body, None).await
    }

    async fn send_if(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        condition: Option<String>,
    ) -> Result<Value, Refused> {
        let mut fresh = false;
        loop {
            // Requests side by side share the token, not the lock.
            let token = {
                let mut token = self.token.lock().await;
                match &*token {
                    Some(token) => token.clone(),
                    None => {
                        fresh = true;
                        token.insert(self.log_in().await?).clone()
                    }
                }
            };
            let mut request = self.client.request(method.clone(), format!("{}{path}", self.base));
            if let Some(condition) = &condition {
                request = request.header("If-Match", condition);
            }
            match answer(request.header("X-Auth-Token", &token), body).await {
                Err(refused) if refused.code == 401 && !fresh => {
                    self.token.lock().await.take_if(|known| *known == token);
                }
                other => return other.map(|(value, _)| value),
            }
        }
    }

    /// Returns the same service as another user, who logs in with `auth`; valid for the life of one token.
    pub(super) async fn as_user(&self, auth: &Value) -> Result<Self, Refused> {
        let body = json!({"auth": auth});
        let (_, token) = answer(self.client.post(format!("{}/auth/tokens", self.identity)), &body).await?;
        let (base, identity) = (self.base.clone(), self.identity.clone());
        Ok(Self { base, identity, client: self.client.clone(), token: Mutex::new(token) })
    }

    async fn log_in(&self) -> Result<String, Refused> {
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": "admin", "domain": domain, "password": ADMIN_PASSWORD}},
            },
            "scope": {"project": {"name": "admin", "domain": domain}},
        }});
        let (_, token) = answer(self.client.post(format!("{}/auth/tokens", self.identity)), &body).await?;
        token.ok_or_else(|| Refused { code: 201, message: "Keystone gave no token".to_owned() })
    }
}

/// Returns a client that trusts only this authority, if there is one.
pub(super) fn client(ca: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    // Connections to a restarted service look alive but are not, so none is kept.
    let mut builder = reqwest::Client::builder().user_agent(USER_AGENT).no_proxy().pool_max_idle_per_host(0);
    if let Some(ca) = ca {
        let pem = std::fs::read(ca).with_context(|| format!("cannot read {}", ca.display()))?;
        builder = builder.tls_certs_only([reqwest::Certificate::from_pem(&pem)?]);
    }
    Ok(builder.build()?)
}

/// Returns the ID of an object.
pub(super) fn id(object: &Value) -> Result<String, Refused> {
    let id = object["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| Refused { code: 200, message: format!("an object without an ID: {object}") })
}

async fn answer(request: reqwest::RequestBuilder, body: &Value) -> Result<(Value, Option<String>), Refused> {
    let lost = |error: reqwest::Error| Refused { code: 0, message: format!("{:#}", anyhow::Error::from(error)) };
    let request = if body.is_null() { request } else { request.json(body) };
    let answer = request.send().await.map_err(lost)?;
    let code = answer.status();
    let token = answer.headers().get("x-subject-token").and_then(|token| token.to_str().ok()).map(str::to_owned);
    let text = answer.text().await.map_err(lost)?;
    if !code.is_success() {
        return Err(Refused { code: code.as_u16(), message: text });
    }
    if text.is_empty() {
        return Ok((Value::Null, token));
    }
    let value = serde_json::from_str(&text);
    let value = value.map_err(|error| Refused { code: code.as_u16(), message: format!("{error} in {text:?}") })?;
    Ok((value, token))
}
