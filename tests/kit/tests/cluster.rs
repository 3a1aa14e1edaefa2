//! Tests of the test kit against the servers that it starts. All share one cluster.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::{Duration, Instant};

use gimbal_testkit::cluster::{BUMP, Refused};
use gimbal_testkit::{Rule, TestCluster, eventually};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}})
}

#[tokio::test]
async fn what_a_cluster_offers() {
    let start = Instant::now();
    let cluster = TestCluster::start().await.unwrap();
    eprintln!("ready after {:?}", start.elapsed());
    users_have_what_was_granted(&cluster).await;
    the_audit_sees_who_wrote_what(&cluster).await;
    a_restart_keeps_port_and_data(&cluster).await;
    a_paused_server_answers_nothing(&cluster).await;
    compaction_forgets(&cluster).await;
    a_snapshot_comes_back_with_higher_versions(&cluster).await;
}

async fn users_have_what_was_granted(cluster: &TestCluster) {
    let user = cluster.user("user-1").unwrap();
    let api = cluster.api(&user).unwrap();
    assert_eq!(code(api.get(SERVICES).await), 403);
    cluster.grant(&user, &[Rule::read("", &["services"])]).await.unwrap();
    assert_eq!(code(api.get(SERVICES).await), 200);
    assert_eq!(code(api.post(SERVICES, &service("a")).await), 403);
    cluster.grant(&user, &[Rule::write("", &["services"])]).await.unwrap();
    assert_eq!(code(api.post(SERVICES, &service("a")).await), 200);
    let edge = cluster.client().unwrap();
    assert_eq!(&*edge.get::<gimbal_kubernetes_objects::Service>("default", "a").await.unwrap().metadata.name, "a");
    cluster.revoke(&user).await.unwrap();
    assert_eq!(code(api.get(SERVICES).await), 403);
    assert!(cluster.user("stranger").is_err());
    assert!(std::fs::read_to_string(user.kubeconfig()).unwrap().contains(cluster.url()));
}

async fn the_audit_sees_who_wrote_what(cluster: &TestCluster) {
    let seen = cluster.audit_mark().await.unwrap();
    let user = cluster.user("user-2").unwrap();
    let api = cluster.api(&user).unwrap();
    assert_eq!(code(api.post(SERVICES, &service("b")).await), 403);
    assert_eq!(code(cluster.admin().post(SERVICES, &service("b")).await), 200);
    assert_eq!(code(cluster.admin().get(SERVICES).await), 200);
    let entries = cluster.audit_since(seen).await.unwrap();
    let lines: Vec<_> = entries.iter().map(|e| (e.verb.as_str(), e.user.as_str(), e.code)).collect();
    assert_eq!(lines, [("create", "user-2", 403), ("create", "admin", 201), ("list", "admin", 200)]);
    let created = &entries[1];
    assert_eq!((created.resource.as_str(), created.namespace.as_str()), ("services", "default"));
    assert_eq!((created.name.as_str(), created.user_agent.as_str()), ("b", "gimbal-testkit"));
    assert!(created.is_publication() && !entries[2].is_write());
}

async fn a_restart_keeps_port_and_data(cluster: &TestCluster) {
    let before = cluster.admin().get(&format!("{SERVICES}/a")).await.unwrap();
    cluster.stop_apiserver().unwrap();
    assert_eq!(code(cluster.admin().get(SERVICES).await), 0);
    assert!(cluster.stop_apiserver().is_err());
    cluster.start_apiserver().await.unwrap();
    let after = cluster.admin().get(&format!("{SERVICES}/a")).await.unwrap();
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
}

async fn a_paused_server_answers_nothing(cluster: &TestCluster) {
    cluster.pause().unwrap();
    let answer = tokio::time::timeout(Duration::from_millis(200), cluster.admin().get(SERVICES)).await;
    assert!(answer.is_err(), "{answer:?}");
    cluster.resume().unwrap();
    eventually("an answer", Duration::from_secs(10), async || cluster.admin().get(SERVICES).await).await.unwrap();
}

async fn compaction_forgets(cluster: &TestCluster) {
    let list = cluster.admin().get(SERVICES).await.unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{SERVICES}?watch=true&timeoutSeconds=1&resourceVersion={version}");
    assert_eq!(cluster.admin().text(&watch).await.unwrap(), "");
    let first = cluster.admin().get(&format!("{SERVICES}?limit=1")).await.unwrap();
    let next = format!("{SERVICES}?limit=1&continue={}", first["metadata"]["continue"].as_str().unwrap());
    assert_eq!(code(cluster.admin().get(&next).await), 200);
    cluster.compact().await.unwrap();
    let event: Value = serde_json::from_str(&cluster.admin().text(&watch).await.unwrap()).unwrap();
    assert_eq!((event["type"].as_str(), event["object"]["code"].as_i64()), (Some("ERROR"), Some(410)));
    assert_eq!(code(cluster.admin().get(&next).await), 410);
}

async fn a_snapshot_comes_back_with_higher_versions(cluster: &TestCluster) {
    let api = cluster.admin();
    let kept = api.get(&format!("{SERVICES}/a")).await.unwrap();
    let snapshot = cluster.snapshot().await.unwrap();
    assert_eq!(code(api.post(SERVICES, &service("later")).await), 200);
    let before = version(&api.get(SERVICES).await.unwrap());
    cluster.restore_bumped(&snapshot).await.unwrap();
    assert_eq!(api.get(&format!("{SERVICES}/a")).await.unwrap(), kept);
    assert_eq!(code(api.get(&format!("{SERVICES}/later")).await), 404);
    let after = version(&api.get(SERVICES).await.unwrap());
    assert!(before < BUMP && after >= BUMP, "{before} is followed by {after}");
    let watch = format!("{SERVICES}?watch=true&timeoutSeconds=1&resourceVersion={before}");
    assert_eq!(api.get(&watch).await.unwrap()["object"]["code"], 410);
}

fn version(list: &Value) -> u64 {
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn code(answer: Result<Value, Refused>) -> u16 {
    answer.map_or_else(|error| error.code, |_| 200)
}
