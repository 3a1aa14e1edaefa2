//! Ingresses on one router: many at once, a path more, less and changed, and a minute in which nothing changes.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::openstack::Options;
use gimbal_tests::{INGRESSES, WayBack, ingress_path};
use serde_json::{Value, json};

use super::calls::{self, Calls};
use super::{REST, by_hand, count, number, quiet, services};
use crate::figure::{Figure, Outcome};

/// Ingresses, each with a host of its own.
pub const MANY: usize = 50;
/// The paths of each, with the Service that each leads to.
const PATHS: [(&str, &str); 4] = [("/a", "s0"), ("/b", "s1"), ("/c", "s2"), ("/d", "s3")];
const MEMBERS: u8 = 3;
const LOOK: Duration = Duration::from_millis(100);
const WITHIN: Duration = Duration::from_secs(1800);

pub async fn run(many: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    let stage = stage().await?;
    for (_, service) in PATHS {
        services::make(&stage, service, 1, MEMBERS).await?;
    }
    services::until_addresses(&stage, &PATHS.map(|(_, service)| service.to_owned())).await?;
    calls::at_rest(&stage, [0, 0], REST).await?;
    let bare = routes_by_hand(&stage, many).await?;

    let what = format!("{many} Ingresses of {} paths at once", PATHS.len());
    let (marks, begin) = (stage.marks()?, Instant::now());
    let create = (0..many).map(|number| make(&stage, number));
    stream::iter(create).buffer_unordered(20).try_collect::<Vec<()>>().await?;
    until_policies(&stage, many * PATHS.len()).await?;
    let took = begin.elapsed();
    let calls = calls::at_rest(&stage, marks, REST).await?;
    outcome.figures.extend([
        Figure::new(format!("{what}: until all routes are there"), seconds(took), "s")
            .floor("by hand", seconds(bare.took)),
        count(format!("{what}: changes"), calls.changes.len()).floor("by hand", number(bare.changes)),
        count(format!("{what}: reads"), calls.reads.len()),
    ]);
    outcome.notes.push(format!("{what}: {}", calls.sequence()));

    for (change, paths) in [
        ("a path more", [&PATHS[..], &[("/e", "s0")]].concat()),
        ("a path less", PATHS.to_vec()),
        ("a path that leads elsewhere", [&[("/a", "s1")], &PATHS[1..]].concat()),
    ] {
        let (marks, begin) = (stage.marks()?, Instant::now());
        let patch = json!({"spec": {"rules": [rule(many / 2, &paths)]}});
        stage.cluster.admin().patch(&format!("{INGRESSES}/many-{}", many / 2), &patch).await?;
        let calls = until_changed(&stage, marks).await?;
        let took = begin.elapsed().saturating_sub(REST);
        let what = format!("{change}, beside {} others", many * PATHS.len());
        outcome.figures.extend([
            Figure::new(format!("{what}: at rest after"), seconds(took), "s"),
            count(format!("{what}: changes"), calls.changes.len()),
            count(format!("{what}: reads"), calls.reads.len()),
        ]);
        outcome.notes.push(format!("{what}: {}", calls.sequence()));
    }
    quiet::minute(&stage, &format!("{} routes", many * PATHS.len()), outcome).await
}

async fn stage() -> anyhow::Result<WayBack> {
    let mut stage = WayBack::build_for_ingresses_on(Options::default()).await?;
    let quota = "quota: {loadBalancers: 100000, listeners: 100000, members: 10000000, ports: 100000}";
    stage.configure(&format!("vip: {{mode: allocate}}\n  kubernetes: {{enable_ingress: true}}\n  {quota}"))?;
    stage.make_ingress_class().await?;
    stage.start_writer(&[]).await?;
    stage.start_controller(&["--cluster-ip-services=false", "--ingress"]).await?;
    Ok(stage)
}

fn rule(number: usize, paths: &[(&str, &str)]) -> Value {
    let paths: Vec<Value> = paths.iter().map(|(path, service)| ingress_path(path, "Prefix", service)).collect();
    json!({"host": host(number), "http": {"paths": paths}})
}

fn host(number: usize) -> String {
    format!("i{number}.example")
}

async fn make(stage: &WayBack, number: usize) -> anyhow::Result<()> {
    stage.make_ingress(&format!("many-{number}"), &json!([rule(number, &PATHS)])).await?;
    Ok(())
}

/// What it takes by hand.
struct ByHand {
    took: Duration,
    changes: usize,
}

/// Makes the same policies and rules on a load balancer with the same pools, one request after the other, since Octavia takes one
/// at a time. Removes it all at the end.
async fn routes_by_hand(stage: &WayBack, many: usize) -> anyhow::Result<ByHand> {
    let octavia = stage.cloud.octavia();
    let balancer = by_hand::make(stage, "by-hand", 1, MEMBERS).await?;
    let listener = json!({"listener": {"loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 8000}});
    let listener = id(&octavia.post("/listeners", &listener).await?["listener"])?;
    by_hand::active(stage, &balancer).await?;
    let mut pools = Vec::new();
    for (_, service) in PATHS {
        let pool = json!({"pool": {"loadbalancer_id": balancer, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
            "name": service}});
        pools.push(id(&octavia.post("/pools", &pool).await?["pool"])?);
        by_hand::active(stage, &balancer).await?;
    }
    let (begin, mut changes) = (Instant::now(), 0);
    for number in 0..many {
        for ((path, _), pool) in PATHS.iter().zip(&pools) {
            let policy =
                json!({"l7policy": {"listener_id": listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": pool}});
            let policy = id(&octavia.post("/l7policies", &policy).await?["l7policy"])?;
            by_hand::active(stage, &balancer).await?;
            let rules = [("HOST_NAME", "EQUAL_TO", host(number)), ("PATH", "STARTS_WITH", (*path).to_owned())];
            for (kind, compare, value) in rules {
                let rule = json!({"rule": {"type": kind, "compare_type": compare, "value": value}});
                octavia.post(&format!("/l7policies/{policy}/rules"), &rule).await?;
                by_hand::active(stage, &balancer).await?;
            }
            changes += 3;
        }
    }
    let took = begin.elapsed();
    stage.cloud.delete(&format!("/loadbalancers/{balancer}")).await?;
    until_policies(stage, 0).await?;
    Ok(ByHand { took, changes })
}

fn id(row: &Value) -> anyhow::Result<String> {
    row["id"].as_str().map(str::to_owned).with_context(|| format!("no ID in {row}"))
}

/// Waits until Octavia has this many policies that are up and ACTIVE.
async fn until_policies(stage: &WayBack, wanted: usize) -> anyhow::Result<()> {
    let end = Instant::now() + WITHIN;
    let query = "select count(*) from octavia.l7policy where enabled = 1 and provisioning_status = 'ACTIVE'";
    loop {
        let found: usize = stage.cloud.sql(query).await?.trim().parse()?;
        if found == wanted {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < end, "{found} policies, not {wanted}\n{}", stage.logs());
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the writer has changed something since the marks and is at rest.
async fn until_changed(stage: &WayBack, marks: [usize; 2]) -> anyhow::Result<Calls> {
    let end = Instant::now() + WITHIN;
    while Calls::since(stage, marks)?.changes.is_empty() {
        anyhow::ensure!(Instant::now() < end, "nothing changes\n{}", stage.logs());
        tokio::time::sleep(LOOK).await;
    }
    calls::at_rest(stage, marks, REST).await
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
