//! Which series exist, and when they end.

use std::time::Instant;

use gimbal_guard::HeldDrop;
use gimbal_model::{BackendName, SourceKey};
use gimbal_reconcile::{Policy, Settings};
use gimbal_session::{
    AgentMessage, ChangeAge, Credit, Data, Frame, Freshness, Hello, PROTOCOL, Summary, Unreadable, WriterLimits,
};
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

    /// Opens a stream of node02. Returns its generation.
    fn connect(&mut self) -> u64 {
        let hello = Hello {
            protocol: (PROTOCOL, PROTOCOL),
            capabilities: Default::default(),
            backend: "node02".into(),
            agent_instance: "1".into(),
            source_incarnation: "source".into(),
            held: Some(Summary::default()),
            agent_version: "test".into(),
        };
        self.state.open(&name("node02"), &hello, self.now).unwrap()
    }

    /// Returns the samples that contain this text.
    fn samples(&self, with: &str) -> Vec<String> {
        self.metrics.show(&self.state, self.may_write, self.now);
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
    writer.metrics.settled("gone", JourneyEnd::Written, &legs(), None);
    writer.metrics.lost("gone", gimbal_reconcile::Stage::NotReady);
    assert_eq!(writer.samples("backend=\"gone\""), Vec::<String>::new());
}

#[test]
fn an_agents_words_make_no_series() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    let generation = writer.connect();
    let kinds = ["services", "x1", "x2", "x3"].into_iter().zip(1..);
    let sources = kinds.map(|(kind, age)| Freshness { kind: kind.into(), age: Some(Duration::from_secs(age)) });
    let heartbeat = AgentMessage::Heartbeat { sources: sources.collect(), backlog: 0, clock_ms: None };
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

/// A source that is away when its agent starts is as silent as one that goes away later, and for as long as it is.
#[test]
fn a_source_that_was_never_heard_grows_old_too() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    let beat = |writer: &mut Writer, generation, age: Option<u64>| {
        let sources = vec![Freshness { kind: "services".into(), age: age.map(Duration::from_secs) }];
        let heartbeat = AgentMessage::Heartbeat { sources, backlog: 0, clock_ms: None };
        writer.state.receive(&name("node02"), generation, heartbeat, writer.now);
    };
    let age = |writer: &Writer, seconds: &str| {
        let sample = "gimbal_writer_backend_source_age_seconds{backend=\"node02\",kind=\"services\"}";
        assert_eq!(writer.samples("backend_source_age"), [format!("{sample} {seconds}")]);
    };
    let generation = writer.connect();
    writer.now += Duration::from_secs(5);
    beat(&mut writer, generation, None);
    age(&writer, "5.0");
    writer.now += Duration::from_secs(1200);
    beat(&mut writer, generation, None);
    age(&writer, "1205.0");
    // The next agent knows nothing of the time before it.
    let generation = writer.connect();
    beat(&mut writer, generation, None);
    writer.now += Duration::from_secs(5);
    age(&writer, "1210.0");
    // It is heard at last, and grows between heartbeats.
    beat(&mut writer, generation, Some(1));
    writer.now += Duration::from_secs(4);
    age(&writer, "5.0");
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

fn legs() -> JourneyLegs {
    let millis = Duration::from_millis;
    JourneyLegs { source: Some(millis(2000)), agent: millis(250), queue: millis(500), api_server: Some(millis(125)) }
}

#[test]
fn each_leg_of_a_change_is_shown_and_what_is_refused_is_apart() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    writer.metrics.settled("node02", JourneyEnd::Written, &legs(), None);
    let sum = |leg: &str, outcome: &str, seconds: &str| {
        let labels = format!("backend=\"node02\",leg=\"{leg}\",outcome=\"{outcome}\"");
        format!("gimbal_propagation_seconds_sum{{{labels}}} {seconds}")
    };
    let shown = || {
        let mut sums = writer.samples("gimbal_propagation_seconds_sum");
        sums.sort();
        sums
    };
    let mut expected = vec![
        sum("agent", "written", "0.25"),
        sum("apiserver", "written", "0.125"),
        sum("queue", "written", "0.5"),
        sum("source", "written", "2.0"),
        sum("total", "written", "2.875"),
    ];
    assert_eq!(shown(), expected);
    // Where the source does not say when it began, and nothing was written, there are no such legs.
    let held = JourneyLegs { source: None, api_server: None, ..legs() };
    writer.metrics.settled("node02", JourneyEnd::Held, &held, None);
    expected.extend([sum("agent", "held", "0.25"), sum("queue", "held", "0.5"), sum("total", "held", "0.75")]);
    expected.sort();
    assert_eq!(shown(), expected);
    let accepted = "gimbal_writer_propagation_seconds_sum{backend=\"node02\"} 0.875";
    assert_eq!(writer.samples("gimbal_writer_propagation_seconds_sum"), [accepted]);
    writer.metrics.settled("node02", JourneyEnd::Rejected, &held, None);
    assert_eq!(shown().len(), expected.len() + 3);
}

#[test]
fn a_traced_change_is_an_example_of_its_buckets() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    let trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    writer.metrics.settled("node02", JourneyEnd::Written, &legs(), trace);
    writer.metrics.settled("node02", JourneyEnd::Written, &legs(), None);
    let buckets = writer.samples("gimbal_propagation_seconds_bucket");
    let examples: Vec<&String> = buckets.iter().filter(|line| line.contains(" # ")).collect();
    assert_eq!(examples.len(), 5, "one for each leg: {buckets:?}");
    let of_queue = examples.iter().find(|line| line.contains("leg=\"queue\"")).unwrap();
    let (_, example) = of_queue.split_once(" # ").unwrap();
    let example: Vec<&str> = example.split(' ').collect();
    assert_eq!(example[..2], ["{trace_id=\"0af7651916cd43dd8448eb211c80319c\"}", "0.5"]);
    assert!(example[2].parse::<f64>().unwrap() > 1e9, "when it was: {example:?}");
}

#[test]
fn names_labels_and_types_stay_as_they_are() {
    let mut writer = Writer::with(&["node02"]);
    writer.state.lead(Some(1));
    let mut policy = Policy::default();
    policy.quota.services = Some(9);
    writer.metrics.backend_objects(Some(&BackendObjects::default()));
    writer.state.configure([(name("node02"), policy)].into(), writer.now);
    let metrics = &writer.metrics;
    metrics.written("create", "Service", "ok", Duration::from_millis(1));
    metrics.settled("node02", JourneyEnd::Written, &legs(), None);
    metrics.watch_failed("services", "timeout");
    metrics.led_by("one");
    metrics.lease_called("renew", "ok");
    metrics.refused(GoodbyeReason::Shutdown);
    metrics.dismissed("node02", GoodbyeReason::Shutdown);
    metrics.broke("node02");
    metrics.resync("node02");
    metrics.config_read(true);
    metrics.namespace_created(true);
    metrics.event_written("ok");
    metrics.waited(WaitReason::Qps, Duration::from_secs(1));
    metrics.lost("node02", gimbal_reconcile::Stage::NotReady);
    let released =
        gimbal_guard::GuardEvent::Released { id: "1".into(), endpoints: 1, by: gimbal_guard::Release::Approval };
    metrics.guarded("node02", &released);
    let held = HeldDrop { id: "2".into(), endpoints_removed: 1, endpoints_before: 1, targets: 1, to_nothing: true };
    metrics.guarded("node02", &gimbal_guard::GuardEvent::Held(held));
    let address = ([192, 0, 2, 1], 1).into();
    let (problem, message) = (Problem::NotTls, String::new());
    metrics.connection_refused(&Refusal { address, problem, message, asked_for: None, certificate: None });
    let generation = writer.connect();
    let sources = vec![Freshness { kind: "services".into(), age: Some(Duration::from_secs(1)) }];
    let key = Some(SourceKey::new("team1", "web"));
    let unreadable = Unreadable { key, reason: "no ports".into(), more: false };
    let frame = Frame::Delta { changes: vec![Err(unreadable)], age: ChangeAge::default() };
    for message in [
        AgentMessage::Heartbeat { sources, backlog: 0, clock_ms: None },
        AgentMessage::Data(Data { seq: 1, frame, trace: None }),
    ] {
        writer.state.receive(&name("node02"), generation, message, writer.now);
    }
    writer.samples("");
    let mut text = String::new();
    encode(&mut text, &writer.registry).unwrap();
    let found = gimbal_testkit::exposition::series(&text).join("\n") + "\n";
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
    let certificate = |series: &String| series.starts_with("gimbal_writer_tls_");
    documented.retain(|series| !certificate(series));
    let exposed: Vec<_> = documented.into_iter().collect();
    assert_eq!(exposed.join("\n") + "\n", include_str!("exposition.txt"));
}

#[test]
fn the_file_of_the_start_is_good() {
    assert_eq!(Writer::with(&[]).samples("config_file_good"), ["gimbal_writer_config_file_good 1"]);
}
