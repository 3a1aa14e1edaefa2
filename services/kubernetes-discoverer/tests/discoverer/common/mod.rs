//! A discoverer between a real API server and a scripted writer.
#![allow(dead_code, unused_imports, clippy::unwrap_used)] // Each test file uses its share, and a panic is its report.

use clap::Parser;
use gimbal_kubernetes_discoverer::Args;
use gimbal_testkit::{Rights, TestCluster, UserAccess};
use serde_json::{Value, json};

pub use gimbal_testkit::scripted_writer::{Said, ScriptedWriter};
pub use running::{PORTS, RunningDiscoverer, SOON};

#[path = "../../../../../crates/discoverer/tests/running/mod.rs"]
mod running;

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

/// Starts a discoverer that reads the API server as `user`.
pub async fn start(user: &UserAccess, more: &[&str]) -> RunningDiscoverer {
    let fixed = ["x", "--backend-name", "node02", "--kubeconfig", user.kubeconfig().to_str().unwrap()];
    let args = Args::try_parse_from(fixed.iter().chain(&PORTS).chain(more)).unwrap();
    RunningDiscoverer::start(gimbal_kubernetes_discoverer::discoverer(args).await.unwrap())
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
