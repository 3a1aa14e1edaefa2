//! A cloud's load balancers are published as docs/design.md#openstack-source describes, and follow every change.

use gimbal_model::{BackendName, service_name};
use gimbal_tests::{Mirror, member, pool, web};
use serde_json::{Value, json};

use super::stage::{BACKENDS, Stage, path, service, text};

fn listener(protocol: &str, port: u16, pool: Value) -> Value {
    json!({"protocol": protocol, "protocol_port": port, "default_pool": pool})
}

pub async fn a_tree_arrives_as_it_is(stage: &Stage) {
    let mut idle = member("10.2.0.3", 8080);
    idle["weight"] = json!(0);
    let mut off = member("10.2.0.4", 8080);
    off["admin_state_up"] = json!(false);
    let mut spare = member("10.2.0.5", 8081);
    spare["backup"] = json!(true);
    let tree = json!({"name": "web", "listeners": [
        listener("HTTP", 80, pool("HTTP", &[member("10.2.0.1", 8080), member("fd00:2::1", 8080), idle, off, spare])),
        listener("TCP", 53, pool("TCP", &[member("10.2.0.6", 5353)])),
        listener("UDP", 53, pool("UDP", &[member("10.2.0.7", 5353)])),
        {"protocol": "TCP", "protocol_port": 9000},
    ]});
    let balancer = stage.cloud.create_load_balancer("alpha", &tree).await.unwrap();
    let endpoints = ["10.2.0.1:8080", "fd00:2::1:8080", "!10.2.0.5:8081", "10.2.0.6:5353", "10.2.0.7:5353"];
    let mirror = stage.expect("alpha", &balancer, &endpoints).await;

    let id = text(&balancer["id"]);
    let labels = &mirror.service["metadata"]["labels"];
    assert_eq!(labels["gimbal.projectcontour.io/load-balancer-id"], id);
    assert_eq!(labels["gimbal.projectcontour.io/load-balancer-name"], "web");
    assert_eq!(labels["gimbal.projectcontour.io/backend"], BACKENDS[0]);
    assert_eq!(labels["gimbal.projectcontour.io/service"], format!("web-{id}"));
    let ports = mirror.service["spec"]["ports"].as_array().unwrap();
    let mut ports: Vec<String> = ports
        .iter()
        .map(|port| format!("{} {}/{}", text(&port["name"]), port["port"], text(&port["protocol"])))
        .collect();
    ports.sort();
    assert_eq!(ports, ["port-53 53/TCP", "port-53-udp 53/UDP", "port-80 80/TCP", "port-9000 9000/TCP"]);
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("alpha", &balancer).await;
}

pub async fn members_and_switches_are_followed(stage: &Stage) {
    let cloud = &stage.cloud;
    let balancer = cloud.create_load_balancer("alpha", &web("shop", &["10.3.0.1", "10.3.0.2"])).await.unwrap();
    stage.expect("alpha", &balancer, &["10.3.0.1:8080", "10.3.0.2:8080"]).await;

    let members = format!("/pools/{}/members", text(&balancer["pools"][0]["id"]));
    let third = cloud.create(&members, &member("10.3.0.3", 8080)).await.unwrap();
    stage.expect("alpha", &balancer, &["10.3.0.1:8080", "10.3.0.2:8080", "10.3.0.3:8080"]).await;
    let third = format!("{members}/{}", text(&third["id"]));
    cloud.update(&third, &json!({"weight": 0})).await.unwrap();
    stage.expect("alpha", &balancer, &["10.3.0.1:8080", "10.3.0.2:8080"]).await;
    cloud.update(&third, &json!({"weight": 5})).await.unwrap();
    stage.expect("alpha", &balancer, &["10.3.0.1:8080", "10.3.0.2:8080", "10.3.0.3:8080"]).await;
    cloud.delete(&third).await.unwrap();
    stage.expect("alpha", &balancer, &["10.3.0.1:8080", "10.3.0.2:8080"]).await;

    for object in [path("listeners", &balancer["listeners"][0]), path("loadbalancers", &balancer)] {
        cloud.update(&object, &json!({"admin_state_up": false})).await.unwrap();
        stage.expect("alpha", &balancer, &[]).await;
        cloud.update(&object, &json!({"admin_state_up": true})).await.unwrap();
        stage.expect("alpha", &balancer, &["10.3.0.1:8080", "10.3.0.2:8080"]).await;
    }
    cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("alpha", &balancer).await;
}

/// No list shows that a member's health changed once its pool is DEGRADED already.
pub async fn health_is_swept(stage: &Stage) {
    let mut tree = web("sick", &["10.4.0.1", "10.4.0.2", "10.4.0.3"]);
    tree["listeners"][0]["default_pool"]["healthmonitor"] =
        json!({"type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3});
    let balancer = stage.cloud.create_load_balancer("beta", &tree).await.unwrap();
    stage.expect("beta", &balancer, &["10.4.0.1:8080", "10.4.0.2:8080", "10.4.0.3:8080"]).await;
    let members = format!("/pools/{}/members", text(&balancer["pools"][0]["id"]));
    let listed = stage.cloud.octavia().get(&members).await.unwrap();
    let id = |address: &str| {
        let found = listed["members"].as_array().unwrap().iter().find(|member| member["address"] == address);
        text(&found.unwrap()["id"]).to_owned()
    };
    stage.cloud.set_health(&id("10.4.0.1"), Some("ERROR")).await.unwrap();
    stage.expect("beta", &balancer, &["!10.4.0.1:8080", "10.4.0.2:8080", "10.4.0.3:8080"]).await;
    stage.cloud.set_health(&id("10.4.0.2"), Some("ERROR")).await.unwrap();
    stage.expect("beta", &balancer, &["!10.4.0.1:8080", "!10.4.0.2:8080", "10.4.0.3:8080"]).await;
    stage.cloud.set_health(&id("10.4.0.3"), Some("ERROR")).await.unwrap();
    // If all members fail, the monitor is the more likely cause.
    stage.expect("beta", &balancer, &["10.4.0.1:8080", "10.4.0.2:8080", "10.4.0.3:8080"]).await;
    stage.cloud.set_health(&id("10.4.0.1"), None).await.unwrap();
    stage.expect("beta", &balancer, &["10.4.0.1:8080", "!10.4.0.2:8080", "!10.4.0.3:8080"]).await;
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("beta", &balancer).await;
}

pub async fn pools_of_l7_policies_are_services_of_their_own(stage: &Stage) {
    let cloud = &stage.cloud;
    let balancer = cloud.create_load_balancer("beta", &web("l7", &["10.5.0.1"])).await.unwrap();
    let body = json!({"loadbalancer_id": balancer["id"], "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
    let redirected = cloud.create("/pools", &body).await.unwrap();
    cloud.create(&format!("{}/members", path("pools", &redirected)), &member("10.5.0.2", 8080)).await.unwrap();
    let policy = json!({
        "listener_id": balancer["listeners"][0]["id"], "action": "REDIRECT_TO_POOL",
        "redirect_pool_id": redirected["id"],
    });
    cloud.create("/l7policies", &policy).await.unwrap();
    let credentials = stage.scene.path(BACKENDS[0]);
    let flags = ["--poll-interval", "500ms", "--l7-pools", "--service-name", "id", "--projects", "bet*"];
    let third = stage.scene.openstack_discoverer("osp3", &credentials, stage.writer.port, &flags).unwrap();
    let backend: BackendName = "osp3".parse().unwrap();
    let id = text(&balancer["id"]);
    let own = service_name(&backend, id);
    Mirror::expect(&stage.scene.gimbal, "beta", &own, &["10.5.0.1:8080"]).await.unwrap();
    let of_pool = service_name(&backend, &format!("{id}-{}", text(&redirected["id"])));
    Mirror::expect(&stage.scene.gimbal, "beta", &of_pool, &["10.5.0.2:8080"]).await.unwrap();
    // The other discoverers are not configured to, and this one sees no other project.
    stage.expect("beta", &balancer, &["10.5.0.1:8080"]).await;
    let services = third.ask().call("InspectionService/ListServices", &json!({})).unwrap();
    let namespaces: Vec<&Value> =
        services["services"].as_array().unwrap().iter().map(|service| &service["source"]["namespace"]).collect();
    assert_eq!(namespaces, ["beta"; 2]);
    cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("beta", &balancer).await;
    Mirror::expect_gone(&stage.scene.gimbal, "beta", &of_pool).await.unwrap();
    drop(third);
}

pub async fn names_that_kubernetes_would_not_take(stage: &Stage) {
    let mut made = Vec::new();
    for (name, safe) in [
        ("Żółć café №1", "zo-c-cafe-no1"),
        ("", ""),
        ("中文", ""),
        ("twin", "twin"),
        ("twin", "twin"),
        ("-Dots.and_such-", "dots-and-such"),
    ] {
        let balancer = stage.cloud.create_load_balancer("alpha", &web(name, &["10.6.0.1"])).await.unwrap();
        let expected = json!({"name": safe, "id": balancer["id"]});
        stage.expect("alpha", &expected, &["10.6.0.1:8080"]).await;
        made.push((balancer, expected));
    }
    assert_ne!(service(BACKENDS[0], &made[3].1), service(BACKENDS[0], &made[4].1));
    for (balancer, expected) in made {
        stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
        stage.expect_gone("alpha", &expected).await;
    }
}
