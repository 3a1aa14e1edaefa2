//! Many backends on one writer: 255 of them with 250,000 endpoints and 325 changes a second, as in Cilium's published
//! scale test; for comparison the same changes with 10 backends of the same size. Then all of them reconnect at once,
//! twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_tests::{Passed, Proxy, Scene, Writer};

use crate::Context;
use crate::backends::{Backends, Size};
use crate::change::{Change, Delays, Eyes};
use crate::content::{published, same};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::namespaces;
use crate::inspection::{Generations, Inspection};
use crate::plot::Plot;
use crate::proc::Usage;
use crate::times::Times;

const SIZE: Size = Size { services: 20, endpoints: 49 };
const RATE: u32 = 325;
/// How long nothing changes, to measure what idle backends cost.
const IDLE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(120);
/// In MB.
const GIB: f64 = 1073.74;
/// Pods are replaced faster here than in a real cluster of this size, and the guard would hold these changes.
const CONFIG: &str = "guard: {maxDropPercent: 100}";

/// Backends that are connected to a writer through a proxy, with everything written.
struct Standing {
    scene: Scene,
    writer: Writer,
    proxy: Proxy,
    backends: Backends,
    count: usize,
}

/// The cost of changes.
struct Load {
    changes: usize,
    /// Fewer than changes if the API server was so slow that newer changes replaced older ones.
    writes: usize,
    times: Times,
    /// CPU time of the writer per write, in microseconds, without its idle load.
    cpu: f64,
    /// CPU time of the idle writer, in milliseconds per second.
    idle: f64,
    /// Peak memory of the writer from its start on, in MB.
    peak: f64,
}

/// The cost of all backends reconnecting at once.
struct Return {
    took: Duration,
    passed: Passed,
    dials: usize,
    writes: usize,
    /// CPU time of the writer, in seconds.
    cpu: f64,
    peak: f64,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let seconds = u32::try_from(context.scaled(30))?.max(3);
    let connection = connection(context.scaled(255)).await?;
    let (few, _) = measure(context.scaled(10), seconds).await?;
    let (many, mut standing) = measure(context.scaled(255), seconds).await?;
    let restart = standing.restart().await?;
    let cut = standing.cut().await?;
    let count = standing.count;
    standing.check().await?;
    standing.backends.end().await?;
    Ok(Outcome {
        figures: figures(&few, &many).into_iter().chain([connection]).chain(returns(count, &restart, &cut)).collect(),
        plots: vec![Plot {
            name: "latency",
            title: format!("Time of a change at {RATE}/s"),
            x: "percent of the changes",
            y: "milliseconds",
            lines: vec![
                (format!("{count} backends"), many.times.curve()),
                (format!("{} backends", context.scaled(10)), few.times.curve()),
            ],
        }],
        notes: vec![format!(
            "{count} backends of {} Services with {} endpoints each: {} endpoints; beside it {} backends of the same \
             size. {} changes ({} writes) of one endpoint each over all backends in turn, from the simulated source until a watch \
             on the Gimbal cluster shows it. The guard is set wide: {CONFIG}",
            SIZE.services,
            SIZE.endpoints,
            count * SIZE.services * SIZE.endpoints as usize,
            context.scaled(10),
            many.changes,
            many.writes,
        )],
        ..Outcome::default()
    })
}

/// Returns the writer's memory for a backend without Services: TCP, TLS, HTTP/2, the stream and its state.
#[allow(clippy::cast_precision_loss)]
async fn connection(count: usize) -> anyhow::Result<Figure> {
    let size = Size { services: 0, endpoints: 0 };
    let scene = Scene::start().await?;
    let names: Vec<String> = (0..count).map(crate::backends::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let writer = scene.writer(&scene.config(&names, CONFIG)?, &[]).await?;
    let before = Usage::of(writer.process.id())?;
    let backends = Backends::start(&scene, count, size, writer.port).await?;
    Inspection::of(&scene, &writer).await?.settled(count, PATIENCE).await?;
    let after = Usage::of(writer.process.id())?;
    backends.end().await?;
    let each = (after.resident - before.resident) * 1e3 / count as f64;
    Ok(Figure::new("memory of the writer for a backend that has nothing", each, "kB"))
}

async fn measure(count: usize, seconds: u32) -> anyhow::Result<(Load, Standing)> {
    let mut standing = Standing::start(count).await?;
    let load = standing.load(seconds).await?;
    standing.check().await?;
    Ok((load, standing))
}

impl Standing {
    async fn start(count: usize) -> anyhow::Result<Self> {
        let scene = Scene::start().await?;
        namespaces(&scene.gimbal).await?;
        let names: Vec<String> = (0..count).map(crate::backends::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let writer = scene.writer(&scene.config(&names, CONFIG)?, &[]).await?;
        let proxy = Proxy::start(&[writer.port]).await?;
        let backends = Backends::start(&scene, count, SIZE, proxy.port).await?;
        Inspection::of(&scene, &writer).await?.settled(count, PATIENCE).await?;
        Ok(Self { scene, writer, proxy, backends, count })
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.writer.process.id())
    }

    #[allow(clippy::cast_precision_loss)]
    async fn load(&mut self, seconds: u32) -> anyhow::Result<Load> {
        let mut eyes = Eyes::open(&self.scene.gimbal.client()?, None).await?;
        let before = self.usage()?;
        tokio::time::sleep(IDLE).await;
        let idle = (self.usage()?.cpu - before.cpu).as_secs_f64() / IDLE.as_secs_f64();
        let mark = self.scene.gimbal.audit_mark().await?;
        let (before, begun) = (self.usage()?, Instant::now());
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
        let mut changes: BTreeMap<u32, Change> = BTreeMap::new();
        for number in 0..RATE * seconds {
            ticks.tick().await;
            changes.insert(number, self.backends.change(number)?);
        }
        let seen = eyes.all(&changes, PATIENCE).await?;
        let (after, took) = (self.usage()?, begun.elapsed());
        let writes = self.scene.writes_since(mark).await?.len();
        let net = (after.cpu - before.cpu).as_secs_f64() - idle * took.as_secs_f64();
        Ok(Load {
            changes: changes.len(),
            writes,
            times: Delays::of(&changes, &seen).times(),
            cpu: net * 1e6 / writes as f64,
            idle: idle * 1e3,
            peak: after.peak,
        })
    }

    /// Kills the writer and starts it again; all backends connect to it and send everything.
    async fn restart(&mut self) -> anyhow::Result<Return> {
        let mark = self.scene.gimbal.audit_mark().await?;
        let (passed, dials) = (self.proxy.passed(), self.proxy.accepted());
        let config = self.scene.path("writer.yaml");
        self.writer.process.kill()?;
        let begun = Instant::now();
        self.writer = self.scene.writer_at(self.writer.port, &config, &[]).await?;
        let inspection = Inspection::of(&self.scene, &self.writer).await?;
        let complete = inspection.complete(self.count, &Generations::new(), PATIENCE).await?;
        inspection.settled(self.count, PATIENCE).await?;
        self.returned(mark, passed, dials, Duration::ZERO, complete - begun).await
    }

    /// Breaks every connection at once.
    async fn cut(&mut self) -> anyhow::Result<Return> {
        let mark = self.scene.gimbal.audit_mark().await?;
        let inspection = Inspection::of(&self.scene, &self.writer).await?;
        let generations = inspection.generations().await?;
        let (passed, dials, used) = (self.proxy.passed(), self.proxy.accepted(), self.usage()?.cpu);
        crate::proc::forget_peak(self.writer.process.id())?;
        let begun = Instant::now();
        self.proxy.cut();
        let complete = inspection.complete(self.count, &generations, PATIENCE).await?;
        self.returned(mark, passed, dials, used, complete - begun).await
    }

    async fn returned(
        &self,
        mark: usize,
        passed: Passed,
        dials: usize,
        used: Duration,
        took: Duration,
    ) -> anyhow::Result<Return> {
        let Usage { cpu, peak, .. } = self.usage()?;
        Ok(Return {
            took,
            passed: self.proxy.passed().since(passed),
            dials: self.proxy.accepted() - dials,
            writes: self.scene.writes_since(mark).await?.len(),
            cpu: (cpu - used).as_secs_f64(),
            peak,
        })
    }

    async fn check(&self) -> anyhow::Result<()> {
        same(&published(&self.scene.gimbal.client()?).await?, &self.backends.wanted())
    }
}

fn figures(few: &Load, many: &Load) -> Vec<Figure> {
    let time = |percent: f64| {
        Figure::new(format!("p{percent} of a change at {RATE}/s"), many.times.percentile(percent), "ms")
            .floor("with few backends", few.times.percentile(percent))
    };
    vec![
        Figure::new("peak memory of the writer", many.peak, "MB").aim(Aim::AtMost(GIB)),
        Figure::new("CPU time of the writer for a change that is written", many.cpu, "µs")
            .floor("with few backends", few.cpu)
            .aim(Aim::AtMost(1.1)),
        Figure::new("CPU time of the writer when nothing changes", many.idle, "ms/s")
            .floor("with few backends", few.idle),
        time(50.0),
        time(99.0),
    ]
}

#[allow(clippy::cast_precision_loss)]
fn returns(count: usize, restart: &Return, cut: &Return) -> Vec<Figure> {
    let each = |total: f64| total / count as f64;
    let of = |what: &str, back: &Return| {
        let figure = |of: &str, value: f64, unit: &str| Figure::new(format!("{what}: {of}"), value, unit);
        vec![
            figure("until all are complete", back.took.as_secs_f64(), "s"),
            figure("writes", back.writes as f64, "").aim(Aim::AtMost(0.0)),
            // A back-off may try once or twice while no writer listens.
            figure("connections of each backend", each(back.dials as f64), "").aim(Aim::AtMost(10.0)),
            figure("bytes of each backend", each(back.passed.sum() as f64), "B"),
            figure("CPU time of the writer for each backend", each(back.cpu) * 1e3, "ms"),
            figure("peak memory of the writer", back.peak, "MB").aim(Aim::AtMost(GIB)),
        ]
    };
    let mut figures = of("the writer killed and started anew", restart);
    figures.extend(of("all connections cut", cut));
    figures
}
