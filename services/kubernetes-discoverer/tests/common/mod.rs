//! A discoverer between a real API server and a scripted writer.
#![allow(dead_code, unused_imports, clippy::unwrap_used)] // Each test file uses its share, and a panic is its report.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use gimbal_kubernetes_discoverer::Args;
use gimbal_runtime::Exit;
use gimbal_testkit::{Rights, TestCluster, UserAccess, eventually};
use gimbal_transport::pb::inspection_service_client::InspectionServiceClient;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use gimbal_testkit::scripted_writer::{Said, ScriptedWriter};

pub const SOON: Duration = Duration::from_secs(30);

/// What a discoverer may do: read, and nothing else.
pub fn rights() -> Rights {
    Rights::deployed(&["gimbal-kubernetes-discoverer"]).unwrap()
}

pub async fn cluster() -> (TestCluster, UserAccess) {
    let cluster = TestCluster::start().await.unwrap();
    let user = cluster.user("discoverer").unwrap();
    cluster.bind(&user, &rights()).await.unwrap();
    (cluster, user)
}

/// A discoverer in this process.
pub struct Running {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), Exit>>,
}

impl Running {
    pub async fn start(user: &UserAccess, more: &[&str]) -> Self {
        let kubeconfig = user.kubeconfig().to_str().unwrap();
        let fixed = ["x", "--backend-name", "node02", "--kubeconfig", kubeconfig];
        let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let args = Args::try_parse_from(fixed.iter().chain(&ports).chain(more)).unwrap();
        let discoverer = gimbal_kubernetes_discoverer::discoverer(args).await.unwrap();
        let (listen, admin) = (discoverer.listen_address().unwrap(), discoverer.admin_address().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(discoverer.run(shutdown.clone()));
        Self { listen, admin, shutdown, task }
    }

    pub async fn stop(self) -> Result<(), Exit> {
        self.shutdown.cancel();
        self.task.await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let answer = reqwest::Client::new().get(format!("http://{}{path}", self.admin)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub async fn inspection(&self) -> InspectionServiceClient<gimbal_transport::Channel> {
        InspectionServiceClient::new(
            gimbal_transport::dial(&format!("http://{}", self.listen), None, SOON).await.unwrap(),
        )
    }

    pub async fn ready(&self) {
        eventually("ready", SOON, async || match self.get("/readyz").await {
            (200, _) => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        })
        .await
        .unwrap();
    }
}

/// Makes a Service of this name with one slice.
pub async fn make(cluster: &TestCluster, namespace: &str, name: &str, addresses: &[&str]) {
    cluster.namespace(namespace).await.unwrap();
    let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    cluster.admin().post(&format!("/api/v1/namespaces/{namespace}/services"), &service).await.unwrap();
    cluster.admin().post(&slices(namespace), &slice(name, addresses)).await.unwrap();
}

pub fn slices(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

pub fn slice(service: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    json!({
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    })
}

pub async fn delete(cluster: &TestCluster, namespace: &str, name: &str) {
    cluster.admin().delete(&format!("/api/v1/namespaces/{namespace}/services/{name}")).await.unwrap();
}
