//! An API server that gives the answers of a test, one after the other: real ones refuse seldom, and not on request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use gimbal_kubernetes_client::{Access, Cluster};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Answers that are left, each a status and a body, and requests that came.
#[derive(Default)]
struct Script {
    answers: VecDeque<(u16, String)>,
    requests: Vec<String>,
}

/// An API server that answers by a script, and 500 when no answer is left.
pub struct ScriptedCluster {
    /// A client of it.
    pub cluster: Cluster,
    script: Arc<Mutex<Script>>,
    _server: JoinSet<std::io::Result<()>>,
    _folder: tempfile::TempDir,
}

impl ScriptedCluster {
    /// Starts it, without any answer.
    ///
    /// # Errors
    /// No port is free, or no folder can be made.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("kubeconfig");
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(&path, kubeconfig.to_string())?;
        let script = Arc::<Mutex<Script>>::default();
        let shared = script.clone();
        let router = Router::new().fallback(async move |method, uri| answer(&shared, &method, &uri));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await });
        let cluster = Cluster::connect(&Access::Kubeconfig(path), "test")?;
        Ok(Self { cluster, script, _server: server, _folder: folder })
    }

    /// Adds an answer.
    pub fn answer(&self, status: u16, body: &Value) {
        locked(&self.script).answers.push_back((status, body.to_string()));
    }

    /// Returns the methods and paths of the requests since the last call.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.script).requests)
    }
}

fn locked(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of a request, and gives it the next answer.
fn answer(script: &Mutex<Script>, method: &Method, uri: &Uri) -> Response {
    let mut script = locked(script);
    script.requests.push(format!("{method} {}", uri.path()).to_ascii_lowercase());
    let (status, body) = script.answers.pop_front().unwrap_or_else(|| (500, "no answer is left".to_owned()));
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
