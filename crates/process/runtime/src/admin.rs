//! The admin endpoint: metrics, liveness, readiness.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Exit, Liveness, Readiness};

/// Most connections at a time. Each takes a file descriptor, which the lease and the streams need, too.
const CONNECTIONS: usize = 64;
/// How long a request may take to arrive, and how long a connection may be idle.
const QUESTION: Duration = Duration::from_secs(5);
/// How long a connection may last.
const LONGEST: Duration = Duration::from_secs(60);
/// How long its last response may take after that, or after shutdown began.
const LAST_ANSWER: Duration = Duration::from_secs(10);
/// Delay after a connection that could not be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Time for open requests to end at shutdown.
const GRACE: Duration = Duration::from_secs(1);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone)]
struct Sources {
    registry: Arc<Registry>,
    readiness: Readiness,
    health: Liveness,
}

/// Serves `/metrics` (OpenMetrics text), `/healthz` and `/livez` (200 while `health` is alive), and `/readyz` (200 when ready, else
/// 503 and the names of what is awaited) until `shutdown`.
///
/// # Errors
/// Never, so far: a connection that fails affects no other client.
pub async fn serve_admin(
    listener: TcpListener,
    registry: Arc<Registry>,
    readiness: Readiness,
    health: Liveness,
    shutdown: CancellationToken,
) -> Result<(), Exit> {
    serve_admin_with(Router::new(), listener, registry, readiness, health, shutdown).await
}

/// Like [`serve_admin`], with more routes. A response may last a minute; one that takes longer is cut.
///
/// # Errors
/// As [`serve_admin`].
pub async fn serve_admin_with(
    more: Router,
    listener: TcpListener,
    registry: Arc<Registry>,
    readiness: Readiness,
    health: Liveness,
    shutdown: CancellationToken,
) -> Result<(), Exit> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/livez", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Sources { registry, readiness, health })
        .merge(more);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    // When all permits are taken, new clients wait in the kernel's queue, which costs this process nothing.
    while let Some(Ok(place)) = shutdown.run_until_cancelled(places.clone().acquire_owned()).await {
        while connections.try_join_next().is_some() {}
        match shutdown.run_until_cancelled(listener.accept()).await {
            None => break,
            Some(Ok((socket, _))) => {
                let answered = answer(socket, router.clone(), shutdown.clone());
                connections.spawn(async move {
                    answered.await;
                    drop(place);
                });
            }
            Some(Err(error)) => {
                // No file descriptor is left, or the peer has closed already: neither ends a process that works.
                tracing::debug!(%error, "a connection to the admin endpoint was not taken");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
    drop(listener);
    let rest = async { while connections.join_next().await.is_some() {} };
    // Connections still open after that are cut.
    tokio::time::timeout(GRACE, rest).await.ok();
    Ok(())
}

/// Serves the requests of one connection for at most `LONGEST`, and then its last response for at most `LAST_ANSWER`.
async fn answer(socket: TcpStream, router: Router, shutdown: CancellationToken) {
    let service = TowerToHyperService::new(router);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(QUESTION);
    let mut connection = pin!(server.serve_connection(TokioIo::new(socket), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shutdown.cancelled() => None,
        () = tokio::time::sleep(LONGEST) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(LAST_ANSWER, connection).await {
                Ok(ended) => ended,
                Err(_) => {
                    return tracing::debug!("a connection to the admin endpoint was cut: its answer was not read");
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin endpoint failed");
    }
}

async fn metrics(State(sources): State<Sources>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &sources.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode the metrics: {error}\n")).into_response()
        }
    }
}

async fn healthz(State(sources): State<Sources>) -> (StatusCode, String) {
    if sources.health.is_alive() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let silence = sources.health.silence().as_secs();
    (StatusCode::SERVICE_UNAVAILABLE, format!("the main task has not turned for {silence} s\n"))
}

async fn readyz(State(sources): State<Sources>) -> (StatusCode, String) {
    let awaited = sources.readiness.awaited();
    if awaited.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("awaiting {}\n", awaited.join(", ")))
}
