//! Tests of what a cloud does wrong on request, on one stack.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::{Duration, Instant};

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{OpenStack, Service, Steer};
use reqwest::{Method, Response};
use serde_json::{Value, json};

const SUBNET: &str = "50b00000-0000-4000-8000-000000000000";
/// Longer than the provider looks on for what was committed.
const LONG: Duration = Duration::from_millis(2500);
const SOON: Duration = Duration::from_secs(20);

/// A client of Octavia that is not the test kit's, so that rules apply to it.
struct Tenant<'a> {
    cloud: &'a OpenStack,
    client: reqwest::Client,
    token: String,
    project: String,
}

impl Tenant<'_> {
    async fn send(&self, method: Method, path: &str, body: &Value) -> reqwest::Result<Response> {
        let url = format!("{}/v2/lbaas{path}", self.cloud.url(Service::Octavia));
        let request = self.client.request(method, url).header("X-Auth-Token", &self.token);
        if body.is_null() { request.send().await } else { request.json(body).send().await }
    }

    async fn status(&self, method: Method, path: &str, body: &Value) -> u16 {
        self.send(method, path, body).await.unwrap().status().as_u16()
    }

    /// Requests a load balancer; the name is its tag, too.
    async fn make(&self, name: &str, rest: Value) -> reqwest::Result<Response> {
        let mut body = json!({"loadbalancer": {
            "name": name, "tags": [name], "project_id": self.project, "vip_subnet_id": SUBNET,
        }});
        body["loadbalancer"].as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        self.send(Method::POST, "/loadbalancers", &body).await
    }

    async fn found(&self, tag: &str) -> Vec<Value> {
        let list = self.cloud.octavia().get(&format!("/loadbalancers?tags={tag}")).await.unwrap();
        list["loadbalancers"].as_array().unwrap().clone()
    }

    /// Waits until the load balancer has this provisioning status.
    async fn becomes(&self, name: &str, status: &str) -> Value {
        eventually(&format!("{name} is {status}"), SOON, async || {
            let found = self.found(name).await;
            if found.len() == 1 && found[0]["provisioning_status"] == status {
                Ok(found[0].clone())
            } else {
                Err(json!(found))
            }
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn a_cloud_does_wrong_on_request() {
    let cloud = OpenStack::start().await.unwrap();
    let project = cloud.project("alpha").await.unwrap();
    let client = reqwest::Client::builder().user_agent("a-tenant").no_proxy().build().unwrap();
    let tenant = Tenant { cloud: &cloud, client, token: token(&cloud).await, project };
    answers_are_lost_after_the_commit(&tenant).await;
    commits_and_answers_are_late(&tenant).await;
    calls_are_refused_before_the_service(&tenant).await;
    providers_refuse_what_they_lack(&tenant).await;
    load_balancers_stay_pending(&tenant).await;
    changes_end_in_error_and_failover_heals(&tenant).await;
    quotas_are_real(&tenant).await;
}

async fn answers_are_lost_after_the_commit(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let lost = Steer::calls("POST", "/loadbalancers$").once().lose_the_answer();
    let lost = cloud.steer(Service::Octavia, &lost).await.unwrap();
    assert!(tenant.make("lost", json!({})).await.is_err());
    tenant.becomes("lost", "ACTIVE").await;
    assert_eq!(cloud.steered(lost).await.unwrap(), 1);
    let cut = Steer::calls("POST", "/loadbalancers$").once().cut_the_answer();
    cloud.steer(Service::Octavia, &cut).await.unwrap();
    let answer = tenant.make("cut", json!({})).await.unwrap();
    assert!(answer.text().await.is_err());
    tenant.becomes("cut", "ACTIVE").await;
    assert_eq!(tenant.make("heard", json!({})).await.unwrap().status(), 201);
    tenant.becomes("heard", "ACTIVE").await;
}

async fn commits_and_answers_are_late(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let second = Duration::from_secs(1);
    for (name, rule, is_there) in [
        ("late", Steer::calls("POST", "/loadbalancers$").once().late(second), false),
        ("slow", Steer::provider("loadbalancer_create").once().hold(LONG), false),
        ("unheard", Steer::calls("POST", "/loadbalancers$").once().answer_late(second), true),
    ] {
        cloud.steer(Service::Octavia, &rule).await.unwrap();
        let asked = tokio::time::timeout(Duration::from_millis(700), tenant.make(name, json!({})));
        assert!(asked.await.is_err(), "{name} was answered at once");
        assert_eq!(tenant.found(name).await.len(), usize::from(is_there), "{name}");
        tenant.becomes(name, "ACTIVE").await;
    }
}

async fn calls_are_refused_before_the_service(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let rule = Steer::calls("GET", "/pools$").after(1).times(2).too_many(7);
    cloud.steer(Service::Octavia, &rule).await.unwrap();
    let busy = Steer::calls("GET", "/listeners$").once().unavailable();
    cloud.steer(Service::Octavia, &busy).await.unwrap();
    let mut statuses = Vec::new();
    for path in ["/pools", "/pools", "/pools", "/pools", "/listeners", "/listeners"] {
        let answer = tenant.send(Method::GET, path, &Value::Null).await.unwrap();
        let wait = answer.headers().get("retry-after").map(|wait| wait.to_str().unwrap().to_owned());
        statuses.push((answer.status().as_u16(), wait));
    }
    let limited = || (429, Some("7".to_owned()));
    assert_eq!(statuses, [(200, None), limited(), limited(), (200, None), (503, None), (200, None)]);
    cloud.stop_all_steering(Service::Octavia).await.unwrap();
}

async fn providers_refuse_what_they_lack(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let populated = || json!({"listeners": [{"name": "l", "protocol": "TCP", "protocol_port": 80}]});
    let rule = cloud
        .steer(Service::Octavia, &Steer::provider("^loadbalancer_create$").populated().unsupported())
        .await
        .unwrap();
    assert_eq!(tenant.make("stepwise", populated()).await.unwrap().status(), 501);
    assert!(tenant.found("stepwise").await.is_empty());
    assert_eq!(tenant.make("stepwise", json!({})).await.unwrap().status(), 201);
    let balancer = tenant.becomes("stepwise", "ACTIVE").await;
    assert_eq!(cloud.steered(rule).await.unwrap(), 1);
    let ranges = Steer::provider("^listener_").with_source_ranges().unsupported();
    cloud.steer(Service::Octavia, &ranges).await.unwrap();
    let listener = |cidrs: &Value| {
        json!({"listener": {
            "protocol": "TCP", "protocol_port": 80, "loadbalancer_id": balancer["id"], "allowed_cidrs": cidrs,
        }})
    };
    assert_eq!(tenant.status(Method::POST, "/listeners", &listener(&json!(["10.0.0.0/8"]))).await, 501);
    cloud.stop_steering(rule).await.unwrap();
    cloud.steer(Service::Octavia, &Steer::provider("loadbalancer_create").once().fail()).await.unwrap();
    assert_eq!(tenant.make("fails", json!({})).await.unwrap().status(), 500);
    assert_eq!(tenant.make("populated", populated()).await.unwrap().status(), 201);
    tenant.becomes("populated", "ACTIVE").await;
    cloud.stop_all_steering(Service::Octavia).await.unwrap();
    assert_eq!(tenant.status(Method::POST, "/listeners", &listener(&json!(["10.0.0.0/8"]))).await, 201);
    tenant.becomes("stepwise", "ACTIVE").await;
}

async fn load_balancers_stay_pending(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let stall = cloud.steer(Service::Octavia, &Steer::settling("create").named("^stuck$").stall()).await.unwrap();
    tenant.make("stuck", json!({})).await.unwrap();
    tenant.make("free", json!({})).await.unwrap();
    // Both are handled by the time that the later one has settled.
    tenant.becomes("free", "ACTIVE").await;
    tenant.becomes("stuck", "PENDING_CREATE").await;
    cloud.stop_steering(stall).await.unwrap();
    let stuck = tenant.becomes("stuck", "ACTIVE").await;
    let delay = Duration::from_secs(1);
    cloud.steer(Service::Octavia, &Steer::settling("update").once().delay(delay)).await.unwrap();
    let path = format!("/loadbalancers/{}", stuck["id"].as_str().unwrap());
    let change = json!({"loadbalancer": {"description": "changed"}});
    let begin = Instant::now();
    assert_eq!(tenant.status(Method::PUT, &path, &change).await, 200);
    tenant.becomes("stuck", "ACTIVE").await;
    assert!(begin.elapsed() >= delay, "{:?}", begin.elapsed());
}

async fn changes_end_in_error_and_failover_heals(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let rule = Steer::settling("create").named("^broken$").once().end_in("ERROR");
    cloud.steer(Service::Octavia, &rule).await.unwrap();
    let pool = json!({"pools": [{"name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}]});
    tenant.make("broken", pool).await.unwrap();
    let broken = tenant.becomes("broken", "ERROR").await;
    let pool = cloud.octavia().get(&format!("/pools/{}", broken["pools"][0]["id"].as_str().unwrap())).await.unwrap();
    assert_eq!(pool["pool"]["provisioning_status"], "ERROR");
    let path = format!("/loadbalancers/{}/failover", broken["id"].as_str().unwrap());
    assert_eq!(tenant.status(Method::PUT, &path, &Value::Null).await, 202);
    tenant.becomes("broken", "ACTIVE").await;
}

async fn quotas_are_real(tenant: &Tenant<'_>) {
    let cloud = tenant.cloud;
    let there = cloud.octavia().get(&format!("/loadbalancers?project_id={}", tenant.project)).await.unwrap();
    let count = there["loadbalancers"].as_array().unwrap().len();
    cloud.set_quota(Service::Octavia, &tenant.project, &json!({"load_balancer": count})).await.unwrap();
    let refused = tenant.make("beyond", json!({})).await.unwrap();
    assert_eq!(refused.status(), 403);
    assert!(refused.text().await.unwrap().contains("Quota has been met"));
    cloud.set_quota(Service::Octavia, &tenant.project, &json!({"load_balancer": -1})).await.unwrap();
    assert_eq!(tenant.make("beyond", json!({})).await.unwrap().status(), 201);
}

async fn token(cloud: &OpenStack) -> String {
    let credentials = cloud.credentials(gimbal_testkit::openstack::User::Admin);
    let domain = json!({"name": credentials.user_domain});
    let user = json!({"name": credentials.username, "domain": domain, "password": credentials.password});
    let scope = json!({"project": {"name": credentials.project, "domain": domain}});
    let auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope});
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/auth/tokens", credentials.keystone_url);
    let answer = client.post(url).json(&json!({"auth": auth})).send().await.unwrap();
    answer.headers()["x-subject-token"].to_str().unwrap().to_owned()
}
