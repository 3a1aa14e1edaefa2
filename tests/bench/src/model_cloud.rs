//! The model of Octavia and Neutron behind HTTP, with a scripted Keystone before it: for sizes that the real services would
//! take hours to make.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::Query;
use axum::http::{HeaderMap, Method as HttpMethod, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use gimbal_octavia_sim::{CloudModel, Method, Provider, SimRequest, SimResponse};
use gimbal_testkit::fake_openstack::FakeOpenStack;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The project of everything.
pub const PROJECT: &str = "p1";
/// The range of VIPs.
const RANGE: &str = "10.96.0.0/16";
/// How long the provider works on a change.
const WORK: Duration = Duration::from_millis(50);

/// A running cloud. It ends when it is dropped.
pub struct ModelCloud {
    keystone: FakeOpenStack,
    url: String,
    services: Arc<Mutex<Services>>,
    server: JoinHandle<()>,
}

struct Services {
    model: CloudModel,
    begin: Instant,
    subnet: String,
    changes: usize,
}

impl ModelCloud {
    /// Starts a cloud with one subnet.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> anyhow::Result<Self> {
        let keystone = FakeOpenStack::start().await?;
        keystone.set(|cloud| cloud.project(PROJECT, "alpha"));
        let mut provider = Provider::default();
        (provider.create_time, provider.update_time) = (WORK, WORK);
        let mut model = CloudModel::with_provider(provider);
        let subnet = model.add_subnet(RANGE);
        let services = Arc::new(Mutex::new(Services { model, begin: Instant::now(), subnet, changes: 0 }));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = services.clone();
        let router = Router::new()
            .fallback(async move |method, uri, headers, body| lock(&shared).serve(&method, &uri, &headers, &body));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the model of the cloud has ended: {error}");
            }
        });
        Ok(Self { keystone, url, services, server })
    }

    /// Writes what a Secret with the cloud's credentials holds into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_credentials(&self, dir: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(dir)?;
        self.keystone.write_credentials(dir)?;
        for key in ["octaviaUrl", "neutronUrl"] {
            std::fs::write(dir.join(key), &self.url)?;
        }
        Ok(())
    }

    /// Returns the ID of the subnet.
    #[must_use]
    pub fn subnet(&self) -> String {
        lock(&self.services).subnet.clone()
    }

    /// Returns how many requests came so far that change something.
    #[must_use]
    pub fn changes(&self) -> usize {
        lock(&self.services).changes
    }
}

impl Drop for ModelCloud {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(services: &Mutex<Services>) -> MutexGuard<'_, Services> {
    services.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Services {
    fn serve(&mut self, method: &HttpMethod, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Response {
        let Ok(Query(query)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        let method = match *method {
            HttpMethod::GET => Method::Get,
            HttpMethod::POST => Method::Post,
            HttpMethod::PUT => Method::Put,
            HttpMethod::DELETE => Method::Delete,
            _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
        };
        self.changes += usize::from(method != Method::Get);
        let revision =
            headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()?.split('=').nth(1)?.parse().ok());
        let body = serde_json::from_slice(body).unwrap_or_default();
        let request = SimRequest { method, path: uri.path().to_owned(), query, revision, body };
        self.model.advance(self.begin.elapsed().saturating_sub(self.model.now()));
        let SimResponse { status, body } = match self.described(&request) {
            Some(body) => SimResponse { status: 200, body },
            None => self.model.handle(&request),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = [(header::CONTENT_TYPE, "application/json")];
        if body.is_null() { status.into_response() } else { (status, json, body.to_string()).into_response() }
    }

    /// Answers what the model has no answer to: what the cloud is like.
    fn described(&self, request: &SimRequest) -> Option<Value> {
        let path: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
        let network = self.model.network_of(&self.subnet)?;
        let subnet = || json!({"id": self.subnet, "network_id": network, "cidr": RANGE, "name": "", "tags": []});
        Some(match path.as_slice() {
            [] => json!({"versions": [{"id": "v2.0"}, {"id": "v2.26"}]}),
            ["v2.0", "quotas", ..] => json!({"quota": {}}),
            ["v2.0", "subnets"] => json!({"subnets": [subnet()]}),
            ["v2.0", "subnets", id] if *id == self.subnet => json!({"subnet": subnet()}),
            ["v2.0", "networks", id] if *id == network => json!({"network": {"id": network, "mtu": 1500}}),
            _ => return None,
        })
    }
}
