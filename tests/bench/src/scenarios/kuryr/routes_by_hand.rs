//! The routes of many Ingresses by the bare API.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_tests::WayBack;
use serde_json::{Value, json};

use super::ingresses::{MEMBERS, PATHS, host};
use super::{by_hand, services};

/// How long the same takes by hand.
pub struct ByHand {
    /// One request that makes everything.
    pub all: Duration,
    /// A path more, a path less, and one that leads elsewhere: the time until each is so, and the number of requests.
    pub changes: [(Duration, usize); 3],
}

/// Makes a load balancer with the pools, policies and rules of this many Ingresses in one request, changes a path of one of them as
/// openstack-writer does, and removes everything.
pub async fn routes_by_hand(stage: &WayBack, many: usize) -> anyhow::Result<ByHand> {
    let members: Vec<Value> = services::addresses(MEMBERS)
        .iter()
        .map(|address| json!({"address": address, "protocol_port": services::TARGET}))
        .collect();
    let policies: Vec<Value> =
        (0..many).flat_map(|number| PATHS.map(|(path, service)| policy(&host(number), path, service))).collect();
    let body = json!({"loadbalancer": {
        "name": "by-hand", "vip_subnet_id": stage.subnet, "project_id": stage.project,
        "pools": PATHS.iter().map(|(_, service)| pool(service, &members)).collect::<Vec<_>>(),
        "listeners": [{"name": "by-hand", "protocol": "HTTP", "protocol_port": 80, "l7policies": policies}],
    }});
    let begin = Instant::now();
    let balancer = id(&stage.cloud.octavia().post("/loadbalancers", &body).await?["loadbalancer"])?;
    by_hand::active(stage, &balancer).await?;
    let all = begin.elapsed();
    let changes = changes(stage, &balancer, many / 2).await?;
    stage.cloud.delete(&format!("/loadbalancers/{balancer}")).await?;
    Ok(ByHand { all, changes })
}

/// Changes a path of one host. A policy that comes while others serve is made down, for its rules cannot come with it.
async fn changes(stage: &WayBack, balancer: &str, number: usize) -> anyhow::Result<[(Duration, usize); 3]> {
    let octavia = stage.cloud.octavia();
    let row = octavia.get(&format!("/loadbalancers/{balancer}")).await?;
    let listener = id(&row["loadbalancer"]["listeners"][0])?;
    let pools = octavia.get(&format!("/pools?loadbalancer_id={balancer}")).await?;
    let pools = pools["pools"].as_array().context("no pools")?;
    let pool = |name: &str| id(pools.iter().find(|one| one["name"] == name).context("no such pool")?);

    let begin = Instant::now();
    let body = json!({"l7policy": {
        "listener_id": listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": pool("s0")?, "admin_state_up": false,
    }});
    let policy = id(&octavia.post("/l7policies", &body).await?["l7policy"])?;
    by_hand::active(stage, balancer).await?;
    let rules = rules(&host(number), "/e");
    for rule in &rules {
        octavia.post(&format!("/l7policies/{policy}/rules"), &json!({"rule": rule})).await?;
        by_hand::active(stage, balancer).await?;
    }
    let place = json!({"l7policy": {"admin_state_up": true, "position": (number + 1) * PATHS.len() + 1}});
    octavia.put(&format!("/l7policies/{policy}"), &place).await?;
    by_hand::active(stage, balancer).await?;
    let more = (begin.elapsed(), 2 + rules.len());

    let begin = Instant::now();
    octavia.delete(&format!("/l7policies/{policy}")).await?;
    by_hand::active(stage, balancer).await?;
    let less = (begin.elapsed(), 1);

    let policies = octavia.get(&format!("/l7policies?listener_id={listener}")).await?;
    let from = pool("s0")?;
    let mut rows = policies["l7policies"].as_array().context("no policies")?.iter();
    let first = id(rows.find(|row| row["redirect_pool_id"] == from).context("no policy leads there")?)?;
    let begin = Instant::now();
    let elsewhere = json!({"l7policy": {"redirect_pool_id": pool("s2")?}});
    octavia.put(&format!("/l7policies/{first}"), &elsewhere).await?;
    by_hand::active(stage, balancer).await?;
    Ok([more, less, (begin.elapsed(), 1)])
}

fn pool(name: &str, members: &[Value]) -> Value {
    json!({"name": name, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "members": members})
}

fn policy(host: &str, path: &str, pool: &str) -> Value {
    json!({"action": "REDIRECT_TO_POOL", "redirect_pool": {"name": pool}, "rules": rules(host, path)})
}

fn rules(host: &str, path: &str) -> [Value; 2] {
    let rule = |kind: &str, compare: &str, value: &str| json!({"type": kind, "compare_type": compare, "value": value});
    [rule("HOST_NAME", "EQUAL_TO", host), rule("PATH", "STARTS_WITH", path)]
}

fn id(row: &Value) -> anyhow::Result<String> {
    row["id"].as_str().map(str::to_owned).with_context(|| format!("no ID in {row}"))
}
