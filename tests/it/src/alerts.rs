//! Whether alerts fire for what our own programs expose, as Prometheus' own promtool judges it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gimbal_testkit::{eventually, promtool};
use serde_json::{Value, json};

use crate::{SOON, get};

/// For how many minutes all is well, and for how many what comes then lasts: longer than any alert waits.
const WELL: u32 = 10;
const LASTS: u32 = 75;
/// How long a time is looked at before it counts as one that goes on.
const A_WHILE: Duration = Duration::from_secs(2);
/// End of the names of metrics that are points in time, as seconds since 1970. Promtool's clock begins at 0.
const POINT_IN_TIME: &str = "_not_after_seconds";

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
        self.expect_with(firing, None).await
    }

    /// As [`Alerts::expect`], of a gauge that is the time since something: if it grows as a clock does, it goes on so.
    ///
    /// # Errors
    /// As [`Alerts::expect`].
    pub async fn expect_as_time_passes(&self, gauge: &str, firing: &[&str]) -> anyhow::Result<()> {
        self.expect_with(firing, Some(gauge)).await
    }

    async fn expect_with(&self, firing: &[&str], gauge: Option<&str>) -> anyhow::Result<()> {
        let (began, mut first) = (Instant::now(), Vec::new());
        for (target, _) in &self.targets {
            first.push(exposed(*target).await);
        }
        eventually(&format!("the alerts {firing:?} fire"), SOON, async || {
            let passed = began.elapsed();
            anyhow::ensure!(gauge.is_none() || passed >= A_WHILE, "time has not passed yet");
            let mut series = Vec::new();
            for ((target, well), first) in self.targets.iter().zip(&first) {
                let now = exposed(*target).await;
                let clock = Clock { gauge, first: first.as_ref(), passed };
                series.extend(series_of(*target, well.as_ref(), now.as_ref(), &clock));
            }
            judge(series, firing)
        })
        .await
    }
}

/// What is known of a gauge that grows by itself.
struct Clock<'a> {
    gauge: Option<&'a str>,
    /// What was exposed a while ago, and how long ago.
    first: Option<&'a Samples>,
    passed: Duration,
}

impl Clock<'_> {
    /// By how much a gauge grows in a minute.
    fn growth(&self, series: &str, value: f64) -> f64 {
        let is_meant = self.gauge.is_some_and(|gauge| series.starts_with(gauge));
        let Some(first) = self.first.and_then(|first| first.values.get(series)).filter(|_| is_meant) else {
            return 0.0;
        };
        let of_clock = (value - first) / self.passed.as_secs_f64();
        if (0.5..1.5).contains(&of_clock) { 60.0 } else { 0.0 }
    }
}

/// Returns a value as it would be if now were the minute at which the trouble begins.
fn on_promtools_clock(series: &str, value: f64) -> f64 {
    let name = series.split('{').next().unwrap_or(series);
    if value == 0.0 || !name.ends_with(POINT_IN_TIME) {
        return value;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    value - now + f64::from(WELL * 60)
}

/// Returns what Prometheus has of a process, in the notation of promtool.
fn series_of(target: Target, well: Option<&Samples>, now: Option<&Samples>, clock: &Clock<'_>) -> Vec<Value> {
    let of = |samples: Option<&Samples>, series: &str| {
        samples?.values.get(series).map(|value| on_promtools_clock(series, *value))
    };
    let all: BTreeSet<&String> = [well, now].into_iter().flatten().flat_map(|samples| samples.values.keys()).collect();
    let series = all.into_iter().map(|series| {
        let (before, after) = (of(well, series), of(now, series));
        let first = before.map_or_else(|| format!("_x{WELL}"), |value| format!("{value}+0x{}", WELL - 1));
        let then = after.map_or_else(
            || "stale".to_owned(),
            |value| {
                let is_counter = now.is_some_and(|now| now.counters.contains(series));
                let grows =
                    if is_counter { value - before.unwrap_or_default() } else { clock.growth(series, value) };
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
