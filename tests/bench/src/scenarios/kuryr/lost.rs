//! Creations whose client goes away: how long afterwards the load balancer is found by its tag, with one and with several
//! processes of Octavia's API.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::openstack::{OpenStack, Options};
use serde_json::json;

use crate::figure::{Figure, Outcome};
use crate::times::Times;

/// Processes of Octavia's API, and creations that are under way at once.
const SITUATIONS: [(u32, usize); 4] = [(1, 1), (3, 1), (3, 4), (3, 8)];
/// The client is gone so soon.
const GONE_AFTER: Duration = Duration::from_millis(200);
const WITHIN: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(50);

pub async fn run(outcome: &mut Outcome) -> anyhow::Result<()> {
    for workers in [1, 3] {
        let options = Options { neutron: true, octavia_workers: workers, ..Options::default() };
        let cloud = OpenStack::start_with(options).await?;
        let subnet = cloud.create_subnet("alpha", "10.96.0.0/16").await?;
        let project = cloud.project("alpha").await?;
        for (_, at_once) in SITUATIONS.iter().filter(|(of, _)| *of == workers) {
            let mut times = Vec::new();
            for round in 0..3 {
                let lose = (0..*at_once).map(|number| {
                    lose(&cloud, &project, &subnet, format!("lost:{workers}-{at_once}-{round}-{number}"))
                });
                times.extend(stream::iter(lose).buffer_unordered(*at_once).try_collect::<Vec<_>>().await?);
            }
            let found: Vec<Duration> = times.iter().flatten().copied().collect();
            let (all, times) = (times.len(), Times::new(found));
            let what = format!("a creation whose client is gone, {at_once} at once, {workers} process(es) of Octavia");
            outcome.figures.push(Figure::new(format!("{what}: seen after, p50"), times.percentile(50.0), "ms"));
            outcome.figures.push(Figure::new(
                format!("{what}: the last one seen after"),
                times.percentile(100.0),
                "ms",
            ));
            outcome.notes.push(format!("{what}: {} of {all} came to be", times.len()));
        }
    }
    Ok(())
}

/// Sends a creation and goes away. Returns how long after that the load balancer was seen; `None` if it never was.
async fn lose(cloud: &OpenStack, project: &str, subnet: &str, tag: String) -> anyhow::Result<Option<Duration>> {
    let octavia = cloud.octavia();
    // So that it has logged in.
    octavia.get("/loadbalancers?fields=id&limit=1").await?;
    let body = json!({"loadbalancer": {"name": tag, "tags": [tag], "vip_subnet_id": subnet, "project_id": project}});
    let answer = tokio::time::timeout(GONE_AFTER, octavia.post("/loadbalancers", &body)).await;
    if let Ok(answer) = answer {
        answer?;
        anyhow::bail!("it was answered within {GONE_AFTER:?}");
    }
    let begin = Instant::now();
    while begin.elapsed() < WITHIN {
        let list = octavia.get(&format!("/loadbalancers?tags={tag}&fields=id")).await?;
        if list["loadbalancers"].as_array().is_some_and(|found| !found.is_empty()) {
            return Ok(Some(begin.elapsed()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}
