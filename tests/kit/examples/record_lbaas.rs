//! Records how neutron-lbaas answers, into `tests/openstack/recorded/lbaas`: for tests on machines without Python 3.7.
//!
//! `cargo run -p gimbal-testkit --example record_lbaas`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gimbal_testkit::openstack::{Api, OpenStack, Options, Service};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cloud = OpenStack::with_lbaas(Options::default()).await?;
    let cloud = cloud.context("there is no Python 3.7, which neutron-lbaas needs")?;
    let api = cloud.neutron(Service::NeutronLbaas)?;
    let project = cloud.project("alpha").await?;
    let balancer = fill(&api, &project).await?;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openstack/recorded/lbaas");
    let record = Recorder { url: cloud.url(Service::NeutronLbaas), api: &api, dir };
    let pools = api.get("/lbaas/pools?name=web").await?;
    let pool = id(&pools["pools"][0])?;
    let gone = "00000000-0000-4000-8000-000000000000";
    for (name, path) in [
        ("loadbalancers", "/lbaas/loadbalancers".to_owned()),
        ("loadbalancers-page", "/lbaas/loadbalancers?limit=1".to_owned()),
        ("loadbalancers-unknown-marker", format!("/lbaas/loadbalancers?limit=1&marker={gone}")),
        ("loadbalancer", format!("/lbaas/loadbalancers/{balancer}")),
        ("loadbalancer-gone", format!("/lbaas/loadbalancers/{gone}")),
        ("statuses", format!("/lbaas/loadbalancers/{balancer}/statuses")),
        ("listeners", "/lbaas/listeners".to_owned()),
        ("pools", "/lbaas/pools".to_owned()),
        ("members", format!("/lbaas/pools/{pool}/members")),
        ("members-of-a-pool-that-is-gone", format!("/lbaas/pools/{gone}/members")),
        ("healthmonitors", "/lbaas/healthmonitors".to_owned()),
        ("l7policies", "/lbaas/l7policies".to_owned()),
        ("unknown-path", "/lbaas/nothing".to_owned()),
    ] {
        record.keep(name, &path).await?;
    }
    record.keep_refusal("without-a-token", "/lbaas/loadbalancers").await
}

/// Replaces the server's address in the recordings, as its port differs with every run.
const ADDRESS: &str = "http://openstack001:9696";

struct Recorder<'a> {
    url: String,
    api: &'a Api,
    dir: PathBuf,
}

impl Recorder<'_> {
    /// Writes the request, the status and the body; a body that is no JSON as text.
    async fn keep(&self, name: &str, path: &str) -> anyhow::Result<()> {
        let (status, body) = match self.api.get(path).await {
            Ok(body) => (200, body),
            Err(refused) => (refused.code, json_or_text(refused.message)),
        };
        self.write(name, path, status, &body)
    }

    /// The same without a token.
    async fn keep_refusal(&self, name: &str, path: &str) -> anyhow::Result<()> {
        let answer = reqwest::get(format!("{}/v2.0{path}", self.url)).await?;
        let status = answer.status().as_u16();
        self.write(name, path, status, &json_or_text(answer.text().await?))
    }

    fn write(&self, name: &str, path: &str, status: u16, body: &Value) -> anyhow::Result<()> {
        let recorded = json!({"request": format!("GET /v2.0{path}"), "status": status, "body": body});
        let file = self.dir.join(format!("{name}.json"));
        let text = format!("{}\n", serde_json::to_string_pretty(&recorded)?).replace(&self.url, ADDRESS);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{name}: {status}");
        Ok(())
    }
}

/// Makes a load balancer with all that can belong to one, and one with nothing; returns the first one's ID.
async fn fill(api: &Api, project: &str) -> anyhow::Result<String> {
    let make = async |collection: &str, singular: &str, mut body: Value| -> anyhow::Result<String> {
        body["tenant_id"] = json!(project);
        let made = api.post(collection, &json!({singular: body})).await;
        id(&made.with_context(|| format!("cannot make a {singular}"))?[singular])
    };
    let network = make("/networks", "network", json!({"name": "net"})).await?;
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.30.0.0/24"});
    let subnet = make("/subnets", "subnet", subnet).await?;
    let vip = |name: &str| json!({"name": name, "vip_subnet_id": subnet});
    let balancer = make("/lbaas/loadbalancers", "loadbalancer", vip("web")).await?;
    make("/lbaas/loadbalancers", "loadbalancer", vip("")).await?;
    let pool = |name: &str| json!({"name": name, "loadbalancer_id": balancer, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
    let web = make("/lbaas/pools", "pool", pool("web")).await?;
    let static_pool = make("/lbaas/pools", "pool", pool("static")).await?;
    let listener = json!({
        "name": "http", "loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 80, "default_pool_id": web,
    });
    let listener = make("/lbaas/listeners", "listener", listener).await?;
    let bare = json!({"name": "bare", "loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 8443});
    make("/lbaas/listeners", "listener", bare).await?;
    for (host, weight, up) in [(11, 1, true), (12, 5, true), (13, 1, false)] {
        let member = json!({
            "address": format!("10.30.0.{host}"), "protocol_port": 8080, "subnet_id": subnet, "weight": weight,
            "admin_state_up": up,
        });
        make(&format!("/lbaas/pools/{web}/members"), "member", member).await?;
    }
    let monitor = json!({"pool_id": web, "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3});
    make("/lbaas/healthmonitors", "healthmonitor", monitor).await?;
    let policy = json!({"listener_id": listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": static_pool});
    let policy = make("/lbaas/l7policies", "l7policy", policy).await?;
    let rule = json!({"type": "PATH", "compare_type": "STARTS_WITH", "value": "/static"});
    make(&format!("/lbaas/l7policies/{policy}/rules"), "rule", rule).await?;
    Ok(balancer)
}

fn json_or_text(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn id(object: &Value) -> anyhow::Result<String> {
    object["id"].as_str().map(str::to_owned).with_context(|| format!("no ID in {object}"))
}
