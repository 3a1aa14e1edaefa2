//! Tests of the testbed against the services that it starts. Most share one stack.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::{Duration, Instant};

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Credentials, OpenStack, Options, Refused, Scale, Service, User};
use serde_json::{Value, json};

#[tokio::test]
async fn what_a_cloud_offers() {
    let start = Instant::now();
    let cloud = OpenStack::start().await.unwrap();
    eprintln!("ready after {:?}", start.elapsed());
    a_tree_becomes_active(&cloud).await;
    health_is_found_out(&cloud).await;
    tags_steer_what_a_change_ends_in(&cloud).await;
    users_see_their_projects(&cloud).await;
    calls_are_counted(&cloud).await;
    keystone_comes_back(&cloud).await;
}

async fn a_tree_becomes_active(cloud: &OpenStack) {
    let balancer = cloud.create_load_balancer("alpha", &json!({"name": "web"})).await.unwrap();
    assert_eq!((text(&balancer["provisioning_status"]), text(&balancer["operating_status"])), ("ACTIVE", "ONLINE"));
    let pool =
        json!({"name": "p", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "loadbalancer_id": balancer["id"]});
    let pool = cloud.create("/pools", &pool).await.unwrap();
    let listener = json!({
        "protocol": "HTTP", "protocol_port": 80, "loadbalancer_id": balancer["id"], "default_pool_id": pool["id"],
    });
    let listener = cloud.create("/listeners", &listener).await.unwrap();
    let members = format!("/pools/{}/members", text(&pool["id"]));
    let member = cloud.create(&members, &json!({"address": "10.1.1.1", "protocol_port": 8080})).await.unwrap();
    assert_eq!(text(&member["operating_status"]), "NO_MONITOR");
    let policy = json!({"listener_id": listener["id"], "action": "REDIRECT_TO_POOL", "redirect_pool_id": pool["id"]});
    let policy = cloud.create("/l7policies", &policy).await.unwrap();
    let rules = format!("/l7policies/{}/rules", text(&policy["id"]));
    let rule = json!({"type": "PATH", "compare_type": "STARTS_WITH", "value": "/x"});
    let rule = cloud.create(&rules, &rule).await.unwrap();
    let member = format!("{members}/{}", text(&member["id"]));
    let changed = cloud.update(&member, &json!({"weight": 7})).await.unwrap();
    assert_eq!(changed["weight"], 7);
    for gone in [format!("{rules}/{}", text(&rule["id"])), format!("/l7policies/{}", text(&policy["id"])), member] {
        cloud.delete(&gone).await.unwrap();
        assert_eq!(code(cloud.octavia().get(&gone).await), 404, "{gone}");
    }
    cloud.delete(&format!("/loadbalancers/{}", text(&balancer["id"]))).await.unwrap();
    assert_eq!(cloud.octavia().get("/pools").await.unwrap()["pools"], json!([]));
}

async fn health_is_found_out(cloud: &OpenStack) {
    let balancer = cloud.create_load_balancer("alpha", &tree("sick")).await.unwrap();
    let pool = text(&balancer["pools"][0]["id"]).to_owned();
    let members = format!("/pools/{pool}/members");
    let listed = cloud.octavia().get(&members).await.unwrap()["members"].clone();
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|member| text(&member["id"])).collect();
    let balancer = format!("/loadbalancers/{}", text(&balancer["id"]));
    let statuses = async || {
        let mut found = Vec::new();
        for (path, kind) in [
            (&format!("{members}/{}", ids[0]), "member"),
            (&format!("/pools/{pool}"), "pool"),
            (&balancer, "loadbalancer"),
        ] {
            found.push(text(&cloud.octavia().get(path).await.unwrap()[kind]["operating_status"]).to_owned());
        }
        found
    };
    assert_eq!(statuses().await, ["ONLINE", "ONLINE", "ONLINE"]);
    cloud.set_health(ids[0], Some("ERROR")).await.unwrap();
    assert_eq!(statuses().await, ["ERROR", "DEGRADED", "DEGRADED"]);
    cloud.set_health(ids[1], Some("ERROR")).await.unwrap();
    assert_eq!(statuses().await, ["ERROR", "ERROR", "ERROR"]);
    cloud.update(&format!("{members}/{}", ids[0]), &json!({"weight": 2})).await.unwrap();
    assert_eq!(statuses().await, ["ERROR", "ERROR", "ERROR"], "a change of something else heals no member");
    cloud.set_health(ids[0], None).await.unwrap();
    assert_eq!(statuses().await, ["ONLINE", "DEGRADED", "DEGRADED"]);
    assert!(cloud.set_health("absent", Some("ERROR")).await.is_err());
    cloud.delete(&balancer).await.unwrap();
}

async fn tags_steer_what_a_change_ends_in(cloud: &OpenStack) {
    let failed = json!({"name": "failed", "tags": ["lab:prov=ERROR", "lab:op=ERROR"]});
    let failed = cloud.create_load_balancer("beta", &failed).await.unwrap();
    assert_eq!((text(&failed["provisioning_status"]), text(&failed["operating_status"])), ("ERROR", "ERROR"));
    let body = json!({"loadbalancer": {
        "name": "stalled", "tags": ["lab:stall"], "project_id": cloud.project("beta").await.unwrap(),
        "vip_subnet_id": "50b00000-0000-4000-8000-000000000000",
    }});
    let stalled = cloud.octavia().post("/loadbalancers", &body).await.unwrap()["loadbalancer"].clone();
    // The driver has handled both by the time that the later one has settled.
    let later = cloud.create_load_balancer("beta", &json!({"name": "later"})).await.unwrap();
    let found = cloud.octavia().get(&format!("/loadbalancers/{}", text(&stalled["id"]))).await.unwrap();
    assert_eq!(text(&found["loadbalancer"]["provisioning_status"]), "PENDING_CREATE");
    for gone in [failed, later] {
        cloud.delete(&format!("/loadbalancers/{}", text(&gone["id"]))).await.unwrap();
    }
}

async fn users_see_their_projects(cloud: &OpenStack) {
    let token = log_in(&cloud.credentials(User::Discoverer), None).await.unwrap();
    assert_eq!(projects(cloud, &token).await, ["alpha", "beta", "gamma"]);
    let delta = cloud.create_project("delta").await.unwrap();
    assert_eq!(projects(cloud, &token).await, ["alpha", "beta", "delta", "gamma"]);
    cloud.revoke(&delta, User::Discoverer).await.unwrap();
    assert_eq!(projects(cloud, &token).await, ["alpha", "beta", "gamma"]);
    cloud.grant(&delta, User::Discoverer).await.unwrap();
    cloud.update_project(&delta, &json!({"name": "epsilon"})).await.unwrap();
    assert_eq!(projects(cloud, &token).await, ["alpha", "beta", "epsilon", "gamma"]);
    cloud.delete_project(&delta).await.unwrap();
    assert_eq!(projects(cloud, &token).await, ["alpha", "beta", "gamma"]);
    let nobody = log_in(&cloud.credentials(User::Nobody), None).await.unwrap();
    assert_eq!(projects(cloud, &nobody).await, [""; 0]);
    cloud.set_password(User::Nobody, "another").await.unwrap();
    assert_eq!(log_in(&cloud.credentials(User::Nobody), None).await.unwrap_err(), 401);
}

async fn calls_are_counted(cloud: &OpenStack) {
    let alpha = log_in(&cloud.credentials(User::Discoverer), Some("alpha")).await.unwrap();
    let mark = cloud.calls_mark(Service::Octavia).unwrap();
    let url = format!("{}/v2/lbaas/pools?limit=10", cloud.url(Service::Octavia));
    assert_eq!(get(&url, &alpha, None).await, 200);
    assert_eq!(get(&url, "garbage", None).await, 401);
    cloud.octavia().get("/loadbalancers").await.unwrap();
    let calls: Vec<String> =
        cloud.calls_since(Service::Octavia, mark).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(calls, ["GET /v2/lbaas/pools?limit=10 200", "GET /v2/lbaas/pools?limit=10 401"]);
}

async fn keystone_comes_back(cloud: &OpenStack) {
    let alpha = log_in(&cloud.credentials(User::Discoverer), Some("alpha")).await.unwrap();
    let url = format!("{}/v2/lbaas/pools", cloud.url(Service::Octavia));
    cloud.stop(Service::Keystone).await.unwrap();
    assert_eq!(log_in(&cloud.credentials(User::Discoverer), None).await.unwrap_err(), 0);
    assert_eq!(get(&url, &alpha, None).await, 503);
    cloud.resume(Service::Keystone).await.unwrap();
    assert_eq!(get(&url, &alpha, None).await, 200);
    cloud.stop(Service::Octavia).await.unwrap();
    assert_eq!(get(&url, &alpha, None).await, 0);
    cloud.resume(Service::Octavia).await.unwrap();
    assert_eq!(get(&url, &alpha, None).await, 200);
}

#[tokio::test]
async fn options_do_what_they_say() {
    let options = Options {
        tls: true,
        token_ttl: Duration::from_secs(4),
        page_max: 700,
        settle_delay: Duration::from_secs(10),
        scale: Some(Scale::default()),
        ..Options::default()
    };
    let start = Instant::now();
    let cloud = OpenStack::start_with(options).await.unwrap();
    eprintln!("1,000 load balancers ready after {:?}", start.elapsed());
    let admin = cloud.credentials(User::Admin);
    let token = log_in(&admin, Some("admin")).await.unwrap();
    let list = cloud.octavia().get("/loadbalancers?limit=1000").await.unwrap();
    assert_eq!(list["loadbalancers"].as_array().unwrap().len(), 700, "a page");
    for (kind, count) in [("loadbalancers", 1000), ("listeners", 2000), ("pools", 2000)] {
        let list = cloud.octavia().get(&format!("/{kind}?limit=0")).await.unwrap();
        assert_eq!(list[kind].as_array().unwrap().len(), count, "{kind}");
    }
    let members = cloud.octavia().get(&format!("/pools/{}/members", Scale::pool_id(2000))).await.unwrap();
    assert_eq!(text(&members["members"][1]["id"]), Scale::member_id(4000));
    let last = cloud.octavia().get(&format!("/loadbalancers/{}", Scale::balancer_id(1000))).await.unwrap();
    assert_eq!(text(&last["loadbalancer"]["project_id"]), Scale::project_id(100));
    let discoverer = log_in(&cloud.credentials(User::Discoverer), None).await.unwrap();
    assert_eq!(projects(&cloud, &discoverer).await.len(), 103);
    let seventh = format!("/loadbalancers/{}", Scale::balancer_id(7));
    let fields = json!({"name": "seven"});
    let changed = cloud.update(&seventh, &fields);
    let pending = async {
        let what = "the change is PENDING";
        eventually(what, Duration::from_secs(20), async || {
            let found = cloud.octavia().get(&seventh).await?;
            anyhow::ensure!(found["loadbalancer"]["provisioning_status"] == "PENDING_UPDATE", "{found}");
            Ok(())
        })
        .await
        .unwrap();
    };
    let (changed, ()) = tokio::join!(changed, pending);
    assert_eq!(text(&changed.unwrap()["name"]), "seven");
    let url = format!("{}/v2/lbaas/loadbalancers?limit=1", cloud.url(Service::Octavia));
    eventually("the token expires", Duration::from_secs(20), async || {
        match get(&url, &token, admin.ca.as_deref()).await {
            401 => Ok(()),
            other => Err(other),
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn neutron_makes_the_ports_of_vips() {
    let cloud = OpenStack::start_with(Options { neutron: true, ..Options::default() }).await.unwrap();
    let subnet = cloud.create_subnet("alpha", "10.20.0.0/24").await.unwrap();
    let balancer = json!({"name": "web", "vip_subnet_id": subnet});
    let balancer = cloud.create_load_balancer("alpha", &balancer).await.unwrap();
    let neutron = cloud.neutron(Service::Neutron).unwrap();
    let port = neutron.get(&format!("/ports/{}", text(&balancer["vip_port_id"]))).await.unwrap();
    assert_eq!(port["port"]["fixed_ips"][0]["ip_address"], balancer["vip_address"]);
}

#[tokio::test]
async fn neutron_lbaas_answers_where_it_can_run() {
    let Some(cloud) = OpenStack::with_lbaas(Options::default()).await.unwrap() else {
        eprintln!("not tried: there is no Python 3.7");
        return;
    };
    let lbaas = cloud.neutron(Service::NeutronLbaas).unwrap();
    assert_eq!(lbaas.get("/lbaas/loadbalancers").await.unwrap(), json!({"loadbalancers": []}));
    let endpoints = cloud.identity().get("/endpoints?region_id=RegionMitaka&interface=public").await.unwrap();
    assert_eq!(text(&endpoints["endpoints"][0]["url"]), cloud.url(Service::NeutronLbaas));
    assert_eq!(cloud.octavia().get("/loadbalancers").await.unwrap()["loadbalancers"], json!([]));
}

fn tree(name: &str) -> Value {
    let member = |address: &str| json!({"address": address, "protocol_port": 8080});
    let monitor = json!({"type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3});
    let pool = json!({
        "name": "p", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "healthmonitor": monitor,
        "members": [member("10.1.1.1"), member("10.1.1.2")],
    });
    json!({"name": name, "listeners": [{"protocol": "HTTP", "protocol_port": 80, "default_pool": pool}]})
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn code(answer: Result<Value, Refused>) -> u16 {
    answer.map_or_else(|error| error.code, |_| 200)
}

fn client(ca: Option<&std::path::Path>) -> reqwest::Client {
    let mut builder = reqwest::Client::builder().user_agent("a-client").no_proxy();
    if let Some(ca) = ca {
        let ca = reqwest::Certificate::from_pem(&std::fs::read(ca).unwrap()).unwrap();
        builder = builder.tls_certs_only([ca]);
    }
    builder.build().unwrap()
}

/// Returns the status; 0 without an answer.
async fn get(url: &str, token: &str, ca: Option<&std::path::Path>) -> u16 {
    client(ca).get(url).header("X-Auth-Token", token).send().await.map_or(0, |answer| answer.status().as_u16())
}

/// Returns a token, or the status; 0 without an answer.
async fn log_in(credentials: &Credentials, project: Option<&str>) -> Result<String, u16> {
    let domain = json!({"name": credentials.user_domain});
    let user = json!({"name": credentials.username, "domain": domain, "password": credentials.password});
    let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}, "scope": "unscoped"});
    if let Some(project) = project {
        auth["scope"] = json!({"project": {"name": project, "domain": domain}});
    }
    let url = format!("{}/auth/tokens", credentials.keystone_url);
    let client = client(credentials.ca.as_deref());
    let answer = client.post(url).json(&json!({"auth": auth})).send().await.map_err(|_| 0_u16)?;
    let status = answer.status().as_u16();
    let token = answer.headers().get("x-subject-token").ok_or(status)?;
    Ok(token.to_str().unwrap().to_owned())
}

/// Returns the names of the projects that a token can be scoped to.
async fn projects(cloud: &OpenStack, token: &str) -> Vec<String> {
    let url = format!("{}/auth/projects", cloud.keystone_url());
    let client = client(cloud.credentials(User::Nobody).ca.as_deref());
    let answer = client.get(url).header("X-Auth-Token", token).send().await.unwrap();
    let list: Value = answer.json().await.unwrap();
    let mut names: Vec<_> =
        list["projects"].as_array().unwrap().iter().map(|one| text(&one["name"]).to_owned()).collect();
    names.sort();
    names
}
