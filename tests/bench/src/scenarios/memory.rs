//! Memory of discoverer and writer for one large source: 10,450 Services with 502,000 addresses, for which the original
//! Gimbal's discoverer took 226 MB. Measures the peak of each phase, and whether both stay constant under changes.

use std::time::{Duration, Instant};

use gimbal_testkit::{TestCluster, eventually};
use gimbal_tests::{Discoverer, Scene, Writer};

use crate::Context;
use crate::content::{offered, published, same};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill;
use crate::inspection::Inspection;
use crate::proc::{Usage, forget_peak};

mod churn;
mod source;

use source::Size;

const BACKEND: &str = "bench";
/// Limits in MB, including relists and restarts.
const DISCOVERER: f64 = 60.0;
const WRITER: f64 = 150.0;
const PATIENCE: Duration = Duration::from_secs(600);
/// An outage after which a watch lists again.
const OUTAGE: Duration = Duration::from_secs(12);
/// A list is over when no further page was requested for this long.
const NO_PAGE: Duration = Duration::from_secs(3);

/// A discoverer and a writer.
struct Stand {
    scene: Scene,
    writer: Writer,
    discoverer: Discoverer,
    peaks: Vec<Peak>,
}

/// The peaks of one phase.
struct Peak {
    phase: &'static str,
    discoverer: Usage,
    writer: Usage,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let size = Size::new(context);
    let scene = Scene::start().await?;
    fill::create(&scene.source, size.namespaces(&scene).await?).await?;
    let writer = scene.writer(&scene.config(&[BACKEND], "")?, &[]).await?;
    let discoverer = scene.discoverer(BACKEND, &scene.source, writer.port, &[])?;
    let mut stand = Stand { scene, writer, discoverer, peaks: Vec::new() };
    stand.settled().await?;
    stand.note("everything from empty")?;
    stand.relist_source().await?;
    stand.note("the source listed again")?;
    stand.relist_gimbal().await?;
    stand.note("the Gimbal cluster listed again")?;
    stand.restart_writer().await?;
    stand.note("the writer started anew")?;
    stand.restart_discoverer().await?;
    stand.note("the discoverer started anew")?;
    let churned = churn::run(&stand, &size, context.minutes).await?;
    stand.settled().await?;
    stand.note("changes")?;
    let wanted = offered(&stand.scene.source.client()?, BACKEND).await?;
    same(&published(&stand.scene.gimbal.client()?).await?, &wanted)?;

    let mut figures = Vec::new();
    for Peak { phase, discoverer, writer } in &stand.peaks {
        let figure = |who: &str, peak, most| Figure::new(format!("{who}, {phase}"), peak, "MB").aim(Aim::AtMost(most));
        figures.push(figure("discoverer", discoverer.peak, DISCOVERER));
        figures.push(figure("writer", writer.peak, WRITER));
    }
    figures.extend(churned.figures());
    let notes = vec![
        size.to_string(),
        "each figure is the most that was resident (VmHWM, the program's own pages with it) in that phase alone"
            .to_owned(),
        churned.note(),
    ];
    Ok(Outcome { figures, plots: vec![churned.plot()], notes, ..Outcome::default() })
}

impl Stand {
    async fn settled(&self) -> anyhow::Result<()> {
        Inspection::of(&self.scene, &self.writer).await?.settled(1, PATIENCE).await?;
        Ok(())
    }

    /// Records the peaks of the phase that ends now, and resets them.
    fn note(&mut self, phase: &'static str) -> anyhow::Result<()> {
        let (discoverer, writer) = (Usage::of(self.discoverer.process.id())?, Usage::of(self.writer.process.id())?);
        eprintln!("{phase}: discoverer {:.1} MB, writer {:.1} MB", discoverer.peak, writer.peak);
        self.peaks.push(Peak { phase, discoverer, writer });
        forget_peak(self.discoverer.process.id())?;
        forget_peak(self.writer.process.id())
    }

    async fn relist_source(&self) -> anyhow::Result<()> {
        outage(&self.scene.source, "discoverer").await?;
        self.settled().await
    }

    async fn relist_gimbal(&self) -> anyhow::Result<()> {
        outage(&self.scene.gimbal, "writer").await?;
        self.settled().await
    }

    async fn restart_writer(&mut self) -> anyhow::Result<()> {
        self.writer.process.kill()?;
        self.writer = self.scene.writer_at(self.writer.port, &self.scene.path("writer.yaml"), &[]).await?;
        self.settled().await
    }

    async fn restart_discoverer(&mut self) -> anyhow::Result<()> {
        let before = Inspection::of(&self.scene, &self.writer).await?.generations().await?;
        self.discoverer.process.kill()?;
        self.discoverer = self.scene.discoverer(BACKEND, &self.scene.source, self.writer.port, &[])?;
        Inspection::of(&self.scene, &self.writer).await?.complete(1, &before, PATIENCE).await?;
        self.settled().await
    }
}

/// Takes the API server down for so long that its watchers list again. Returns once they have.
async fn outage(cluster: &TestCluster, user: &str) -> anyhow::Result<()> {
    let mark = cluster.audit_mark().await?;
    cluster.stop_apiserver()?;
    tokio::time::sleep(OUTAGE).await;
    cluster.start_apiserver().await?;
    let mut last = (0, Instant::now());
    eventually(&format!("{user} has listed everything again"), PATIENCE, async || {
        let entries = cluster.audit_since(mark).await?;
        let of = |entry: &&gimbal_testkit::cluster::AuditEntry| entry.verb == "list" && entry.user == user;
        let lists = entries.iter().filter(of).count();
        if lists != last.0 {
            last = (lists, Instant::now());
        }
        anyhow::ensure!(lists > 0 && last.1.elapsed() > NO_PAGE, "{lists} pages so far");
        anyhow::Ok(())
    })
    .await
}
