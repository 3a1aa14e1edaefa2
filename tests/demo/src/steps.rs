//! The steps of the demo, in order.

use std::time::{Duration, Instant};

use gimbal_kubernetes_client::WatchScope;
use gimbal_kubernetes_objects::{EndpointSlice, Object as _, keys};
use serde_json::json;
use tokio::time::timeout;

use crate::BACKEND;
use crate::fill::{self, Fill};
use crate::objects::{Offer, ready};
use crate::report::Report;
use crate::stage::Stage;
use crate::view::{View, differences};

/// How long a step may take. The limit ends a demo that does not work; it is not a measure of speed.
const WITHIN: Duration = Duration::from_secs(60);

pub async fn all(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    let mut offers = fill::offers();
    start(stage, report, &offers).await?;
    changes(stage, report, &offers).await?;
    comes_and_goes(stage, report).await?;
    by_hand(stage, report).await?;
    late_namespace(stage, report).await?;
    restarts(stage, report, &offers).await?;
    crashes(stage, report, &mut offers).await?;
    questions(stage, report).await
}

async fn start(stage: &mut Stage, report: &mut Report, offers: &[Offer]) -> anyhow::Result<()> {
    report.note("start: the source is full, the Gimbal cluster empty");
    stage.make_namespaces().await?;
    let source = stage.source.cluster.clone();
    let fill = Fill(&source);
    for offer in offers.iter().chain([&fill::elsewhere()]) {
        fill.put(offer).await?;
    }
    stage.start_writer().await?;
    let begin = Instant::now();
    stage.start_discoverer().await?;
    landed(stage, report, begin, &format!("{} Services are there, from the discoverer's start on", offers.len()))
        .await?;
    report.holds("the ExternalName is not: it has no endpoints");
    Ok(())
}

async fn changes(stage: &mut Stage, report: &mut Report, offers: &[Offer]) -> anyhow::Result<()> {
    report.note("changes: from the source's answer to the sight of it in the Gimbal cluster");
    let source = stage.source.cluster.clone();
    let fill = Fill(&source);
    let web = find(offers, "web")?;
    fill.change_slice(web, |slice| slice.endpoints.push(ready("10.20.1.4"))).await?;
    landed(stage, report, Instant::now(), "an endpoint more").await?;
    fill.change_slice(web, |slice| {
        for endpoint in slice.endpoints.iter_mut().take(1) {
            endpoint.conditions.ready = Some(false);
            endpoint.conditions.terminating = Some(true);
        }
    })
    .await?;
    landed(stage, report, Instant::now(), "an endpoint terminates").await?;
    fill.change_slice(web, |slice| drop(slice.endpoints.drain(..1))).await?;
    landed(stage, report, Instant::now(), "it is gone").await?;
    fill.change_service(web, |service| service.spec.ports.truncate(2)).await?;
    landed(stage, report, Instant::now(), "a port less on the Service").await?;
    let crowd = find(offers, "crowd")?;
    fill.change_slice(crowd, |slice| {
        for endpoint in slice.endpoints.iter_mut().step_by(2) {
            endpoint.conditions.ready = Some(false);
        }
    })
    .await?;
    landed(stage, report, Instant::now(), "50 of 250 endpoints not ready, at once").await
}

async fn comes_and_goes(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    let source = stage.source.cluster.clone();
    let fill = Fill(&source);
    let fresh = Offer::new(fill::SHOP, "fresh", &[("http", 80, 8080, "TCP")]).slice("IPv4", vec![ready("10.20.9.1")]);
    fill.put(&fresh).await?;
    landed(stage, report, Instant::now(), "a new Service").await?;
    fill.remove(&fresh).await?;
    landed(stage, report, Instant::now(), "it is deleted").await
}

async fn by_hand(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    report.note("by hand: someone deletes a slice in the Gimbal cluster");
    let scope = WatchScope {
        namespace: Some(fill::SHOP.to_owned()),
        label_selector: Some(format!("{}={}", keys::SLICE_MANAGED_BY, keys::MANAGER)),
        ..WatchScope::default()
    };
    for slice in stage.gimbal.cluster.list::<EndpointSlice>(&scope).await?.iter().take(1) {
        stage.gimbal.delete_by_hand(EndpointSlice::KIND, fill::SHOP, &slice.metadata.name).await?;
    }
    landed(stage, report, Instant::now(), "it is back").await
}

async fn late_namespace(stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    report.note("a namespace that the Gimbal cluster does not have yet");
    let early = Offer::new(fill::LATE, "early", &[("http", 80, 8080, "TCP")]).slice("IPv4", vec![ready("10.20.10.1")]);
    Fill(&stage.source.cluster).put(&early).await?;
    if !stage.one_cluster() {
        stage.gimbal.make_namespace(fill::LATE).await?;
    }
    landed(stage, report, Instant::now(), "it is made, and what waited for it lands").await
}

async fn restarts(stage: &mut Stage, report: &mut Report, offers: &[Offer]) -> anyhow::Result<()> {
    report.note("restarts, with nothing changed: from the start of the process to the next change");
    let web = find(offers, "web")?;
    let before = stage.target().await?;
    stage.processes.end_discoverer().await?;
    let begin = Instant::now();
    stage.start_discoverer().await?;
    Fill(&stage.source.cluster).change_slice(web, |slice| slice.endpoints.push(ready("10.20.1.5"))).await?;
    landed(stage, report, begin, "discoverer").await?;
    untouched(report, &before, &stage.target().await?, "web")?;

    let before = stage.target().await?;
    stage.processes.end_writer().await?;
    let begin = Instant::now();
    stage.start_writer().await?;
    Fill(&stage.source.cluster).change_slice(web, |slice| slice.endpoints.push(ready("10.20.1.6"))).await?;
    landed(stage, report, begin, "writer").await?;
    untouched(report, &before, &stage.target().await?, "web")
}

async fn crashes(stage: &mut Stage, report: &mut Report, offers: &mut Vec<Offer>) -> anyhow::Result<()> {
    report.note("crashes (SIGKILL), with changes while it is down: from the start of the process until all has landed");
    let stream = take(offers, "stream")?;
    stage.processes.kill_writer()?;
    Fill(&stage.source.cluster).remove(&stream).await?;
    Fill(&stage.source.cluster)
        .change_slice(find(offers, "search")?, |slice| slice.endpoints.push(ready("10.20.3.3")))
        .await?;
    let begin = Instant::now();
    stage.start_writer().await?;
    landed(stage, report, begin, "writer: a Service was deleted, an endpoint came").await?;

    let before = stage.target().await?;
    let signal = take(offers, "signal")?;
    stage.processes.kill_discoverer()?;
    Fill(&stage.source.cluster).remove(&signal).await?;
    let differs = differences(&before, &stage.target().await?);
    anyhow::ensure!(differs.is_empty(), "the loss of a discoverer changed something:\n{}", differs.join("\n"));
    report.holds("without its discoverer, everything stays as it was");
    let begin = Instant::now();
    stage.start_discoverer().await?;
    landed(stage, report, begin, "discoverer: a Service was deleted").await
}

async fn questions(stage: &Stage, report: &Report) -> anyhow::Result<()> {
    report.note("questions: what both know of themselves, asked by grpcurl and gimbalctl");
    let backend = stage.processes.ask_writer()?.backend(BACKEND)?;
    let well = backend["connected"] == true && backend["complete"] == true;
    anyhow::ensure!(well, "the writer does not say that {BACKEND} is connected and complete: {backend:#}");
    report.holds("the writer: the backend is connected and complete");
    let services = stage.processes.discoverer()?.ask().call("InspectionService/ListServices", &json!({}))?;
    let (known, offered) = (services["services"].as_array().map_or(0, Vec::len), stage.offered().await?.len());
    anyhow::ensure!(known == offered, "the discoverer knows {known} Services of {offered}: {services:#}");
    report.holds(&format!("the discoverer: {known} Services"));
    for words in ["backends", &format!("why {}/web --backend {BACKEND}", fill::SHOP)] {
        let said = stage.processes.gimbalctl(words)?;
        anyhow::ensure!(said.code == Some(0), "gimbalctl {words} failed: {said:?}");
        report.said(&format!("gimbalctl {words}"), &said.out);
    }
    Ok(())
}

/// Waits until the Gimbal cluster holds what the source offers, and reports how long that took since `begin`.
async fn landed(stage: &mut Stage, report: &mut Report, begin: Instant, what: &str) -> anyhow::Result<()> {
    let expected = stage.offered().await?;
    let right = |target: &View| differences(&expected, target).is_empty();
    if let Ok(at) = timeout(WITHIN, stage.sight.until(right)).await {
        report.took(what, at?.saturating_duration_since(begin));
        return Ok(());
    }
    anyhow::bail!("{what}: not within {WITHIN:?}\n{}", differences(&expected, &stage.target().await?).join("\n"))
}

/// Checks by versions that only `changed` was written.
fn untouched(report: &Report, before: &View, after: &View, changed: &str) -> anyhow::Result<()> {
    let others = |view: &View| -> Vec<String> {
        let kept = view.iter().filter(|(source, _)| !source.ends_with(&format!("/{changed}")));
        kept.flat_map(|(_, seen)| seen.versions.iter().cloned()).collect()
    };
    let (before, after) = (others(before), others(after));
    let written: Vec<String> = after.iter().filter(|version| !before.contains(version)).cloned().collect();
    anyhow::ensure!(written.is_empty(), "written although nothing had changed:\n{}", written.join("\n"));
    report.holds(&format!("the other {} objects were not written", after.len()));
    Ok(())
}

fn find<'a>(offers: &'a [Offer], name: &str) -> anyhow::Result<&'a Offer> {
    let found = offers.iter().find(|offer| &*offer.service.metadata.name == name);
    found.ok_or_else(|| anyhow::anyhow!("the demo offers no {name}"))
}

fn take(offers: &mut Vec<Offer>, name: &str) -> anyhow::Result<Offer> {
    let found = find(offers, name)?.clone();
    offers.retain(|offer| &*offer.service.metadata.name != name);
    Ok(found)
}
