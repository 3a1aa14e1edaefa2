//! One changed endpoint by each verb of the API server, on one server, in turns: what it costs the server, how fast it
//! is, how many bytes it takes, and what it leaves of a manual edit.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::TestCluster;

use crate::Context;
use crate::figure::{Figure, Outcome};
use crate::proc::Usage;
use crate::subject::{NAMESPACE, Subject};
use crate::times::Times;
use crate::verb::Verb;

const WORKERS: usize = 64;
/// Writes of each worker in one turn.
const WRITES: usize = 8;
const TURNS: usize = 6;

/// The cost of one verb.
#[derive(Default)]
struct Cost {
    writes: usize,
    server: Duration,
    side_by_side: Duration,
    alone: Vec<Duration>,
    sent: usize,
    received: usize,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let cluster = TestCluster::start().await?;
    cluster.namespace(NAMESPACE).await?;
    let mut outcome = Outcome::default();
    for endpoints in [20, 100] {
        let mut subjects = Vec::new();
        for verb in Verb::ALL {
            let of_verb = (0..WORKERS).map(|number| Subject::create(cluster.admin(), verb, endpoints, number));
            subjects.push((Cost::default(), stream::iter(of_verb).buffered(WORKERS).try_collect::<Vec<_>>().await?));
        }
        // The first turn opens connections and warms caches.
        for turn in 0..=context.scaled(TURNS) {
            for (cost, subjects) in &mut subjects {
                let taken = turn_of(&cluster, subjects).await?;
                if turn > 0 {
                    cost.add(taken);
                }
            }
        }
        outcome.figures.extend(figures(endpoints, &subjects));
        for (_, of_verb) in subjects.iter_mut().filter(|_| endpoints == 20) {
            if let Some(subject) = of_verb.first_mut().filter(|subject| !subject.verb.is_put_otherwise()) {
                outcome.notes.push(subject.after_an_edit(cluster.admin()).await?);
            }
        }
    }
    outcome.notes.push(format!(
        "each verb with UID and version as preconditions and {WORKERS} slices of its own; bytes are those of bodies; no \
         watch was open"
    ));
    Ok(outcome)
}

async fn turn_of(cluster: &TestCluster, subjects: &mut [Subject]) -> anyhow::Result<Cost> {
    let api = cluster.admin();
    let mut cost = Cost::default();
    if let Some(subject) = subjects.first_mut() {
        for _ in 0..WRITES {
            let start = Instant::now();
            subject.change(api).await?;
            cost.alone.push(start.elapsed());
        }
    }
    let (before, start) = (Usage::of(cluster.api_server()?)?, Instant::now());
    let work = subjects.iter_mut().map(|subject| async move {
        let mut bytes = (0, 0);
        for _ in 0..WRITES {
            let (sent, received) = subject.change(api).await?;
            bytes = (bytes.0 + sent, bytes.1 + received);
        }
        anyhow::Ok(bytes)
    });
    let bytes: Vec<(usize, usize)> = stream::iter(work).buffer_unordered(WORKERS).try_collect().await?;
    cost.side_by_side = start.elapsed();
    cost.server = Usage::of(cluster.api_server()?)?.cpu.saturating_sub(before.cpu);
    cost.writes = bytes.len() * WRITES;
    cost.sent = bytes.iter().map(|(sent, _)| sent).sum();
    cost.received = bytes.iter().map(|(_, received)| received).sum();
    Ok(cost)
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.server += other.server;
        self.side_by_side += other.side_by_side;
        self.alone.extend(other.alone);
        self.sent += other.sent;
        self.received += other.received;
    }
}

#[allow(clippy::cast_precision_loss)]
fn figures(endpoints: u32, subjects: &[(Cost, Vec<Subject>)]) -> Vec<Figure> {
    let of = |value: &dyn Fn(&Cost, &[Subject]) -> f64, what: &str, unit: &str| -> Vec<Figure> {
        let put = subjects.first().map(|(cost, subjects)| value(cost, subjects)).unwrap_or_default();
        let figure = |(cost, subjects): &(Cost, Vec<Subject>)| {
            let verb = subjects.first().map_or("", |subject| subject.verb.name());
            Figure::new(format!("{what}, {endpoints} endpoints: {verb}"), value(cost, subjects), unit).floor("PUT", put)
        };
        subjects.iter().map(figure).collect()
    };
    let per_write = |of: f64, cost: &Cost| of / cost.writes as f64;
    let managed = |subject: &Subject| subject.answer["metadata"]["managedFields"].to_string().len() as f64;
    [
        of(&|cost, _| per_write(cost.server.as_secs_f64() * 1e3, cost), "API server's CPU time a write", "ms"),
        of(&|cost, _| cost.writes as f64 / cost.side_by_side.as_secs_f64(), "writes by 64 workers", "/s"),
        of(&|cost, _| Times::new(cost.alone.clone()).percentile(50.0), "p50 of a write alone", "ms"),
        of(&|cost, _| per_write(cost.sent as f64, cost), "sent", "bytes"),
        of(&|cost, _| per_write(cost.received as f64, cost), "received", "bytes"),
        of(&|_, subjects| subjects.first().map(managed).unwrap_or_default(), "managedFields", "bytes"),
    ]
    .concat()
}
