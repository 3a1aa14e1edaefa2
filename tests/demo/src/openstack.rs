//! `cargo xtask demo --openstack`: a real Keystone and Octavia, and how what happens there arrives in the Gimbal
//! cluster.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Service;
use serde_json::{Value, json};
use tokio::time::timeout;

pub mod stage;

use crate::report::Report;
use crate::view::{self, View};
use stage::Stage;

/// How long a step may take. The limit ends a demo that does not work; it is not a measure of speed.
const WITHIN: Duration = Duration::from_secs(60);
/// Several polls.
const A_WHILE: Duration = Duration::from_secs(4);

pub async fn play(report: &mut Report, once: bool) -> anyhow::Result<()> {
    let mut stage = Stage::build().await?;
    report.title("cloud", &format!("{}  (Keystone and Octavia, started for the demo)", stage.cloud.keystone_url()));
    report.title("gimbal cluster", &format!("{}  (started for the demo)", stage.gimbal.url()));
    report.title("polls", "one a second; a change waits for the next one");
    let result = steps(&mut stage, report).await;
    result.map_err(|error| error.context(stage.processes.logs()))?;
    report.table(&view::target(&stage.gimbal.client()?).await?);
    report.times();
    for (what, line) in stage.hints()? {
        report.hint(what, &line);
    }
    if !once {
        report.note("everything keeps running; Ctrl-C ends it");
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn steps(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    report.note("start: the cloud is full, the Gimbal cluster empty");
    let web = stage.cloud.create_load_balancer("alpha", &web()).await?;
    let dns = stage.cloud.create_load_balancer("beta", &dns()).await?;
    stage.start_writer().await?;
    let begin = Instant::now();
    stage.start_discoverer().await?;
    landed(stage, report, begin, "2 load balancers are there, from the discoverer's start on", |view| {
        is(view, &web, 3, 3) && is(view, &dns, 2, 2)
    })
    .await?;
    changes(stage, report, &web).await?;
    trouble(stage, report, &web).await?;
    report.note("a project is deleted; its load balancer stays in Octavia, as in any cloud");
    let beta = stage.cloud.project("beta").await?;
    stage.cloud.delete_project(&beta).await?;
    landed(stage, report, Instant::now(), "its Service is gone", |view| !has(view, &dns)).await
}

async fn changes(stage: &mut Stage, report: &mut Report, web: &Value) -> anyhow::Result<()> {
    report.note("changes: from Octavia's answer to the sight of it in the Gimbal cluster");
    let members = format!("/pools/{}/members", text(&web["pools"][0]["id"])?);
    let fourth = stage.cloud.create(&members, &member("10.30.1.4", 8080)).await?;
    landed(stage, report, Instant::now(), "a member more", |view| is(view, web, 4, 4)).await?;
    let object = format!("{members}/{}", text(&fourth["id"])?);
    stage.cloud.update(&object, &json!({"weight": 0})).await?;
    landed(stage, report, Instant::now(), "its weight is 0: no new traffic", |view| is(view, web, 3, 3)).await?;
    stage.cloud.update(&object, &json!({"weight": 1})).await?;
    landed(stage, report, Instant::now(), "its weight is 1", |view| is(view, web, 4, 4)).await?;
    stage.cloud.set_health(text(&fourth["id"])?, Some("ERROR")).await?;
    landed(stage, report, Instant::now(), "its health monitor fails: not ready", |view| is(view, web, 4, 3)).await?;
    let balancer = format!("/loadbalancers/{}", text(&web["id"])?);
    stage.cloud.update(&balancer, &json!({"admin_state_up": false})).await?;
    landed(stage, report, Instant::now(), "the load balancer is switched off", |view| is(view, web, 0, 0)).await?;
    stage.cloud.update(&balancer, &json!({"admin_state_up": true})).await?;
    landed(stage, report, Instant::now(), "and on", |view| is(view, web, 4, 3)).await?;
    let fresh = json!({"name": "Żółty №1", "listeners": [listener("TCP", 5432, "pg", &[member("10.30.3.1", 5432)])]});
    let fresh = stage.cloud.create_load_balancer("gamma", &fresh).await?;
    landed(stage, report, Instant::now(), "a new load balancer, with a name of its own", |view| is(view, &fresh, 1, 1))
        .await?;
    stage.cloud.delete(&format!("/loadbalancers/{}", text(&fresh["id"])?)).await?;
    landed(stage, report, Instant::now(), "it is deleted", |view| !has(view, &fresh)).await
}

async fn trouble(stage: &mut Stage, report: &mut Report, web: &Value) -> anyhow::Result<()> {
    report.note("trouble: Keystone is killed, and comes back");
    let before = versions(stage).await?;
    stage.cloud.stop(Service::Keystone).await?;
    tokio::time::sleep(A_WHILE).await;
    unchanged(stage, &before).await?;
    report.holds("without Keystone, everything stays as it was");
    stage.cloud.resume(Service::Keystone).await?;
    let members = format!("/pools/{}/members", text(&web["pools"][0]["id"])?);
    // Octavia answers 503 until it has reached Keystone again.
    let fifth = member("10.30.1.5", 8080);
    eventually("Octavia takes a member", WITHIN, async || stage.cloud.create(&members, &fifth).await).await?;
    landed(stage, report, Instant::now(), "with it, a member more", |view| is(view, web, 5, 4)).await?;
    report.note("the discoverer restarts, with nothing changed");
    let before = versions(stage).await?;
    stage.processes.end_discoverer().await?;
    stage.start_discoverer().await?;
    tokio::time::sleep(A_WHILE).await;
    unchanged(stage, &before).await?;
    report.holds(&format!("{} objects were not written", before.len()));
    Ok(())
}

/// Waits until the Gimbal cluster is as expected, and reports how long that took since `begin`.
async fn landed(
    stage: &mut Stage,
    report: &mut Report,
    begin: Instant,
    what: &str,
    right: impl Fn(&View) -> bool,
) -> anyhow::Result<()> {
    let seen = timeout(WITHIN, stage.sight.until(right)).await;
    let at = seen.with_context(|| format!("{what}: not within {WITHIN:?}"))??;
    report.took(what, at.saturating_duration_since(begin));
    Ok(())
}

async fn versions(stage: &Stage) -> anyhow::Result<BTreeSet<String>> {
    let view = view::target(&stage.gimbal.client()?).await?;
    Ok(view.into_values().flat_map(|seen| seen.versions).collect())
}

async fn unchanged(stage: &Stage, before: &BTreeSet<String>) -> anyhow::Result<()> {
    let after = versions(stage).await?;
    let written: Vec<&String> = after.symmetric_difference(before).collect();
    anyhow::ensure!(written.is_empty(), "written although nothing had changed: {written:?}");
    Ok(())
}

/// Whether a load balancer's Service exists with `endpoints` endpoints, `ready` of them ready.
fn is(view: &View, balancer: &Value, endpoints: usize, ready: usize) -> bool {
    of(view, balancer).any(|seen| (seen.endpoints, seen.ready) == (endpoints, ready))
}

fn has(view: &View, balancer: &Value) -> bool {
    of(view, balancer).next().is_some()
}

fn of<'a>(view: &'a View, balancer: &Value) -> impl Iterator<Item = &'a view::Seen> {
    let id = balancer["id"].as_str().unwrap_or("none").to_owned();
    view.iter().filter(move |(source, _)| source.ends_with(&id)).map(|(_, seen)| seen)
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("Octavia gave no text")
}

fn web() -> Value {
    let members = [member("10.30.1.1", 8080), member("10.30.1.2", 8080), member("10.30.1.3", 8080)];
    let mut listener = listener("HTTP", 80, "web", &members);
    listener["default_pool"]["healthmonitor"] = json!({"type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 3});
    json!({"name": "web", "listeners": [listener]})
}

fn dns() -> Value {
    let members = [member("10.30.2.1", 5353)];
    json!({"name": "dns", "listeners": [listener("TCP", 53, "tcp", &members), listener("UDP", 53, "udp", &members)]})
}

fn listener(protocol: &str, port: u16, name: &str, members: &[Value]) -> Value {
    let pool = json!({"name": name, "protocol": protocol, "lb_algorithm": "ROUND_ROBIN", "members": members});
    json!({"protocol": protocol, "protocol_port": port, "default_pool": pool})
}

fn member(address: &str, port: u16) -> Value {
    json!({"address": address, "protocol_port": port})
}
