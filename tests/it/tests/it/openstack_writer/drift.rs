//! What people do to load balancers of ours by hand: missing, changed and added, of each kind.

use gimbal_kuryr_model::{
    Algorithm, ClientRanges, DesiredLoadBalancer, HealthMonitor, LoadBalancerReport, MonitorKind, Phase,
};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Service;
use serde_json::{Value, json};

use super::controller::{Controller, MADE, from_outside, wanted, with};
use super::stage::{PROD1, Stage, Surroundings};

const KEEP: &str = "gimbal:keep";
const MEMBERS: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

fn owner(number: u32) -> String {
    format!("ffffffff-0000-4000-8000-{number:012}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A load balancer with everything that can be changed about one.
fn whole(stage: &Stage, around: &Surroundings, owner: &str) -> DesiredLoadBalancer {
    with(from_outside(wanted(owner, 1, &stage.subnet, &[80, 81, 82], &MEMBERS)), |header| {
        around.ask(header);
        header.vip.security_groups = [around.group.as_str().into()].into();
        header.timeouts.client_data = Some(40_000);
        header.balancing.algorithm = Some(Algorithm::RoundRobin);
        let (kind, delay, timeout, rise, fall) = (MonitorKind::Connect, 5, 3, 1, 3);
        let monitor = HealthMonitor { kind, port: None, delay, timeout, rise, fall, path: None, codes: None };
        header.monitor = Some(Box::new(monitor));
    })
}

/// A part of Octavia's rows in a form that does not depend on IDs: what a load balancer is.
async fn shape(stage: &Stage, balancer: &str) -> Vec<String> {
    let mut shape = Vec::new();
    let of = format!("loadbalancer_id={balancer}");
    let row = stage.cloud.octavia().get(&format!("/loadbalancers/{balancer}")).await.unwrap()["loadbalancer"].take();
    shape.push(format!("{} {} {}", row["name"], row["admin_state_up"], row["vip_address"]));
    let pools = stage.rows("pools", &of).await;
    for listener in stage.rows("listeners", &of).await {
        let pool = pools.iter().find(|pool| pool["id"] == listener["default_pool_id"]);
        shape.push(format!(
            "listener {} {} {} {} -> {}",
            listener["protocol_port"],
            listener["name"],
            listener["timeout_client_data"],
            listener["admin_state_up"],
            pool.map_or(&Value::Null, |pool| &pool["name"]),
        ));
    }
    for pool in &pools {
        let mut members: Vec<String> = Vec::new();
        for member in stage.rows(&format!("pools/{}/members", text(&pool["id"])), "").await {
            members.push(format!("{}={}", text(&member["address"]), member["weight"]));
        }
        members.sort();
        let monitor = match pool["healthmonitor_id"].as_str() {
            // It may be replaced in between.
            Some(id) => stage.cloud.octavia().get(&format!("/healthmonitors/{id}")).await.unwrap_or_default(),
            None => Value::Null,
        };
        let delay = &monitor["healthmonitor"]["delay"];
        shape.push(format!("pool {} {} {members:?} {delay}", pool["name"], pool["lb_algorithm"]));
    }
    shape.sort();
    shape
}

/// Waits until a load balancer has this shape.
pub async fn expect_shape(stage: &Stage, balancer: &str, expected: &[String]) {
    let wait = eventually("everything is set back", MADE, async || {
        let found = shape(stage, balancer).await;
        let extra: Vec<_> = found.iter().filter(|one| !expected.contains(one)).collect();
        let lacks: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
        if found == expected { Ok(()) } else { Err(format!("extra: {extra:#?}, lacking: {lacks:#?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
}

struct Parts {
    /// By port.
    listeners: Vec<Value>,
    /// Those of the listeners.
    pools: Vec<Value>,
}

async fn parts(stage: &Stage, balancer: &str) -> Parts {
    let of = format!("loadbalancer_id={balancer}");
    let mut listeners = stage.rows("listeners", &of).await;
    listeners.sort_by_key(|one| one["protocol_port"].as_u64());
    let pools = stage.rows("pools", &of).await;
    let pool = |one: &Value| pools.iter().find(|pool| pool["id"] == one["default_pool_id"]).unwrap().clone();
    Parts { pools: listeners.iter().map(pool).collect(), listeners }
}

async fn member(stage: &Stage, pool: &Value, address: &str) -> String {
    let pool = text(&pool["id"]);
    let members = stage.rows(&format!("pools/{pool}/members"), "").await;
    let found = members.iter().find(|member| member["address"] == address).unwrap();
    format!("/pools/{pool}/members/{}", text(&found["id"]))
}

async fn silent(stage: &Stage, controller: &Controller) -> Vec<Value> {
    // Without a stream nothing is repaired, so that people can do everything before the writer looks.
    controller.silence();
    controller.expect_open(false).await;
    stage.balancers("").await
}

/// What was changed and what is missing is as before at the next look.
pub async fn missing_and_changed(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let owner = owner(1);
    controller.want("drift", whole(stage, around, &owner));
    let is_ready = |report: &LoadBalancerReport| report.phase == Phase::Ready;
    let report = controller.expect("drift", "ready", is_ready).await;
    let (id, floating) = (report.objects.load_balancer.unwrap().id, report.objects.floating_ip.unwrap().id);
    let before = shape(stage, &id).await;
    assert_eq!(silent(stage, &controller).await.len(), 1);
    let Parts { listeners, pools } = parts(stage, &id).await;
    let cloud = &stage.cloud;
    let part = |kind: &str, row: &Value| format!("/{kind}/{}", text(&row["id"]));
    // Changed, of each kind.
    cloud.update(&format!("/loadbalancers/{id}"), &json!({"name": "theirs", "admin_state_up": false})).await.unwrap();
    let change = json!({"name": "theirs", "timeout_client_data": 1_000, "admin_state_up": false});
    cloud.update(&part("listeners", &listeners[0]), &change).await.unwrap();
    let change = json!({"name": "theirs", "lb_algorithm": "LEAST_CONNECTIONS"});
    cloud.update(&part("pools", &pools[0]), &change).await.unwrap();
    cloud.update(&member(stage, &pools[0], MEMBERS[0]).await, &json!({"weight": 7})).await.unwrap();
    let monitor = format!("/healthmonitors/{}", text(&pools[0]["healthmonitor_id"]));
    cloud.update(&monitor, &json!({"delay": 99})).await.unwrap();
    // Missing, of each kind: a whole port, and of another one what hangs on its pool.
    cloud.delete(&part("listeners", &listeners[1])).await.unwrap();
    cloud.delete(&part("pools", &pools[1])).await.unwrap();
    cloud.delete(&member(stage, &pools[2], MEMBERS[1]).await).await.unwrap();
    cloud.delete(&format!("/healthmonitors/{}", text(&pools[2]["healthmonitor_id"]))).await.unwrap();
    let neutron = cloud.neutron(Service::Neutron).unwrap();
    neutron.delete(&format!("/floatingips/{floating}")).await.unwrap();
    let port = stage.vip_port(&id).await;
    let theirs = json!({"port": {"security_groups": [], "description": "theirs"}});
    neutron.put(&format!("/ports/{port}"), &theirs).await.unwrap();
    controller.speak();
    expect_shape(stage, &id, &before).await;
    let wait = eventually("the port of the VIP has its mark and its security group again", MADE, async || {
        let row = neutron.get(&format!("/ports/{port}")).await.unwrap()["port"].take();
        let has_group = row["security_groups"].as_array().unwrap().contains(&json!(around.group));
        if has_group && text(&row["description"]).contains(&owner) { Ok(()) } else { Err(row) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
    let another = |report: &LoadBalancerReport| {
        is_ready(report) && report.objects.floating_ip.as_ref().is_some_and(|one| one.id != floating)
    };
    let report = controller.expect("drift", "ready with another floating IP", another).await;
    let floating = report.objects.floating_ip.unwrap().id;
    // One that was led away comes back.
    neutron.put(&format!("/floatingips/{floating}"), &json!({"floatingip": {"port_id": null}})).await.unwrap();
    let wait = eventually("the floating IP is led back", MADE, async || {
        let row = stage.floating(&floating).await.unwrap();
        if row["port_id"] == port { Ok(()) } else { Err(row) }
    });
    wait.await.unwrap();
    // The owner goes right after somebody has changed the description once more.
    neutron.put(&format!("/ports/{port}"), &json!({"port": {"description": "theirs"}})).await.unwrap();
    controller.remove("drift", &owner).await;
    let left = neutron.get(&format!("/ports?id={port}")).await.unwrap();
    assert_eq!(left["ports"], json!([]), "nothing of it is left");
}

/// Who may connect to a listener: everybody instead of some, more than are wanted, and others.
pub async fn who_may_connect_is_set_back(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(8);
    let only = json!(["192.0.2.0/24"]);
    let wish = with(wanted(&owner, 1, &stage.subnet, &[80, 81, 82], &MEMBERS), |header| {
        header.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    });
    controller.want("ranges", wish);
    let id = controller.expect_ready("ranges", 1).await;
    silent(stage, &controller).await;
    let changed = [json!([]), json!(["192.0.2.0/24", "198.51.100.0/24"]), json!(["198.51.100.0/24"])];
    let Parts { listeners, .. } = parts(stage, &id).await;
    for (listener, ranges) in listeners.iter().zip(changed) {
        assert_eq!(listener["allowed_cidrs"], only);
        let path = format!("/listeners/{}", text(&listener["id"]));
        stage.cloud.update(&path, &json!({"allowed_cidrs": ranges})).await.unwrap();
    }
    controller.speak();
    let wait = eventually("exactly those may connect who are wanted", MADE, async || {
        let listeners = parts(stage, &id).await.listeners;
        let is_set_back = listeners.len() == 3 && listeners.iter().all(|one| one["allowed_cidrs"] == only);
        if is_set_back { Ok(()) } else { Err(format!("{listeners:?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
    controller.remove("ranges", &owner).await;
}

/// A listener that somebody has led to the pool of another port is led back, and neither pool gets members of the other.
pub async fn a_listener_that_is_led_to_another_pool(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(2);
    controller.want("crossed", wanted(&owner, 1, &stage.subnet, &[80, 81], &MEMBERS));
    let id = controller.expect_ready("crossed", 1).await;
    let before = shape(stage, &id).await;
    let Parts { listeners, pools } = parts(stage, &id).await;
    let listener = format!("/listeners/{}", text(&listeners[0]["id"]));
    stage.cloud.update(&listener, &json!({"default_pool_id": pools[1]["id"]})).await.unwrap();
    expect_shape(stage, &id, &before).await;
    stage.expect_looks(1).await;
    let marks = stage.marks();
    stage.expect_looks(2).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "it is at rest");
    controller.remove("crossed", &owner).await;
}

/// What was added goes at the second look, unless it is to be kept.
pub async fn added_and_kept(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let (one, other) = (owner(3), owner(4));
    controller.want("added", wanted(&one, 1, &stage.subnet, &[80], &MEMBERS));
    let id = controller.expect_ready("added", 1).await;
    controller.want("monitored", wanted(&other, 1, &stage.subnet, &[80], &MEMBERS));
    let other_id = controller.expect_ready("monitored", 1).await;
    silent(stage, &controller).await;
    let cloud = &stage.cloud;
    let before = shape(stage, &id).await;
    let Parts { pools, .. } = parts(stage, &id).await;
    let members = format!("/pools/{}/members", text(&pools[0]["id"]));
    for (port, tags) in [(7000, json!([])), (7001, json!([KEEP]))] {
        let listener = json!({
            "loadbalancer_id": *id, "protocol": "TCP", "protocol_port": port, "name": format!("added-{port}"), "tags": tags,
        });
        cloud.create("/listeners", &listener).await.unwrap();
        let pool = json!({
            "loadbalancer_id": *id, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "name": format!("added-{port}"),
            "tags": tags,
        });
        cloud.create("/pools", &pool).await.unwrap();
        let member = json!({"address": format!("10.0.9.{}", port - 6990), "protocol_port": 1, "tags": tags});
        cloud.create(&members, &member).await.unwrap();
    }
    let monitor = |pool: &Value, tags: Value| json!({"pool_id": pool["id"], "type": "TCP", "delay": 9, "timeout": 3, "max_retries": 1, "tags": tags});
    cloud.create("/healthmonitors", &monitor(&pools[0], json!([]))).await.unwrap();
    let Parts { pools: others, .. } = parts(stage, &other_id).await;
    cloud.create("/healthmonitors", &monitor(&others[0], json!([KEEP]))).await.unwrap();
    let with_monitor = shape(stage, &other_id).await;

    controller.speak();
    let mut kept: Vec<String> =
        before.iter().map(|line| line.replace("10.0.0.2=1\"", "10.0.0.2=1\", \"10.0.9.11=1\"")).collect();
    let all = shape(stage, &id).await;
    kept.extend(all.iter().filter(|line| line.contains("added-7001")).cloned());
    kept.sort();
    expect_shape(stage, &id, &kept).await;
    stage.expect_looks(3).await;
    expect_shape(stage, &id, &kept).await;
    expect_shape(stage, &other_id, &with_monitor).await;
    controller.remove("added", &one).await;
    controller.remove("monitored", &other).await;
}

/// A floating IP that somebody has led to a VIP for which none is wanted. Where no load balancer has one, floating IPs are listed
/// only every ten minutes.
pub async fn an_added_floating_ip(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let (owners, outside) = ([owner(5), owner(6)], owner(7));
    controller.want("outside", with(wanted(&outside, 1, &stage.subnet, &[80], &MEMBERS), |header| around.ask(header)));
    controller.expect_ready("outside", 1).await;
    let mut floating = Vec::new();
    for (owner, (name, description)) in owners.iter().zip([("led", "mine"), ("led-and-kept", KEEP)]) {
        controller.want(name, wanted(owner, 1, &stage.subnet, &[80], &MEMBERS));
        let id = controller.expect_ready(name, 1).await;
        let port = stage.vip_port(&id).await;
        let (made, _) = stage.make_floating_described(around, Some(&port), description).await;
        floating.push((made, port));
    }
    let wait = eventually("it leads nowhere", MADE, async || {
        let row = stage.floating(&floating[0].0).await.unwrap();
        if row["port_id"].is_null() { Ok(()) } else { Err(row) }
    });
    wait.await.unwrap();
    stage.expect_looks(2).await;
    let (kept, port) = &floating[1];
    assert_eq!(stage.floating(kept).await.unwrap()["port_id"], **port);
    for (owner, name) in owners.iter().zip(["led", "led-and-kept"]) {
        controller.remove(name, owner).await;
    }
    controller.remove("outside", &outside).await;
    for (made, _) in &floating {
        assert!(stage.floating(made).await.is_some(), "whoever made it keeps it");
    }
}
