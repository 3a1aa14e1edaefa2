//! Services as load balancers of a real Octavia with a real Neutron, beside the same requests sent by hand, in one run.

use std::time::Duration;

use gimbal_testkit::openstack::Options;
use gimbal_tests::WayBack;

use crate::Context;
use crate::figure::{Figure, Outcome};
use crate::times;

mod by_hand;
mod calls;
mod crowd;
mod ingresses;
mod lost;
mod one;
mod quiet;
mod routed;
mod routes_by_hand;
mod services;
mod storm;

/// Who makes the port of a VIP, as the configuration says it.
const PORTS: [(&str, &str); 2] = [("never", "Octavia's port"), ("always", "own port")];
/// How often a row is repeated unless more is asked for.
const RUNS: usize = 3;
/// For so long nothing more must come before the calls for a Service are counted.
const REST: Duration = Duration::from_millis(1500);

/// What is measured; each row has a stage of its own, and can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Row {
    /// A Service with 1 port and 3 members
    One,
    /// A Service with 10 ports and 20 members
    Ten,
    /// 20 Services at once, then a member more on each
    Crowd,
    /// 100 changes of one Service's slice in a second, and a change at a time
    Storm,
    /// How long a creation goes on whose client is gone
    Lost,
    /// 10 Ingresses of four paths at once, single changes beside them, a minute in which nothing changes
    Ingresses,
    /// Many load balancers: a minute in which nothing changes, both programs started again, memory
    Quiet,
}

impl Row {
    fn chosen(only: &[Self]) -> Vec<Self> {
        let all = <Self as clap::ValueEnum>::value_variants().iter().copied();
        all.filter(|row| only.is_empty() || only.contains(row)).collect()
    }
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let runs = context.runs.max(RUNS);
    let mut outcome = Outcome::default();
    for row in Row::chosen(&context.only) {
        eprintln!("{row:?}, load {}", crate::machine::Machine::read().load_before);
        match row {
            Row::One => one::run(1, 3, runs, &mut outcome).await?,
            Row::Ten => one::run(10, 20, runs, &mut outcome).await?,
            Row::Crowd => crowd::run(context.scaled(crowd::MANY), runs, &mut outcome).await?,
            Row::Storm => storm::run(runs, &mut outcome).await?,
            Row::Quiet => quiet::run(context.scaled(quiet::MANY), &mut outcome).await?,
            Row::Lost => lost::run(&mut outcome).await?,
            Row::Ingresses => ingresses::run(context.scaled(ingresses::MANY), &mut outcome).await?,
        }
        eprint!("{}", crate::table::text(&outcome.figures));
    }
    outcome.notes.push(format!(
        "internal Services of type LoadBalancer, from their creation to the address in their status; by hand: a populated POST, then \
         a GET each {} ms until it is ACTIVE; medians of {runs}",
        by_hand::LOOK.as_millis()
    ));
    Ok(outcome)
}

/// A stage without a data plane, on which both programs run.
async fn stage(own_port: &str) -> anyhow::Result<WayBack> {
    // The rows are about the cloud's limits, not about the cluster's.
    let quota = "quota: {loadBalancers: 100000, listeners: 100000, members: 10000000, ports: 100000}";
    let extra = format!("vip: {{mode: allocate, ownPort: {own_port}}}\n  {quota}");
    let mut stage = WayBack::build_on(Options::default(), &extra).await?;
    stage.start_writer(&[]).await?;
    stage.start_controller(&["--cluster-ip-services=false"]).await?;
    Ok(stage)
}

fn median(times: Vec<Duration>) -> f64 {
    times::median(times.into_iter().map(|time| time.as_secs_f64() * 1e3).collect())
}

fn median_count(counts: &[usize]) -> f64 {
    times::median(counts.iter().copied().map(number).collect())
}

fn count(what: String, count: usize) -> Figure {
    Figure::new(what, number(count), "")
}

#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}
