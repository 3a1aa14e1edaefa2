//! In which priority level of the API server a writer's calls wait.

use std::time::Duration;

use gimbal_deploy_tests::{Chart, of_kind, text};
use gimbal_testkit::{Rights, TestCluster, eventually};
use serde_json::{Value, json};

const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// The API server reads its configuration again within seconds.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(30);

/// Returns how many calls a flow schema has led to a priority level.
async fn led(cluster: &TestCluster, flow: &str, level: &str) -> f64 {
    let metrics = cluster.admin().text("/metrics").await.unwrap();
    let labels = [format!("flow_schema=\"{flow}\""), format!("priority_level=\"{level}\"")];
    let lines = metrics.lines().filter(|line| line.starts_with("apiserver_flowcontrol_dispatched_requests_total{"));
    let of_flow = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    of_flow.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// A Lease is not late behind writes, and neither the writer nor anybody else waits behind the other.
#[tokio::test(flavor = "multi_thread")]
async fn the_writer_has_a_priority_level_of_its_own_and_its_lease_another() {
    let cluster = TestCluster::start().await.unwrap();
    let user = cluster.user("writer").unwrap();
    cluster.bind(&user, &Rights::deployed(&["gimbal-writer"]).unwrap().in_namespace("kube-system")).await.unwrap();
    // The account of a pod is a user of this cluster.
    let as_user = json!({"kind": "User", "user": {"name": "writer"}});
    let objects = Chart::example("gimbal-writer", "minimal.yaml").render().unwrap();
    for (kind, collection) in
        [("PriorityLevelConfiguration", "prioritylevelconfigurations"), ("FlowSchema", "flowschemas")]
    {
        for object in of_kind(&objects, kind) {
            let mut object: Value = object.clone();
            if let Some(rule) = object["spec"]["rules"].get_mut(0) {
                rule["subjects"] = json!([as_user]);
                let namespaces = &mut rule["resourceRules"][0]["namespaces"];
                if text(&namespaces[0]) == "gimbal" {
                    *namespaces = json!(["kube-system"]);
                }
            }
            cluster.admin().post(&format!("{FLOWS}/{collection}"), &object).await.unwrap();
        }
    }
    let writer = cluster.api(&user).unwrap();
    eventually("each call is led to its level", IN_FORCE_WITHIN, async || {
        let absent = writer.get(&format!("{LEASES}/none")).await.map_err(|refused| refused.code);
        anyhow::ensure!(absent == Err(404), "{absent:?}");
        writer.get("/api/v1/services").await?;
        let lease = led(&cluster, "gimbal-writer-lease", "leader-election").await;
        let rest = led(&cluster, "gimbal-writer", "gimbal-writer").await;
        anyhow::ensure!(lease >= 1.0 && rest >= 1.0, "{lease} calls of the Lease, {rest} others");
        anyhow::Ok(())
    })
    .await
    .unwrap();
    // Those of others stay where they are.
    let others = led(&cluster, "exempt", "gimbal-writer").await;
    assert_eq!(others, 0.0);
}
