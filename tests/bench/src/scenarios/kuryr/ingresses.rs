//! Ingresses on one router: many at once, a path more, less and changed, and a minute in which nothing changes.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::openstack::Options;
use gimbal_tests::{INGRESSES, WayBack, ingress_path};
use serde_json::{Value, json};

use super::calls::{self, Calls};
use super::{REST, by_hand, count, quiet, services};
use crate::figure::{Figure, Outcome};

/// Ingresses, each with a host of its own. Octavia reads the whole load balancer for each rule that it changes: with 50 of them it takes an
/// hour, by hand as well.
pub const MANY: usize = 10;
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
            .floor("one request by hand", seconds(bare)),
        count(format!("{what}: changes"), calls.changes.len()),
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

/// Makes a load balancer with the same pools, policies and rules in one request, and returns how long that took. Removes it all at
/// the end.
async fn routes_by_hand(stage: &WayBack, many: usize) -> anyhow::Result<Duration> {
    let members: Vec<Value> = services::addresses(MEMBERS)
        .iter()
        .map(|address| json!({"address": address, "protocol_port": services::TARGET}))
        .collect();
    let pool = |(_, name): &(&str, &str)| json!({"name": name, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "members": members});
    let policy = |host: &str, path: &str, pool: &str| {
        let rule =
            |kind: &str, compare: &str, value: &str| json!({"type": kind, "compare_type": compare, "value": value});
        let rules = [rule("HOST_NAME", "EQUAL_TO", host), rule("PATH", "STARTS_WITH", path)];
        json!({"action": "REDIRECT_TO_POOL", "redirect_pool": {"name": pool}, "rules": rules})
    };
    let policies: Vec<Value> =
        (0..many).flat_map(|number| PATHS.map(|(path, service)| policy(&host(number), path, service))).collect();
    let body = json!({"loadbalancer": {
        "name": "by-hand", "vip_subnet_id": stage.subnet, "project_id": stage.project,
        "pools": PATHS.iter().map(pool).collect::<Vec<_>>(),
        "listeners": [{"name": "by-hand", "protocol": "HTTP", "protocol_port": 80, "l7policies": policies}],
    }});
    let begin = Instant::now();
    let made = id(&stage.cloud.octavia().post("/loadbalancers", &body).await?["loadbalancer"])?;
    by_hand::active(stage, &made).await?;
    let took = begin.elapsed();
    stage.cloud.delete(&format!("/loadbalancers/{made}")).await?;
    until_policies(stage, 0).await?;
    Ok(took)
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
