//! How long a change takes through Gimbal, against a bare relay between the same two clusters. They alternate, at least
//! every few seconds, so that other load on the machine affects both alike. Each has its own Services, equal in number,
//! that the other does not write.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_kubernetes_client::WatchScope;
use gimbal_kubernetes_objects::EndpointSlice;
use gimbal_tests::{Scene, metric};
use tokio::task::JoinSet;

use crate::Context;
use crate::change::{Delays, Eyes, Load};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::{Lot, fill_namespace};
use crate::plot::Plot;
use crate::proc::Usage;
use crate::sight::Sight;
use crate::times::Times;
use crate::{content, raw, relay};

const PATIENCE: Duration = Duration::from_secs(30);
const ENDPOINTS: u32 = 20;
/// The namespaces of the mirrored Services, and of the relayed ones.
const OURS: &str = "ours";
const RELAYED: &str = "relayed";

/// A rate of changes.
struct Pace {
    name: &'static str,
    plot: &'static str,
    period: Duration,
    /// Changes of each side in one turn.
    turn: u32,
    /// Turns of each side.
    turns: usize,
}

/// Both sides, with their loads and watches.
struct Sides {
    ours: Load,
    relayed: Load,
    eyes: Eyes,
    /// The number of the next change.
    next: u32,
    work: Work,
}

/// The processes that work while changes travel.
struct Work {
    /// Process IDs of discoverer and writer.
    programs: Vec<u32>,
    /// Process IDs of both clusters' API servers.
    servers: Vec<u32>,
    /// The writer's port for metrics.
    admin_port: u16,
}

/// What `gimbal_propagation_seconds` of the writer says.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    seconds: f64,
    changes: f64,
}

/// CPU time that was used.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    programs: Duration,
    servers: Duration,
    /// The load, the watches and the relay, all in this process.
    here: Duration,
}

impl Work {
    async fn told(&self) -> anyhow::Result<Told> {
        let labels = "leg=\"total\",outcome=\"written\"";
        let of = |name| metric(self.admin_port, name, labels);
        Ok(Told {
            seconds: of("gimbal_propagation_seconds_sum").await?,
            changes: of("gimbal_propagation_seconds_count").await?,
        })
    }

    fn so_far(&self) -> anyhow::Result<Cpu> {
        let sum = |ids: &[u32]| ids.iter().map(|id| Ok(Usage::of(*id)?.cpu)).sum::<anyhow::Result<Duration>>();
        Ok(Cpu { programs: sum(&self.programs)?, servers: sum(&self.servers)?, here: sum(&[std::process::id()])? })
    }
}

impl Cpu {
    fn add_since(&mut self, before: Self, now: Self) {
        self.programs += now.programs.saturating_sub(before.programs);
        self.servers += now.servers.saturating_sub(before.servers);
        self.here += now.here.saturating_sub(before.here);
    }
}

/// The cost of one side's changes.
#[derive(Default)]
struct Taken {
    delays: Delays,
    cpu: Cpu,
    /// What the writer's metric counted meanwhile.
    told: Told,
}

impl Taken {
    fn times(&self) -> Times {
        self.delays.times()
    }

    /// Returns microseconds of CPU time per change.
    fn a_change(&self, cpu: Duration) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let changes = self.times().len().max(1) as f64;
        cpu.as_secs_f64() * 1e6 / changes
    }
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let services = context.scaled(1_000);
    let lot = Lot { prefix: "web", services, endpoints: ENDPOINTS };
    let turns = |whole: usize| context.scaled(whole).max(2);
    let paces = [
        Pace { name: "unloaded", plot: "unloaded", period: Duration::from_millis(50), turn: 1, turns: turns(200) },
        Pace { name: "at 50/s", plot: "50", period: Duration::from_millis(20), turn: 125, turns: turns(8) },
        Pace { name: "at 300/s", plot: "300", period: Duration::from_micros(3_333), turn: 750, turns: turns(8) },
    ];
    let scene = Scene::start().await?;
    for namespace in [OURS, RELAYED] {
        fill_namespace(&scene.source, namespace, lot).await?;
        scene.gimbal.namespace(namespace).await?;
    }
    let mut sight = Sight::open(&scene.gimbal.client()?);
    let config = scene.config(&["bench"], "")?;
    let writer = scene.writer(&config, &["--write-concurrency", "64"]).await?;
    let exclude = ["--exclude-namespaces", RELAYED];
    let discoverer = scene.discoverer("bench", &scene.source, writer.port, &exclude)?;
    let work = Work {
        programs: vec![discoverer.process.id(), writer.process.id()],
        servers: vec![scene.source.api_server()?, scene.gimbal.api_server()?],
        admin_port: writer.admin_port,
    };
    sight.span(services * 2, PATIENCE).await?;
    drop(sight);
    let copies = copies(&scene).await?;

    let (source, gimbal) = (scene.source.client()?, raw::hands(&scene.gimbal).await?);
    let mut relays = JoinSet::new();
    relays.spawn(async move { relay::run(&source, RELAYED, &gimbal, &copies).await });
    let hands = scene.source.client()?;
    let mut sides = Sides {
        ours: Load::on(&hands, OURS).await?,
        relayed: Load::on(&hands, RELAYED).await?,
        eyes: Eyes::open(&scene.gimbal.client()?, None).await?,
        next: 0,
        work,
    };
    let measured = tokio::select! {
        Some(ended) = relays.join_next() => return Err(ended?.err().unwrap_or_else(|| anyhow::anyhow!("the relay ended"))),
        measured = measure(&mut sides, &paces) => measured?,
    };
    let mut wanted = content::offered(&scene.source.client()?, "bench").await?;
    wanted.retain(|(namespace, _), _| namespace == OURS);
    content::same(&content::published(&scene.gimbal.client()?).await?, &wanted)?;
    let sides = || paces.iter().zip(&measured);
    let counts: Vec<_> = sides().map(|(pace, (ours, _))| format!("{} {}", ours.times().len(), pace.name)).collect();
    Ok(Outcome {
        figures: sides().flat_map(|(pace, (ours, relayed))| figures(pace.name, ours, relayed)).collect(),
        plots: sides().map(|(pace, (ours, relayed))| plot(pace, ours, relayed)).collect(),
        notes: vec![
            format!(
                "{services} Services of {ENDPOINTS} endpoints on each side, one endpoint replaced by a change; from the \
                 source's answer until a watch on the Gimbal cluster shows the change, or a newer one of the same slice"
            ),
            format!("changes of each side: {}", counts.join(", ")),
            "the relay knows the objects beforehand, and puts without regard to what is there; it has the watches that we \
             have: Services and slices of the source, and its own slices in the Gimbal cluster"
                .to_owned(),
            "CPU of a change: of discoverer and writer, or of the relay (and of discoverer and writer meanwhile, which hear \
             of what is relayed), and of both API servers; the kernel tells it in hundredths of a second"
                .to_owned(),
        ],
        ..Outcome::default()
    })
}

/// Results of Gimbal, and of the relay.
type Measured = (Taken, Taken);

async fn measure(sides: &mut Sides, paces: &[Pace]) -> anyhow::Result<Vec<Measured>> {
    // Measures only once connections are open and caches are warm.
    let warm = Pace { name: "warm", plot: "warm", period: Duration::from_millis(5), turn: 200, turns: 1 };
    sides.turns(&warm).await?;
    let mut measured = Vec::new();
    for pace in paces {
        measured.push(sides.turns(pace).await?);
    }
    Ok(measured)
}

impl Sides {
    async fn turns(&mut self, pace: &Pace) -> anyhow::Result<Measured> {
        let (mut ours, mut relayed) = (Taken::default(), Taken::default());
        for _ in 0..pace.turns {
            for (load, taken) in [(&mut self.ours, &mut ours), (&mut self.relayed, &mut relayed)] {
                let (before, told) = (self.work.so_far()?, self.work.told().await?);
                let changes = load.run(self.next, pace.turn, pace.period).await?;
                self.next += pace.turn;
                let seen = self.eyes.all(&changes, PATIENCE).await?;
                taken.delays.extend(Delays::of(&changes, &seen));
                tokio::time::sleep(pace.period).await;
                taken.cpu.add_since(before, self.work.so_far()?);
                let now = self.work.told().await?;
                taken.told.seconds += now.seconds - told.seconds;
                taken.told.changes += now.changes - told.changes;
            }
        }
        Ok((ours, relayed))
    }
}

/// Returns the copies that the relay keeps up to date.
async fn copies(scene: &Scene) -> anyhow::Result<HashMap<Arc<str>, EndpointSlice>> {
    let of = |namespace: &str| WatchScope { namespace: Some(namespace.to_owned()), ..WatchScope::default() };
    let gimbal = scene.gimbal.client()?;
    let written = gimbal.list::<EndpointSlice>(&of(OURS)).await?;
    let source = scene.source.client()?.list::<EndpointSlice>(&of(RELAYED)).await?;
    let copies = relay::copies(&written, &source, RELAYED);
    anyhow::ensure!(copies.len() == source.len(), "{} copies of {} slices", copies.len(), source.len());
    let creates = copies.values().map(|copy| gimbal.create(copy));
    stream::iter(creates).buffer_unordered(64).try_collect::<Vec<_>>().await?;
    Ok(copies)
}

fn figures(pace: &str, ours: &Taken, relayed: &Taken) -> Vec<Figure> {
    // Load and watches cost the same on both sides; what this process used more on the relay's side is the relay's.
    let relay = relayed.cpu.here.saturating_sub(ours.cpu.here) + relayed.cpu.programs;
    let cpu = |what: &str, of_ours: Duration, of_relay: Duration| {
        let what = format!("CPU of a change, {what}, {pace}");
        Figure::new(what, ours.a_change(of_ours), "us").floor("relay", relayed.a_change(of_relay))
    };
    let cpus = [
        cpu("all", ours.cpu.programs + ours.cpu.servers, relay + relayed.cpu.servers).aim(Aim::AtMost(1.3)),
        cpu("programs", ours.cpu.programs, relay),
        cpu("API servers", ours.cpu.servers, relayed.cpu.servers),
    ];
    let told = ours.told.seconds * 1e3 / ours.told.changes.max(1.0);
    let (ours, relayed) = (ours.times(), relayed.times());
    let told = Figure::new(format!("mean of a change by gimbal_propagation_seconds, {pace}"), told, "ms")
        .floor("stopwatch", ours.mean());
    let figure = |percent: f64, most: f64| {
        Figure::new(format!("p{percent} of a change, {pace}"), ours.percentile(percent), "ms")
            .floor("relay", relayed.percentile(percent))
            .aim(Aim::AtMost(most))
    };
    [figure(50.0, 1.3), figure(99.0, 1.5), told].into_iter().chain(cpus).collect()
}

fn plot(pace: &Pace, ours: &Taken, relayed: &Taken) -> Plot {
    Plot {
        name: pace.plot,
        title: format!("Time of a change, {}", pace.name),
        x: "percent of the changes",
        y: "milliseconds",
        lines: vec![("ours".to_owned(), ours.times().curve()), ("relay".to_owned(), relayed.times().curve())],
    }
}
