//! An API server that gives the answers of a test, one after the other: real ones refuse seldom, and not on request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

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

pub(crate) struct ScriptedServer {
    pub(crate) cluster: Cluster,
    script: Arc<Mutex<Script>>,
    _server: JoinSet<()>,
    _folder: tempfile::TempDir,
}

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let script = Arc::<Mutex<Script>>::default();
        let shared = script.clone();
        let router = Router::new().fallback(async move |method, uri| answer(&shared, &method, &uri));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let cluster = Cluster::connect(&Access::Kubeconfig(path), "test").unwrap();
        Self { cluster, script, _server: server, _folder: folder }
    }

    /// Adds an answer.
    pub(crate) fn answer(&self, status: u16, body: &Value) {
        self.script.lock().unwrap().answers.push_back((status, body.to_string()));
    }

    /// Returns the methods and paths of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().unwrap().requests)
    }
}

/// Takes note of a request, and gives it the next answer.
fn answer(script: &Mutex<Script>, method: &Method, uri: &Uri) -> Response {
    let mut script = script.lock().unwrap();
    script.requests.push(format!("{method} {}", uri.path()).to_ascii_lowercase());
    let (status, body) = script.answers.pop_front().unwrap_or_else(|| (500, "no answer is left".to_owned()));
    (StatusCode::from_u16(status).unwrap(), [(CONTENT_TYPE, "application/json")], body).into_response()
}
