//! A kind that is not served, and a controller without a writer.

use gimbal_kuryr_model::{CloudFacts, MemberMode};
use gimbal_testkit::scripted_openstack::facts;
use gimbal_testkit::{Rights, eventually};
use gimbal_tests::{Grpcurl, SOON, get};
use serde_json::{Value, json};

use super::stage::{BALANCERS, SERVICES, Stage, USERS, condition, finalizers};

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_installed_later_is_found() {
    let stage = Stage::without_crds().await;
    stage.make_service("web", "ClusterIP").await;
    let mut controller = stage.controller();
    eventually("it waits for the definition", SOON, async || {
        let (code, text) = get(controller.admin_port, "/readyz").await?;
        anyhow::ensure!(code == 503 && controller.process.log().contains("not served"), "{code} {text}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    assert_eq!(get(controller.admin_port, "/livez").await.unwrap().0, 200);
    assert_eq!(stage.writes(0).await, [""; 0], "nothing is known, so nothing is written");
    assert!(stage.openstack.held().is_empty());
    stage.cluster.install_crds().await.unwrap();
    controller.ready().await;
    stage.until_ready("web").await;
    stage.expect_rights_to_suffice().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_writer_no_finalizer_is_set_and_explain_shows_what_would_be_streamed() {
    let stage = Stage::start().await;
    let mut controller = stage.controller_without_writer(USERS[0], &[]);
    controller.ready().await;
    stage.make_service("web", "LoadBalancer").await;
    stage.make_slice("web", &["10.1.0.4"]).await;
    let waits = |object: Option<&Value>| {
        object.is_some_and(|object| {
            condition(object, "Ready")["reason"] == "WaitingForWriter" && !object["spec"]["endpointSlices"].is_null()
        })
    };
    let balancer = stage.until("it waits", (BALANCERS, "web"), waits).await.unwrap();
    assert_eq!(finalizers(&balancer), [""; 0]);
    assert_eq!(finalizers(&stage.get(SERVICES, "web").await.unwrap()), [""; 0]);
    let question = json!({"source": {"key": {"namespace": "team", "name": "web"}}});
    let answer = Grpcurl::plaintext(controller.port).call("InspectionService/Explain", &question).unwrap();
    let shown = "Once it has, TCP port 80 is offered with 1 member: 10.1.0.4:8080.";
    assert!(answer["reasons"].as_array().is_some_and(|reasons| reasons.iter().any(|one| one == shown)), "{answer}");
    // Nothing was made for it, so nothing holds it.
    stage.delete(SERVICES, "web").await;
    assert!(stage.get(SERVICES, "web").await.is_none());
    stage.expect_rights_to_suffice().await;
}

/// The definition goes with all its objects. What was made for them stays, for their Services live.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_removed_takes_no_load_balancer_with_it() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("web", "ClusterIP").await;
    let before = stage.until_ready("web").await;
    stage.cluster.remove_crds().await.unwrap();
    eventually("it is unknown", SOON, async || {
        let (code, text) = get(controller.admin_port, "/readyz").await?;
        anyhow::ensure!(code == 503, "{code} {text}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let deletes_nothing = || {
        let streamed = stage.openstack.streamed("team", "web");
        assert!(
            streamed.iter().all(|entry| entry.as_deref().is_some_and(|entry| !entry.is_deleting())),
            "{streamed:?}"
        );
        assert_eq!(stage.openstack.held(), ["team/web"]);
    };
    deletes_nothing();
    assert_eq!(finalizers(&stage.get(SERVICES, "web").await.unwrap()), [super::stage::SERVICE_FINALIZER]);
    stage.cluster.install_crds().await.unwrap();
    let after = stage.until_ready("web").await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["loadbalancer"], before["status"]["loadbalancer"]);
    deletes_nothing();
}

/// Nodes are watched only where the writer says that members are nodes, and only then is the right to read them needed.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_read_only_where_members_are_nodes() {
    let stage = Stage::start().await;
    let node = stage.post("/api/v1/nodes", &json!({"metadata": {"name": "node-1"}})).await;
    assert_eq!(node["metadata"]["name"], "node-1");
    let addresses = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]}});
    stage.cluster.admin().patch("/api/v1/nodes/node-1/status", &addresses).await.unwrap();
    let mut controller = stage.controller();
    controller.ready().await;
    let node_ports = json!({
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]},
    });
    stage.post(SERVICES, &node_ports).await;
    stage.make_slice("web", &["10.1.0.4"]).await;
    eventually("members are Pods", SOON, async || match stage.openstack.members("team", "web") {
        members if members == ["10.1.0.4:8080"] => Ok(()),
        members => Err(format!("{members:?}")),
    })
    .await
    .unwrap();
    stage.expect_rights_to_suffice().await;
    let names = ["gimbal-kuryr-controller", "gimbal-kuryr-controller-nodes"];
    let rights = Rights::deployed(&names).unwrap().in_namespace("kube-system");
    stage.cluster.bind(&stage.cluster.user(USERS[0]).unwrap(), &rights).await.unwrap();
    stage.openstack.set_facts(CloudFacts { members: MemberMode::Node, ..facts() });
    eventually("members are nodes", SOON, async || match stage.openstack.members("team", "web") {
        members if members == ["192.0.2.7:30080"] => Ok(()),
        members => Err(format!("{members:?}")),
    })
    .await
    .unwrap();
}
