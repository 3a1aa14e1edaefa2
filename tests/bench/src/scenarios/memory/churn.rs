//! Random changes of the source for some minutes, and the memory of both processes meanwhile.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use gimbal_testkit::cluster::Api;
use serde_json::json;

use super::Stand;
use super::source::{Place, Size};
use crate::figure::{Aim, Figure};
use crate::plot::Plot;
use crate::proc::Usage;

/// Number of concurrent clients, each with its own Services.
const WORKERS: usize = 8;
/// Pause between two changes of a client.
const PAUSE: Duration = Duration::from_millis(80);
const SAMPLE: Duration = Duration::from_secs(1);
/// Largest ratio of the mean memory in the last tenth of the time to the sixth tenth that counts as constant.
const FLAT: f64 = 1.03;

/// Number of changes, and memory over time.
pub struct Churned {
    changes: usize,
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Seconds since the beginning.
    at: f64,
    /// Resident, in MB.
    discoverer: f64,
    writer: f64,
}

/// Changes the source for `minutes`.
pub async fn run(stand: &Stand, size: &Size, minutes: f64) -> anyhow::Result<Churned> {
    let begun = Instant::now();
    let length = Duration::from_secs_f64(minutes * 60.0);
    let places = size.places();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(stand, &places, number)).collect();
    let changing = try_join_all(workers.iter_mut().map(|worker| worker.work(begun + length)));
    let (done, samples) = tokio::try_join!(changing, sample(stand, begun, length))?;
    // Deleted objects are put back, so that the source ends as large as it began.
    try_join_all(workers.iter_mut().map(Worker::put_back)).await?;
    Ok(Churned { changes: done.iter().sum(), samples })
}

async fn sample(stand: &Stand, begun: Instant, length: Duration) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut tick = tokio::time::interval(SAMPLE);
    while begun.elapsed() < length {
        tick.tick().await;
        let resident = |id| anyhow::Ok(Usage::of(id)?.resident);
        samples.push(Sample {
            at: begun.elapsed().as_secs_f64(),
            discoverer: resident(stand.discoverer.process.id())?,
            writer: resident(stand.writer.process.id())?,
        });
    }
    Ok(samples)
}

/// Changes its share of the Services, one after the other.
struct Worker {
    api: Api,
    places: Vec<(Place, bool)>,
    dice: u64,
}

impl Worker {
    fn new(stand: &Stand, places: &[Place], number: usize) -> Self {
        let places = places.iter().skip(number).step_by(WORKERS).map(|place| (*place, true)).collect();
        Self { api: stand.scene.source.admin().clone(), places, dice: number as u64 }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn roll(&mut self, sides: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as usize % sides
    }

    /// Returns how many changes were made.
    async fn work(&mut self, until: Instant) -> anyhow::Result<usize> {
        let mut changes = 0;
        let mut pace = tokio::time::interval(PAUSE);
        while Instant::now() < until && !self.places.is_empty() {
            pace.tick().await;
            let at = self.roll(self.places.len());
            let ((place, there), deleted) = (self.places[at], self.roll(10) == 0);
            match (there, deleted) {
                (false, _) => self.create(at, place).await?,
                (true, true) => self.delete(at, place).await?,
                (true, false) => self.replace(place).await?,
            }
            changes += 1;
        }
        Ok(changes)
    }

    async fn create(&mut self, at: usize, place: Place) -> anyhow::Result<()> {
        for (path, object) in place.objects() {
            self.api.post(&path, &object).await?;
        }
        self.places[at].1 = true;
        Ok(())
    }

    /// Deletes the slices first, unlike Kubernetes' garbage collector.
    async fn delete(&mut self, at: usize, place: Place) -> anyhow::Result<()> {
        for part in 0..place.parts() {
            self.api.delete(&format!("{}/{}", place.slices(), place.slice_name(part))).await?;
        }
        self.api.delete(&format!("{}/{}", place.services(), place.name())).await?;
        self.places[at].1 = false;
        Ok(())
    }

    /// Replaces a Pod, or makes it not ready, or ready again.
    async fn replace(&mut self, place: Place) -> anyhow::Result<()> {
        let part = u32::try_from(self.roll(place.parts() as usize))?;
        let path = format!("{}/{}", place.slices(), place.slice_name(part));
        let mut slice = self.api.get(&path).await?;
        let count = slice["endpoints"].as_array().map_or(0, Vec::len);
        let at = self.roll(count);
        if self.roll(2) == 0 {
            let replaced = u32::try_from(self.roll(16))?;
            slice["endpoints"][at] = place.slice(part, replaced)["endpoints"][at].clone();
        } else {
            let ready = slice["endpoints"][at]["conditions"]["ready"] == true;
            slice["endpoints"][at]["conditions"]["ready"] = json!(!ready);
        }
        self.api.put(&path, &slice).await?;
        Ok(())
    }

    async fn put_back(&mut self) -> anyhow::Result<()> {
        let gone: Vec<(usize, Place)> = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, (_, there))| !there)
            .map(|(at, (place, _))| (at, *place))
            .collect();
        for (at, place) in gone {
            self.create(at, place).await?;
        }
        Ok(())
    }
}

impl Churned {
    pub fn figures(&self) -> Vec<Figure> {
        let half = &self.samples[self.samples.len() / 2..];
        let tenth = half.len().div_ceil(5);
        let (early, late) = (&half[..tenth], &half[half.len() - tenth..]);
        let of = |who: &str, resident: fn(&Sample) -> f64| {
            [
                Figure::new(format!("{who}, resident at the end of the changes"), mean(late, resident), "MB")
                    .floor("in their middle", mean(early, resident))
                    .aim(Aim::AtMost(FLAT)),
                Figure::new(format!("{who}, slope over their second half"), slope(half, resident), "MB/h"),
            ]
        };
        let [discoverer, writer] = [of("discoverer", |sample| sample.discoverer), of("writer", |sample| sample.writer)];
        discoverer.into_iter().chain(writer).collect()
    }

    pub fn note(&self) -> String {
        let seconds = self.samples.last().map_or(0.0, |sample| sample.at);
        format!(
            "{} random changes in {seconds:.0} s: endpoints replaced, not ready and ready again, Services with their slices \
             deleted and made again; a slope over minutes is mostly noise, `--minutes 60` tells more",
            self.changes
        )
    }

    pub fn plot(&self) -> Plot {
        let line = |name: &str, of: fn(&Sample) -> f64| {
            (name.to_owned(), self.samples.iter().map(|sample| (sample.at, of(sample))).collect())
        };
        Plot {
            name: "changes",
            title: "Resident memory under changes".to_owned(),
            x: "seconds",
            y: "MB",
            lines: vec![line("discoverer", |sample| sample.discoverer), line("writer", |sample| sample.writer)],
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn mean(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    samples.iter().map(of).sum::<f64>() / samples.len() as f64
}

/// Returns the slope by least squares, in MB per hour.
fn slope(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    let (middle, level) = (mean(samples, |sample| sample.at), mean(samples, of));
    let along: f64 = samples.iter().map(|sample| (sample.at - middle) * (of(sample) - level)).sum();
    let spread: f64 = samples.iter().map(|sample| (sample.at - middle).powi(2)).sum();
    along / spread * 3600.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_what_it_grows_in_an_hour() {
        let sample = |at: u8| Sample { at: at.into(), discoverer: 50.0 + f64::from(at) / 100.0, writer: 90.0 };
        let churned = Churned { changes: 0, samples: (0..100).map(sample).collect() };
        let figures = churned.figures();
        assert!((figures[1].value - 36.0).abs() < 1e-6, "{:?}", figures[1]);
        assert!(figures[3].value.abs() < 1e-6, "{:?}", figures[3]);
        assert_eq!(figures[2].ratio(), Some(1.0));
    }
}
