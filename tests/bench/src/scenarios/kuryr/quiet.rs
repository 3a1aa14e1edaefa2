//! Many load balancers of which none changes: what a minute costs, what a restart of both programs costs, and memory.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::eventually;
use gimbal_tests::{WayBack, metric};

use super::calls::{self, Calls};
use super::{count, number, services};
use crate::figure::{Aim, Figure, Outcome};
use crate::proc::Usage;

pub const MANY: usize = 1000;
const MEMBERS: u8 = 20;
/// The writer looks for drift as often.
const MINUTE: Duration = Duration::from_secs(60);
const LISTS: f64 = 3.0;
/// After a restart nothing more must come for so long.
const REST: Duration = Duration::from_secs(8);
const WITHIN: Duration = Duration::from_secs(600);
/// Seconds: the writer looks for what is missing each minute, and then makes it.
const REPAIRED: f64 = 62.0;

pub async fn run(many: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut stage = super::stage("always").await?;
    // With the first one.
    let names: Vec<String> = (1..many).map(|number| format!("quiet-{number}")).collect();
    services::make(&stage, "first", 1, MEMBERS).await?;
    services::until_addresses(&stage, &["first".to_owned()]).await?;
    let before = memory(&stage)?;
    let begin = Instant::now();
    let create = names.iter().map(|name| services::make(&stage, name, 1, MEMBERS));
    stream::iter(create).buffer_unordered(20).try_collect::<Vec<()>>().await?;
    services::until_addresses(&stage, &names).await?;
    let what = format!("{many} load balancers with {MEMBERS} members");
    outcome.figures.push(Figure::new(format!("{what}: made in"), begin.elapsed().as_secs_f64(), "s"));
    minute(&stage, &what, LISTS, outcome).await?;
    let after = memory(&stage)?;
    repair(&stage, outcome).await?;
    restart(&mut stage, many, &what, outcome).await?;
    let again = memory(&stage)?;
    #[allow(clippy::cast_precision_loss)]
    for (place, program) in ["controller", "openstack-writer"].into_iter().enumerate() {
        let each = (after[place] - before[place]) * 1e3 / many as f64;
        outcome.figures.extend([
            Figure::new(format!("{what}: memory of the {program}"), after[place], "MB"),
            Figure::new(format!("{what}: memory of the {program} after the restart"), again[place], "MB"),
            Figure::new(format!("memory of the {program} for each"), each, "kB"),
        ]);
    }
    Ok(())
}

/// A minute that begins right after the lists, of which this many are aimed at.
pub async fn minute(stage: &WayBack, what: &str, aim: f64, outcome: &mut Outcome) -> anyhow::Result<()> {
    // What was changed is looked at once more with the next lists.
    let mut looks = Vec::new();
    for _ in 0..2 {
        let marks = stage.marks()?;
        until_lists(stage, marks).await?;
        looks.push(calls::at_rest(stage, marks, REST).await?);
    }
    let again: usize = looks.iter().map(Calls::counted).sum();
    outcome.figures.push(count(format!("{what}: reads once more after they were made"), again));
    let (marks, audited) = (stage.marks()?, stage.cluster.audit_mark().await?);
    tokio::time::sleep(MINUTE).await;
    let calls = calls::at_rest(stage, marks, Duration::from_secs(2)).await?;
    let lists = Figure::new(format!("{what}: lists in an idle minute"), number(calls.polls.len()), "");
    outcome.figures.push(lists.aim(Aim::AtMost(aim)));
    outcome.figures.push(count(format!("{what}: further pages of those lists"), calls.pages.len()));
    outcome.figures.push(none(format!("{what}: other calls in an idle minute"), calls.counted()));
    let writes = stage.writes_since(audited).await?.len();
    outcome.figures.push(none(format!("{what}: writes to Kubernetes in an idle minute"), writes));
    outcome.notes.push(format!(
        "an idle minute: {}; {}; {} of what the cloud is like",
        calls.polls.join(", "),
        calls.sequence(),
        calls.cloud.len()
    ));
    Ok(())
}

async fn restart(stage: &mut WayBack, all: usize, what: &str, outcome: &mut Outcome) -> anyhow::Result<()> {
    stage.controller.take().context("the controller does not run")?.process.kill()?;
    stage.writer.take().context("the writer does not run")?.process.kill()?;
    let (marks, audited) = (stage.marks()?, stage.cluster.audit_mark().await?);
    let begin = Instant::now();
    stage.start_writer(&[]).await?;
    stage.start_controller(&["--cluster-ip-services=false"]).await?;
    until_ready(stage, all).await?;
    let calls = calls::at_rest(stage, marks, REST).await?;
    let took = begin.elapsed().saturating_sub(REST).as_secs_f64();
    let (writes, balancers) = (stage.writes_since(audited).await?, stage.balancers().await?.len());
    anyhow::ensure!(balancers == all, "{balancers} load balancers, not {all}");
    let what = format!("{what}, both programs killed and started");
    outcome.figures.extend([
        none(format!("{what}: changes of OpenStack"), calls.changes.len()),
        none(format!("{what}: writes to Kubernetes"), writes.len()),
        count(format!("{what}: lists"), calls.polls.len()),
        count(format!("{what}: further pages of those lists"), calls.pages.len()),
        count(format!("{what}: other reads"), calls.reads.len()),
        Figure::new(format!("{what}: at rest after"), took, "s"),
    ]);
    let kinds: Vec<String> = writes.iter().take(8).map(|write| format!("{} {}", write.verb, write.uri)).collect();
    outcome.notes.push(format!("restart: {}; {}", calls.sequence(), kinds.join(", ")));
    Ok(())
}

/// Waits until the writer has listed everything.
async fn until_lists(stage: &WayBack, marks: [usize; 2]) -> anyhow::Result<()> {
    let end = Instant::now() + WITHIN;
    while Calls::since(stage, marks)?.polls.len() < 3 {
        anyhow::ensure!(Instant::now() < end, "the writer lists nothing\n{}", stage.logs());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

/// Waits until the writer has seen every load balancer as it should be: it tells nothing of those that it has not listed.
async fn until_ready(stage: &WayBack, all: usize) -> anyhow::Result<()> {
    let port = stage.writer.as_ref().context("the writer does not run")?.admin_port;
    let ready = eventually("all load balancers are ready", WITHIN, async || {
        let ready = metric(port, "gimbal_openstack_writer_load_balancers", "state=\"ready\"").await?;
        anyhow::ensure!((ready - number(all)).abs() < 0.5, "{ready} of {all} are");
        Ok::<_, anyhow::Error>(())
    });
    ready.await.with_context(|| stage.logs())
}

/// One load balancer is deleted by hand: how long until the status names the one in its place.
async fn repair(stage: &WayBack, outcome: &mut Outcome) -> anyhow::Result<()> {
    let name = "first";
    let id = async || {
        let resource = stage.resource(name).await?.context("its resource is gone")?;
        Ok::<_, anyhow::Error>(resource["status"]["loadbalancer"]["id"].as_str().unwrap_or_default().to_owned())
    };
    let former = id().await?;
    let begin = Instant::now();
    stage.cloud.delete(&format!("/loadbalancers/{former}")).await?;
    let made = eventually("its status names another", WITHIN, async || {
        let now = id().await?;
        anyhow::ensure!(!now.is_empty() && now != former, "it names {now:?}");
        Ok::<_, anyhow::Error>(())
    });
    made.await.with_context(|| stage.logs())?;
    let what = "a load balancer that was deleted by hand: until the status names another";
    outcome.figures.push(Figure::new(what, begin.elapsed().as_secs_f64(), "s").aim(Aim::AtMost(REPAIRED)));
    Ok(())
}

fn memory(stage: &WayBack) -> anyhow::Result<[f64; 2]> {
    let of = |program: &Option<gimbal_tests::WayBackProgram>| {
        let program = program.as_ref().context("a program does not run")?;
        Ok::<_, anyhow::Error>(Usage::of(program.process.id())?.resident)
    };
    Ok([of(&stage.controller)?, of(&stage.writer)?])
}

fn none(what: String, found: usize) -> Figure {
    count(what, found).aim(Aim::AtMost(0.0))
}
