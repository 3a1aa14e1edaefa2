//! A Service of a real cluster, both programs, a real cloud, requests to the address, and the
//! same load balancer as a Service of a Gimbal cluster. Each program is killed in the middle of what it does.

use std::time::Duration;

use gimbal_testkit::openstack::{Steer, User};
use gimbal_testkit::process::free_port;
use gimbal_testkit::{TestCluster, eventually};
use gimbal_tests::{Mirror, OFTEN, WayBack, addresses, writer_rights};
use serde_json::Value;

use super::{CONTROLLER, WITHIN, WRITER, applied, expect_event, kill_controller, kill_writer, steer};

const PODS: [&str; 3] = ["10.1.0.1", "10.1.0.2", "10.1.0.3"];
const HTTP: (&str, u16) = ("http", 8080);

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_answered_through_kills_and_leaves_nothing() {
    let mut stage = WayBack::build().await.unwrap();
    for (address, name) in PODS.iter().zip(["one", "two", "three"]) {
        stage.plane().unwrap().member(address, HTTP.1, name).await.unwrap();
    }
    let address = made_through_kills(&mut stage).await;
    stage.plane().unwrap().client("visitor", &address, 80, OFTEN).await.unwrap();
    members_change_through_kills(&mut stage, &address).await;
    let visits = stage.plane().unwrap().stop_client("visitor").await.unwrap();
    assert_eq!((visits.answered, visits.failed), (visits.sent, Vec::new()));
    parts_that_are_deleted_by_hand_come_back(&stage, &address).await;
    deleted_by_hand_it_comes_back(&stage, &address).await;
    the_circle_closes(&stage).await;
    removed_through_kills(&mut stage).await;
}

/// The writer is killed while Octavia's transaction is open, the controller before the load balancer is ACTIVE.
async fn made_through_kills(stage: &mut WayBack) -> String {
    stage.make_service("web", &[("http", 80, HTTP.1)]).await.unwrap();
    stage.set_members("web", &PODS[..2], &[HTTP]).await.unwrap();
    let held = steer(stage, &Steer::provider("^loadbalancer_create$").once().hold(Duration::from_secs(2))).await;
    let stalled = steer(stage, &Steer::settling("create").once().stall()).await;
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    applied(stage, held).await;
    kill_writer(stage);
    applied(stage, stalled).await;
    stage.start_writer(&WRITER).await.unwrap();
    kill_controller(stage);
    stage.cloud.stop_steering(stalled).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    let address = stage.until_address("web").await.unwrap();
    stage.until_answers(&address, 80, &["one", "two"]).await.unwrap();
    assert_eq!(stage.balancers().await.unwrap().len(), 1, "the answer was lost, the load balancer was not made twice");
    address
}

async fn members_change_through_kills(stage: &mut WayBack, address: &str) {
    kill_controller(stage);
    stage.set_members("web", &PODS, &[HTTP]).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    stage.until_answers(address, 80, &["one", "two", "three"]).await.unwrap();
    let held = steer(stage, &Steer::provider("^member_batch_update$").once().hold(Duration::from_secs(2))).await;
    stage.set_members("web", &PODS[1..], &[HTTP]).await.unwrap();
    applied(stage, held).await;
    kill_writer(stage);
    stage.start_writer(&WRITER).await.unwrap();
    stage.until_answers(address, 80, &["two", "three"]).await.unwrap();
}

/// Each has an Event that names it.
async fn parts_that_are_deleted_by_hand_come_back(stage: &WayBack, address: &str) {
    for (kind, reason) in [
        ("members", "LoadBalancerMemberMissing"),
        ("listeners", "LoadBalancerListenerMissing"),
        ("pools", "LoadBalancerPoolMissing"),
    ] {
        let before = stage.until_resource("web", "is whole", is_whole).await.unwrap();
        let row = &before["status"][kind][0];
        let id = row["id"].as_str().unwrap();
        let path = match row["pool_id"].as_str() {
            Some(pool) => format!("/pools/{pool}/members/{id}"),
            None => format!("/{kind}/{id}"),
        };
        stage.cloud.delete(&path).await.unwrap();
        expect_event(stage, "web", reason, id).await;
        stage.until_answers(address, 80, &["two", "three"]).await.unwrap();
    }
}

/// Whether the status has everything, with the members of now.
fn is_whole(object: &Value) -> bool {
    let status = &object["status"];
    let has = |kind: &str, count| status[kind].as_array().is_some_and(|all| all.len() == count);
    let is_now = |member: &Value| member["ip"].as_str().is_some_and(|address| PODS[1..].contains(&address));
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    has("listeners", 1)
        && has("pools", 1)
        && has("members", 2)
        && status["members"].as_array().into_iter().flatten().all(is_now)
        && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

async fn deleted_by_hand_it_comes_back(stage: &WayBack, address: &str) {
    stage.until_resource("web", "is whole", is_whole).await.unwrap();
    let before = stage.balancer("web").await.unwrap()["id"].clone();
    let id = before.as_str().unwrap();
    stage.cloud.delete(&format!("/loadbalancers/{id}")).await.unwrap();
    stage.until_answers(address, 80, &["two", "three"]).await.unwrap();
    assert_ne!(stage.balancer("web").await.unwrap()["id"], before);
    expect_event(stage, "web", "LoadBalancerMissing", id).await;
    stage.until_resource("web", "is whole", is_whole).await.unwrap();
    let counts = missing_events(stage).await;
    let once = |kind: &str| (format!("LoadBalancer{kind}Missing"), 1);
    assert_eq!(counts, ["Listener", "Member", "", "Pool"].map(once), "one for each that was removed");
}

/// Reasons of the Events about what is missing, and how often each was.
async fn missing_events(stage: &WayBack) -> Vec<(String, u64)> {
    let events = stage.cluster.admin().items("/api/v1/namespaces/shop/events").await.unwrap();
    let about = events.iter().map(|event| (event["reason"].as_str().unwrap(), event["count"].as_u64().unwrap()));
    let about = about.filter(|(reason, _)| reason.ends_with("Missing"));
    let mut about: Vec<_> = about.map(|(reason, count)| (reason.to_owned(), count)).collect();
    about.sort();
    about
}

async fn the_circle_closes(stage: &WayBack) {
    let gimbal = TestCluster::start().await.unwrap();
    gimbal.namespace("alpha").await.unwrap();
    let user = gimbal.user("writer").unwrap();
    gimbal.bind(&user, &writer_rights().unwrap()).await.unwrap();
    let (programs, port) = (&stage.programs, free_port().unwrap());
    let config = programs.config(&["osp1"], "").unwrap();
    let _writer = programs.start_writer(user.kubeconfig(), port, &config, &[]).await.unwrap();
    let credentials = programs.path("discoverer");
    stage.cloud.credentials(User::Discoverer).write_secret(&credentials).unwrap();
    let _discoverer = programs.openstack_discoverer("osp1", &credentials, port, &["--poll-interval=1s"]).unwrap();
    eventually("the load balancer is a Service of the Gimbal cluster", WITHIN, async || {
        let services = gimbal.admin().items("/api/v1/namespaces/alpha/services").await?;
        let name = services.first().and_then(|service| service["metadata"]["name"].as_str());
        let mirror = Mirror::get(&gimbal, "alpha", name.unwrap_or_default()).await?;
        let found = mirror.map(|mirror| addresses(&mirror.slices)).unwrap_or_default();
        let wanted = ["10.1.0.2:8080", "10.1.0.3:8080"].map(str::to_owned).into();
        anyhow::ensure!(found == wanted, "{found:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

/// The writer is killed while Octavia deletes, the controller before the writer has reported that all is gone.
async fn removed_through_kills(stage: &mut WayBack) {
    let held = steer(stage, &Steer::provider("^loadbalancer_delete$").once().hold(Duration::from_secs(2))).await;
    let stalled = steer(stage, &Steer::settling("delete").once().stall()).await;
    let uid = stage.delete_service("web").await.unwrap();
    applied(stage, held).await;
    kill_writer(stage);
    applied(stage, stalled).await;
    kill_controller(stage);
    stage.cloud.stop_steering(stalled).await.unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    stage.until_gone("web", &uid).await.unwrap();
    assert_eq!(stage.left().await.unwrap(), [""; 0]);
}
