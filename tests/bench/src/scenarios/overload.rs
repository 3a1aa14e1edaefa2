//! More changes than the API server accepts: memory does not grow, the last value of each slice is written in the end,
//! and no change that is written is older than the time of one round over all slices.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_tests::{Scene, Writer, metric};

use crate::Context;
use crate::backends::{self, Backends, Size};
use crate::change::{Change, Delays, Eyes, Seen};
use crate::figure::{Aim, Figure, Outcome};
use crate::flood::{self, Bare};
use crate::plot::Plot;
use crate::proc::Usage;
use crate::sight::Sight;
use crate::times::Times;
use crate::{content, fill, raw};

const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: usize = 64;
const FLOOD: Duration = Duration::from_secs(30);

/// State of the writer at one time.
struct Sample {
    second: f64,
    pending: f64,
    /// In MB.
    resident: f64,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let size = Size { services: context.scaled(1_000), endpoints: 20 };
    let scene = Scene::start().await?;
    fill::namespaces(&scene.gimbal).await?;
    let name = backends::name(0);
    let config = scene.config(&[&name], "")?;
    let writer = scene.writer(&config, &["--write-concurrency", &WORKERS.to_string()]).await?;
    let mut sight = Sight::open(&scene.gimbal.client()?);
    let mut backends = Backends::start(&scene, 1, size, writer.port).await?;
    sight.span(size.services * 2, PATIENCE).await?;
    drop(sight);

    let mut bare = Bare::copy(raw::hands(&scene.gimbal).await?, &name).await?;
    let start = Instant::now();
    let put = bare.flood(WORKERS, tokio::time::sleep(FLOOD / 3)).await?;
    #[allow(clippy::cast_precision_loss)]
    let raw_rate = put as f64 / start.elapsed().as_secs_f64();

    let mut eyes = Eyes::open(&scene.gimbal.client()?, None).await?;
    let start = Instant::now();
    let changing = flood::through(&mut backends, 0, tokio::time::sleep(FLOOD));
    let (changes, samples) = tokio::try_join!(changing, sample(&writer, FLOOD))?;
    let end = Instant::now();
    let seen = eyes.all(&changes, PATIENCE).await?;
    content::same(&content::published(&scene.gimbal.client()?).await?, &backends.wanted())?;
    backends.end().await?;
    let found = Found { keys: size.services, changes, seen, length: end - start, raw_rate, samples };
    Ok(found.outcome(end))
}

struct Found {
    keys: usize,
    changes: BTreeMap<u32, Change>,
    seen: Vec<Seen>,
    length: Duration,
    raw_rate: f64,
    samples: Vec<Sample>,
}

impl Found {
    #[allow(clippy::cast_precision_loss)]
    fn outcome(&self, end: Instant) -> Outcome {
        let during = || self.seen.iter().filter(|seen| seen.at <= end);
        let rate = during().count() as f64 / self.length.as_secs_f64();
        let round = self.keys as f64 / rate * 1e3;
        let written = during().filter_map(|seen| Some(seen.at - self.changes.get(&seen.number)?.begun));
        let written = Times::new(written.collect());
        // After the flood, the rest is written in one round and ages meanwhile, because there is nothing newer.
        let rest = self.seen.last().map_or(Duration::ZERO, |last| last.at.saturating_duration_since(end));
        let waited = Delays::of(&self.changes, &self.seen).times();
        let pending = self.samples.iter().map(|sample| sample.pending).fold(0.0, f64::max);
        let memory =
            |part: usize| self.samples.get(self.samples.len() * part / 4).map_or(0.0, |sample| sample.resident);
        let (early, late) = (memory(1), self.samples.last().map_or(0.0, |sample| sample.resident));
        let bound = "distinct slices / writes a second";
        let figures = vec![
            Figure::new("p99 age of what is written during the flood", written.percentile(99.0), "ms")
                .floor(bound, round)
                .aim(Aim::AtMost(1.0)),
            Figure::new("p50 age of what is written during the flood", written.percentile(50.0), "ms")
                .floor(bound, round),
            Figure::new("p99 of a change, until it or a newer one is written", waited.percentile(99.0), "ms")
                .floor(bound, round),
            Figure::new("until everything stood, after the flood", rest.as_secs_f64() * 1e3, "ms").floor(bound, round),
            Figure::new("most that waited in the writer", pending, "")
                .floor("distinct slices", self.keys as f64)
                .aim(Aim::AtMost(1.0)),
            Figure::new("writer's memory at the end", late, "MB").floor("after a quarter", early).aim(Aim::AtMost(1.1)),
            Figure::new("writes", rate, "/s").floor("raw PUTs", self.raw_rate),
        ];
        let curve = |of: fn(&Sample) -> f64| self.samples.iter().map(|sample| (sample.second, of(sample))).collect();
        Outcome {
            figures,
            plots: vec![Plot {
                name: "waiting",
                title: format!("Services that wait in the writer, of {}", self.keys),
                x: "seconds",
                y: "Services",
                lines: vec![("waiting".to_owned(), curve(|sample| sample.pending))],
            }],
            notes: vec![format!(
                "one backend whose source tells {} changes a second, each of one endpoint of one of {} Services of 20; of {} changes \
                 {} were written, and the last of each Service stood at the end",
                flood::RATE,
                self.keys,
                self.changes.len(),
                self.seen.len()
            )],
            ..Outcome::default()
        }
    }
}

/// Samples the writer a few times a second, for `length`.
async fn sample(writer: &Writer, length: Duration) -> anyhow::Result<Vec<Sample>> {
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < length {
        let pending = metric(writer.admin_port, "gimbal_writer_pending", "").await?;
        let resident = Usage::of(writer.process.id())?.resident;
        samples.push(Sample { second: start.elapsed().as_secs_f64(), pending, resident });
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(samples)
}
