//! What a client gets while its load balancer changes: a request each 20 ms, on a real haproxy in a namespace without a way
//! out, through every kind of update. Each prints a row for docs/benchmarks.md.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Traffic};
use gimbal_tests::{NAMESPACE, OFTEN, WayBack};
use serde_json::{Map, Value, json};

mod clients;
pub(crate) mod replacement;
mod settings;
mod updates;

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
/// Neutron chooses the address of the VIP, so that another load balancer can take the place of one.
const ALLOCATE: &str = "vip: {mode: allocate}";

/// A stage with members and both programs, with these lines of YAML in the cluster's configuration.
async fn start(extra: &str) -> WayBack {
    let mut stage = without_programs(extra).await;
    start_programs(&mut stage).await;
    stage
}

async fn without_programs(extra: &str) -> WayBack {
    let options = Options { data_plane: true, ..Options::with_checked_tokens() };
    let stage = WayBack::build_on(options, extra).await.unwrap();
    for (address, name) in PODS {
        stage.plane().unwrap().member(address, TARGET, name).await.unwrap();
    }
    stage
}

async fn start_programs(stage: &mut WayBack) {
    stage.start_writer(&["--drift-interval=5s"]).await.unwrap();
    stage.start_controller(&["--cluster-ip-services=false"]).await.unwrap();
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

/// Ends it a moment after the change, and returns what came of it.
async fn visits(what: &str, stage: &WayBack) -> Traffic {
    until_sent(stage, "visitor", 25).await;
    let visits = stage.plane().unwrap().stop_client("visitor").await.unwrap();
    let Traffic { sent, answered, gap, .. } = &visits;
    println!("{what}: {answered} of {sent} requests answered, longest time without an answer {:.0} ms", gap * 1e3);
    visits
}

/// The same, of a change that no client notices.
async fn all_answered(what: &str, stage: &WayBack) {
    let visits = visits(what, stage).await;
    assert_eq!((visits.answered, visits.failed), (visits.sent, Vec::new()), "{what}");
}

/// Waits until a client has sent this number of requests more.
async fn until_sent(stage: &WayBack, client: &str, more: u64) {
    let so_far = stage.plane().unwrap().traffic(client).await.unwrap().sent;
    eventually(&format!("{client} sends {more} more"), WITHIN, async || {
        let sent = stage.plane().unwrap().traffic(client).await.unwrap().sent;
        if sent >= so_far + more { Ok(()) } else { Err(sent) }
    })
    .await
    .unwrap();
}

async fn members(stage: &WayBack, which: &[usize]) {
    let addresses: Vec<&str> = which.iter().map(|at| PODS[*at].0).collect();
    stage.set_members("web", &addresses, &[HTTP, ("admin", TARGET)]).await.unwrap();
}

async fn until_members(stage: &WayBack, address: &str, which: &[usize]) {
    let names: Vec<&str> = which.iter().map(|at| PODS[*at].1).collect();
    stage.until_answers(address, 80, &names).await.unwrap();
}

/// As in a rolling update: the new one is ready before the old one goes.
async fn replace_members_one_by_one(stage: &WayBack, address: &str) {
    for round in 0..3 {
        members(stage, &[round, round + 1, round + 2, round + 3]).await;
        until_members(stage, address, &[round, round + 1, round + 2, round + 3]).await;
        members(stage, &[round + 1, round + 2, round + 3]).await;
        until_members(stage, address, &[round + 1, round + 2, round + 3]).await;
    }
}

async fn patch(stage: &WayBack, patch: &Value) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services/web");
    stage.cluster.admin().patch(&path, patch).await.unwrap();
}

/// Sets annotations of cloud-provider-openstack.
async fn annotate(stage: &WayBack, annotations: &[(&str, &str)]) {
    let named = |(name, value): &(&str, &str)| (format!("loadbalancer.openstack.org/{name}"), json!(value));
    let annotations: Map<String, Value> = annotations.iter().map(named).collect();
    patch(stage, &json!({"metadata": {"annotations": annotations}})).await;
}

fn port(name: &str, port: u16) -> Value {
    json!({"name": name, "port": port, "targetPort": TARGET, "protocol": "TCP"})
}

/// Waits until Octavia's rows of a kind are as expected.
async fn until_rows(stage: &WayBack, kind: &str, are_right: impl Fn(&[Value]) -> bool) {
    let what = format!("{kind} are as wanted");
    let result = eventually(&what, WITHIN, async || {
        let list = stage.cloud.octavia().get(&format!("/{kind}")).await?;
        let rows = list[kind].as_array().map(Vec::as_slice).unwrap_or_default();
        anyhow::ensure!(are_right(rows), "{list}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Waits until there is one row of a kind, which has settled and is as expected.
async fn until_row(stage: &WayBack, kind: &str, is_right: impl Fn(&Value) -> bool) {
    until_rows(stage, kind, |rows| match rows {
        [row] => row["provisioning_status"] == "ACTIVE" && is_right(row),
        _ => false,
    })
    .await;
}

async fn id_of(stage: &WayBack) -> String {
    stage.balancer("web").await.unwrap()["id"].as_str().unwrap().to_owned()
}
