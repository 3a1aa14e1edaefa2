//! The admin endpoint over a real socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_runtime::{Liveness, Readiness, serve_admin};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Endpoint {
    address: SocketAddr,
    readiness: Readiness,
    shutdown: CancellationToken,
    server: JoinHandle<Result<(), gimbal_runtime::Exit>>,
}

async fn start(health: Liveness) -> Endpoint {
    let counter: Counter = Counter::default();
    counter.inc_by(7);
    let mut registry = Registry::default();
    registry.register("writes", "Writes sent", counter);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (readiness, shutdown) = (Readiness::new(), CancellationToken::new());
    let server = serve_admin(listener, Arc::new(registry), readiness.clone(), health, shutdown.clone());
    Endpoint { address, readiness, shutdown, server: tokio::spawn(server) }
}

async fn get(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

fn healthy() -> Liveness {
    Liveness::new(Duration::from_secs(3600))
}

#[tokio::test]
async fn metrics_are_open_metrics() {
    let endpoint = start(healthy()).await;
    let answer = get(endpoint.address, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
    assert!(answer.contains("writes_total 7\n") && answer.ends_with("# EOF\n"), "{answer}");
    assert!(get(endpoint.address, "/nothing").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn readiness_names_what_is_awaited() {
    let endpoint = start(healthy()).await;
    assert!(get(endpoint.address, "/readyz").await.starts_with("HTTP/1.1 200"));
    let watches = endpoint.readiness.block("gimbal cluster watches");
    let _lease = endpoint.readiness.block("lease");
    let answer = get(endpoint.address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.ends_with("awaiting gimbal cluster watches, lease\n"), "{answer}");
    watches.done();
    assert!(get(endpoint.address, "/readyz").await.ends_with("awaiting lease\n"));
}

#[tokio::test]
async fn health_follows_the_beat() {
    let health = Liveness::new(Duration::ZERO);
    let endpoint = start(health.clone()).await;
    // Without a beat, the silence soon exceeds the limit of zero.
    while health.is_alive() {
        tokio::task::yield_now().await;
    }
    let answer = get(endpoint.address, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(get(start(healthy()).await.address, "/healthz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_open_request_does_not_hold_shutdown_up() {
    let endpoint = start(healthy()).await;
    let mut socket = TcpStream::connect(endpoint.address).await.unwrap();
    socket.write_all(b"GET /metrics HTT").await.unwrap();
    endpoint.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), endpoint.server).await.unwrap().unwrap().unwrap();
}

/// While all permits are taken no other client is served, and each permit is released before long.
#[tokio::test]
async fn however_many_connect_and_say_nothing_others_come_in() {
    let endpoint = start(healthy()).await;
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open_files();
    let mut silent = Vec::new();
    for _ in 0..100 {
        let mut socket = TcpStream::connect(endpoint.address).await.unwrap();
        socket.write_all(b"GET /metr").await.unwrap();
        silent.push(socket);
    }
    let served = open_files() - before - silent.len();
    assert!(served <= 70, "{served} connections are served at a time");
    let answer = tokio::time::timeout(Duration::from_secs(40), get(endpoint.address, "/healthz")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut rest = Vec::new();
    silent[0].read_to_end(&mut rest).await.ok();
}

/// A connection does not last for ever, even if its client keeps asking.
#[tokio::test(start_paused = true)]
async fn a_connection_that_goes_on_and_on_ends() {
    let endpoint = start(healthy()).await;
    let mut socket = TcpStream::connect(endpoint.address).await.unwrap();
    let mut answers = 0;
    // The server closes the connection before long, even if a request comes each second.
    while answers < 200 {
        if socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.is_err() {
            break;
        }
        let mut answer = [0; 1024];
        match socket.read(&mut answer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => answers += 1,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((10..=100).contains(&answers), "{answers} answers");
}
