//! An API server that gives the answers of a test, one after the other: real ones refuse seldom, and not on request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use gimbal_kubernetes_client::{Access, Cluster};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
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
        let (shared, mut server) = (script.clone(), JoinSet::new());
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
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

async fn serve(stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or_default() == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if first.is_empty() {
                first = line;
            }
        }
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        let (status, body) = {
            let mut script = script.lock().unwrap();
            let request = first.split(['?', ' ']).take(2).collect::<Vec<_>>().join(" ");
            script.requests.push(request);
            script.answers.pop_front().unwrap_or_else(|| (500, "no answer is left".to_owned()))
        };
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}
