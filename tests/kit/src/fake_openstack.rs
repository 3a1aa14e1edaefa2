//! A scripted Keystone and load balancing API, for behaviour that the real ones cannot be made to show: throttling,
//! pages that are late, repeated or cut off, markers that vanish, a role that is lost between two calls. Everything
//! else is tested against the real services, and the fake refuses what they refuse: a token of an application
//! credential has no other scope, and Keystone's list of all projects is truncated without notice.
//!
//! ```no_run
//! # use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
//! # async fn example() -> anyhow::Result<()> {
//! let fake = FakeOpenStack::start().await?;
//! fake.set(|cloud| {
//!     cloud.project("p1", "alpha");
//!     cloud.load_balancer("p1", "lb1", "web");
//!     cloud.pool("lb1", "pool1");
//!     cloud.member("pool1", "m1", "10.0.0.1", 8080);
//! });
//! fake.fail(Fault::on("/pools").times(1).status(500));
//! assert_eq!(fake.count("GET /v2/lbaas/pools"), 0);
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

mod answer;
mod cloud;
mod fault;
mod keystone;

pub use cloud::{FakeCloud, Paging};
pub use fault::Fault;

use answer::{Answer, Asked};
use fault::Deed;

/// A cloud of one test, on a port of its own. It ends when it is dropped.
pub struct FakeOpenStack {
    shared: Arc<Shared>,
    url: String,
    server: JoinHandle<()>,
}

struct Shared {
    cloud: Mutex<FakeCloud>,
    faults: Mutex<Vec<Fault>>,
    calls: Mutex<Vec<String>>,
    bodies: Mutex<Vec<Value>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeOpenStack {
    /// Starts a cloud with Octavia, no project, and the user `fake` with the password `fake-secret`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            cloud: Mutex::new(FakeCloud::new(&url)),
            faults: Mutex::default(),
            calls: Mutex::default(),
            bodies: Mutex::default(),
        });
        let state = shared.clone();
        let router = Router::new().fallback(move |request| serve(state.clone(), request));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the fake cloud has ended: {error}");
            }
        });
        Ok(Self { shared, url, server })
    }

    /// Returns Keystone's URL, with `/v3`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/v3", self.url)
    }

    /// Writes the Secret's keys into a folder, for `--credentials`.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write_credentials(&self, dir: &Path) -> anyhow::Result<()> {
        for (name, text) in [("keystoneUrl", self.url().as_str()), ("username", "fake"), ("password", "fake-secret")] {
            std::fs::write(dir.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(())
    }

    /// Reads or changes the cloud's content between two requests.
    pub fn set<T>(&self, change: impl FnOnce(&mut FakeCloud) -> T) -> T {
        change(&mut lock(&self.shared.cloud))
    }

    /// From now on, requests that match `fault` suffer it; the fault that was added last is tried first.
    pub fn fail(&self, fault: Fault) {
        lock(&self.shared.faults).insert(0, fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        lock(&self.shared.faults).clear();
    }

    /// Returns all requests since the start or [`FakeOpenStack::forget_calls`], for instance `GET
    /// /v2/lbaas/pools?limit=1000`.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        lock(&self.shared.calls).clone()
    }

    /// Returns the number of requests with this method and exact path.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|line| line.split('?').next() == Some(call)).count()
    }

    /// Returns the JSON bodies of all requests since the start that had one.
    #[must_use]
    pub fn bodies(&self) -> Vec<Value> {
        lock(&self.shared.bodies).clone()
    }

    /// Clears the recorded requests.
    pub fn forget_calls(&self) {
        lock(&self.shared.calls).clear();
    }
}

impl Drop for FakeOpenStack {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(shared: Arc<Shared>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else { return Answer::status(413).into_response() };
    let asked = Asked::new(&head, body);
    lock(&shared.calls).push(asked.line());
    lock(&shared.bodies).extend(Some(&asked.body).filter(|body| !body.is_null()).cloned());
    let deed = lock(&shared.faults).iter_mut().find_map(|fault| fault.strike(&asked));
    match deed {
        None => {}
        Some(Deed::Answer(answer)) => return answer.into_response(),
        Some(Deed::Hang) => std::future::pending().await,
        Some(Deed::Hold(gate)) => {
            // A closed gate lets no request through either.
            let Ok(_open) = gate.acquire().await else { return Answer::status(503).into_response() };
        }
        Some(Deed::Cut) => return cut(),
        Some(Deed::Endless(status)) => return endless(status),
        Some(Deed::Change(change)) => change(&mut lock(&shared.cloud)),
    }
    let (answer, dated) = {
        let mut cloud = lock(&shared.cloud);
        (cloud.answer(&asked), cloud.dated)
    };
    // The server adds the header only if it is missing, so an empty one stands for none.
    let answer = if dated { answer } else { answer.with_header("date", "") };
    answer.into_response()
}

/// Returns an answer without an end.
fn endless(status: u16) -> Response<Body> {
    let piece = Bytes::from_static(&[b' '; 64 << 10]);
    let pieces = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
    let mut answer = Body::from_stream(pieces).into_response();
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    answer
}

/// Returns the beginning of an answer, after which the connection breaks.
fn cut() -> Response<Body> {
    let broken = std::io::Error::other("cut off, as the test wants");
    let pieces = futures::stream::iter([Ok(Bytes::from_static(b"{\"")), Err(broken)]);
    Body::from_stream(pieces).into_response()
}
