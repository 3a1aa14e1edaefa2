//! Bytes on the wire for a change that replaces one endpoint of a Service, in a small and in a large Service. Counted
//! at a TCP proxy between discoverer and writer, with the framing of gRPC, HTTP/2 and TLS; each change alone.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_tests::{Passed, Proxy, Scene};

use crate::Context;
use crate::change::{Eyes, Load};
use crate::content::{offered, published, same};
use crate::figure::{Aim, Figure, Outcome};
use crate::fill::{Lot, fill_namespace};
use crate::inspection::Inspection;
use crate::times::median;

const PATIENCE: Duration = Duration::from_secs(60);
/// Largest number of bytes that a change may take.
const MOST: f64 = 300.0;

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let changes = context.scaled(200).max(20);
    let lots = [
        Lot { prefix: "small", services: 1, endpoints: 100 },
        Lot { prefix: "large", services: 1, endpoints: u32::try_from(context.scaled(5_000))?.max(100) },
    ];
    let scene = Scene::start().await?;
    for lot in &lots {
        fill_namespace(&scene.source, lot.prefix, *lot).await?;
        scene.gimbal.namespace(lot.prefix).await?;
    }
    let writer = scene.writer(&scene.config(&["bench"], "")?, &[]).await?;
    let proxy = Proxy::start(&[writer.port]).await?;
    let _discoverer = scene.discoverer("bench", &scene.source, proxy.port, &[])?;
    Inspection::of(&scene, &writer).await?.settled(1, PATIENCE).await?;

    let mut eyes = Eyes::open(&scene.gimbal.client()?, None).await?;
    let mut figures: Vec<Figure> = Vec::new();
    let mut next = 0;
    for lot in &lots {
        let mut load = Load::on(&scene.source.client()?, lot.prefix).await?;
        let mut passed = Vec::new();
        for _ in 0..changes {
            passed.push(change(&mut load, next, &mut eyes, &proxy).await?);
            next += 1;
        }
        figures.extend(told(*lot, &passed));
    }
    let source = offered(&scene.source.client()?, "bench").await?;
    same(&published(&scene.gimbal.client()?).await?, &source)?;

    let (small, mut large) = (figures[0].value, figures.split_off(2));
    figures.append(&mut large);
    figures.push(
        Figure::new(format!("a change of {} endpoints against one of 100", lots[1].endpoints), figures[2].value, "B")
            .floor("of 100", small)
            .aim(Aim::AtMost(1.02)),
    );
    Ok(Outcome {
        figures,
        notes: vec![format!(
            "medians of {changes} changes each, one after the other; both directions, without the headers of TCP and IP; \
             a heartbeat or a ping that falls into the time of a change is in that one's bytes"
        )],
        ..Outcome::default()
    })
}

/// Makes one change, and returns what was passed until it was acknowledged.
async fn change(load: &mut Load, number: u32, eyes: &mut Eyes, proxy: &Proxy) -> anyhow::Result<Passed> {
    let before = proxy.passed();
    let changes = load.run(number, 1, Duration::from_millis(1)).await?;
    eyes.all(&changes, PATIENCE).await?;
    let mut last = before;
    eventually("the change is acknowledged", PATIENCE, async || {
        let now = proxy.passed();
        let moves = std::mem::replace(&mut last, now) != now;
        anyhow::ensure!(now.from > before.from && !moves, "{:?} passed", now.since(before));
        anyhow::Ok(now.since(before))
    })
    .await
}

#[allow(clippy::cast_precision_loss)]
fn told(lot: Lot, passed: &[Passed]) -> [Figure; 2] {
    let middle = |bytes: &dyn Fn(&Passed) -> u64| median(passed.iter().map(|passed| bytes(passed) as f64).collect());
    let what = format!("one of {} endpoints replaced", lot.endpoints);
    [
        Figure::new(what.clone(), middle(&|passed| passed.sum()), "B").aim(Aim::AtMost(MOST)),
        Figure::new(format!("{what}: from the discoverer alone, without the Ack"), middle(&|passed| passed.to), "B"),
    ]
}
