//! Members that are nodes.

use gimbal_kuryr_model::{CloudFacts, MemberMode};
use gimbal_testkit::scripted_openstack::facts;
use gimbal_testkit::{Rights, eventually};
use gimbal_tests::SOON;
use serde_json::{Value, json};

use super::stage::{BALANCERS, SERVICES, Stage, USERS, condition};

const NODES: &str = "/api/v1/nodes";
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const GOING: &str = "ToBeDeletedByClusterAutoscaler";

async fn make_node(stage: &Stage, name: &str, address: &str, labels: Value, taints: Value) {
    stage.post(NODES, &json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})).await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
    stage.cluster.admin().patch(&format!("{NODES}/{name}/status"), &status).await.unwrap();
}

async fn change_node(stage: &Stage, name: &str, change: Value) {
    stage.cluster.admin().patch(&format!("{NODES}/{name}"), &change).await.unwrap();
}

async fn until_members(stage: &Stage, service: &str, expected: &[&str]) {
    eventually(&format!("{service} has {expected:?}"), SOON, async || {
        let members = stage.openstack.members("team", service);
        if members == expected { Ok(()) } else { Err(format!("{members:?}")) }
    })
    .await
    .unwrap();
}

fn with_node_port(name: &str, port: u16, annotations: Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "nodePort": port}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_the_nodes_that_may_serve_and_are_chosen() {
    let stage = Stage::start().await;
    let names = ["gimbal-kuryr-controller", "gimbal-kuryr-controller-nodes"];
    let rights = Rights::deployed(&names).unwrap().in_namespace("kube-system");
    stage.cluster.bind(&stage.cluster.user(USERS[0]).unwrap(), &rights).await.unwrap();
    stage.openstack.set_facts(CloudFacts { members: MemberMode::Node, ..facts() });
    let going = json!([{"key": GOING, "effect": "NoSchedule"}]);
    make_node(&stage, "plain", "192.0.2.1", json!({}), json!([])).await;
    make_node(&stage, "zone-a", "192.0.2.2", json!({"zone": "a"}), json!([])).await;
    make_node(&stage, "excluded", "192.0.2.3", json!({EXCLUDE: ""}), json!([])).await;
    make_node(&stage, "going", "192.0.2.4", json!({"zone": "a"}), going.clone()).await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.post(SERVICES, &with_node_port("web", 30080, json!({}))).await;
    let chosen = json!({"loadbalancer.openstack.org/node-selector": "zone=a"});
    stage.post(SERVICES, &with_node_port("chosen", 30081, chosen)).await;
    until_members(&stage, "web", &["192.0.2.1:30080", "192.0.2.2:30080"]).await;
    until_members(&stage, "chosen", &["192.0.2.2:30081"]).await;
    // A taint that goes, and one that comes; a label that comes, and a node that goes.
    change_node(&stage, "going", json!({"spec": {"taints": null}})).await;
    until_members(&stage, "web", &["192.0.2.1:30080", "192.0.2.2:30080", "192.0.2.4:30080"]).await;
    until_members(&stage, "chosen", &["192.0.2.2:30081", "192.0.2.4:30081"]).await;
    change_node(&stage, "zone-a", json!({"spec": {"taints": going}})).await;
    change_node(&stage, "plain", json!({"metadata": {"labels": {EXCLUDE: "true"}}})).await;
    until_members(&stage, "web", &["192.0.2.4:30080"]).await;
    stage.cluster.admin().delete(&format!("{NODES}/going")).await.unwrap();
    until_members(&stage, "web", &[]).await;
    change_node(&stage, "excluded", json!({"metadata": {"labels": {EXCLUDE: null}}})).await;
    until_members(&stage, "web", &["192.0.2.3:30080"]).await;
    until_members(&stage, "chosen", &[]).await;
    stage.expect_rights_to_suffice().await;
}

/// Without node ports there is nothing to point to: the load balancer is made, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_node_ports_says_why_it_has_no_members() {
    let stage = Stage::start().await;
    let names = ["gimbal-kuryr-controller", "gimbal-kuryr-controller-nodes"];
    let rights = Rights::deployed(&names).unwrap().in_namespace("kube-system");
    stage.cluster.bind(&stage.cluster.user(USERS[0]).unwrap(), &rights).await.unwrap();
    stage.openstack.set_facts(CloudFacts { members: MemberMode::Node, ..facts() });
    make_node(&stage, "plain", "192.0.2.1", json!({}), json!([])).await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("web", "ClusterIP").await;
    let says = |object: Option<&Value>| {
        object.is_some_and(|object| condition(object, "Unsupported")["reason"] == "NoNodePort")
    };
    stage.until("a condition says so", (BALANCERS, "web"), says).await;
    until_members(&stage, "web", &[]).await;
}
