//! Two processes and a collector.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::time::{Duration, Instant};

use gimbal_session::{ChangeAge, TraceContext};
use gimbal_testkit::process::free_port;
use gimbal_testkit::{CapturedLog, OtlpReceiver, ReceivedSpan, eventually};
use gimbal_traces::{OtlpArgs, SentChange, SettledChange, TraceArgs, Traces, WrittenTo};

const MILLI: Duration = Duration::from_millis(1);

fn agent(url: &str, trace_ratio: f64) -> Traces {
    let args = TraceArgs { otlp: OtlpArgs { otlp_endpoint: Some(url.to_owned()) }, trace_ratio };
    Traces::start(&args, ("an-agent", "1")).unwrap()
}

fn writer(url: &str) -> Traces {
    Traces::follow(&OtlpArgs { otlp_endpoint: Some(url.to_owned()) }, ("a-writer", "1")).unwrap()
}

fn sent(caused: Option<Duration>) -> SentChange<'static> {
    SentChange { backend: "node02", entries: 3, age: ChangeAge { waited: 20 * MILLI, caused } }
}

fn settled() -> SettledChange<'static> {
    SettledChange {
        backend: "node02",
        namespace: "team1",
        service: "web",
        outcome: "written",
        queue: 5 * MILLI,
        writing: Some(7 * MILLI),
        written_to: WrittenTo::ApiServer,
    }
}

#[tokio::test]
async fn a_change_has_one_trace_through_both_processes() {
    let receiver = OtlpReceiver::start().await.unwrap();
    let (mut agent, mut writer) = (agent(&receiver.url, 1.0), writer(&receiver.url));
    let context = agent.sent(&sent(Some(100 * MILLI))).unwrap();
    // As it travels.
    let context = TraceContext::parse(&context.to_string()).unwrap();
    assert!(writer.settled(context, &settled()));
    tokio::join!(agent.end(), writer.end());

    let spans = receiver.spans();
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let trace = context.to_string();
    assert!(spans.iter().all(|span| trace[3..35] == span.trace), "{spans:?}");
    let names = |program: &str| {
        let mut names: Vec<&str> =
            spans.iter().filter(|span| span.program == program).map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names("an-agent"), ["agent", "change", "source"]);
    assert_eq!(names("a-writer"), ["apiserver", "queue", "settle"]);
    let (change, settle) = (named("change"), named("settle"));
    assert_eq!((change.parent.as_str(), &settle.parent), ("", &change.id));
    assert_eq!(change.id, trace[36..52]);
    for (leg, of, long) in
        [("source", change, 100), ("agent", change, 20), ("queue", settle, 5), ("apiserver", settle, 7)]
    {
        let leg = named(leg);
        assert_eq!((&leg.parent, leg.times.1 - leg.times.0), (&of.id, long * 1_000_000), "{leg:?}");
    }
    // Legs follow one another without a gap, as long as the span that they are in.
    let joined = |first: &str, second: &str, whole: &ReceivedSpan| {
        let (first, second) = (named(first).times, named(second).times);
        assert_eq!((first.0, first.1, second.1), (whole.times.0, second.0, whole.times.1));
    };
    joined("source", "agent", change);
    joined("queue", "apiserver", settle);
    assert_eq!(change.attributes["gimbal.changes"], "3");
    for (key, value) in [("backend", "node02"), ("namespace", "team1"), ("service", "web"), ("outcome", "written")] {
        assert_eq!(settle.attributes[&format!("gimbal.{key}")], value);
    }
}

#[tokio::test]
async fn what_is_not_known_has_no_span() {
    let receiver = OtlpReceiver::start().await.unwrap();
    let (mut agent, mut writer) = (agent(&receiver.url, 1.0), writer(&receiver.url));
    let context = agent.sent(&sent(None)).unwrap();
    assert!(writer.settled(context, &SettledChange { outcome: "rejected", writing: None, ..settled() }));
    tokio::join!(agent.end(), writer.end());
    let mut names: Vec<String> = receiver.spans().into_iter().map(|span| span.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["agent", "change", "queue", "settle"]);
}

#[tokio::test]
async fn a_ratio_of_nothing_sends_nothing_and_a_burst_is_limited() {
    let receiver = OtlpReceiver::start().await.unwrap();
    let mut none = agent(&receiver.url, 0.0);
    assert!((0..1000).all(|_| none.sent(&sent(None)).is_none()));
    none.end().await;
    assert_eq!(receiver.spans(), []);

    let begun = Instant::now();
    let mut all = agent(&receiver.url, 1.0);
    let traced = (0..1000).filter(|_| all.sent(&sent(None)).is_some()).count() as u64;
    let seconds = begun.elapsed().as_secs() + 1;
    assert!((100..=100 * (seconds + 1)).contains(&traced), "{traced}");
    all.end().await;
    assert_eq!(receiver.spans().len() as u64, 2 * traced);
}

/// It accepts connections, and says nothing in the handshake: half open, or behind a load balancer without a target.
#[tokio::test]
async fn a_collector_that_says_nothing_is_reported() {
    let log = CapturedLog::default();
    // The thread that sends has this log, too.
    tracing_subscriber::fmt().with_writer(log.clone()).init();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            kept.push(connection);
        }
    });
    let mut agent = agent(&url, 1.0);
    assert!(agent.sent(&sent(None)).is_some());
    eventually("the loss is reported", Duration::from_secs(60), async || {
        anyhow::ensure!(log.text().contains("traces are lost"), "{}", log.text());
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    accepting.abort();
    agent.end().await;
}

/// What waits for a collector that is away is the process's end, and that for two seconds at most.
#[tokio::test]
async fn a_collector_that_is_away_delays_nothing() {
    let mut agent = agent(&format!("http://127.0.0.1:{}", free_port().unwrap()), 1.0);
    let begun = Instant::now();
    assert!(agent.sent(&sent(None)).is_some());
    agent.end().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
