//! Many Services at once, and one member more on each.

use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::{PORTS, REST, by_hand, calls, median, median_count, services};
use crate::figure::{Aim, Figure, Outcome};

pub const MANY: usize = 20;
/// Creates by hand of one project that are under way at once; Octavia makes them one after the other.
const AT_ONCE: usize = 2;
const CROWD: f64 = 1.1;
const MORE: f64 = 1.2;

pub async fn run(many: usize, runs: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    for (setting, whose) in PORTS {
        let stage = super::stage(setting).await?;
        let (mut bare, mut ours, mut made) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bare_more, mut more, mut changes, mut reads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut sequences = [String::new(), String::new()];
        for run in 0..runs {
            let names: Vec<String> = (0..many).map(|number| format!("crowd-{run}-{number}")).collect();
            let begin = Instant::now();
            let create = names.iter().map(|name| by_hand::make(&stage, name, 1, 3));
            let ids: Vec<String> = stream::iter(create).buffer_unordered(AT_ONCE).try_collect().await?;
            bare.push(begin.elapsed());
            let mut pools = Vec::new();
            for id in &ids {
                pools.push(by_hand::with_pool(&stage, id).await?);
            }
            let begin = Instant::now();
            let add = pools.iter().map(|pool| by_hand::add_member(&stage, pool, "10.1.0.4"));
            stream::iter(add).buffer_unordered(many).try_collect::<Vec<()>>().await?;
            bare_more.push(begin.elapsed());
            for id in &ids {
                stage.cloud.delete(&format!("/loadbalancers/{id}")).await?;
            }
            let (marks, begin) = (stage.marks()?, Instant::now());
            let create = names.iter().map(|name| services::make(&stage, name, 1, 3));
            stream::iter(create).buffer_unordered(many).try_collect::<Vec<()>>().await?;
            services::until_addresses(&stage, &names).await?;
            ours.push(begin.elapsed());
            let calls = calls::at_rest(&stage, marks, REST).await?;
            made.push(calls.counted());
            sequences[0] = calls.sequence();
            let (marks, begin) = (stage.marks()?, Instant::now());
            let four = services::addresses(4);
            let add = names.iter().map(|name| services::set_members(&stage, name, 1, &four));
            stream::iter(add).buffer_unordered(many).try_collect::<Vec<()>>().await?;
            services::until_members(&stage, many * 4).await?;
            more.push(begin.elapsed());
            let calls = calls::at_rest(&stage, marks, REST).await?;
            changes.push(calls.changes.len());
            reads.push(calls.reads.len());
            sequences[1] = calls.sequence();
            services::remove(&stage, &names).await?;
        }
        #[allow(clippy::cast_precision_loss)]
        let puts = many as f64;
        let name = format!("{many} Services at once, {whose}");
        outcome.figures.extend([
            Figure::new(format!("{name}: until ACTIVE"), median(ours), "ms")
                .floor("by hand", median(bare))
                .aim(Aim::AtMost(CROWD)),
            Figure::new(format!("{name}: calls"), median_count(&made), ""),
        ]);
        let name = format!("a member more on {many}, {whose}");
        outcome.figures.extend([
            Figure::new(name.clone(), median(more), "ms").floor("by hand", median(bare_more)).aim(Aim::AtMost(MORE)),
            Figure::new(format!("{name}: changes"), median_count(&changes), "")
                .floor("one PUT each", puts)
                .aim(Aim::AtMost(1.0)),
            Figure::new(format!("{name}: reads"), median_count(&reads), ""),
        ]);
        let [made, added] = sequences;
        outcome.notes.push(format!("{many} at once, {whose}: {made}; a member more on each: {added}"));
    }
    outcome.notes.push(format!("by hand {AT_ONCE} creates are under way at once"));
    Ok(())
}
