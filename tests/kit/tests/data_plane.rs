//! Tests of what clients get from a load balancer of the real Octavia: a real haproxy, by Octavia's own template.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{DataPlane, Got, OpenStack, Options, Service};
use serde_json::{Value, json};

const VIP: &str = "10.20.0.5";
/// How often a client sends a request.
const OFTEN: Duration = Duration::from_millis(20);

#[tokio::test]
async fn clients_see_weights_drains_source_ranges_and_no_gap() {
    let cloud = OpenStack::start_with(Options { data_plane: true, ..Options::default() }).await.unwrap();
    let plane = cloud.data_plane().unwrap();
    for (address, name) in [("10.1.0.1", "one"), ("10.1.0.2", "two"), ("10.1.0.3", "three")] {
        plane.member(address, 8080, name).await.unwrap();
    }
    let listener = json!({"name": "l", "protocol": "TCP", "protocol_port": 80, "default_pool": {
        "name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": [member(1, 3), member(2, 1)],
    }});
    let balancer = json!({"name": "web", "vip_address": VIP, "listeners": [listener]});
    let balancer = cloud.create_load_balancer("alpha", &balancer).await.unwrap();
    let (pool, listener) = (id(&balancer["pools"][0]), id(&balancer["listeners"][0]));
    weights_are_seen(plane).await;
    every_request_is_answered_through_updates(&cloud, &pool).await;
    source_ranges_are_seen(&cloud, &listener).await;
    a_monitor_sees_members_fail_and_come_back(&cloud, &pool).await;
    cloud.update(&format!("/listeners/{listener}"), &json!({"admin_state_up": false})).await.unwrap();
    nobody_answers(plane).await;
    cloud.update(&format!("/listeners/{listener}"), &json!({"admin_state_up": true})).await.unwrap();
    assert!(matches!(plane.get(VIP, 80, None).await.unwrap(), Got::Answer(200, _)));
    cloud.delete(&format!("/loadbalancers/{}", id(&balancer))).await.unwrap();
    nobody_answers(plane).await;
}

async fn weights_are_seen(plane: &DataPlane) {
    let mut by = [0, 0];
    for _ in 0..40 {
        match plane.get(VIP, 80, None).await.unwrap() {
            Got::Answer(200, name) => by[usize::from(name == "two")] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(by, [30, 10]);
}

async fn every_request_is_answered_through_updates(cloud: &OpenStack, pool: &str) {
    let plane = cloud.data_plane().unwrap();
    plane.client("steady", VIP, 80, OFTEN).await.unwrap();
    let members = format!("/pools/{pool}/members");
    let third = cloud.create(&members, &member(3, 1)).await.unwrap();
    heard(plane, "steady", "three").await;
    let listed = cloud.octavia().get(&members).await.unwrap();
    let first = listed["members"].as_array().unwrap().iter().find(|one| one["address"] == "10.1.0.1").unwrap().clone();
    let first = format!("{members}/{}", id(&first));
    cloud.update(&first, &json!({"weight": 0})).await.unwrap();
    // A weight of 0 drains: what is new goes elsewhere.
    plane.client("drained", VIP, 80, OFTEN).await.unwrap();
    heard(plane, "drained", "three").await;
    let drained = plane.stop_client("drained").await.unwrap();
    assert!(!drained.by.contains_key("one"), "{drained:?}");
    cloud.delete(&first).await.unwrap();
    plane.stop_member("10.1.0.1", 8080).await.unwrap();
    for weight in [5, 1, 9] {
        cloud.update(&format!("{members}/{}", id(&third)), &json!({"weight": weight})).await.unwrap();
    }
    let got = plane.stop_client("steady").await.unwrap();
    eprintln!("{} requests, the longest time without an answer {:.3} s", got.sent, got.gap);
    assert_eq!((got.answered, got.failed), (got.sent, Vec::new()));
}

async fn source_ranges_are_seen(cloud: &OpenStack, listener: &str) {
    let plane = cloud.data_plane().unwrap();
    let listener = format!("/listeners/{listener}");
    cloud.update(&listener, &json!({"allowed_cidrs": ["10.7.0.0/16", "10.8.0.1/32"]})).await.unwrap();
    for (source, is_let_in) in [("10.7.1.1", true), ("10.8.0.1", true), ("10.8.0.2", false), ("192.168.1.1", false)] {
        let got = plane.get(VIP, 80, Some(source)).await.unwrap();
        assert_eq!(matches!(got, Got::Answer(200, _)), is_let_in, "{source}: {got:?}");
    }
    cloud.update(&listener, &json!({"allowed_cidrs": null})).await.unwrap();
    assert!(matches!(plane.get(VIP, 80, Some("192.168.1.1")).await.unwrap(), Got::Answer(200, _)));
}

/// The members of the pool are two and three by now.
async fn a_monitor_sees_members_fail_and_come_back(cloud: &OpenStack, pool: &str) {
    let plane = cloud.data_plane().unwrap();
    let becomes = async |wanted: &[&str], of_pool: &str| {
        eventually(&format!("members are {wanted:?}"), Duration::from_secs(30), async || {
            let members = cloud.octavia().get(&format!("/pools/{pool}/members")).await.unwrap();
            let mut rows = members["members"].as_array().unwrap().clone();
            rows.sort_by_key(|row| row["address"].as_str().unwrap().to_owned());
            let found: Vec<&str> = rows.iter().map(|row| row["operating_status"].as_str().unwrap()).collect();
            let status =
                cloud.octavia().get(&format!("/pools/{pool}")).await.unwrap()["pool"]["operating_status"].clone();
            if found == wanted && status == of_pool { Ok(()) } else { Err(format!("{found:?}, the pool {status}")) }
        })
        .await
        .unwrap();
    };
    becomes(&["NO_MONITOR", "NO_MONITOR"], "ONLINE").await;
    let monitor =
        json!({"pool_id": pool, "type": "TCP", "delay": 1, "timeout": 1, "max_retries": 1, "max_retries_down": 1});
    let monitor = cloud.create("/healthmonitors", &monitor).await.unwrap();
    becomes(&["ONLINE", "ONLINE"], "ONLINE").await;
    plane.stop_member("10.1.0.2", 8080).await.unwrap();
    becomes(&["ERROR", "ONLINE"], "DEGRADED").await;
    plane.stop_member("10.1.0.3", 8080).await.unwrap();
    becomes(&["ERROR", "ERROR"], "ERROR").await;
    plane.member("10.1.0.2", 8080, "two").await.unwrap();
    plane.member("10.1.0.3", 8080, "three").await.unwrap();
    becomes(&["ONLINE", "ONLINE"], "ONLINE").await;
    cloud.delete(&format!("/healthmonitors/{}", id(&monitor))).await.unwrap();
    becomes(&["NO_MONITOR", "NO_MONITOR"], "ONLINE").await;
}

#[tokio::test]
async fn a_floating_ip_answers_while_it_is_associated() {
    let options = Options { data_plane: true, neutron: true, ..Options::default() };
    let cloud = OpenStack::start_with(options).await.unwrap();
    let plane = cloud.data_plane().unwrap();
    let outside = cloud.create_external_network("203.0.113.0/24").await.unwrap();
    let subnet = cloud.create_subnet("alpha", "10.20.0.0/24").await.unwrap();
    cloud.create_router("alpha", &outside, &subnet).await.unwrap();
    plane.member("10.1.0.1", 8080, "one").await.unwrap();
    let listener = json!({"name": "l", "protocol": "HTTP", "protocol_port": 80, "default_pool": {
        "name": "p", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "members": [member(1, 1)],
    }});
    let balancer = json!({"name": "web", "vip_subnet_id": subnet, "listeners": [listener]});
    let balancer = cloud.create_load_balancer("alpha", &balancer).await.unwrap();
    let vip = balancer["vip_address"].as_str().unwrap();
    assert_eq!(plane.get(vip, 80, None).await.unwrap(), Got::Answer(200, "one".to_owned()));
    let neutron = cloud.neutron(Service::Neutron).unwrap();
    let floating = json!({"floatingip": {
        "floating_network_id": outside, "port_id": balancer["vip_port_id"], "project_id": balancer["project_id"],
    }});
    let floating = neutron.post("/floatingips", &floating).await.unwrap()["floatingip"].clone();
    let address = floating["floating_ip_address"].as_str().unwrap();
    assert!(address.starts_with("203.0.113."), "{address}");
    eventually("the floating IP answers", Duration::from_secs(10), async || {
        match plane.get(address, 80, None).await.unwrap() {
            Got::Answer(200, name) => Ok(name),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    neutron.delete(&format!("/floatingips/{}", id(&floating))).await.unwrap();
    eventually("the floating IP is gone", Duration::from_secs(10), async || {
        match plane.get(address, 80, None).await.unwrap() {
            Got::Nothing(why) => Ok(why),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    assert_eq!(plane.get(vip, 80, None).await.unwrap(), Got::Answer(200, "one".to_owned()));
}

/// Waits until a client had an answer of this member.
async fn heard(plane: &DataPlane, client: &str, member: &str) {
    eventually(&format!("{member} answers"), Duration::from_secs(60), async || {
        let so_far = plane.traffic(client).await.unwrap();
        if so_far.by.contains_key(member) { Ok(()) } else { Err(format!("{so_far:?}")) }
    })
    .await
    .unwrap();
}

async fn nobody_answers(plane: &DataPlane) {
    let got = plane.get(VIP, 80, None).await.unwrap();
    assert!(matches!(got, Got::Nothing(_)), "{got:?}");
}

fn member(last: u8, weight: u16) -> Value {
    json!({"address": format!("10.1.0.{last}"), "protocol_port": 8080, "weight": weight})
}

fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}
