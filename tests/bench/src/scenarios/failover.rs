//! How long a change waits while the leader of two writers goes: 20 backends with 50,000 slices, and one change of each backend made just
//! after the leader was killed, stopped or ended; then one made while the API server of the Gimbal cluster is away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Proxy, SOON, Scene, Writer, expect_metric, metric, writer_rights};

use crate::Context;
use crate::backends::{Backends, Size};
use crate::change::{Change, Delays, Eyes};
use crate::content::{published, same};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::namespaces;
use crate::inspection::Inspection;
use crate::times::Times;

const BACKENDS: usize = 20;
const SIZE: Size = Size { services: 2_500, endpoints: 4 };
const USERS: [&str; 2] = ["writer", "user-1"];
/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(60);
/// By how much the number of Services is divided where there is one address.
const FEWER: usize = 10;
const PATIENCE: Duration = Duration::from_secs(180);
/// Limits in seconds.
const CRASH: f64 = 5.0;
const CLEAN: f64 = 1.0;
const RETURN: f64 = 2.0;

/// Two writers of one Gimbal cluster, all backends connected to whichever leads, everything written.
struct Pair {
    scene: Scene,
    writers: [Writer; 2],
    /// Which of them leads.
    leader: usize,
    backends: Backends,
    count: usize,
    changed: u32,
    _proxy: Option<Proxy>,
}

/// What one change of each backend cost.
struct Written {
    times: Times,
    /// Writes of published objects from the event on.
    writes: usize,
}

/// What agents dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    /// Each writer's own.
    Both,
    /// One, behind which connections go to each writer in turn, as behind a Service.
    One,
}

/// How the API server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// Connections stay open, and nothing is answered.
    Silent,
    /// Connections are refused.
    Ended,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let size = Size { services: context.scaled(SIZE.services), ..SIZE };
    let mut pair = Pair::start(BACKENDS, size, Addresses::Both).await?;
    let usual = pair.change_of_each().await?;
    let mut figures = vec![Figure::new("a change of each backend, nothing else: the last one", usual.longest(), "s")];

    let killed = pair.kill().await?;
    figures.extend(killed.figures("the leader killed", pair.count, CRASH));
    let stopped = pair.stop().await?;
    figures.extend(stopped.figures(
        "the leader stopped (SIGSTOP), and continued when another leads",
        pair.count,
        CRASH,
    ));
    let ended = pair.end_leader().await?;
    figures.extend(ended.figures("the leader ended (SIGTERM)", pair.count, CLEAN));
    for (outage, what) in [(Outage::Silent, "the API server silent"), (Outage::Ended, "the API server ended")] {
        figures.extend(pair.api_server_away(outage, what).await?);
    }
    pair.check_and_end().await?;

    let few = Size { services: (size.services / FEWER).max(1), ..size };
    let mut pair = Pair::start(BACKENDS, few, Addresses::One).await?;
    figures.extend(pair.kill().await?.figures("one address, the leader killed", pair.count, CRASH));
    figures.extend(pair.stop().await?.figures("one address, the leader stopped (SIGSTOP)", pair.count, CRASH));
    pair.check_and_end().await?;
    Ok(Outcome {
        figures,
        notes: vec![
            format!(
                "With one address a {FEWER}th of the Services, and a proxy that leads connections to the two in turn. Agents find out that a \
             stopped leader is silent after 15 s, for they have nowhere else to go"
            ),
            format!(
                "{BACKENDS} backends of {} Services with one slice of {} endpoints each: {} slices; two writers with a lease of 3 s. One \
             endpoint of each backend is replaced just after the event; timed from the simulated source until a watch on the Gimbal \
             cluster shows it. The API server is away for {} s: stopped (SIGSTOP) and continued, then ended and started",
                size.services,
                size.endpoints,
                BACKENDS * size.services,
                AWAY.as_secs()
            ),
        ],
        ..Outcome::default()
    })
}

impl Pair {
    async fn start(count: usize, size: Size, addresses: Addresses) -> anyhow::Result<Self> {
        let scene = Scene::start().await?;
        namespaces(&scene.gimbal).await?;
        scene.gimbal.bind(&scene.gimbal.user(USERS[1])?, &writer_rights()?).await?;
        let names: Vec<String> = (0..count).map(crate::backends::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        scene.config(&names, "")?;
        let ports = [free_port()?, free_port()?];
        let writers = [writer(&scene, 0, ports[0]).await?, writer(&scene, 1, ports[1]).await?];
        let leader = leader(&writers).await?;
        let proxy = match addresses {
            Addresses::Both => None,
            Addresses::One => Some(Proxy::start(&ports).await?),
        };
        let dialled = proxy.as_ref().map_or_else(|| ports.to_vec(), |proxy| vec![proxy.port]);
        let backends = Backends::start_with(&scene, count, size, &dialled).await?;
        let pair = Self { scene, writers, leader, backends, count, changed: 0, _proxy: proxy };
        pair.settled().await?;
        Ok(pair)
    }

    async fn check_and_end(self) -> anyhow::Result<()> {
        same(&published(&self.scene.gimbal.client()?).await?, &self.backends.wanted())?;
        self.backends.end().await
    }

    async fn settled(&self) -> anyhow::Result<()> {
        let inspection = Inspection::of(&self.scene, &self.writers[self.leader]).await?;
        inspection.settled(self.count, PATIENCE).await?;
        Ok(())
    }

    /// Snapshots that either writer has asked for in the middle of a stream.
    async fn resyncs(&self) -> anyhow::Result<f64> {
        let [first, second] =
            self.writers.each_ref().map(|writer| metric(writer.admin_port, "gimbal_writer_resyncs_total", ""));
        Ok(first.await? + second.await?)
    }

    /// Writes of published objects, by either writer.
    async fn writes_since(&self, mark: usize) -> anyhow::Result<usize> {
        let entries = self.scene.gimbal.audit_since(mark).await?;
        Ok(entries.iter().filter(|entry| entry.is_publication() && USERS.contains(&&*entry.user)).count())
    }

    /// Replaces an endpoint of one Service of each backend.
    fn changes(&mut self) -> anyhow::Result<BTreeMap<u32, Change>> {
        let first = self.changed;
        self.changed += u32::try_from(self.count)?;
        (first..self.changed).map(|number| Ok((number, self.backends.change(number)?))).collect()
    }

    async fn change_of_each(&mut self) -> anyhow::Result<Written> {
        self.after(|_| Ok(())).await
    }

    /// Changes each backend just after something happened to the leader, and waits until all changes are written.
    async fn after(&mut self, happens: impl FnOnce(&mut Writer) -> anyhow::Result<()>) -> anyhow::Result<Written> {
        let mut eyes = Eyes::open(&self.scene.gimbal.client()?, None).await?;
        let mark = self.scene.gimbal.audit_mark().await?;
        happens(&mut self.writers[self.leader])?;
        let changes = self.changes()?;
        let seen = eyes.all(&changes, PATIENCE).await?;
        let times = Delays::of(&changes, &seen).times();
        Ok(Written { times, writes: self.writes_since(mark).await? })
    }

    /// The other one leads and has written everything that there is to write.
    async fn the_other_leads(&mut self, mark: usize) -> anyhow::Result<usize> {
        self.leader = 1 - self.leader;
        expect_metric(self.writers[self.leader].admin_port, LEADING, "", 1.0).await?;
        self.settled().await?;
        self.writes_since(mark).await
    }

    async fn restart(&mut self, which: usize) -> anyhow::Result<()> {
        let port = self.writers[which].port;
        self.writers[which] = writer(&self.scene, which, port).await?;
        Ok(())
    }

    async fn kill(&mut self) -> anyhow::Result<Written> {
        let mark = self.scene.gimbal.audit_mark().await?;
        let mut written = self.after(|leader| leader.process.kill()).await?;
        written.writes = self.the_other_leads(mark).await?;
        self.restart(1 - self.leader).await?;
        Ok(written)
    }

    async fn stop(&mut self) -> anyhow::Result<Written> {
        let mark = self.scene.gimbal.audit_mark().await?;
        let mut written = self.after(|leader| leader.process.freeze()).await?;
        let sleeper = self.leader;
        self.writers[sleeper].process.signal("CONT")?;
        expect_metric(self.writers[sleeper].admin_port, LEADING, "", 0.0).await?;
        written.writes = self.the_other_leads(mark).await?;
        Ok(written)
    }

    async fn end_leader(&mut self) -> anyhow::Result<Written> {
        let mark = self.scene.gimbal.audit_mark().await?;
        let mut written = self.after(|leader| leader.process.signal("TERM")).await?;
        self.writers[self.leader].process.wait_exit(SOON).await?;
        written.writes = self.the_other_leads(mark).await?;
        self.restart(1 - self.leader).await?;
        Ok(written)
    }

    #[allow(clippy::cast_precision_loss)]
    async fn api_server_away(&mut self, outage: Outage, what: &str) -> anyhow::Result<Vec<Figure>> {
        let resent = self.resyncs().await?;
        let streams = Inspection::of(&self.scene, &self.writers[self.leader]).await?.generations().await?;
        let mut eyes = Eyes::open(&self.scene.gimbal.client()?, None).await?;
        let mark = self.scene.gimbal.audit_mark().await?;
        match outage {
            Outage::Silent => self.scene.gimbal.pause()?,
            Outage::Ended => self.scene.gimbal.stop_apiserver()?,
        }
        let changes = self.changes()?;
        tokio::time::sleep(AWAY).await;
        for writer in &mut self.writers {
            anyhow::ensure!(writer.process.exited()?.is_none(), "a writer ended\n{}", writer.process.log_tail());
        }
        match outage {
            Outage::Silent => self.scene.gimbal.resume()?,
            Outage::Ended => self.scene.gimbal.start_apiserver().await?,
        }
        let back = Instant::now();
        let seen = eyes.all(&changes, PATIENCE).await?;
        let after = |at: Option<Instant>| at.map(|at| (at - back).as_secs_f64()).context("no change was seen");
        let (first, last) = (seen.iter().map(|seen| seen.at).min(), seen.iter().map(|seen| seen.at).max());
        let (first, last) = (after(first)?, after(last)?);
        self.leader = leader(&self.writers).await?;
        self.settled().await?;
        let now = Inspection::of(&self.scene, &self.writers[self.leader]).await?.generations().await?;
        let lost = streams.iter().filter(|(name, generation)| now.get(*name) != Some(generation)).count();
        let writes = self.writes_since(mark).await?;
        let resent = self.resyncs().await? - resent;
        let what = |of: &str| format!("{what} for {} s: {of}", AWAY.as_secs());
        Ok(vec![
            Figure::new(what("first write after its return"), first, "s").aim(Aim::AtMost(RETURN)),
            Figure::new(what("last of one change of each backend"), last, "s"),
            Figure::new(what("streams that were opened anew"), lost as f64, "").aim(Aim::AtMost(0.0)),
            Figure::new(what("snapshots that were asked for"), resent, "").aim(Aim::AtMost(0.0)),
            Figure::new(what("writes"), writes as f64, "").floor("changes", self.count as f64).aim(Aim::AtMost(1.0)),
        ])
    }
}

impl Written {
    /// In seconds.
    fn longest(&self) -> f64 {
        self.times.percentile(100.0) / 1e3
    }

    #[allow(clippy::cast_precision_loss)]
    fn figures(&self, what: &str, count: usize, limit: f64) -> [Figure; 3] {
        [
            Figure::new(format!("{what}: the change of the last backend"), self.longest(), "s").aim(Aim::AtMost(limit)),
            Figure::new(format!("{what}: of the median backend"), self.times.percentile(50.0) / 1e3, "s"),
            Figure::new(format!("{what}: writes"), self.writes as f64, "")
                .floor("changes", count as f64)
                .aim(Aim::AtMost(1.0)),
        ]
    }
}

async fn writer(scene: &Scene, which: usize, port: u16) -> anyhow::Result<Writer> {
    scene.writer_as(USERS[which], port, &scene.path("writer.yaml"), &[]).await
}

/// Whether a writer leads.
const LEADING: &str = "gimbal_writer_leading";

/// Which one leads, as soon as exactly one does.
async fn leader(writers: &[Writer; 2]) -> anyhow::Result<usize> {
    eventually("one of them leads", SOON, async || {
        let [first, second] = writers.each_ref().map(|writer| metric(writer.admin_port, LEADING, ""));
        let (first, second) = (first.await? > 0.5, second.await? > 0.5);
        anyhow::ensure!(first != second, "the first: {first}, the second: {second}");
        anyhow::Ok(usize::from(second))
    })
    .await
}
