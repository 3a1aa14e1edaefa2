//! Each alert of deploy/alerts fires when it should, and only then, as Prometheus' own promtool judges it.
//!
//! `alerts/PROGRAM.yaml` has the scenes: what the processes of a program expose while all is well, and what they expose when an
//! alert has to fire. In a scene everything else is well, also the other programs, whose processes the same Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gimbal_deploy_tests::{Chart, PROGRAMS, deploy, list, objects, of_kind, text};
use gimbal_testkit::promtool::{have_fired, promtool, rule_files, test_file};
use serde::Deserialize;
use serde_json::{Value, json};

/// For how many minutes a program is watched that is well.
const LONG: u32 = 180;

/// What the processes of a program expose, by the process, as `instance` or `namespace/instance`. Each line is a sample, as `/metrics` shows it: a number that stays,
/// `a+b` for one that grows by b a minute, or values in the notation of promtool, one a minute from minute 0.
type Exposed = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenes {
    well: Exposed,
    scenes: Vec<Scene>,
}

/// Something that happens to a program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    /// The alert that fires.
    alert: Option<String>,
    /// Without an alert: what happens all the same.
    quiet: Option<String>,
    /// The first minute in which the alert fires. Without one, the minute in which the scene ends.
    minute: u32,
    /// The labels of the alert, without those that its rule sets.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// The summary that people read.
    #[serde(default)]
    says: String,
    /// Alerts that fire in that minute too.
    #[serde(default)]
    also: Vec<String>,
    /// What differs from the state in which all is well.
    #[serde(default)]
    with: Exposed,
    /// Processes that start, and the minute of their first sample.
    #[serde(default)]
    begins: BTreeMap<String, u32>,
    /// Processes that end, and the first minute without a sample.
    #[serde(default)]
    ends: BTreeMap<String, u32>,
}

/// Samples of a process, with their values.
type Samples = BTreeMap<String, String>;

impl Scenes {
    fn of(program: &str) -> Self {
        let path = folder().join(format!("{program}.yaml"));
        serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    fn all() -> BTreeMap<String, Self> {
        let files = std::fs::read_dir(folder()).unwrap();
        let programs = files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
        programs.map(|program| (program.clone(), Self::of(&program))).collect()
    }

    /// Returns what the program's processes expose in a scene, in the form of promtool.
    fn series(&self, program: &str, scene: Option<&Scene>, minutes: u32) -> Vec<Value> {
        let mut exposed: BTreeMap<&String, Samples> =
            self.well.iter().map(|(process, lines)| (process, samples(lines))).collect();
        for (process, lines) in scene.into_iter().flat_map(|scene| &scene.with) {
            exposed.entry(process).or_default().extend(samples(lines));
        }
        let mut series = Vec::new();
        for (process, samples) in exposed {
            let begins = scene.and_then(|scene| scene.begins.get(process)).copied().unwrap_or_default();
            let ends = scene.and_then(|scene| scene.ends.get(process)).copied();
            for (sample, written) in samples {
                let (name, labels) = sample.split_once('{').unwrap_or((&sample, "}"));
                let target = match process.split_once('/') {
                    Some((namespace, instance)) => format!("namespace=\"{namespace}\",instance=\"{instance}\""),
                    None => format!("instance=\"{process}\""),
                };
                let labels = format!("{{job=\"{program}\",{target},{labels}");
                let values = values(&written, begins, ends, minutes);
                series.push(json!({"series": format!("{name}{labels}"), "values": values}));
            }
        }
        series
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deploy/alerts")
}

fn samples(lines: &str) -> Samples {
    let parse = |line: &str| {
        let after_name = line.find('}').map_or(0, |at| at + 1);
        let at = after_name + line[after_name..].find(' ').unwrap_or_else(|| panic!("no value: {line}"));
        (line[..at].to_owned(), line[at..].trim().to_owned())
    };
    lines.lines().map(parse).collect()
}

/// Returns values in the notation of promtool.
fn values(written: &str, begins: u32, ends: Option<u32>, minutes: u32) -> String {
    let last = ends.map_or(minutes, |ends| ends - 1).saturating_sub(begins);
    let values = if written.contains(['x', ' ']) {
        assert!(ends.is_none(), "{written}: values of a process that ends do not change");
        written.to_owned()
    } else if written.contains('+') {
        format!("{written}x{last}")
    } else {
        format!("{written}+0x{last}")
    };
    let before = if begins > 0 { format!("_x{begins} ") } else { String::new() };
    let after = if ends.is_some() { " stale" } else { "" };
    format!("{before}{values}{after}")
}

/// Returns the rules of each program, by the name of the alert.
fn rules() -> BTreeMap<String, BTreeMap<String, Value>> {
    let files = objects("alerts").unwrap();
    let groups = files.iter().flat_map(|(_, file)| list(&file["groups"]));
    let named = |rule: &Value| (text(&rule["alert"]).to_owned(), rule.clone());
    groups.map(|group| (text(&group["name"]).to_owned(), list(&group["rules"]).map(named).collect())).collect()
}

/// Writes a file for promtool.
fn file(folder: &Path, name: &str, content: &Value) -> PathBuf {
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, content.to_string()).unwrap();
    path
}

#[test]
fn promtool_takes_the_files_and_what_charts_make_of_them() {
    let (folder, mut files, mut installed) = (tempfile::tempdir().unwrap(), rule_files().unwrap(), BTreeSet::new());
    for chart in PROGRAMS.into_iter().flat_map(|program| Chart::examples(program).unwrap()) {
        for rule in of_kind(&chart.render().unwrap(), "PrometheusRule") {
            files.push(file(folder.path(), &files.len().to_string(), &rule["spec"]));
            installed.insert(chart.name.to_owned());
        }
    }
    assert_eq!(installed, rules().into_keys().collect());
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &files).unwrap();
}

/// `tests/metrics` makes the dashboards, and checks the names in them.
#[test]
fn promtool_takes_the_queries_of_dashboards() {
    let mut rules = Vec::new();
    for entry in std::fs::read_dir(deploy("dashboards")).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        let dashboard: Value = serde_json::from_slice(&content).unwrap();
        for query in list(&dashboard["panels"]).flat_map(|panel| list(&panel["targets"])) {
            // Grafana puts times in.
            let expr = text(&query["expr"]).replace("$__rate_interval", "5m").replace("$__range", "6h");
            rules.push(json!({"record": format!("panel:{}", rules.len()), "expr": expr}));
        }
    }
    assert!(rules.len() > 50, "{}", rules.len());
    let folder = tempfile::tempdir().unwrap();
    let group = json!({"groups": [{"name": "panels", "rules": rules}]});
    promtool(&["check", "rules"], &[file(folder.path(), "panels", &group)]).unwrap();
}

#[test]
fn every_alert_has_a_scene() {
    let alerts = rules().into_iter().map(|(program, rules)| (program, rules.into_keys().collect()));
    let alerts: BTreeMap<String, BTreeSet<String>> = alerts.collect();
    let in_scenes =
        |scenes: Scenes| scenes.scenes.into_iter().filter_map(|scene| scene.alert).collect::<BTreeSet<String>>();
    let scenes: BTreeMap<_, _> =
        Scenes::all().into_iter().map(|(program, scenes)| (program, in_scenes(scenes))).collect();
    assert_eq!(scenes, alerts);
}

/// Whatever a scene shows is named and labelled as the programs do it.
#[test]
fn scenes_show_what_programs_expose() {
    let page = std::fs::read_to_string(deploy("../docs/metrics.md")).unwrap();
    let mut declared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        declared.insert(cells[1].trim_matches('`'), cells[3].split('`').skip(1).step_by(2).collect());
    }
    for (program, scenes) in Scenes::all() {
        let with = scenes.scenes.iter().flat_map(|scene| scene.with.values());
        for sample in scenes.well.values().chain(with).flat_map(|lines| samples(lines).into_keys()) {
            let (name, labels) = sample.split_once('{').unwrap_or((&sample, ""));
            let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
            assert_eq!(declared.get(name), Some(&labels), "{program}: {sample}");
        }
    }
}

/// Returns a test of promtool: which alerts have fired by the last minute, and that the one of the scene begins in it, with its
/// labels and annotations.
fn test(name: &str, series: Vec<Value>, scene: Option<&Scene>, rule: Option<&Value>) -> Value {
    let minute = scene.map_or(LONG, |scene| scene.minute);
    let at = |minute: u32| format!("{minute}m");
    let mut fired: BTreeSet<&str> = scene.into_iter().flat_map(|scene| &scene.also).map(String::as_str).collect();
    let mut alerts = Vec::new();
    if let (Some(scene), Some(rule)) = (scene, rule) {
        let (alert, mut labels, mut annotations) =
            (text(&rule["alert"]), rule["labels"].clone(), rule["annotations"].clone());
        fired.insert(alert);
        scene.labels.iter().for_each(|(name, value)| labels[name] = json!(value));
        annotations["summary"] = json!(scene.says);
        let fires = json!([{"exp_labels": labels, "exp_annotations": annotations}]);
        alerts.push(json!({"alertname": alert, "eval_time": at(minute - 1), "exp_alerts": []}));
        alerts.push(json!({"alertname": alert, "eval_time": at(minute), "exp_alerts": fires}));
    }
    let fired = have_fired(fired, minute);
    json!({"name": name, "interval": "1m", "input_series": series, "promql_expr_test": [fired], "alert_rule_test": alerts})
}

/// Returns the scenes of a program, and that in which it is well and by itself.
fn tests(program: &str, all: &BTreeMap<String, Scenes>) -> Vec<Value> {
    let (rules, scenes) = (rules(), &all[program]);
    let mut tests = vec![test("alone and well", scenes.series(program, None, LONG), None, None)];
    for scene in &scenes.scenes {
        let others = all.iter().filter(|(other, _)| *other != program);
        let others = others.flat_map(|(other, scenes)| scenes.series(other, None, scene.minute));
        let series = others.chain(scenes.series(program, Some(scene), scene.minute)).collect();
        let name = scene.alert.as_ref().or(scene.quiet.as_ref()).expect("a scene is of an alert, or quiet");
        let rule = scene.alert.as_ref().map(|alert| &rules[program][alert]);
        tests.push(test(name, series, Some(scene), rule));
    }
    tests
}

/// In each scene its alert fires from the minute on that it names, and no other one; in a quiet one, none does.
#[test]
fn alerts_fire_when_they_should_and_only_then() {
    let (folder, all) = (tempfile::tempdir().unwrap(), Scenes::all());
    let written = all.keys().map(|program| test_file(folder.path(), program, &tests(program, &all)).unwrap());
    let written: Vec<PathBuf> = written.collect();
    promtool(&["test", "rules"], &written).unwrap();
}
