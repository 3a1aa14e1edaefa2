//! A discoverer and a writer with a proxy between them, and the failures that can happen to them.

use std::time::{Duration, Instant};

use gimbal_testkit::eventually;
use gimbal_tests::{Discoverer, Passed, Proxy, Scene, Writer};

use super::{BACKEND, FRESH, PATIENCE};
use crate::change::{Eyes, Load};
use crate::inspection::{Generations, Inspection};
use crate::proc::{Usage, forget_peak};

/// A discoverer and a writer with a proxy between them.
pub struct Stand {
    pub scene: Scene,
    pub writer: Writer,
    proxy: Proxy,
    pub discoverer: Discoverer,
    load: Load,
    eyes: Eyes,
    next: u32,
}

/// The cost of a recovery.
pub struct Back {
    /// Until the restarted process was ready; zero if none was restarted.
    pub ready: Duration,
    /// Until the writer knew the backend completely, over a new stream.
    pub complete: Duration,
    /// Bytes between the two, until they were silent.
    pub passed: Passed,
    /// Writes to Services, slices and Endpoints.
    pub writes: usize,
    /// Peak memory of the discoverer and the writer meanwhile, in MB.
    pub peaks: (f64, f64),
}

/// The state before a failure.
struct Before {
    generations: Generations,
    passed: Passed,
    mark: usize,
    at: Instant,
}

impl Stand {
    /// Starts both. The source and the Gimbal cluster must have the namespace of the changes already.
    pub async fn start(scene: Scene) -> anyhow::Result<Self> {
        let config = scene.config(&[BACKEND], "")?;
        let writer = scene.writer(&config, &[]).await?;
        let proxy = Proxy::start(&[writer.port]).await?;
        let discoverer = scene.discoverer(BACKEND, &scene.source, proxy.port, &[])?;
        Inspection::of(&scene, &writer).await?.settled(1, PATIENCE).await?;
        let load = Load::on(&scene.source.client()?, FRESH).await?;
        let eyes = Eyes::open(&scene.gimbal.client()?, Some(FRESH)).await?;
        Ok(Self { scene, writer, proxy, discoverer, load, eyes, next: 0 })
    }

    /// Waits until all of the source's content is written.
    pub async fn settled(&self) -> anyhow::Result<()> {
        Inspection::of(&self.scene, &self.writer).await?.settled(1, PATIENCE).await?;
        Ok(())
    }

    async fn before(&self) -> anyhow::Result<Before> {
        self.silence().await?;
        for process in [&self.discoverer.process, &self.writer.process] {
            forget_peak(process.id())?;
        }
        let generations = Inspection::of(&self.scene, &self.writer).await?.generations().await?;
        let mark = self.scene.gimbal.audit_mark().await?;
        Ok(Before { generations, passed: self.proxy.passed(), mark, at: Instant::now() })
    }

    async fn back(&self, before: &Before, ready: Duration) -> anyhow::Result<Back> {
        let inspection = Inspection::of(&self.scene, &self.writer).await?;
        let complete = inspection.complete(1, &before.generations, PATIENCE).await? - before.at;
        inspection.settled(1, PATIENCE).await?;
        self.silence().await?;
        let passed = self.proxy.passed().since(before.passed);
        let writes = self.scene.writes_since(before.mark).await?.len();
        let peak = |id| anyhow::Ok(Usage::of(id)?.peak);
        let peaks = (peak(self.discoverer.process.id())?, peak(self.writer.process.id())?);
        Ok(Back { ready, complete, passed, writes, peaks })
    }

    /// Waits until nothing was passed on for half a second. A heartbeat comes every five seconds.
    async fn silence(&self) -> anyhow::Result<()> {
        let mut last = (self.proxy.passed(), Instant::now());
        eventually("the stream is silent", PATIENCE, async || {
            let now = self.proxy.passed();
            if now != last.0 {
                last = (now, Instant::now());
            }
            anyhow::ensure!(last.1.elapsed() > Duration::from_millis(500), "something was said");
            anyhow::Ok(())
        })
        .await
    }

    /// Kills the discoverer and starts it again.
    pub async fn restart_discoverer(&mut self) -> anyhow::Result<Back> {
        let before = self.before().await?;
        self.discoverer.process.kill()?;
        self.discoverer = self.scene.discoverer(BACKEND, &self.scene.source, self.proxy.port, &[])?;
        self.discoverer.ready().await?;
        let ready = before.at.elapsed();
        self.back(&before, ready).await
    }

    /// Kills the writer and starts it again.
    pub async fn restart_writer(&mut self) -> anyhow::Result<Back> {
        let mut before = self.before().await?;
        before.generations.clear();
        self.writer.process.kill()?;
        self.writer = self.scene.writer_at(self.writer.port, &self.scene.path("writer.yaml"), &[]).await?;
        let ready = before.at.elapsed();
        self.back(&before, ready).await
    }

    /// Breaks the connection.
    pub async fn cut(&self) -> anyhow::Result<Back> {
        let before = self.before().await?;
        self.proxy.cut();
        self.back(&before, Duration::ZERO).await
    }

    /// Returns how long a change takes, from the source's answer on.
    pub async fn change(&mut self) -> anyhow::Result<Duration> {
        self.next += 1;
        let changes = self.load.run(self.next, 1, Duration::from_secs(1)).await?;
        let seen = self.eyes.all(&changes, PATIENCE).await?;
        let taken = changes[&self.next].taken;
        Ok(seen.last().map(|seen| seen.at.saturating_duration_since(taken)).unwrap_or_default())
    }

    /// Returns how long a change takes that is made as the connection breaks.
    pub async fn change_during_cut(&mut self) -> anyhow::Result<Duration> {
        self.silence().await?;
        self.proxy.cut();
        self.change().await
    }

    /// Kills the writer, and makes a change while it starts again. Returns how long after the writer was ready the
    /// change was published, and the number of writes.
    pub async fn change_during_restart(&mut self) -> anyhow::Result<(Duration, usize)> {
        let mark = self.scene.gimbal.audit_mark().await?;
        self.writer.process.kill()?;
        self.next += 1;
        let config = self.scene.path("writer.yaml");
        let starting = async {
            let writer = self.scene.writer_at(self.writer.port, &config, &[]).await?;
            anyhow::Ok((writer, Instant::now()))
        };
        let (started, changes) = tokio::join!(starting, self.load.run(self.next, 1, Duration::from_secs(1)));
        let (writer, ready) = started?;
        self.writer = writer;
        let seen = self.eyes.all(&changes?, PATIENCE).await?;
        let took = seen.last().map(|seen| seen.at.saturating_duration_since(ready)).unwrap_or_default();
        self.settled().await?;
        Ok((took, self.scene.writes_since(mark).await?.len()))
    }
}
