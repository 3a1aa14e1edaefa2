//! The Kubernetes API in plain JSON.

use std::path::Path;

use anyhow::Context as _;
pub use reqwest::Method;
use serde_json::Value;

/// The user agent of this client, so that an audit can leave its calls out.
pub const USER_AGENT: &str = "gimbal-testkit";

const JSON: &str = "application/json";

/// An API server, as one user.
#[derive(Clone)]
pub struct Api {
    url: String,
    token: String,
    client: reqwest::Client,
}

/// A request that did not succeed.
#[derive(Debug)]
pub struct Refused {
    /// HTTP status; 0 without an answer.
    pub code: u16,
    /// The server's message.
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refused {}

impl Api {
    pub(super) fn connect(url: &str, token: &str, ca: &Path) -> anyhow::Result<Self> {
        let ca = std::fs::read(ca).with_context(|| format!("cannot read {}", ca.display()))?;
        let client = reqwest::Client::builder()
            .tls_certs_only(reqwest::Certificate::from_pem_bundle(&ca)?)
            .user_agent(USER_AGENT)
            .no_proxy()
            .build()?;
        Ok(Self { url: url.to_owned(), token: token.to_owned(), client })
    }

    /// Returns the HTTP client: it trusts the server's certificate and has no credentials of its own.
    pub(crate) fn client(&self) -> reqwest::Client {
        self.client.clone()
    }

    /// GET.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.json(Method::GET, path, None).await
    }

    /// Returns the objects of a list.
    ///
    /// # Errors
    /// Every answer but success.
    pub async fn items(&self, path: &str) -> Result<Vec<Value>, Refused> {
        let mut list = self.get(path).await?;
        Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// POST.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.json(Method::POST, path, Some(body)).await
    }

    /// PUT.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.json(Method::PUT, path, Some(body)).await
    }

    /// PATCH, as a merge patch.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.json(Method::PATCH, path, Some(body)).await
    }

    /// DELETE.
    ///
    /// # Errors
    /// Anything but success.
    pub async fn delete(&self, path: &str) -> Result<Value, Refused> {
        self.json(Method::DELETE, path, None).await
    }

    /// Reads a resource that is not JSON.
    ///
    /// # Errors
    /// Every answer but success.
    pub async fn text(&self, path: &str) -> Result<String, Refused> {
        let answer = self.send(Method::GET, path, None, "*/*").await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Sends any request unchanged, with a body of this content type, and returns the answer's body in the requested
    /// form.
    ///
    /// # Errors
    /// Every answer but success.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        (kind, accepted): (&str, &str),
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Refused> {
        self.send(method, path, Some((kind, body)), accepted).await
    }

    async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Refused> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { JSON };
        let body = body.map(|body| (kind, body.to_string().into_bytes()));
        let answer = self.send(method, path, body, JSON).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            let text = String::from_utf8_lossy(&answer);
            Refused { code: 200, message: format!("{error} in {text:?}") }
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
        accepted: &str,
    ) -> Result<Vec<u8>, Refused> {
        let lost = |error: reqwest::Error| Refused { code: 0, message: format!("{:#}", anyhow::Error::from(error)) };
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        request = request.header("accept", accepted);
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body);
        }
        let answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(lost)?;
        if status.is_success() {
            return Ok(body.into());
        }
        let text = String::from_utf8_lossy(&body);
        let message = serde_json::from_str::<Value>(&text).ok();
        let message = message.as_ref().and_then(|status| status.get("message")?.as_str()).unwrap_or(&text);
        Err(Refused { code: status.as_u16(), message: message.to_owned() })
    }
}
