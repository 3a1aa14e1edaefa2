//! What a client gets while its load balancer changes: a request each 20 ms, on a real haproxy in a namespace without a way
//! out, through every kind of update.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Service, Steer, Traffic};
use gimbal_tests::{NAMESPACE, OFTEN, WayBack};
use serde_json::{Value, json};

/// Who may have a load balancer fail over: by default administrators alone.
const FAILOVER: &str = r#"{"os_load-balancer_api:loadbalancer:put_failover": "role:member"}"#;
const WITHIN: Duration = Duration::from_secs(90);
const TARGET: u16 = 8080;
const HTTP: (&str, u16) = ("http", TARGET);
const PODS: [(&str, &str); 6] = [
    ("10.1.0.1", "m1"),
    ("10.1.0.2", "m2"),
    ("10.1.0.3", "m3"),
    ("10.1.0.4", "m4"),
    ("10.1.0.5", "m5"),
    ("10.1.0.6", "m6"),
];
/// The longest time without an answer where another load balancer takes the place of one: the test's router follows Neutron
/// every 100 ms, and the machine is busy.
const MOVED_WITHIN: f64 = 5.0;

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_through_every_update() {
    let stage = start(false).await;
    let address = made(&stage).await;
    let answered = async |what: &str, stage: &WayBack| {
        let visits = visits(what, stage).await;
        assert_eq!((visits.answered, visits.failed), (visits.sent, Vec::new()), "{what}");
    };
    visit(&stage, &address).await;
    patch(&stage, &json!({"spec": {"ports": [port("http", 80), port("admin", 81)]}})).await;
    members(&stage, &[0, 1, 2]).await;
    stage.until_answers(&address, 81, &["m1", "m2", "m3"]).await.unwrap();
    answered("a port is added", &stage).await;

    visit(&stage, &address).await;
    patch(&stage, &json!({"spec": {"ports": [port("http", 80)]}})).await;
    eventually("port 81 is gone", WITHIN, async || {
        let listeners = stage.balancer("web").await?["listeners"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(listeners == 1, "{listeners} listeners");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    answered("a port is removed", &stage).await;

    visit(&stage, &address).await;
    for round in 0..3 {
        // As in a rolling update: the new one is ready before the old one goes.
        members(&stage, &[round, round + 1, round + 2, round + 3]).await;
        until_members(&stage, &address, &[round, round + 1, round + 2, round + 3]).await;
        members(&stage, &[round + 1, round + 2, round + 3]).await;
        until_members(&stage, &address, &[round + 1, round + 2, round + 3]).await;
    }
    answered("members are replaced one by one", &stage).await;

    visit(&stage, &address).await;
    members(&stage, &[0, 1]).await;
    until_members(&stage, &address, &[0, 1]).await;
    answered("all members are replaced", &stage).await;

    visit(&stage, &address).await;
    let annotations = json!({
        "loadbalancer.openstack.org/connection-limit": "500", "loadbalancer.openstack.org/timeout-client-data": "60000",
    });
    let more = json!({"metadata": {"annotations": annotations}, "spec": {"loadBalancerSourceRanges": ["0.0.0.0/0"]}});
    patch(&stage, &more).await;
    until_listener(&stage, |listener| {
        listener["connection_limit"] == 500
            && listener["timeout_client_data"] == 60_000
            && listener["allowed_cidrs"] == json!(["0.0.0.0/0"])
    })
    .await;
    answered("attributes of a listener", &stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_through_a_failover() {
    let stage = start(true).await;
    let address = made(&stage).await;
    let before = id_of(&stage).await;
    visit(&stage, &address).await;
    let marks = stage.marks().unwrap();
    break_it(&stage, &[1, 2]).await;
    until_members(&stage, &address, &[1, 2]).await;
    until_active(&stage).await;
    let visits = visits("ERROR is repaired by failover", &stage).await;
    let changes: Vec<String> = stage.changes_since(marks).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(id_of(&stage).await, before, "a failover keeps the load balancer: {changes:#?}");
    assert!(changes.iter().any(|change| change.contains("/failover")), "{changes:#?}");
    assert_eq!((visits.answered, visits.failed), (visits.sent, Vec::new()));
}

/// Where the load balancer itself is replaced, the floating IP moves to the new one, which is ready by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_behind_a_floating_ip_takes_as_long_as_the_floating_ip() {
    let stage = start(false).await;
    let address = made(&stage).await;
    let before = id_of(&stage).await;
    visit(&stage, &address).await;
    break_it(&stage, &[1, 2]).await;
    until_other(&stage, &before).await;
    until_members(&stage, &address, &[1, 2]).await;
    let visits = visits("ERROR is repaired by another load balancer", &stage).await;
    assert!(visits.gap < MOVED_WITHIN, "{visits:?}");
    assert_eq!(stage.address("web").await.unwrap(), address);
}

/// A stage on which members may, or may not, have load balancers fail over.
async fn start(may_fail_over: bool) -> WayBack {
    let options = Options { data_plane: true, ..Options::with_checked_tokens() };
    let mut stage = WayBack::build_on(options, "vip: {mode: allocate}").await.unwrap();
    if may_fail_over {
        stage.cloud.set_octavia_policy(FAILOVER).unwrap();
    }
    for (address, name) in PODS {
        stage.plane().unwrap().member(address, TARGET, name).await.unwrap();
    }
    stage.start_writer(&["--drift-interval=2s"]).await.unwrap();
    stage.start_controller(&["--cluster-ip-services=false"]).await.unwrap();
    stage
}

async fn made(stage: &WayBack) -> String {
    members(stage, &[0, 1, 2]).await;
    stage.make_service("web", &[("http", 80, TARGET)]).await.unwrap();
    let address = stage.until_address("web").await.unwrap();
    until_members(stage, &address, &[0, 1, 2]).await;
    address
}

/// Begins to send requests.
async fn visit(stage: &WayBack, address: &str) {
    stage.plane().unwrap().client("visitor", address, 80, OFTEN).await.unwrap();
}

/// Ends it a moment after the change, and tells what came of it.
async fn visits(what: &str, stage: &WayBack) -> Traffic {
    let so_far = stage.plane().unwrap().traffic("visitor").await.unwrap().sent;
    eventually("half a second more", WITHIN, async || {
        let sent = stage.plane().unwrap().traffic("visitor").await.unwrap().sent;
        if sent >= so_far + 25 { Ok(()) } else { Err(sent) }
    })
    .await
    .unwrap();
    let visits = stage.plane().unwrap().stop_client("visitor").await.unwrap();
    let Traffic { sent, answered, gap, .. } = &visits;
    println!("{what}: {answered} of {sent} requests answered, longest time without an answer {:.0} ms", gap * 1e3);
    visits
}

async fn members(stage: &WayBack, which: &[usize]) {
    let addresses: Vec<&str> = which.iter().map(|at| PODS[*at].0).collect();
    stage.set_members("web", &addresses, &[HTTP, ("admin", TARGET)]).await.unwrap();
}

async fn until_members(stage: &WayBack, address: &str, which: &[usize]) {
    let names: Vec<&str> = which.iter().map(|at| PODS[*at].1).collect();
    stage.until_answers(address, 80, &names).await.unwrap();
}

async fn patch(stage: &WayBack, patch: &Value) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services/web");
    stage.cluster.admin().patch(&path, patch).await.unwrap();
}

fn port(name: &str, port: u16) -> Value {
    json!({"name": name, "port": port, "targetPort": TARGET, "protocol": "TCP"})
}

async fn until_listener(stage: &WayBack, is_right: impl Fn(&Value) -> bool) {
    let result = eventually("the listener has its attributes", WITHIN, async || {
        let list = stage.cloud.octavia().get("/listeners").await?;
        let listener = &list["listeners"][0];
        anyhow::ensure!(is_right(listener) && listener["provisioning_status"] == "ACTIVE", "{listener}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

async fn id_of(stage: &WayBack) -> String {
    stage.balancer("web").await.unwrap()["id"].as_str().unwrap().to_owned()
}

/// Changes the members, in a change after which the load balancer is in ERROR.
async fn break_it(stage: &WayBack, which: &[usize]) {
    let rule = Steer::settling("update").once().end_in("ERROR");
    let rule = stage.cloud.steer(Service::Octavia, &rule).await.unwrap();
    members(stage, which).await;
    eventually("the change fails", WITHIN, async || match stage.cloud.steered(rule).await? {
        0 => anyhow::bail!("not yet"),
        _ => Ok(()),
    })
    .await
    .unwrap();
}

async fn until_active(stage: &WayBack) {
    let result = eventually("it is ACTIVE", WITHIN, async || {
        let balancer = stage.balancer("web").await?;
        anyhow::ensure!(balancer["provisioning_status"] == "ACTIVE", "{balancer}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Waits until there is one load balancer, and not this one.
async fn until_other(stage: &WayBack, before: &str) {
    let result = eventually("another one is there", WITHIN, async || {
        let balancer = stage.balancer("web").await?;
        anyhow::ensure!(balancer["id"] != before && balancer["provisioning_status"] == "ACTIVE", "{balancer}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}
