//! Which series exist, and when they end.

use std::time::Instant;

use gimbal_model::BackendName;
use gimbal_reconcile::{Policy, Settings};
use gimbal_session::{AgentMessage, Credit, Freshness, Hello, PROTOCOL, WriterLimits};
use prometheus_client::encoding::text::encode;

use super::*;

struct Writer {
    state: Reconciler,
    metrics: Metrics,
    registry: Registry,
    now: Instant,
    may_write: bool,
}

fn name(backend: &str) -> BackendName {
    BackendName::parse(backend).unwrap()
}

impl Writer {
    fn with(backends: &[&str]) -> Self {
        let limits =
            WriterLimits { credit: Credit { changes: 9, bytes: 9 }, heartbeat_timeout: Duration::from_secs(15) };
        let comparison_interval = Duration::from_secs(600);
        let state = Reconciler::new(Settings { api: Default::default(), limits, comparison_interval });
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let mut writer = Self { state, metrics, registry, now: Instant::now(), may_write: true };
        writer.configure(backends);
        writer
    }

    fn configure(&mut self, backends: &[&str]) {
        let policies = backends.iter().map(|backend| (name(backend), Policy::default())).collect();
        self.state.configure(policies, self.now);
    }

    /// Returns the samples that contain this text.
    fn samples(&self, with: &str) -> Vec<String> {
        self.metrics.show(&self.state, self.may_write);
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#') && line.contains(with));
        samples.map(str::to_owned).collect()
    }
}

#[test]
fn a_standby_tells_nothing_of_backends() {
    let mut writer = Writer::with(&["node02"]);
    assert_eq!(writer.samples("gimbal_writer_backend_"), Vec::<String>::new());
    writer.state.lead(Some(1));
    assert_eq!(
        writer.samples("gimbal_writer_backend_connected"),
        ["gimbal_writer_backend_connected{backend=\"node02\"} 0"]
    );
    writer.state.lead(None);
    // Counts of the past stay.
    let of_backends = writer.samples("gimbal_writer_backend_");
    assert!(of_backends.iter().all(|sample| sample.contains("_total{")), "{of_backends:?}");
}

/// A leader whose lease is late does not report that it leads, and one that stands aside reports no more than a
/// standby.
#[test]
fn who_cannot_write_does_not_say_that_it_leads() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    assert_eq!(writer.samples("gimbal_writer_leading"), ["gimbal_writer_leading 1"]);
    writer.may_write = false;
    assert_eq!(writer.samples("gimbal_writer_leading"), ["gimbal_writer_leading 0"]);
    assert_eq!(writer.samples("gimbal_writer_backend_connected").len(), 1);
    writer.state.stand_aside(true);
    assert_eq!(writer.samples("gimbal_writer_backend_connected"), Vec::<String>::new());
}

#[test]
fn nobody_waits_for_a_backend_that_is_not_configured() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    writer.metrics.broke("node02");
    assert!(writer.samples("backend_disconnected_seconds").len() == 1 && writer.samples("broken_streams").len() == 1);
    writer.configure(&[]);
    for ended in ["backend_connected", "backend_complete", "backend_disconnected", "backend_lost", "loss_stage{"] {
        assert_eq!(writer.samples(ended), Vec::<String>::new());
    }
    assert_eq!(writer.samples("backend_listed"), ["gimbal_writer_backend_listed{backend=\"node02\"} 0"]);
    // A backend that is no longer known, as after its decommission, has no series at all.
    writer.metrics.broke("gone");
    writer.metrics.dismissed("gone", GoodbyeReason::Shutdown);
    writer.metrics.propagated("gone", Duration::from_secs(1));
    writer.metrics.lost("gone", gimbal_reconcile::Stage::NotReady);
    assert_eq!(writer.samples("backend=\"gone\""), Vec::<String>::new());
}

#[test]
fn an_agents_words_make_no_series() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    let hello = Hello {
        protocol: (PROTOCOL, PROTOCOL),
        capabilities: Vec::new(),
        backend: "node02".into(),
        agent_instance: "1".into(),
        source_incarnation: "source".into(),
        held: None,
        agent_version: "test".into(),
    };
    let generation = writer.state.open(&name("node02"), &hello, writer.now).unwrap();
    let kinds = ["services", "x1", "x2", "x3"].into_iter().zip(1..);
    let sources = kinds.map(|(kind, age)| Freshness { kind: kind.into(), age: Some(Duration::from_secs(age)) });
    let heartbeat = AgentMessage::Heartbeat { sources: sources.collect(), backlog: 0 };
    writer.state.receive(&name("node02"), generation, heartbeat, writer.now);
    let mut samples = writer.samples("backend_source_age");
    samples.sort();
    assert_eq!(
        samples,
        [
            "gimbal_writer_backend_source_age_seconds{backend=\"node02\",kind=\"other\"} 4.0",
            "gimbal_writer_backend_source_age_seconds{backend=\"node02\",kind=\"services\"} 1.0",
        ]
    );
}

#[test]
fn what_only_grows_is_a_counter_and_what_a_label_says_is_true() {
    let writer = Writer::with(&[]);
    writer.metrics.written("create", "Service", "ok", Duration::from_millis(1));
    writer.metrics.watch_failed("services", "timeout");
    writer.metrics.lease_called("renew", "ok");
    writer.metrics.led_by("one_10.0.0.1:7443");
    writer.metrics.led_by("two_10.0.0.2:7443");
    for sample in [
        "gimbal_writer_watch_failures_total{kind=\"services\",reason=\"timeout\"} 1",
        "gimbal_writer_lease_calls_total{verb=\"renew\",code=\"ok\"} 1",
        "gimbal_writer_write_seconds_count{verb=\"create\"} 1",
        "gimbal_writer_lease_holder{holder=\"two_10.0.0.2:7443\"} 1",
        "gimbal_writer_differences_found_total 0",
        "gimbal_writer_comparison_differences 0",
        "gimbal_writer_oldest_pending_seconds 0.0",
    ] {
        assert_eq!(writer.samples(sample), [sample], "{:?}", writer.samples(""));
    }
    assert_eq!(writer.samples("lease_holder").len(), 1);
    assert_eq!(writer.samples("gimbal_writer_build_info{version=").len(), 1);
}

/// Returns each series that a busy writer exposes, as `name{labels} type`.
fn exposition(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let mut kind = "";
    let mut series = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            kind = declared.split(' ').nth(1).unwrap();
        }
        let Some((sample, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else { continue };
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels: Vec<_> = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0)).collect();
        series.insert(format!("{name}{{{}}} {kind}", labels.join(",")));
    }
    series.into_iter().collect()
}

#[test]
fn names_labels_and_types_stay_as_they_are() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    let mut policy = Policy::default();
    policy.quota.services = Some(9);
    writer.state.configure([(name("node02"), policy)].into(), writer.now);
    let metrics = &writer.metrics;
    metrics.written("create", "Service", "ok", Duration::from_millis(1));
    metrics.propagated("node02", Duration::from_secs(1));
    metrics.watch_failed("services", "timeout");
    metrics.led_by("one");
    metrics.lease_called("renew", "ok");
    metrics.refused(GoodbyeReason::Shutdown);
    metrics.dismissed("node02", GoodbyeReason::Shutdown);
    metrics.broke("node02");
    metrics.resync("node02");
    metrics.config_read(true);
    metrics.namespace_created(true);
    metrics.waited(WaitReason::Qps, Duration::from_secs(1));
    metrics.lost("node02", gimbal_reconcile::Stage::NotReady);
    let released =
        gimbal_plan::GuardEvent::Released { id: "1".into(), endpoints: 1, by: gimbal_plan::Release::Approval };
    metrics.guarded("node02", &released);
    writer.samples("");
    let found = exposition(&writer.registry).join("\n") + "\n";
    assert_eq!(found, include_str!("exposition.txt"), "{found}");
}

#[test]
fn the_reference_names_every_series_with_its_type_and_labels() {
    let mut documented = std::collections::BTreeSet::new();
    for MetricDoc { name, kind, labels, .. } in Metrics::reference() {
        let with = |name: &str, labels: &[&str]| format!("{name}{{{}}} {kind}", labels.join(","));
        if kind == "histogram" {
            documented.insert(with(&format!("{name}_bucket"), &[&["le"], labels].concat()));
            documented.insert(with(&format!("{name}_count"), labels));
            documented.insert(with(&format!("{name}_sum"), labels));
        } else {
            documented.insert(with(&name, labels));
        }
    }
    let exposed = include_str!("exposition.txt").lines();
    let missing: Vec<_> = exposed.filter(|series| !documented.contains(*series)).collect();
    assert_eq!(missing, [""; 0], "{documented:#?}");
    assert!(gimbal_runtime::markdown(&Metrics::reference()).contains("| `gimbal_writer_pending` | gauge |  | "));
}

#[test]
fn the_file_of_the_start_is_good() {
    assert_eq!(Writer::with(&[]).samples("config_file_good"), ["gimbal_writer_config_file_good 1"]);
}

/// `cargo xtask docs` writes the page.
#[test]
fn the_page_of_metrics_is_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let head = "# Metrics of the writer\n\nGenerated by `cargo xtask docs`.\nDiscoverers describe theirs in the help lines of `/metrics`.\n\n";
    let page = format!("{head}{}", gimbal_runtime::markdown(&Metrics::reference()));
    if std::env::var_os("GIMBAL_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page, "run `cargo xtask docs`");
}
