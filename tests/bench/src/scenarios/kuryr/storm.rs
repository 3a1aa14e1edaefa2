//! Many changes of one Service's slice, and one change at a time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Service;
use gimbal_tests::WayBack;

use super::{REST, calls, median_count, number, services, stage};
use crate::figure::{Aim, Figure, Outcome};
use crate::times;

const CHANGES: u8 = 100;
const WITHIN: Duration = Duration::from_secs(60);
const PUTS: f64 = 3.0;
/// From the slice to the PUT, in milliseconds.
const P50: f64 = 30.0;
const SINGLE: u8 = 20;

pub async fn run(runs: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    let stage = stage("never").await?;
    let name = "web".to_owned();
    services::make(&stage, &name, 1, 3).await?;
    services::until_addresses(&stage, std::slice::from_ref(&name)).await?;
    let (mut puts, mut took, mut sequence) = (Vec::new(), Vec::new(), String::new());
    for run in 0..runs {
        let marks = stage.marks()?;
        let begin = tokio::time::Instant::now();
        for change in 0..CHANGES {
            // Two members stay, one is another each time.
            set(&stage, &name, &format!("10.2.{run}.{}", change + 1)).await?;
            tokio::time::sleep_until(begin + Duration::from_secs(1) * u32::from(change + 1) / u32::from(CHANGES)).await;
        }
        took.push(begin.elapsed().as_secs_f64() * 1e3);
        until_member(&stage, &format!("10.2.{run}.{CHANGES}")).await?;
        let calls = calls::at_rest(&stage, marks, REST).await?;
        puts.push(calls.changes.len());
        sequence = calls.sequence();
    }
    let what = format!("{CHANGES} changes of one slice");
    let most = number(puts.iter().copied().max().unwrap_or_default());
    outcome.figures.push(Figure::new(format!("{what}: PUTs"), median_count(&puts), ""));
    outcome.figures.push(Figure::new(format!("{what}: PUTs, most of a run"), most, "").aim(Aim::AtMost(PUTS)));
    outcome.figures.push(Figure::new(format!("{what}: time they were made in"), times::median(took), "ms"));
    let mut delays = Vec::new();
    for change in 0..SINGLE {
        let address = format!("10.3.0.{}", change + 1);
        let mark = stage.cloud.calls_mark(Service::Octavia)?;
        set(&stage, &name, &address).await?;
        let answered = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        until_member(&stage, &address).await?;
        let calls = stage.cloud.calls_since(Service::Octavia, mark)?;
        let put = calls.iter().find(|call| call.method == "PUT" && call.path.ends_with("/members"));
        delays.extend(put.map(|put| (put.came - answered) * 1e3));
        // What was changed is looked at until it has settled.
        calls::at_rest(&stage, stage.marks()?, Duration::from_millis(500)).await?;
    }
    outcome.figures.push(
        Figure::new(
            "from the API server's answer about a slice until Octavia gets the PUT: p50",
            times::median(delays),
            "ms",
        )
        .aim(Aim::AtMost(P50)),
    );
    outcome.notes.push(format!("{what}: {sequence}; single changes: {SINGLE}"));
    services::remove(&stage, &[name]).await
}

async fn set(stage: &WayBack, name: &str, third: &str) -> anyhow::Result<()> {
    let addresses = ["10.1.0.1", "10.1.0.2", third].map(str::to_owned);
    services::set_members(stage, name, 1, &addresses).await
}

async fn until_member(stage: &WayBack, address: &str) -> anyhow::Result<()> {
    let query = format!(
        "select count(*) from octavia.member where ip_address = '{address}' and provisioning_status = 'ACTIVE'"
    );
    eventually("the last change is there", WITHIN, async || {
        let count = stage.cloud.sql(&query).await?;
        anyhow::ensure!(count.trim() == "1", "{count}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}
