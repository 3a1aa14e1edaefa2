//! 10,000 Services of 20 endpoints from empty, against raw creates of the same objects by 64 workers, with the same
//! watches open and the source idle beside it; from the first to the last arrival at a watch of the benchmark.

use gimbal_tests::Scene;

use crate::Context;
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::{Lot, fill};
use crate::plot::Plot;
use crate::raw;
use crate::sight::Span;
use crate::sync::{Ours, WORKERS, create, fresh, sync};
use crate::times::median;

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let lot = Lot { prefix: "web", services: context.scaled(10_000), endpoints: 20 };
    let objects = lot.services * 2;
    let mut scene = Scene::start().await?;
    fill(&scene.source, &[lot]).await?;
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    let mut targets = Vec::new();
    for number in 0..context.runs.max(1) {
        fresh(&mut scene).await?;
        ours.push(sync(&scene, objects).await?);
        if number == 0 {
            targets = raw::copy(&scene.gimbal.client()?).await?;
            anyhow::ensure!(targets.len() == lot.services, "{} Services were mirrored", targets.len());
        }
        fresh(&mut scene).await?;
        floors.push(create(&scene, &targets, objects).await?);
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = |span: &Span| objects as f64 / span.length.as_secs_f64();
    let middle = |of: &dyn Fn(&Ours) -> f64| median(ours.iter().map(of).collect());
    let floor = median(floors.iter().map(|(span, _)| rate(span)).collect());
    let floor_cpu = median(floors.iter().map(|(_, cpu)| *cpu).collect());
    let lines = ours.first().map(|run| ("ours".to_owned(), run.span.curve.clone())).into_iter();
    let lines = lines.chain(floors.first().map(|(span, _)| ("raw creates".to_owned(), span.curve.clone())));
    Ok(Outcome {
        figures: vec![
            Figure::new("objects written", middle(&|run| rate(&run.span)), "/s")
                .floor("raw creates", floor)
                .aim(Aim::AtLeast(0.95)),
            Figure::new("CPU time of discoverer and writer", middle(&|run| run.own), "s")
                .floor("the API server's for the same work", middle(&|run| run.server))
                .aim(Aim::AtMost(0.1)),
            Figure::new("CPU time of the API server", middle(&|run| run.server), "s")
                .floor("with raw creates", floor_cpu),
            Figure::new("peak memory of the discoverer", middle(&|run| run.peaks.0), "MB"),
            Figure::new("peak memory of the writer", middle(&|run| run.peaks.1), "MB"),
        ],
        plots: vec![Plot {
            name: "arrivals",
            title: format!("{objects} objects from empty"),
            x: "seconds since the first",
            y: "arrivals in one second",
            lines: lines.collect(),
        }],
        notes: vec![format!(
            "{} Services of {} endpoints, one slice each; both with {WORKERS} writes side by side and the audit log on",
            lot.services, lot.endpoints
        )],
        ..Outcome::default()
    })
}
