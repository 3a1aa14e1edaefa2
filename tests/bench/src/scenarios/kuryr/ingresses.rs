//! Ingresses on one router: many at once, a path more, less and changed, and a minute in which nothing changes. Each beside the
//! same by hand.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::openstack::Options;
use gimbal_tests::{INGRESSES, WayBack, ingress_path};
use serde_json::{Value, json};

use super::routes_by_hand::{ByHand, routes_by_hand};
use super::{calls, count, number, quiet, routed, services};
use crate::figure::{Aim, Figure, Outcome};

/// Ingresses, each with a host of its own. Octavia reads the whole load balancer for each rule that it changes: with 50 of them it takes an
/// hour, by hand as well.
pub const MANY: usize = 10;
/// A path, and the Service that it leads to. Neighbours lead to different ones, so that each is a policy of its own.
pub type Path = (&'static str, &'static str);
/// The paths of each.
pub const PATHS: [Path; 4] = [("/a", "s0"), ("/b", "s1"), ("/c", "s2"), ("/d", "s3")];
pub const MEMBERS: u8 = 3;
/// Load balancers, listeners, pools, policies and floating IPs.
const LISTS: f64 = 5.0;
/// A look at what was changed may be five seconds away.
const REST: Duration = Duration::from_secs(8);
const TIME: f64 = 1.2;

pub async fn run(many: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    let stage = stage().await?;
    for (_, service) in PATHS {
        services::make(&stage, service, 1, MEMBERS).await?;
    }
    services::until_addresses(&stage, &PATHS.map(|(_, service)| service.to_owned())).await?;
    routed::until_routes(&stage, &[]).await?;
    calls::at_rest(&stage, [0, 0], REST).await?;
    let ByHand { all, changes: by_hand } = routes_by_hand(&stage, many).await?;

    let mut wanted: Vec<Vec<Path>> = vec![PATHS.to_vec(); many];
    let what = format!("{many} Ingresses of {} paths at once", PATHS.len());
    let (marks, begin) = (stage.marks()?, Instant::now());
    let create = (0..many).map(|number| make(&stage, number));
    stream::iter(create).buffer_unordered(20).try_collect::<Vec<()>>().await?;
    routed::until_routes(&stage, &wanted).await?;
    let took = begin.elapsed();
    routed::until_one_router(&stage).await?;
    let alone = begin.elapsed();
    let calls = calls::at_rest(&stage, marks, REST).await?;
    outcome.figures.extend([
        Figure::new(format!("{what}: until Octavia has all routes"), seconds(took), "s")
            .floor("one request by hand", seconds(all))
            .aim(Aim::AtMost(TIME)),
        Figure::new(format!("{what}: until the former router is gone"), seconds(alone), "s"),
        count(format!("{what}: changes"), calls.changes.len()),
        count(format!("{what}: reads"), calls.reads.len()),
    ]);
    outcome.notes.push(format!("{what}: {}", calls.sequence()));

    let one = many / 2;
    for ((change, paths), (by_hand, requests)) in [
        ("a path more", [&PATHS[..], &[("/e", "s0")]].concat()),
        ("a path less", PATHS.to_vec()),
        ("a path that leads elsewhere", [&[("/a", "s2")], &PATHS[1..]].concat()),
    ]
    .into_iter()
    .zip(by_hand)
    {
        let (marks, begin) = (stage.marks()?, Instant::now());
        let patch = json!({"spec": {"rules": [rule(one, &paths)]}});
        stage.cluster.admin().patch(&format!("{INGRESSES}/many-{one}"), &patch).await?;
        wanted[one] = paths;
        routed::until_routes(&stage, &wanted).await?;
        let took = begin.elapsed();
        let calls = calls::at_rest(&stage, marks, REST).await?;
        let what = format!("{change}, beside {} others", many * PATHS.len());
        outcome.figures.extend([
            Figure::new(format!("{what}: until clients find it so"), seconds(took), "s")
                .floor("by hand", seconds(by_hand))
                .aim(Aim::AtMost(TIME)),
            count(format!("{what}: changes"), calls.changes.len())
                .floor("by hand", number(requests))
                .aim(Aim::AtMost(1.0)),
            count(format!("{what}: reads"), calls.reads.len()),
        ]);
        outcome.notes.push(format!("{what}: {}", calls.sequence()));
    }
    quiet::minute(&stage, &format!("{} routes", many * PATHS.len()), LISTS, outcome).await
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

fn rule(number: usize, paths: &[Path]) -> Value {
    let paths: Vec<Value> = paths.iter().map(|(path, service)| ingress_path(path, "Prefix", service)).collect();
    json!({"host": host(number), "http": {"paths": paths}})
}

pub fn host(number: usize) -> String {
    format!("i{number}.example")
}

async fn make(stage: &WayBack, number: usize) -> anyhow::Result<()> {
    stage.make_ingress(&format!("many-{number}"), &json!([rule(number, &PATHS)])).await?;
    Ok(())
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
