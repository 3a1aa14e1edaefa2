//! One backend floods, another changes one endpoint now and then. Measures how long the other's changes take, against
//! the same while a bare loop floods the API server in our place, and while nothing floods. The cases alternate, so
//! that other load on the machine affects all alike.

use std::time::{Duration, Instant};

use gimbal_tests::{Scene, expect_metric, metric};

use crate::Context;
use crate::backends::{self, Backends, Size};
use crate::change::{Delays, Eyes, Load};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::{Lot, fill_namespace, namespaces};
use crate::flood::{self, Bare};
use crate::plot::Plot;
use crate::sight::Sight;
use crate::{content, raw};

const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: usize = 32;
/// The name of the calm backend, and the namespace of its Services.
const CALM: &str = "calm";
const CALM_SERVICES: usize = 100;
const PERIOD: Duration = Duration::from_millis(50);
/// Changes of the calm backend in one turn.
const TURN: u32 = 120;
/// By then a flood has reached its full rate.
const RISE: Duration = Duration::from_secs(1);
/// Numbers of the flood's changes, far from those of the calm backend.
const FLOOD: u32 = 1 << 20;

/// The origin of the flood in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    NoOne,
    Bare,
    Us,
}

/// Results with one kind of flood.
#[derive(Default)]
struct Found {
    delays: Delays,
    writes: f64,
    time: Duration,
}

struct Stage {
    admin_port: u16,
    backends: Backends,
    bare: Bare,
    calm: Load,
    eyes: Eyes,
    next_calm: u32,
    next_flood: u32,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let size = Size { services: context.scaled(1_000), endpoints: 20 };
    let scene = Scene::start().await?;
    namespaces(&scene.gimbal).await?;
    scene.gimbal.namespace(CALM).await?;
    let lot = Lot { prefix: "web", services: CALM_SERVICES, endpoints: 20 };
    fill_namespace(&scene.source, CALM, lot).await?;
    let flooding = backends::name(0);
    let config = scene.config(&[CALM, &flooding], "")?;
    let writer = scene.writer(&config, &["--write-concurrency", &WORKERS.to_string()]).await?;
    let mut sight = Sight::open(&scene.gimbal.client()?);
    let _discoverer = scene.discoverer(CALM, &scene.source, writer.port, &[])?;
    let backends = Backends::start(&scene, 1, size, writer.port).await?;
    sight.span((size.services + CALM_SERVICES) * 2, PATIENCE).await?;
    drop(sight);
    let mut stage = Stage {
        admin_port: writer.admin_port,
        backends,
        bare: Bare::copy(raw::hands(&scene.gimbal).await?, &flooding).await?,
        calm: Load::on(&scene.source.client()?, CALM).await?,
        eyes: Eyes::open(&scene.gimbal.client()?, Some(CALM)).await?,
        next_calm: 0,
        next_flood: FLOOD,
    };
    let mut found = [Found::default(), Found::default(), Found::default()];
    stage.turn(By::NoOne).await?;
    for _ in 0..context.scaled(5).max(2) {
        for (by, found) in [By::NoOne, By::Bare, By::Us].into_iter().zip(&mut found) {
            found.add(stage.turn(by).await?);
        }
    }
    let mut wanted = stage.backends.wanted();
    wanted.extend(content::offered(&scene.source.client()?, CALM).await?);
    content::same(&content::published(&scene.gimbal.client()?).await?, &wanted)?;
    stage.backends.end().await?;
    let [calm, bare, us] = found;
    Ok(outcome(&calm, &bare, &us))
}

impl Stage {
    async fn turn(&mut self, by: By) -> anyhow::Result<Found> {
        let (calm, first) = (&mut self.calm, self.next_calm);
        self.next_calm += TURN;
        let start = Instant::now();
        let before = writes(self.admin_port).await?;
        let (over, ends) = tokio::sync::oneshot::channel::<()>();
        let ends = async move {
            // Always an error: the other end sends nothing, and is dropped when the calm backend has made its changes.
            ends.await.ok();
        };
        let changing = async move {
            tokio::time::sleep(RISE).await;
            let changes = calm.run(first, TURN, PERIOD).await?;
            drop(over);
            anyhow::Ok(changes)
        };
        let (changes, put) = match by {
            By::NoOne => (changing.await?, 0),
            By::Bare => tokio::try_join!(changing, self.bare.flood(WORKERS, ends))?,
            By::Us => {
                let flood = flood::through(&mut self.backends, self.next_flood, ends);
                let (changes, flood) = tokio::try_join!(changing, flood)?;
                self.next_flood += u32::try_from(flood.len())?;
                (changes, 0)
            }
        };
        let time = start.elapsed();
        let seen = self.eyes.all(&changes, PATIENCE).await?;
        #[allow(clippy::cast_precision_loss)]
        let writes = put as f64 + writes(self.admin_port).await? - before;
        // Writes of one turn must not reach into the next one.
        for waiting in ["gimbal_writer_pending", "gimbal_writer_in_flight"] {
            expect_metric(self.admin_port, waiting, "", 0.0).await?;
        }
        Ok(Found { delays: Delays::of(&changes, &seen), writes, time })
    }
}

async fn writes(admin_port: u16) -> anyhow::Result<f64> {
    metric(admin_port, "gimbal_writer_writes_total", "").await
}

impl Found {
    fn add(&mut self, other: Self) {
        self.delays.extend(other.delays);
        self.writes += other.writes;
        self.time += other.time;
    }

    fn rate(&self) -> f64 {
        self.writes / self.time.as_secs_f64()
    }
}

fn outcome(calm: &Found, bare: &Found, us: &Found) -> Outcome {
    let figure = |percent: f64, found: &Found, floor: &Found, name: &str, floor_name: &str| {
        let value = |found: &Found| found.delays.times().percentile(percent);
        Figure::new(format!("p{percent} of the other's change, {name}"), value(found), "ms")
            .floor(floor_name, value(floor))
    };
    let (flooded, bare_flood) = ("flooded through us", "a bare loop floods");
    Outcome {
        figures: vec![
            figure(99.0, us, bare, flooded, bare_flood).aim(Aim::AtMost(1.2)),
            figure(50.0, us, bare, flooded, bare_flood),
            figure(99.0, us, calm, flooded, "no flood"),
            figure(50.0, us, calm, flooded, "no flood"),
            Figure::new("writes while it floods through us", us.rate(), "/s").floor("by the bare loop", bare.rate()),
        ],
        plots: vec![Plot {
            name: "other",
            title: "Time of a change while another backend floods".to_owned(),
            x: "percent of the changes",
            y: "milliseconds",
            lines: [("through us", us), ("bare loop", bare), ("no flood", calm)]
                .map(|(name, found)| (name.to_owned(), found.delays.times().curve()))
                .into(),
        }],
        notes: vec![format!(
            "a change of the other every {} ms, {} of them in each case; a flood tells {} changes a second of 1,000 Services, or \
             puts their copies, by {WORKERS} writes side by side",
            PERIOD.as_millis(),
            us.delays.times().len(),
            flood::RATE
        )],
        ..Outcome::default()
    }
}
