//! Whether an object costs the same however many there are: everything from empty at three sizes, each in a new Gimbal
//! cluster, against raw creates of the same objects at the same size.

use std::time::Duration;

use gimbal_tests::Scene;

use crate::Context;
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::{Lot, fill};
use crate::inspection::Inspection;
use crate::plot::Plot;
use crate::proc::Usage;
use crate::raw;
use crate::sync::{WORKERS, create, fresh, sync};

/// Services at each size.
const SIZES: [usize; 3] = [1_000, 5_000, 20_000];
const ENDPOINTS: u32 = 20;
const PREFIXES: [&str; 3] = ["few", "some", "many"];
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest ratio that counts as constant, given the differences between runs.
const FLAT: f64 = 1.25;

/// The usage without any Service.
struct Empty {
    /// CPU seconds of discoverer and writer.
    cpu: f64,
    /// Peak memory of the discoverer and of the writer, in MB.
    memory: (f64, f64),
}

/// Results at one size.
struct Size {
    objects: f64,
    /// CPU time of discoverer and writer per object, in microseconds.
    cpu: f64,
    /// Time from the first to the last arrival, per object, in microseconds.
    wall: f64,
    /// The same with raw creates.
    raw: f64,
    /// Peak memory of the discoverer per object, in bytes.
    discoverer: f64,
    /// Peak memory of the writer per object, in bytes.
    writer: f64,
    /// Growth of the memory of the Gimbal cluster's API server per object, in bytes.
    server: f64,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start().await?;
    let empty = empty(&scene).await?;
    let (mut sizes, mut there) = (Vec::new(), 0);
    for (whole, prefix) in SIZES.into_iter().zip(PREFIXES) {
        let services = context.scaled(whole);
        let lot = Lot { prefix, services: services.saturating_sub(there), endpoints: ENDPOINTS };
        fill(&scene.source, &[lot]).await?;
        there = services;
        sizes.push(measure(&mut scene, services, &empty).await?);
    }
    let mut figures = Vec::new();
    if let [first, .., last] = &sizes[..] {
        figures.extend(last.against(first));
    }
    for size in &sizes {
        let what = format!("time of an object, {} objects", size.objects);
        figures.push(Figure::new(what, size.wall, "µs").floor("raw creates", size.raw));
        let what = format!("memory of the API server for an object, {} objects", size.objects);
        figures.push(Figure::new(what, size.server, "B"));
    }
    Ok(Outcome {
        figures,
        plots: plots(&sizes),
        notes: vec![
            format!(
                "a Service has {ENDPOINTS} endpoints in one slice: two objects; {WORKERS} writes side by side; peaks of \
                 memory and CPU time without what both processes take for an empty source ({:.0} MB, {:.0} MB, {:.2} s)",
                empty.memory.0, empty.memory.1, empty.cpu
            ),
            "the source keeps what the smaller sizes put there, the Gimbal cluster is a new one each time".to_owned(),
        ],
        ..Outcome::default()
    })
}

async fn empty(scene: &Scene) -> anyhow::Result<Empty> {
    let writer = scene.writer(&scene.config(&["bench"], "")?, &[]).await?;
    let discoverer = scene.discoverer("bench", &scene.source, writer.port, &[])?;
    Inspection::of(scene, &writer).await?.settled(1, PATIENCE).await?;
    let (writer, discoverer) = (Usage::of(writer.process.id())?, Usage::of(discoverer.process.id())?);
    Ok(Empty { cpu: (writer.cpu + discoverer.cpu).as_secs_f64(), memory: (discoverer.peak, writer.peak) })
}

#[allow(clippy::cast_precision_loss)]
async fn measure(scene: &mut Scene, services: usize, empty: &Empty) -> anyhow::Result<Size> {
    let count = services * 2;
    fresh(scene).await?;
    let ours = sync(scene, count).await?;
    let targets = raw::copy(&scene.gimbal.client()?).await?;
    anyhow::ensure!(targets.len() == services, "{} Services were mirrored", targets.len());
    fresh(scene).await?;
    let (span, _) = create(scene, &targets, count).await?;
    let objects = count as f64;
    let each = |total: f64| total / objects;
    Ok(Size {
        objects,
        cpu: each((ours.own - empty.cpu) * 1e6),
        wall: each(ours.span.length.as_secs_f64() * 1e6),
        raw: each(span.length.as_secs_f64() * 1e6),
        discoverer: each((ours.peaks.0 - empty.memory.0) * 1e6),
        writer: each((ours.peaks.1 - empty.memory.1) * 1e6),
        server: each(ours.grown * 1e6),
    })
}

impl Size {
    fn against(&self, smallest: &Self) -> Vec<Figure> {
        let floor = format!("at {}", smallest.objects);
        let figure = |what: &str, unit: &str, of: &dyn Fn(&Self) -> f64| {
            let what = format!("{what} at {} objects", self.objects);
            Figure::new(what, of(self), unit).floor(&floor, of(smallest)).aim(Aim::AtMost(FLAT))
        };
        vec![
            figure("CPU time of discoverer and writer for an object", "µs", &|size| size.cpu),
            figure("time of an object against raw creates", "", &|size| size.wall / size.raw),
            figure("memory of the discoverer for an object", "B", &|size| size.discoverer),
            figure("memory of the writer for an object", "B", &|size| size.writer),
        ]
    }
}

fn plots(sizes: &[Size]) -> Vec<Plot> {
    let line = |name: &str, of: &dyn Fn(&Size) -> f64| {
        (name.to_owned(), sizes.iter().map(|size| (size.objects, of(size))).collect())
    };
    vec![
        Plot {
            name: "time",
            title: "Time of an object".to_owned(),
            x: "objects",
            y: "microseconds",
            lines: vec![
                line("ours, from the first to the last arrival", &|size| size.wall),
                line("raw creates", &|size| size.raw),
                line("CPU time of discoverer and writer", &|size| size.cpu),
            ],
        },
        Plot {
            name: "memory",
            title: "Memory of an object".to_owned(),
            x: "objects",
            y: "bytes",
            lines: vec![line("discoverer", &|size| size.discoverer), line("writer", &|size| size.writer)],
        },
    ]
}
