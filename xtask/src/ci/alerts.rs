//! Checks that alerts are about metrics which the programs have, with the labels that they have, and that each leads to a
//! section that says what to do.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;

use super::links;
use super::text;
use crate::shell;

const FOLDER: &str = "deploy/alerts/";
const METRICS: &str = "docs/metrics.md";
/// Labels that every series has: of Prometheus, and of the Prometheus operator (elsewhere it is empty, and joins all the same).
const OF_TARGETS: [&str; 3] = ["instance", "job", "namespace"];
/// Labels that the Prometheus operator gives to every series of a ServiceMonitor. A metric's own label of such a name becomes
/// another one there, so that an alert about it is about the target.
const OF_MONITORS: [&str; 7] = ["namespace", "service", "pod", "container", "endpoint", "instance", "job"];

/// Labels of each metric, by its name.
type Metrics = BTreeMap<String, BTreeSet<String>>;

pub fn check() -> anyhow::Result<()> {
    let files = text::files()?;
    let page =
        std::fs::read_to_string(shell::root().join(METRICS)).with_context(|| format!("cannot read {METRICS}"))?;
    let metrics = metrics(&page);
    let pages = links::pages(&files);
    let has = |link: &str| {
        link.split_once('#')
            .is_some_and(|(page, anchor)| pages.get(page).is_some_and(|anchors| anchors.contains(anchor)))
    };
    let (mut faults, mut count) = (Vec::new(), 0);
    for file in files.iter().filter(|file| file.path.starts_with(FOLDER)) {
        let alerts = alerts(&file.text);
        count += alerts.len();
        let found = alerts.iter().flat_map(|alert| alert.faults(&metrics, &has));
        faults.extend(found.map(|fault| format!("{}: {fault}", file.path)));
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    anyhow::ensure!(count > 0, "{FOLDER} has no alert");
    eprintln!("{count} alerts");
    Ok(())
}

/// An alert of a rule file of Prometheus.
#[derive(Default)]
struct Alert<'a> {
    name: &'a str,
    expr: &'a str,
    runbook: &'a str,
    summary: &'a str,
    has_severity: bool,
}

/// Reads the alerts of a rule file. Each value is on the line of its key.
fn alerts(text: &str) -> Vec<Alert<'_>> {
    let mut alerts: Vec<Alert<'_>> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push(Alert { name, ..Alert::default() });
        } else if let Some(alert) = alerts.last_mut() {
            match line.split_once(": ") {
                Some(("expr", expr)) => alert.expr = expr,
                Some(("runbook", runbook)) => alert.runbook = runbook,
                Some(("labels", labels)) => alert.has_severity = labels.contains("severity: "),
                Some(("summary", summary)) => alert.summary = summary,
                _ => {}
            }
        }
    }
    alerts
}

impl Alert<'_> {
    fn faults(&self, metrics: &Metrics, has: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut faults = Vec::new();
        let series = series(self.expr);
        if series.is_empty() {
            faults.push("asks for no metric on the line of expr".to_owned());
        }
        let of_series = |label: &str| {
            OF_TARGETS.contains(&label)
                || series.iter().any(|(name, _)| metrics.get(*name).is_some_and(|known| known.contains(label)))
        };
        let groups = groups(self.expr);
        let unknown = groups.iter().flat_map(|(_, labels)| labels).filter(|label| !of_series(label));
        faults
            .extend(unknown.map(|label| format!("no metric here has the label {label}, by which it groups or joins")));
        // What an aggregation returns has only the labels by which it groups.
        let is_aggregation = AGGREGATIONS.contains(&words(self.expr).next().unwrap_or_default());
        let first = groups.iter().find(|(how, _)| is_aggregation && *how == "by");
        let in_result = |label: &str| match first {
            Some((_, labels)) => labels.contains(&label),
            None => !is_aggregation && of_series(label),
        };
        let shown = self.summary.split("$labels.").skip(1).filter_map(|rest| words(rest).next());
        faults.extend(shown.filter(|label| !in_result(label)).map(|label| format!("its result has no label {label}")));
        for (name, labels) in series {
            let hidden = OF_MONITORS.iter().filter(|label| metrics.get(name).is_some_and(|own| own.contains(**label)));
            faults.extend(hidden.map(|label| format!("{name} has the label {label}, which the operator sets")));
            match metrics.get(name) {
                None => faults.push(format!("{METRICS} has no {name}")),
                Some(known) => faults.extend(
                    labels
                        .into_iter()
                        .filter(|label| !known.contains(*label))
                        .map(|label| format!("{name} has no label {label}")),
                ),
            }
        }
        if !has(self.runbook) {
            faults.push(format!("its runbook {:?} is no section of a page", self.runbook));
        }
        if !self.has_severity || self.summary.is_empty() {
            faults.push("it needs a severity and a summary".to_owned());
        }
        faults.into_iter().map(|fault| format!("{}: {fault}", self.name)).collect()
    }
}

const AGGREGATIONS: [&str; 5] = ["sum", "min", "max", "avg", "count"];

/// Whether a name can have it.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':')
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_name(c)).filter(|word| !word.is_empty())
}

/// Returns by which labels an expression groups, joins or tells series apart, each list with its keyword.
fn groups(expr: &str) -> Vec<(&str, Vec<&str>)> {
    let lists = expr.match_indices('(').filter_map(|(at, _)| {
        let how = expr[..at].trim_end().rsplit(|c| !is_name(c)).next().unwrap_or_default();
        let is_keyword = ["by", "without", "on", "ignoring", "group_left", "group_right"].contains(&how);
        is_keyword.then(|| (how, words(expr[at..].split(')').next().unwrap_or_default()).collect()))
    });
    lists.collect()
}

/// Returns the metrics in an expression, each with the labels by which it is selected. They are known by our prefixes.
fn series(expr: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(start) = rest.find(is_name) {
        let word = &rest[start..];
        let end = word.find(|c| !is_name(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        if ["gimbal_", "kuryr_", "process_"].iter().any(|prefix| name.starts_with(prefix)) {
            let selector = after.strip_prefix('{').and_then(|after| after.split('}').next()).unwrap_or_default();
            let labels = selector.split('"').step_by(2).map(|label| label.trim_matches(|c| !is_name(c)));
            found.push((name, labels.filter(|label| !label.is_empty()).collect()));
        }
        rest = after;
    }
    found
}

/// Reads the tables of the page of metrics. A histogram has the series by which it is counted.
fn metrics(page: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells[..] else { continue };
        let name = name.trim_matches('`');
        let labels: BTreeSet<String> = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if kind == "histogram" {
            let with_bounds = labels.iter().cloned().chain(["le".to_owned()]).collect();
            metrics.insert(format!("{name}_bucket"), with_bounds);
            metrics.extend(["sum", "count"].map(|part| (format!("{name}_{part}"), labels.clone())));
        } else {
            metrics.insert(name.to_owned(), labels);
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| Name | Type |\n|---|---|\n| `gimbal_a` | gauge | `state`, `to` |  | x |\n\
        | `kuryr_b_seconds` | histogram |  | seconds | y |\n| `kuryr_c_total` | counter | `service` |  | z |\n";

    fn faults(text: &str) -> Vec<String> {
        let has = |link: &str| link == "page.md#stuck";
        let metrics = metrics(PAGE);
        alerts(text).iter().flat_map(|alert| alert.faults(&metrics, &has)).collect()
    }

    fn alert(expr: &str, runbook: &str) -> String {
        format!(
            "- alert: A\n  expr: {expr}\n  labels: {{severity: info}}\n  annotations:\n    summary: s\n    runbook: {runbook}\n"
        )
    }

    #[test]
    fn an_alert_about_what_there_is() {
        for expr in [
            "gimbal_a{state=\"stuck, or so\",to!~\"x|y\"} - ignoring (state) gimbal_a > 0",
            "sum by (le) (rate(kuryr_b_seconds_bucket{le=\"1\"}[5m])) / rate(kuryr_b_seconds_count[5m]) > 1e3",
            "gimbal_a > 0 unless on (instance, to) max by (job) (gimbal_a) == 1",
            "count by (job, namespace) (gimbal_a) unless on (job, namespace) (gimbal_a == 1)",
        ] {
            assert_eq!(faults(&alert(expr, "page.md#stuck")), Vec::<String>::new(), "{expr}");
        }
        for expr in ["gimbal_a > 0 and on (instance) kuryr_b_seconds_sum > 0", "max by (to) (gimbal_a) > 0"] {
            let text =
                alert(expr, "page.md#stuck").replace("summary: s", "summary: \"{{ $labels.to }}: {{ $value }}\"");
            assert_eq!(faults(&text), Vec::<String>::new(), "{expr}");
        }
    }

    #[test]
    fn an_alert_about_what_is_not_there() {
        for (text, fault) in [
            (alert("gimbal_b > 0", "page.md#stuck"), "A: docs/metrics.md has no gimbal_b"),
            (alert("kuryr_b_seconds > 0", "page.md#stuck"), "A: docs/metrics.md has no kuryr_b_seconds"),
            (alert("gimbal_a{status=\"to\"} > 0", "page.md#stuck"), "A: gimbal_a has no label status"),
            (
                alert("sum by (cluster) (gimbal_a) > 0", "page.md#stuck"),
                "A: no metric here has the label cluster, by which it groups or joins",
            ),
            (
                alert("gimbal_a and on(le) gimbal_a", "page.md#stuck"),
                "A: no metric here has the label le, by which it groups or joins",
            ),
            (
                alert("sum by (to) (gimbal_a) > 0", "page.md#stuck").replace(": s\n", ": \"{{ $labels.job }}\"\n"),
                "A: its result has no label job",
            ),
            (
                alert("gimbal_a > 0", "page.md#stuck").replace(": s\n", ": \"{{ $labels.le }}\"\n"),
                "A: its result has no label le",
            ),
            (alert(">-", "page.md#stuck"), "A: asks for no metric on the line of expr"),
            (
                alert("sum by (service) (rate(kuryr_c_total[5m])) > 0", "page.md#stuck"),
                "A: kuryr_c_total has the label service, which the operator sets",
            ),
            (alert("gimbal_a > 0", "page.md"), "A: its runbook \"page.md\" is no section of a page"),
            (alert("gimbal_a > 0", "page.md#gone"), "A: its runbook \"page.md#gone\" is no section of a page"),
            (
                "- alert: A\n  expr: gimbal_a > 0\n  runbook: page.md#stuck\n".to_owned(),
                "A: it needs a severity and a summary",
            ),
        ] {
            assert_eq!(faults(&text), [fault]);
        }
    }
}
