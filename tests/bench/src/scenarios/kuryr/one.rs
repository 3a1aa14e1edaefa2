//! One Service at a time, and one load balancer by hand.

use std::time::Instant;

use super::{PORTS, REST, by_hand, calls, count, median, median_count, services, stage};
use crate::figure::{Aim, Figure, Outcome};

/// Share of the bare API's time that is aimed at.
const TIME: f64 = 1.2;
/// Calls for a Service with one port that are aimed at.
const CALLS: f64 = 5.0;
/// Writes to Kubernetes that are aimed at.
const WRITES: f64 = 4.0;

pub async fn run(ports: u16, members: u8, runs: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    for (setting, whose) in PORTS {
        let stage = stage(setting).await?;
        let what = format!("{ports} port(s), {members} members, {whose}");
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        let (mut made, mut changes, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        let mut sequence = String::new();
        // The first Service waits for what the programs learn at their start; it is not counted.
        for run in 0..=runs {
            let begin = Instant::now();
            let id = by_hand::make(&stage, &format!("bare-{run}"), ports, members).await?;
            let by_hand = begin.elapsed();
            stage.cloud.delete(&format!("/loadbalancers/{id}")).await?;
            let (name, marks) = (format!("web-{run}"), stage.marks()?);
            let audited = stage.cluster.audit_mark().await?;
            let begin = Instant::now();
            services::make(&stage, &name, ports, members).await?;
            services::until_addresses(&stage, std::slice::from_ref(&name)).await?;
            let took = begin.elapsed();
            let calls = calls::at_rest(&stage, marks, REST).await?;
            if run > 0 {
                bare.push(by_hand);
                ours.push(took);
                made.push(calls.counted());
                changes.push(calls.changes.len());
                let all = stage.writes_since(audited).await?;
                writes.push(all.iter().filter(|write| write.resource != "events").count());
                let kinds: Vec<String> = all.iter().map(|write| format!("{} {}", write.verb, write.resource)).collect();
                sequence = format!("{what}: {}; writes to Kubernetes: {}", calls.sequence(), kinds.join(", "));
            }
            services::remove(&stage, &[name]).await?;
        }
        let time = Figure::new(format!("{what}: until ACTIVE"), median(ours), "ms");
        outcome.figures.push(time.floor("by hand", median(bare)).aim(Aim::AtMost(TIME)));
        let calls = Figure::new(format!("{what}: calls"), median_count(&made), "");
        outcome.figures.push(if ports == 1 { calls.aim(Aim::AtMost(CALLS)) } else { calls });
        outcome.figures.push(Figure::new(format!("{what}: of them changes"), median_count(&changes), ""));
        let writes = Figure::new(format!("{what}: writes to Kubernetes without Events"), median_count(&writes), "");
        outcome.figures.push(writes.aim(Aim::AtMost(WRITES)));
        outcome.figures.push(count(format!("{what}: load balancers left"), stage.left().await?.len()));
        outcome.notes.push(sequence);
    }
    Ok(())
}
