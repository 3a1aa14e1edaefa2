//! Whether alerts fire for what our own programs expose, as Prometheus' own promtool judges it.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_testkit::{eventually, promtool};
use serde_json::{Value, json};

use crate::{SOON, get};

/// For how many minutes all is well, and for how many what comes then lasts: longer than any alert waits.
const WELL: u32 = 10;
const LASTS: u32 = 60;

/// A process that Prometheus reads.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the program.
    pub job: &'static str,
    /// Its port for metrics.
    pub admin_port: u16,
}

/// What each process exposed while all was well.
pub struct Alerts {
    targets: Vec<(Target, Exposed)>,
}

/// The samples of a process; `None`: it does not answer.
type Exposed = Option<Samples>;

#[derive(Debug, Clone, Default)]
struct Samples {
    values: BTreeMap<String, f64>,
    counters: BTreeSet<String>,
}

impl Samples {
    fn read(exposition: &str) -> Self {
        let mut samples = Self::default();
        let mut is_counter = false;
        for line in exposition.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                is_counter = ["counter", "histogram"].iter().any(|kind| declared.ends_with(kind));
            }
            // An exemplar comes after the value.
            let sample =
                line.split(" # {").next().filter(|_| !line.starts_with('#')).and_then(|line| line.rsplit_once(' '));
            let Some((series, Ok(value))) = sample.map(|(series, value)| (series, value.parse())) else { continue };
            samples.values.insert(series.to_owned(), value);
            if is_counter {
                samples.counters.insert(series.to_owned());
            }
        }
        samples
    }
}

async fn exposed(target: Target) -> Exposed {
    let (_, text) = get(target.admin_port, "/metrics").await.ok()?;
    Some(Samples::read(&text))
}

impl Alerts {
    /// Reads the processes, while all is well.
    pub async fn watch(targets: &[Target]) -> Self {
        let mut read = Vec::new();
        for target in targets {
            read.push((*target, exposed(*target).await));
        }
        Self { targets: read }
    }

    /// Waits until exactly these alerts fire, if what the processes expose lasts: values stay as they are, and what was counted since all
    /// was well is counted each minute.
    ///
    /// # Errors
    /// Others fire, or one does not; the message has what promtool says.
    pub async fn expect(&self, firing: &[&str]) -> anyhow::Result<()> {
        eventually(&format!("the alerts {firing:?} fire"), SOON, async || {
            let mut series = Vec::new();
            for (target, well) in &self.targets {
                series.extend(series_of(*target, well.as_ref(), exposed(*target).await.as_ref()));
            }
            judge(series, firing)
        })
        .await
    }
}

/// Returns what Prometheus has of a process, in the notation of promtool.
fn series_of(target: Target, well: Option<&Samples>, now: Option<&Samples>) -> Vec<Value> {
    let of = |samples: Option<&Samples>, series: &str| samples?.values.get(series).copied();
    let all: BTreeSet<&String> = [well, now].into_iter().flatten().flat_map(|samples| samples.values.keys()).collect();
    let series = all.into_iter().map(|series| {
        let (before, after) = (of(well, series), of(now, series));
        let first = before.map_or_else(|| format!("_x{WELL}"), |value| format!("{value}+0x{}", WELL - 1));
        let then = after.map_or_else(
            || "stale".to_owned(),
            |value| {
                let is_counter = now.is_some_and(|now| now.counters.contains(series));
                let grows = if is_counter { value - before.unwrap_or_default() } else { 0.0 };
                format!("{value}+{}x{}", grows.max(0.0), LASTS - 1)
            },
        );
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let Target { job, admin_port } = target;
        json!({"series": format!("{name}{{job=\"{job}\",instance=\"127.0.0.1:{admin_port}\",{labels}"), "values": format!("{first} {then}")})
    });
    series.collect()
}

fn judge(series: Vec<Value>, firing: &[&str]) -> anyhow::Result<()> {
    let fired = promtool::have_fired(firing.iter().copied(), WELL + LASTS - 1);
    let test = json!({"interval": "1m", "input_series": series, "promql_expr_test": [fired]});
    let folder = tempfile::tempdir()?;
    promtool::promtool(&["test", "rules"], &[promtool::test_file(folder.path(), "test", &[test])?])
}
