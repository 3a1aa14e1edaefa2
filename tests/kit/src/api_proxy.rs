//! A proxy in front of a cluster's API server that simulates an overloaded or failing one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::{TestCluster, UserAccess};

mod trouble;

pub use trouble::{Calls, Trouble};

/// Passes on every call, as plain HTTP on a port of its own. Writes of Services, EndpointSlices and Endpoints are
/// refused or slowed down as the test asks, writes of Leases are not; [`ApiProxy::trouble`] can affect every call.
pub struct ApiProxy {
    kubeconfig: PathBuf,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    url: String,
    client: reqwest::Client,
    mood: Mutex<Mood>,
    troubles: trouble::Troubles,
    refused: AtomicUsize,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
}

/// A write that waits here, until this is dropped: a client that leaves ends its wait, too.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let waiting = shared.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_waiting.fetch_max(waiting, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How the proxy treats writes.
#[derive(Clone)]
enum Mood {
    Well,
    /// Writes are refused with this status until the Retry-After of the first refusal has passed.
    Refusing {
        code: StatusCode,
        retry_after: Duration,
        until: Option<Instant>,
    },
    /// At most `workers` writes are passed on at a time, each `service` after its turn came.
    Slow {
        workers: Arc<Semaphore>,
        service: Duration,
    },
}

impl ApiProxy {
    /// Starts a proxy to the cluster's API server for a user of the cluster.
    ///
    /// # Errors
    /// No port is left, or the proxy's kubeconfig cannot be written.
    pub async fn start(cluster: &TestCluster, user: &UserAccess) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("the proxy cannot listen")?;
        let config = std::fs::read_to_string(user.kubeconfig()).context("the user's kubeconfig cannot be read")?;
        let config = config.replace(cluster.url(), &format!("http://{}", listener.local_addr()?));
        let kubeconfig = user.kubeconfig().with_extension("proxy");
        std::fs::write(&kubeconfig, config).with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let shared = Arc::new(Shared {
            url: cluster.url().to_owned(),
            client: cluster.admin().client(),
            mood: Mutex::new(Mood::Well),
            troubles: trouble::Troubles::default(),
            refused: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        });
        let router = axum::Router::new().fallback(pass).with_state(shared.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the proxy before the API server has ended: {error}");
            }
        });
        Ok(Self { kubeconfig, shared, task })
    }

    /// Returns a kubeconfig file of the user that points to this proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Refuses writes with this status, from the next one on and for as long as that one's Retry-After says.
    ///
    /// # Errors
    /// `code` is not a valid HTTP status.
    pub fn refuse(&self, code: u16, retry_after: Duration) -> anyhow::Result<()> {
        self.be(Mood::Refusing { code: StatusCode::from_u16(code)?, retry_after, until: None });
        Ok(())
    }

    /// From now on passes on writes by at most `workers` at a time, each `service` after its turn came.
    pub fn slow_down(&self, workers: usize, service: Duration) {
        self.be(Mood::Slow { workers: Arc::new(Semaphore::new(workers)), service });
    }

    /// From now on applies `trouble` to calls of these kinds.
    pub fn trouble(&self, calls: &[Calls], trouble: Trouble) {
        self.shared.troubles.begin(calls, trouble);
    }

    /// Ends every refusal, delay and trouble.
    pub fn recover(&self) {
        self.shared.troubles.end();
        self.be(Mood::Well);
    }

    /// Returns the number of writes refused so far.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// Returns the largest number of writes that waited here at one time since the last call of this method.
    #[must_use]
    pub fn most_waiting(&self) -> usize {
        self.shared.most_waiting.swap(0, Ordering::SeqCst)
    }

    fn be(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Returns the treatment of the next write.
    fn mood(&self) -> Mood {
        let mut mood = self.mood.lock().unwrap_or_else(PoisonError::into_inner);
        if let Mood::Refusing { until, retry_after, .. } = &mut *mood {
            let now = Instant::now();
            if now >= *until.get_or_insert(now + *retry_after) {
                *mood = Mood::Well;
            }
        }
        mood.clone()
    }

    async fn forward(&self, request: Request) -> anyhow::Result<Response> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", self.url);
        let answer = self.client.request(parts.method, url).headers(kept(&parts.headers)).body(body).send().await?;
        let (status, headers) = (answer.status(), kept(answer.headers()));
        // A watch is passed on piece by piece.
        let pieces = futures::stream::unfold(answer, async |mut answer| {
            let piece = answer.chunk().await.transpose()?;
            Some((piece, answer))
        });
        Ok((status, headers, Body::from_stream(pieces)).into_response())
    }
}

/// Returns the headers that are not about one connection.
fn kept(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        kept.remove(name);
    }
    kept
}

fn is_publication(request: &Request) -> bool {
    let path = request.uri().path();
    request.method() != Method::GET && ["/services", "/endpointslices", "/endpoints"].iter().any(|p| path.contains(p))
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if let Some(answer) = shared.troubles.meet(Calls::of(&request)).await {
        return answer;
    }
    if is_publication(&request) {
        match shared.mood() {
            Mood::Well => {}
            Mood::Refusing { code, retry_after, .. } => {
                shared.refused.fetch_add(1, Ordering::SeqCst);
                let headers = [(header::RETRY_AFTER, retry_after.as_secs().to_string())];
                return (code, headers, "too many requests, please try again later").into_response();
            }
            Mood::Slow { workers, service } => {
                let _waiting = Waiting::begin(&shared);
                let turn = workers.acquire().await;
                tokio::time::sleep(service).await;
                drop(turn);
            }
        }
    }
    let lost = |error: anyhow::Error| (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response();
    shared.forward(request).await.unwrap_or_else(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_leaves_waits_no_more() {
        let slow = Mood::Slow { workers: Arc::new(Semaphore::new(0)), service: Duration::ZERO };
        let shared = Arc::new(Shared {
            url: String::new(),
            client: reqwest::Client::new(),
            mood: Mutex::new(slow),
            troubles: trouble::Troubles::default(),
            refused: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        });
        let uri = "/api/v1/namespaces/team1/services";
        let write = Request::builder().method(Method::POST).uri(uri).body(Body::empty()).unwrap();
        let passed = tokio::time::timeout(Duration::from_millis(1), pass(State(shared.clone()), write)).await;
        assert!(passed.is_err(), "it waits for a worker");
        let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
        assert_eq!((count(&shared.most_waiting), count(&shared.waiting)), (1, 0));
    }
}
