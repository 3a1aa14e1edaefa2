//! The same work by the bare API.

use std::time::Duration;

use anyhow::Context as _;
use gimbal_tests::WayBack;
use serde_json::{Value, json};

/// How often it is asked whether a load balancer is ACTIVE.
pub const LOOK: Duration = Duration::from_millis(20);

/// Makes a load balancer, waits until it is ACTIVE, and returns its ID.
pub async fn make(stage: &WayBack, name: &str, ports: u16, members: u8) -> anyhow::Result<String> {
    let members: Vec<Value> = super::services::addresses(members)
        .iter()
        .map(|address| json!({"address": address, "protocol_port": super::services::TARGET}))
        .collect();
    let listener = |port: u16| {
        json!({"name": format!("l{port}"), "protocol": "TCP", "protocol_port": port, "default_pool": {
            "name": format!("p{port}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": members,
        }})
    };
    let listeners: Vec<Value> = (80..80 + ports).map(listener).collect();
    let body = json!({"loadbalancer": {
        "name": name, "vip_subnet_id": stage.subnet, "project_id": stage.project, "listeners": listeners,
    }});
    let made = stage.cloud.octavia().post("/loadbalancers", &body).await?;
    let id = made["loadbalancer"]["id"].as_str().context("no ID")?.to_owned();
    active(stage, &id).await?;
    Ok(id)
}

/// Waits until a load balancer is ACTIVE.
pub async fn active(stage: &WayBack, id: &str) -> anyhow::Result<()> {
    let path = format!("/loadbalancers/{id}");
    while stage.cloud.octavia().get(&path).await?["loadbalancer"]["provisioning_status"] != "ACTIVE" {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Adds a member to a load balancer with one pool, and waits until it is ACTIVE.
pub async fn add_member(stage: &WayBack, (id, pool): &(String, String), address: &str) -> anyhow::Result<()> {
    let body = json!({"members": [{"address": address, "protocol_port": super::services::TARGET}]});
    stage.cloud.octavia().put(&format!("/pools/{pool}/members?additive_only=true"), &body).await?;
    active(stage, id).await
}

/// Returns a load balancer with its first pool.
pub async fn with_pool(stage: &WayBack, id: &str) -> anyhow::Result<(String, String)> {
    let balancer = stage.cloud.octavia().get(&format!("/loadbalancers/{id}")).await?;
    let pool = balancer["loadbalancer"]["pools"][0]["id"].as_str().context("no pool")?;
    Ok((id.to_owned(), pool.to_owned()))
}
