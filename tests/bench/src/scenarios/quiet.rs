//! Restarts and reconnects with 50,000 unchanged slices: nothing is written, the discoverer's reconnect costs the same
//! however many Services there are, and a change that is made meanwhile does not wait for the rest.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use gimbal_tests::{Ep, Scene, slice};

use crate::Context;
use crate::content::{offered, published, same};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::{self, Lot, Objects};
use crate::sight::{self, Sight};
use crate::times::Times;

mod stand;

use stand::{Back, Stand};

const BACKEND: &str = "bench";
/// Each Service has two slices, one of each address family.
const SERVICES: usize = 25_000;
/// The namespace of the changes.
const FRESH: &str = "fresh";
const LOT: Lot = Lot { prefix: "fresh", services: 20, endpoints: 20 };
/// How often short measurements are repeated.
const OFTEN: usize = 20;
const PATIENCE: Duration = Duration::from_secs(120);
/// Prefix of the addresses of the second family: fd00::/16.
const PREFIX: u128 = 0xfd00 << 112;
/// Limit in seconds until ready, after a restart.
const READY: f64 = 10.0;
/// Largest ratio of bytes for a reconnect with all Services to one with a few: equal, apart from some heartbeats.
const FLAT: f64 = 1.5;

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let all = context.scaled(SERVICES);
    let few = (all / 100).max(1);
    let scene = Scene::start().await?;
    for cluster in [&scene.source, &scene.gimbal] {
        fill::namespaces(cluster).await?;
        cluster.namespace(FRESH).await?;
    }
    fill::fill_namespace(&scene.source, FRESH, LOT).await?;
    let mut stand = Stand::start(scene).await?;

    put(&stand, 0, few).await?;
    let small = [stand.restart_discoverer().await?, stand.cut().await?];
    put(&stand, few, all).await?;
    let large = [stand.restart_discoverer().await?, stand.cut().await?];
    let writer = stand.restart_writer().await?;

    let (mut unloaded, mut cut) = (Vec::new(), Vec::new());
    for _ in 0..OFTEN {
        unloaded.push(stand.change().await?);
        cut.push(stand.change_during_cut().await?);
    }
    let (after_ready, writes) = stand.change_during_restart().await?;
    let wanted = offered(&stand.scene.source.client()?, BACKEND).await?;
    same(&published(&stand.scene.gimbal.client()?).await?, &wanted)?;

    let [small_restart, small_cut] = small;
    let [restart, reconnect] = large;
    let mut figures = quiet("the discoverer killed and started anew", &restart);
    figures.push(flat("the discoverer killed and started anew", &restart, &small_restart, few));
    figures.extend(quiet("the connection cut", &reconnect));
    figures.push(flat("the connection cut", &reconnect, &small_cut, few));
    figures.extend(quiet("the writer killed and started anew", &writer));
    #[allow(clippy::cast_precision_loss)]
    let each = writer.passed.sum() as f64 / all as f64;
    figures.push(Figure::new("the writer killed and started anew: bytes of a Service", each, "B"));
    figures.extend(fresh(&Times::new(unloaded), &Times::new(cut), after_ready, writes));
    Ok(Outcome {
        figures,
        notes: vec![
            format!(
                "{all} Services with a slice of each family, two endpoints in each: {} slices, and {} Services beside \
                 them of which one is changed",
                2 * all,
                LOT.services
            ),
            format!(
                "a change is timed from the source's answer on; {OFTEN} made as the connection breaks, so that they wait \
                 for the discoverer's back-off, TCP, TLS and the stream too; one made while the writer starts"
            ),
        ],
        ..Outcome::default()
    })
}

/// Creates Services of these numbers in the source, and waits until they are written.
async fn put(stand: &Stand, first: usize, end: usize) -> anyhow::Result<()> {
    let eyes = stand.scene.gimbal.client()?;
    let mut sight = Sight::open(&eyes);
    sight::watches_open(&eyes).await?;
    let objects = (end - first) * 3;
    let (filled, arrived) =
        tokio::join!(fill::create(&stand.scene.source, (first..end).map(service)), sight.span(objects, PATIENCE));
    filled?;
    arrived?;
    stand.settled().await
}

#[allow(clippy::cast_possible_truncation)]
fn service(number: usize) -> Objects {
    let (namespace, name, ports) = (fill::namespace(number), format!("quiet-{number:05}"), [("http", 80)]);
    let first = 0x0a10_0000 + 2 * number as u32;
    let v4 = [first, first + 1].map(|address| Ipv4Addr::from(address).to_string());
    let v6 = [first, first + 1].map(|address| Ipv6Addr::from(PREFIX + u128::from(address)).to_string());
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let of = |suffix: &str, addresses: &[String; 2]| {
        let endpoints = addresses.each_ref().map(|address| Ep::Ready(address));
        (slices.clone(), slice(&namespace, &name, suffix, &ports, &endpoints))
    };
    vec![
        (format!("/api/v1/namespaces/{namespace}/services"), fill::headless(&namespace, &name)),
        of("v4", &v4),
        of("v6", &v6),
    ]
}

#[allow(clippy::cast_precision_loss)]
fn quiet(what: &str, back: &Back) -> Vec<Figure> {
    let figure = |of: &str, value: f64, unit: &str| Figure::new(format!("{what}: {of}"), value, unit);
    let mut figures = vec![figure("writes", back.writes as f64, "").aim(Aim::AtMost(0.0))];
    if !back.ready.is_zero() {
        figures.push(figure("ready", back.ready.as_secs_f64(), "s").aim(Aim::AtMost(READY)));
    }
    figures.push(figure("complete in the writer", back.complete.as_secs_f64(), "s"));
    figures.push(figure("peak memory of the discoverer", back.peaks.0, "MB"));
    figures.push(figure("peak memory of the writer", back.peaks.1, "MB"));
    figures
}

#[allow(clippy::cast_precision_loss)]
fn flat(what: &str, large: &Back, small: &Back, few: usize) -> Figure {
    Figure::new(format!("{what}: bytes"), large.passed.sum() as f64, "B")
        .floor(&format!("with {few} Services"), small.passed.sum() as f64)
        .aim(Aim::AtMost(FLAT))
}

#[allow(clippy::cast_precision_loss)]
fn fresh(unloaded: &Times, cut: &Times, after_ready: Duration, writes: usize) -> Vec<Figure> {
    let floor = |figure: Figure| figure.floor("unloaded", unloaded.percentile(50.0)).aim(Aim::AtMost(10.0));
    vec![
        floor(Figure::new("a change made as the connection breaks, median", cut.percentile(50.0), "ms")),
        floor(Figure::new("a change made as the connection breaks, longest", cut.percentile(100.0), "ms")),
        Figure::new("a change made while the writer starts, after it is ready", after_ready.as_secs_f64(), "s")
            .aim(Aim::AtMost(1.0)),
        Figure::new("a change made while the writer starts: writes", writes as f64, "").aim(Aim::AtMost(1.0)),
    ]
}
