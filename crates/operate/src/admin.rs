//! The admin endpoint: metrics, liveness, readiness.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Exit, Health, Readiness};

/// Time for open requests to end at shutdown.
const GRACE: Duration = Duration::from_secs(1);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone)]
struct Sources {
    registry: Arc<Registry>,
    readiness: Readiness,
    health: Health,
}

/// Serves `/metrics` (OpenMetrics text), `/healthz` (200 while `health` is beaten) and `/readyz` (200 when nothing is
/// awaited, else 503 and its names) until `shutdown`.
///
/// # Errors
/// When the server fails.
pub async fn serve_admin(
    listener: TcpListener,
    registry: Arc<Registry>,
    readiness: Readiness,
    health: Health,
    shutdown: CancellationToken,
) -> Result<(), Exit> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Sources { registry, readiness, health });
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = server => ended.map_err(|error| Exit::Failure(format!("the admin endpoint failed: {error}"))),
        () = deadline => Ok(()),
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
