//! Flame graphs of discoverer and writer: a bulk sync from empty, then churn. This is not a measurement, because
//! sampling slows both down.

use std::time::{Duration, Instant};

use gimbal_tests::Scene;

use crate::Context;
use crate::figure::{Figure, Outcome};
use crate::fill::{self, Lot, fill};
use crate::flame::{Flame, Sampling};
use crate::sight::{self, Sight};

const PATIENCE: Duration = Duration::from_secs(60);
const CHURN: Duration = Duration::from_secs(20);
/// Number of concurrent changes.
const HANDS: usize = 8;

/// Names that are searched for on the stacks of the samples.
const PARTS: [&str; 12] = [
    "serde_json",
    "rustls",
    "h2::",
    "hyper::",
    "gimbal_reconcile",
    "gimbal_plan",
    "gimbal_session",
    "gimbal_kubernetes_source",
    "prost",
    "zstd",
    "tokio::runtime",
    "je_",
];

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let lot = Lot { prefix: "web", services: context.scaled(10_000), endpoints: 20 };
    let scene = Scene::start().await?;
    fill(&scene.source, &[lot]).await?;
    fill::namespaces(&scene.gimbal).await?;
    let eyes = scene.gimbal.client()?;
    let mut sight = Sight::open(&eyes);
    sight::watches_open(&eyes).await?;
    let config = scene.config(&["bench"], "")?;
    let writer = scene.writer(&config, &["--write-concurrency", "64"]).await?;
    let discoverer = scene.discoverer("bench", &scene.source, writer.port, &[])?;
    let processes = [writer.process.id(), discoverer.process.id()];
    let dir = scene.path("profile");
    std::fs::create_dir_all(&dir)?;

    let sampling = Sampling::start(&processes, &dir)?;
    sight.span(lot.services * 2, PATIENCE).await?;
    let title = format!("discoverer and writer: {} Services of {} endpoints from empty", lot.services, lot.endpoints);
    let bulk = sampling.end("bulk", title).await?;

    let sampling = Sampling::start(&processes, &dir)?;
    let changes = churn(&scene, lot).await?;
    let title = format!("discoverer and writer: {changes} changes of one endpoint each in {} s", CHURN.as_secs());
    let churn = sampling.end("churn", title).await?;

    let mut figures = shares("bulk", &bulk);
    figures.extend(shares("churn", &churn));
    let notes = vec!["shares of samples with a part anywhere on the stack; they overlap".to_owned()];
    Ok(Outcome { figures, notes, flames: vec![bulk, churn], ..Outcome::default() })
}

fn shares(phase: &str, flame: &Flame) -> Vec<Figure> {
    let mut shares: Vec<_> = flame.shares(&PARTS).into_iter().collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.into_iter().map(|(part, share)| Figure::new(format!("{phase}: {part}"), share * 100.0, "%")).collect()
}

/// Changes one endpoint of one Service after the other, as fast as the concurrent clients can. Returns the number of
/// changes.
async fn churn(scene: &Scene, lot: Lot) -> anyhow::Result<usize> {
    let end = Instant::now() + CHURN;
    let hand = |first: usize| async move {
        let mut changes = 0;
        for number in (first..).step_by(HANDS) {
            if Instant::now() >= end {
                break;
            }
            let Some((path, mut slice)) = fill::objects(lot, number % lot.services).into_iter().nth(1) else { break };
            let name = slice["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            slice["endpoints"][0]["addresses"][0] = format!("10.200.{}.{}", number >> 8 & 255, number & 255).into();
            scene.source.admin().put(&format!("{path}/{name}"), &slice).await?;
            changes += 1;
        }
        anyhow::Ok(changes)
    };
    let hands = futures::future::try_join_all((0..HANDS).map(hand)).await?;
    Ok(hands.into_iter().sum())
}
