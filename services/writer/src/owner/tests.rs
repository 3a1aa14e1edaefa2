//! Agents' streams while the lease is late, and namespaces while many jobs are pending.

use std::sync::Arc;

use gimbal_kubernetes_client::{Access, Cluster};
use gimbal_kubernetes_objects::{Meta, Namespace};
use gimbal_model::{Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey};
use gimbal_reconcile::{Policy, Settings, Watched};
use gimbal_runtime::Liveness;
use gimbal_session::{
    AgentConfig, AgentEnd, AgentVerdict, ChangeAge, Credit, Data, Frame, Hello, PROTOCOL, Piece, PieceChange,
    WriterLimits,
};
use gimbal_testkit::{CapturedLog, OtlpReceiver};
use gimbal_traces::OtlpArgs;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use super::*;
use crate::apply::Writes;
use crate::cluster_watches;
use crate::throttle::Throttle;
use crate::watch_liveness::WatchLiveness;
use gimbal_lease::Moment;
use gimbal_schedule::{LimiterSettings, WriteLimiter};

const SECOND: Duration = Duration::from_secs(1);

fn name() -> BackendName {
    BackendName::parse("node02").unwrap()
}

/// Returns an owner whose API server does not exist, and the sender of its leadership.
fn owner() -> (StateOwner, watch::Sender<Leadership>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let cluster = Cluster::connect(&Access::Kubeconfig(file), "test").unwrap();
    let metrics = Metrics::register(&mut Registry::default());
    let (events, relist, _) = cluster_watches::start(&cluster, &metrics, &WatchLiveness::new(SECOND));
    let (lead, leadership) = watch::channel(Leadership::Leader { epoch: 1, until: Moment::now() });
    let limits = WriterLimits { credit: Credit { changes: 100_000, bytes: 64 << 20 }, heartbeat_timeout: 15 * SECOND };
    let comparison_interval = 600 * SECOND;
    let mut state = Reconciler::new(Settings { api: Default::default(), limits, comparison_interval });
    state.configure([(name(), Policy::default())].into(), Instant::now());
    let writes = Writes {
        cluster: cluster.clone(),
        leadership: leadership.clone(),
        throttle: Throttle::default(),
        metrics: metrics.clone(),
        failures: Arc::default(),
    };
    let settings = LimiterSettings { concurrency: 1, latency_target: SECOND, qps: 0, fanout: 0, watchers: 1 };
    let jobs = JobsInFlight::new(writes, WriteLimiter::new(&settings), metrics.clone());
    let (keeper, _) = StateKeeper::new(cluster, "default", leadership.clone());
    let (able, health) = (watch::channel(true).0, Liveness::new(SECOND));
    let parts = StateOwnerParts {
        state,
        events,
        relist,
        leadership,
        able,
        jobs,
        keeper,
        metrics,
        traces: Traces::default(),
        health,
    };
    (StateOwner::new(parts).0, lead)
}

/// Opens a stream as an agent does. Returns the messages to the agent, or why it was refused.
fn dial(owner: &mut StateOwner) -> Result<mpsc::Receiver<WriterMessage>, GoodbyeReason> {
    let hello = Hello {
        protocol: (PROTOCOL, PROTOCOL),
        capabilities: Default::default(),
        backend: name().to_string(),
        agent_instance: "1".into(),
        source_incarnation: "source".into(),
        held: None,
        agent_version: "test".into(),
    };
    let (outgoing, heard) = mpsc::channel(STREAM_QUEUE);
    let (reply, mut answer) = oneshot::channel();
    owner.receive(Mail::Open { backend: name(), policy: None, hello, certificate_ends: None, outgoing, reply });
    owner.send();
    answer.try_recv().unwrap().map(|_| heard).map_err(|goodbye| goodbye.reason)
}

/// Returns the goodbyes that an agent received, and whether its stream is still open.
fn hear(heard: &mut mpsc::Receiver<WriterMessage>) -> (Vec<GoodbyeReason>, bool) {
    let mut goodbyes = Vec::new();
    loop {
        match heard.try_recv() {
            Ok(WriterMessage::Goodbye(goodbye)) => goodbyes.push(goodbye.reason),
            Ok(_) => {}
            Err(error) => return (goodbyes, error == mpsc::error::TryRecvError::Empty),
        }
    }
}

#[tokio::test]
async fn a_lease_that_is_late_for_long_costs_the_streams_until_it_is_renewed() {
    let (mut owner, lead) = owner();
    let renewed = Moment::now();
    let renew = |until: Moment| lead.send_replace(Leadership::Leader { epoch: 1, until });
    renew(renewed + SECOND);
    owner.lead(Some(1));
    let mut agent = dial(&mut owner).unwrap();
    let look = |owner: &mut StateOwner, seconds: u32| {
        owner.follow_leadership(Instant::now(), renewed + SECOND * seconds);
        owner.send();
    };
    // An API server that is away for a minute has no effect.
    look(&mut owner, 90);
    assert_eq!(hear(&mut agent), (vec![], true));
    look(&mut owner, 91);
    assert_eq!(hear(&mut agent), (vec![GoodbyeReason::NotLeader], false));
    assert_eq!(dial(&mut owner).unwrap_err(), GoodbyeReason::NotLeader);
    look(&mut owner, 3600);
    assert_eq!(dial(&mut owner).unwrap_err(), GoodbyeReason::NotLeader);
    renew(renewed + SECOND * 3602);
    look(&mut owner, 3601);
    let mut agent = dial(&mut owner).unwrap();
    look(&mut owner, 3603);
    assert_eq!(hear(&mut agent), (vec![], true));
}

/// Shows a Gimbal cluster with the namespace "ns", and a backend whose source has `services` Services in `namespace`.
/// Returns the generation of its stream, on which two frames came if there are none.
fn fill(owner: &mut StateOwner, namespace: &str, services: u16) -> u64 {
    let (state, now) = (&mut owner.parts.state, Instant::now());
    for kind in Watched::ALL {
        state.list_begin(kind);
        if kind == Watched::Namespaces {
            state.apply_namespace(&Namespace { metadata: Meta { name: "ns".into(), ..Meta::default() } });
        }
        state.list_end(kind, now);
    }
    let config = AgentConfig { backend: name().to_string(), instance: "1".into(), version: "test".into() };
    let mut agent = AgentEnd::new(config);
    agent.set_incarnation("source".into());
    let port =
        ServicePort { name: "".into(), port: 80, protocol: Protocol::Tcp, app_protocol: None, target_port: None };
    let header = Arc::new(Header { ports: vec![port], ..Header::default() });
    let port = EndpointPort { name: "".into(), port: Some(80), protocol: Protocol::Tcp, app_protocol: None };
    let ports = PortSet::new(vec![port]);
    for n in 0..services {
        let endpoint = (ports.clone(), Endpoint::ready([10, 0, (n >> 8) as u8, n as u8].into()));
        agent.set(
            SourceKey::new(namespace, format!("svc{n}")),
            Some(Arc::new(Service::new(header.clone(), [endpoint]))),
            now,
        );
    }
    agent.source_complete();
    agent.connected(now);
    let mut generation = 0;
    while let Some(said) = agent.next(now) {
        match said {
            AgentMessage::Hello(hello) => generation = state.open(&name(), &hello, now).unwrap(),
            said => state.receive(&name(), generation, said, now),
        }
        for output in state.take_outputs() {
            if let Output::Send { message, .. } = output {
                assert_eq!(agent.receive(message, now), AgentVerdict::Continue);
            }
        }
    }
    assert_eq!(state.pending(), usize::from(services));
    generation
}

#[tokio::test]
async fn the_trace_of_a_change_goes_on_until_it_is_settled() {
    let receiver = OtlpReceiver::start().await.unwrap();
    let (mut owner, lead) = owner();
    let otlp = OtlpArgs { otlp_endpoint: Some(receiver.url.clone()) };
    owner.parts.traces = Traces::follow(&otlp, ("gimbal-writer", "1")).unwrap();
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    let generation = fill(&mut owner, "missing", 0);
    let change = |name: &str| {
        let key = SourceKey::new("missing", name);
        Ok(PieceChange::Replace(Piece { key, header: Some(Arc::default()), parts: Vec::new(), more: false }))
    };
    let trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for (seq, name, trace) in [(3, "traced", trace), (4, "not", None)] {
        let frame = Frame::Delta { changes: vec![change(name)], age: ChangeAge::default() };
        let message = AgentMessage::Data(Data { seq, frame, trace });
        owner.parts.state.receive(&self::name(), generation, message, Instant::now());
    }
    owner.start();
    owner.parts.traces.clone().end().await;
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["queue", "settle"], "{spans:?}");
    let settle = &spans[1];
    assert_eq!((&*settle.trace, &*settle.parent), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
    for (key, value) in
        [("backend", "node02"), ("namespace", "missing"), ("service", "traced"), ("outcome", "rejected")]
    {
        assert_eq!(settle.attributes[&format!("gimbal.{key}")], value);
    }
}

/// The age of a change is the agent's word, and an alert must not depend on it.
#[tokio::test]
async fn a_change_waits_from_when_it_came_whatever_its_agent_says() {
    let (mut owner, lead) = owner();
    let mut registry = Registry::default();
    owner.parts.metrics = Metrics::register(&mut registry);
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    let generation = fill(&mut owner, "ns", 0);
    let piece =
        Piece { key: SourceKey::new("ns", "web"), header: Some(Arc::default()), parts: Vec::new(), more: false };
    let age = ChangeAge { waited: SECOND * 40 * 86_400, caused: None };
    let frame = Frame::Delta { changes: vec![Ok(PieceChange::Replace(piece))], age };
    let message = AgentMessage::Data(Data { seq: 3, frame, trace: None });
    owner.receive(Mail::Message { backend: name(), generation, message, turns: Vec::new() });
    let mut waits_after = |seconds: u32| {
        owner.tick_at(Instant::now() + SECOND * seconds);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let sample = text.lines().find_map(|line| line.strip_prefix("gimbal_writer_oldest_pending_seconds "));
        sample.unwrap().parse::<f64>().unwrap()
    };
    assert!(waits_after(0) < 10.0);
    assert!((10.0..20.0).contains(&waits_after(10)));
}

/// There is room for one write at a time, and always a job of another backend that could take it.
#[tokio::test]
async fn namespaces_and_jobs_take_turns() {
    let (mut owner, lead) = owner();
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    fill(&mut owner, "ns", 100);
    owner.start();
    for n in 0..3 {
        owner.creating.ask(format!("ns{n}").into(), BackendName::parse("b").unwrap());
    }
    let mut ended = String::new();
    for _ in 0..8 {
        tokio::select! {
            Some(done) = owner.parts.jobs.next() => {
                ended += "j";
                owner.finished(done);
            }
            Some(done) = owner.creating.next() => {
                ended += "n";
                owner.created(done);
            }
            else => break,
        }
        owner.start();
    }
    assert_eq!(ended, "jnjnjnjj");
}

/// More rejects than the queue of a stream holds, for an agent that reads a few messages at a time.
#[tokio::test]
async fn any_number_of_rejects_keeps_the_stream_and_leaves_the_log_short() {
    const REJECTS: u16 = 10_000;
    let log = CapturedLog::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (mut owner, lead) = owner();
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    fill(&mut owner, "missing", REJECTS);
    let rejects = |owner: &StateOwner| owner.parts.state.backends()[&name()].end().rejects().len();
    while rejects(&owner) < usize::from(REJECTS) {
        owner.start();
    }
    let mut agent = dial(&mut owner).unwrap();
    let (mut heard, mut most) = (0, 0);
    while heard < usize::from(REJECTS) {
        most = most.max(agent.len());
        let messages: Vec<_> = std::iter::from_fn(|| agent.try_recv().ok()).take(1000).collect();
        assert!(!messages.is_empty(), "{heard} came, and no more");
        heard += messages.iter().filter(|message| matches!(message, WriterMessage::Reject(_))).count();
        owner.tick();
        owner.send();
    }
    assert_eq!((heard, hear(&mut agent)), (usize::from(REJECTS), (vec![], true)));
    assert!(most < STREAM_QUEUE, "{most} were pending");
    let lines = log.text().lines().filter(|line| line.contains("rejected")).count();
    // A minute more may begin meanwhile.
    let few = crate::reject_lines::A_MINUTE as usize;
    assert!((few..=2 * few).contains(&lines), "{lines}");
}

/// An agent that reads slowly has a few hundred older rejects before it, and not all of them.
#[tokio::test]
async fn what_is_new_overtakes_most_of_the_older_rejects() {
    let (mut owner, lead) = owner();
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    fill(&mut owner, "missing", 5000);
    while owner.parts.state.backends()[&name()].end().rejects().len() < 5000 {
        owner.start();
    }
    let mut agent = dial(&mut owner).unwrap();
    owner.send();
    owner.parts.state.stand_aside(true);
    owner.send();
    let before = std::iter::from_fn(|| agent.try_recv().ok())
        .take_while(|message| !matches!(message, WriterMessage::Goodbye(_)))
        .count();
    assert!((100..=512).contains(&before), "{before} messages came before it");
}

#[tokio::test]
async fn an_agent_that_dials_again_and_again_gets_a_line_of_each_kind_a_minute() {
    let log = CapturedLog::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (mut owner, lead) = owner();
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    for _ in 0..20 {
        dial(&mut owner).unwrap();
        let generation = *owner.streams.keys().next().unwrap();
        owner.receive(Mail::Closed { backend: name(), generation });
    }
    let text = log.text();
    let lines = |of: &str| text.matches(of).count();
    assert_eq!((lines("stream opened"), lines("stream closed")), (1, 1));
}

#[tokio::test]
async fn a_writer_that_was_stopped_does_not_blame_its_agents() {
    let (mut owner, lead) = owner();
    lead.send_replace(Leadership::Leader { epoch: 1, until: Moment::now() + SECOND * 3600 });
    owner.lead(Some(1));
    let mut agent = dial(&mut owner).unwrap();
    // As if the stream had been opened, and the last tick been, a minute ago.
    let minute = Instant::now() + SECOND * 60;
    owner.tick_at(Instant::now());
    owner.tick_at(minute);
    owner.send();
    assert_eq!(hear(&mut agent), (vec![], true), "it has time to be heard");
    (1..=16).for_each(|second| owner.tick_at(minute + SECOND * second));
    owner.send();
    assert_eq!(hear(&mut agent), (vec![GoodbyeReason::Timeout], false));
}
