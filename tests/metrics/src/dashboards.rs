//! Dashboards of Grafana in `deploy/dashboards`, made from tables of what they show.

mod discovery;
mod way_back;

use serde_json::{Value, json};

/// A dashboard.
struct Dashboard {
    /// Name of its file, and the end of its identity in Grafana.
    name: &'static str,
    title: &'static str,
    /// Labels that a person chooses values of, each with the metric that has them all.
    choices: &'static [(&'static str, &'static str)],
    rows: &'static [Row],
}

/// Panels under one heading.
struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

/// A figure or a graph.
pub struct Panel {
    pub title: &'static str,
    /// What it says, for people who see it for the first time.
    about: &'static str,
    look: Look,
    unit: &'static str,
    /// Queries, each with what its lines are called.
    pub queries: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The latest value, which is well at 0.
    Trouble,
    /// The latest value.
    Figure,
    /// Values over time.
    Graph,
}

const DASHBOARDS: [&Dashboard; 2] = [&discovery::DISCOVERY, &way_back::WAY_BACK];
/// Returns every panel, with the name of its dashboard.
pub fn panels() -> impl Iterator<Item = (&'static str, &'static Panel)> {
    let rows = DASHBOARDS.iter().flat_map(|dashboard| dashboard.rows.iter().map(|row| (dashboard.name, row)));
    rows.flat_map(|(name, row)| row.panels.iter().map(move |panel| (name, panel)))
}

/// Columns of a dashboard in Grafana.
const COLUMNS: usize = 24;
/// The version of the form of dashboards, which newer Grafanas translate.
const SCHEMA: u32 = 39;

const fn trouble(title: &'static str, about: &'static str, query: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, about, look: Look::Trouble, unit: "short", queries: query }
}

const fn figure(title: &'static str, about: &'static str, query: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, about, look: Look::Figure, unit: "short", queries: query }
}

const fn graph(
    title: &'static str,
    about: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, look: Look::Graph, unit, queries }
}

impl Look {
    /// Returns width and height, in columns and in Grafana's rows.
    fn size(self) -> (usize, usize) {
        if self == Self::Graph { (8, 8) } else { (4, 4) }
    }
}

impl Dashboard {
    /// Returns it as Grafana reads it.
    fn json(&self) -> Value {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let mut panels = Vec::new();
        let mut top = 0;
        for row in self.rows {
            panels.push(json!({
                "type": "row", "title": row.title, "collapsed": false, "panels": [], "id": panels.len() + 1,
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            }));
            top += 1;
            let (mut left, mut height) = (0, 0);
            for panel in row.panels {
                let (wide, high) = panel.look.size();
                if left + wide > COLUMNS {
                    (left, top) = (0, top + height);
                }
                let mut shown = panel.json(&source);
                shown["id"] = json!(panels.len() + 1);
                shown["gridPos"] = json!({"x": left, "y": top, "w": wide, "h": high});
                panels.push(shown);
                (left, height) = (left + wide, high);
            }
            top += height;
        }
        let choice = |(label, metric): &(&str, &str)| {
            let query = format!("label_values({metric}, {label})");
            json!({
                "type": "query", "name": label, "label": label, "datasource": source, "definition": query,
                "query": {"query": query, "refId": label}, "refresh": 2, "sort": 1, "multi": true, "includeAll": true,
                "allValue": ".*", "current": {"text": "All", "value": "$__all"},
            })
        };
        let sources = json!({
            "type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus",
        });
        let variables: Vec<Value> = std::iter::once(sources).chain(self.choices.iter().map(choice)).collect();
        json!({
            "uid": format!("gimbal-{}", self.name),
            "title": self.title,
            "tags": ["gimbal"],
            "editable": true,
            "graphTooltip": 1,
            "schemaVersion": SCHEMA,
            "time": {"from": "now-6h", "to": "now"},
            "refresh": "30s",
            "templating": {"list": variables},
            "annotations": {"list": []},
            "links": [],
            "panels": panels,
        })
    }
}

impl Panel {
    fn json(&self, source: &Value) -> Value {
        let is_graph = self.look == Look::Graph;
        let target = |(number, (expr, legend)): (usize, &(&str, &str))| {
            let name = char::from(b'A' + u8::try_from(number).unwrap_or_default()).to_string();
            json!({
                "refId": name, "expr": expr, "legendFormat": legend, "datasource": source,
                "range": is_graph, "instant": !is_graph, "exemplar": is_graph && expr.contains("_bucket"),
            })
        };
        let steps = match self.look {
            Look::Trouble => json!([{"color": "green", "value": null}, {"color": "red", "value": 1}]),
            Look::Figure | Look::Graph => json!([{"color": "blue", "value": null}]),
        };
        let options = match self.look {
            Look::Graph => {
                let legend = json!({"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []});
                json!({"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}})
            }
            // The schema of Grafana asks for each key; a single value has no graph, and nothing before it to differ from.
            Look::Figure | Look::Trouble => json!({
                "reduceOptions": {"calcs": ["lastNotNull"]}, "orientation": "auto",
                "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "wideLayout": true,
                "showPercentChange": false, "percentChangeColorMode": "standard",
            }),
        };
        json!({
            "type": if is_graph { "timeseries" } else { "stat" },
            "title": self.title,
            "description": self.about,
            "datasource": source,
            "targets": self.queries.iter().enumerate().map(target).collect::<Vec<_>>(),
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
            "options": options,
        })
    }
}

mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::{names, sections, series};

    /// Labels that Prometheus gives to every series, and that of a histogram's buckets.
    const OF_PROMETHEUS: [&str; 4] = ["job", "namespace", "instance", "le"];

    /// `cargo xtask docs` writes the files.
    #[test]
    fn dashboards_are_as_they_are_made() {
        for dashboard in DASHBOARDS {
            let path = format!("{}/../../deploy/dashboards/{}.json", env!("CARGO_MANIFEST_DIR"), dashboard.name);
            let text = format!("{:#}\n", dashboard.json());
            if std::env::var_os("GIMBAL_WRITE_DOCS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "run `cargo xtask docs`");
        }
    }

    #[test]
    fn every_query_is_about_metrics_and_labels_that_programs_have() {
        let mut labels: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for metric in sections().into_iter().flat_map(|(_, metrics)| metrics) {
            for name in series(&metric) {
                labels.insert(name, metric.labels.iter().copied().collect());
            }
        }
        let known: BTreeSet<&str> = labels.values().flatten().copied().chain(OF_PROMETHEUS).collect();
        for (dashboard, panel) in panels() {
            for (query, legend) in panel.queries {
                let metrics: Vec<&str> = names(query)
                    .into_iter()
                    .filter(|name| ["gimbal_", "kuryr_", "process_"].iter().any(|of| name.starts_with(of)))
                    .collect();
                assert!(!metrics.is_empty(), "{dashboard}, {}: no metric of ours", panel.title);
                let mut own: BTreeSet<&str> = OF_PROMETHEUS.into();
                for metric in metrics {
                    let of_metric =
                        labels.get(metric).unwrap_or_else(|| panic!("{dashboard}, {}: no {metric}", panel.title));
                    own.extend(of_metric);
                }
                let shown = legend.split("{{").skip(1).filter_map(|part| part.split("}}").next());
                // A word of the language; a metric has a label of that name, too.
                let used = names(query).into_iter().filter(|name| known.contains(name) && *name != "by");
                for label in used.chain(shown) {
                    assert!(own.contains(label), "{dashboard}, {}: no label {label} in {query}", panel.title);
                }
            }
        }
        for dashboard in DASHBOARDS {
            for (label, metric) in dashboard.choices {
                assert!(labels[*metric].contains(label), "{}: {label}", dashboard.name);
            }
        }
    }

    /// A panel that lies on another one is moved by Grafana, with all below it.
    #[test]
    fn no_panel_lies_on_another_one() {
        for dashboard in DASHBOARDS {
            let (mut taken, mut ids) = (BTreeSet::new(), BTreeSet::new());
            for panel in dashboard.json()["panels"].as_array().unwrap() {
                let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
                for x in of("x")..of("x") + of("w") {
                    for y in of("y")..of("y") + of("h") {
                        assert!(x < 24 && taken.insert((x, y)), "{}: {}", dashboard.name, panel["title"]);
                    }
                }
                assert!(ids.insert(panel["id"].as_u64()), "{}", panel["title"]);
            }
        }
    }
}
