//! A proxy before the API server of a cluster, for what API servers do when they are in pain.

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

/// Passes everything on, as plain HTTP on a port of its own. Writes of Services, EndpointSlices and Endpoints meet what the
/// test says, a lease's do not; in [`ApiProxy::trouble`] every call may.
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

/// What writes meet.
#[derive(Clone)]
enum Mood {
    Well,
    /// They are refused with this status, until the time comes that the first one of them was told.
    Refusing {
        code: StatusCode,
        retry_after: Duration,
        until: Option<Instant>,
    },
    /// They are passed on by so many at a time, each so long after its turn came.
    Slow {
        workers: Arc<Semaphore>,
        service: Duration,
    },
}

impl ApiProxy {
    /// Starts a proxy to the cluster's API server for a user of the cluster.
    ///
    /// # Errors
    /// No port is left, or the user's kubeconfig cannot be written anew.
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

    /// A kubeconfig file of the user that leads here.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// From the next write on, and for as long as that one is told in Retry-After, each is refused with this status.
    ///
    /// # Errors
    /// There is no such status.
    pub fn refuse(&self, code: u16, retry_after: Duration) -> anyhow::Result<()> {
        self.be(Mood::Refusing { code: StatusCode::from_u16(code)?, retry_after, until: None });
        Ok(())
    }

    /// From now on writes are passed on by so many at a time, each so long after its turn came.
    pub fn slow_down(&self, workers: usize, service: Duration) {
        self.be(Mood::Slow { workers: Arc::new(Semaphore::new(workers)), service });
    }

    /// From now on calls of these kinds meet this.
    pub fn trouble(&self, calls: &[Calls], trouble: Trouble) {
        self.shared.troubles.begin(calls, trouble);
    }

    /// From now on all is well.
    pub fn recover(&self) {
        self.shared.troubles.end();
        self.be(Mood::Well);
    }

    /// Writes refused so far.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// The most writes that waited here at one time, since this was asked last.
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
    /// What the next write meets.
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

/// Headers that are not about one connection.
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
                let waiting = shared.waiting.fetch_add(1, Ordering::SeqCst) + 1;
                shared.most_waiting.fetch_max(waiting, Ordering::SeqCst);
                let turn = workers.acquire().await;
                tokio::time::sleep(service).await;
                drop(turn);
                shared.waiting.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
    let lost = |error: anyhow::Error| (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response();
    shared.forward(request).await.unwrap_or_else(lost)
}
