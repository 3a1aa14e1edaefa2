//! A faulty or foreign agent: whatever it sends, it alone is refused, and nothing else is affected.

pub mod agent;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, hello, key, piece, replace, service, summary};
use gimbal_session::{AgentMessage, Frame, GoodbyeReason, PieceChange, RejectReason, Summary, WriterMessage};
use gimbal_tests::{
    Discoverer, Grpcurl, Mirror, SOON, Scene as Clusters, Writer, expect_metric, metric, slice, slice_of, svc,
};
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;

/// The parties that must not be affected: their changes must arrive after each fault.
struct Bystanders {
    scene: Clusters,
    writer: Writer,
    discoverer: Discoverer,
    /// The number of streams that the discoverer had opened when it was ready.
    streams: f64,
    count: u8,
}

impl Bystanders {
    async fn start() -> Self {
        let scene = Clusters::start().await.unwrap();
        let writer = scene.writer(&scene.config(&["hostile", "good"], "").unwrap(), &[]).await.unwrap();
        let discoverer = scene.discoverer("good", &scene.source, writer.port, &[]).unwrap();
        discoverer.ready().await.unwrap();
        // It is ready as soon as its source is read.
        expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
        let streams = metric(discoverer.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap();
        Self { scene, writer, discoverer, streams, count: 0 }
    }

    /// Checks that a good entry of the same agent, and one of the other backend, still arrive.
    async fn flow_on(&mut self, agent: &mut Agent) {
        self.count += 1;
        let (name, address) = (format!("fine{}", self.count), format!("10.9.0.{}", self.count));
        agent.delta(vec![replace(&key("team1", &name), &[&address])]).await;
        self.expect(&format!("hostile-{name}"), &[&address]).await;
        self.the_other_flows_on().await;
    }

    async fn the_other_flows_on(&mut self) {
        self.count += 1;
        let (name, number) = (format!("web{}", self.count), u32::from(self.count));
        self.scene.put(&svc("team1", &name, &[("http", 80)])).await.unwrap();
        self.scene.put(&slice_of("team1", &name, "a", number << 8, 1)).await.unwrap();
        self.expect(&format!("good-{name}"), &[&format!("10.0.{number}.0")]).await;
    }

    async fn expect(&self, name: &str, addresses: &[&str]) -> Mirror {
        let wanted: Vec<String> = addresses.iter().map(|address| format!("{address}:8080")).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let found = Mirror::expect(&self.scene.gimbal, "team1", name, &wanted).await;
        found.unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn metric(&self, name: &str, labels: &str) -> f64 {
        metric(self.writer.admin_port, &format!("gimbal_writer_{name}"), labels).await.unwrap()
    }

    async fn expect_metric(&self, name: &str, labels: &str, wanted: f64) {
        let name = format!("gimbal_writer_{name}");
        expect_metric(self.writer.admin_port, &name, labels, wanted).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_entries_are_rejected_one_by_one() {
    let mut all = Bystanders::start().await;
    let mut agent = Agent::welcomed(&all.scene, &all.writer).await;

    // Addresses that would lead traffic into the Gimbal cluster's own nodes, or to no host.
    let bad = [
        "127.0.0.1",
        "127.9.9.9",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "::ffff:10.1.1.1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
    ];
    let addresses = key("team1", "addresses");
    let mut some = vec!["10.1.0.1", "fd00::1"];
    some.extend(bad);
    agent.delta(vec![replace(&addresses, &some), replace(&key("team1", "beside"), &["10.1.0.9"])]).await;
    let message = agent.rejected(&addresses, RejectReason::AddressRefused).await;
    assert!(message.contains("12 more"), "{message}");
    all.expect("hostile-addresses", &["10.1.0.1", "fd00::1"]).await;
    all.expect("hostile-beside", &["10.1.0.9"]).await;
    all.expect_metric("backend_rejected", "AddressRefused", 1.0).await;
    all.flow_on(&mut agent).await;
    // Alone, each is refused as well, and the Service is published without endpoints.
    for (number, address) in bad.iter().enumerate() {
        let alone = key("team1", &format!("alone{number}"));
        agent.delta(vec![replace(&alone, &[address])]).await;
        let message = agent.rejected(&alone, RejectReason::AddressRefused).await;
        assert!(message.contains(&address.parse::<IpAddr>().unwrap().to_string()), "{message}");
        all.expect(&format!("hostile-alone{number}"), &[]).await;
    }

    // Namespaces that the backend may not use, or that do not exist.
    for namespace in ["kube-system", "kube-public"] {
        let forbidden = key(namespace, "intruder");
        agent.delta(vec![replace(&forbidden, &["10.1.0.1"])]).await;
        agent.rejected(&forbidden, RejectReason::NamespaceForbidden).await;
        let services =
            all.scene.gimbal.admin().items(&format!("/api/v1/namespaces/{namespace}/services")).await.unwrap();
        assert!(!services.iter().any(|s| s["metadata"]["name"] == "hostile-intruder"));
    }
    let nowhere = key("nowhere", "lost");
    agent.delta(vec![replace(&nowhere, &["10.1.0.1"])]).await;
    agent.rejected(&nowhere, RejectReason::NamespaceMissing).await;
    all.expect_metric("backend_rejected", "NamespaceForbidden", 2.0).await;
    all.flow_on(&mut agent).await;

    // Names and content that the API server would refuse.
    let upper = key("team1", "Bad_Name");
    agent.delta(vec![replace(&upper, &["10.1.0.1"])]).await;
    agent.rejected(&upper, RejectReason::Invalid).await;
    let ports = key("team1", "ports");
    let mut twice = service(&["10.1.0.1"]);
    let mut header = (*twice.header).clone();
    header.ports.push(header.ports[0].clone());
    twice.header = Arc::new(header);
    agent.delta(vec![PieceChange::Replace(piece(&ports, &twice))]).await;
    agent.rejected(&ports, RejectReason::Invalid).await;
    let labels = key("team1", "labels");
    let mut labelled = service(&["10.1.0.1"]);
    let mut header = (*labelled.header).clone();
    header.labels.insert("not a key".into(), "x".into());
    labelled.header = Arc::new(header);
    agent.delta(vec![PieceChange::Replace(piece(&labels, &labelled))]).await;
    agent.rejected(&labels, RejectReason::Invalid).await;
    // A label of the source cannot take over another backend's mark.
    let marked = key("team1", "marked");
    let mut disguised = service(&["10.1.0.1"]);
    let mut header = (*disguised.header).clone();
    header.labels.insert("gimbal.projectcontour.io/backend".into(), "good".into());
    header.labels.insert("gimbal.projectcontour.io/managed-by".into(), "someone".into());
    header.annotations.insert("gimbal.projectcontour.io/source".into(), "kube-system/x".into());
    disguised.header = Arc::new(header);
    agent.delta(vec![PieceChange::Replace(piece(&marked, &disguised))]).await;
    let mirror = all.expect("hostile-marked", &["10.1.0.1"]).await;
    let meta = &mirror.service["metadata"];
    assert_eq!(meta["labels"]["gimbal.projectcontour.io/backend"], "hostile");
    assert_eq!(meta["labels"]["gimbal.projectcontour.io/managed-by"], "gimbal-writer");
    assert_eq!(meta["annotations"]["gimbal.projectcontour.io/source"], "team1/marked");
    all.flow_on(&mut agent).await;

    // Names that cannot be decoded; the entry beside them can.
    let before = all.metric("unreadable", "").await;
    for (namespace, name) in
        [("team1", "x".repeat(254)), ("team1", "a/b".into()), ("team1", "line\nbreak".into()), ("team1", String::new())]
    {
        let beside = key("team1", "beside");
        agent.delta(vec![replace(&key(namespace, &name), &["10.1.0.1"]), replace(&beside, &["10.1.0.8"])]).await;
    }
    all.expect("hostile-beside", &["10.1.0.8"]).await;
    agent.asked_again("could not be read").await;
    all.expect_metric("unreadable", "", before + 4.0).await;
    // The longest valid name is shortened like any other.
    let long = key("team1", &"x".repeat(63));
    agent.delta(vec![replace(&long, &["10.1.0.1"])]).await;
    all.expect(&gimbal_model::service_name(&"hostile".parse().unwrap(), &long.name), &["10.1.0.1"]).await;
    all.flow_on(&mut agent).await;

    // Inspection reports each reject as well.
    let client = all.scene.ask(&all.writer).unwrap();
    let trouble = client.call("InspectionService/ListServices", &json!({"backend": "hostile", "onlyTrouble": true}));
    let trouble = trouble.unwrap();
    let reasons = |reason: &str| {
        let services = trouble["services"].as_array().unwrap();
        services.iter().filter(|service| service["rejectReason"] == reason).count()
    };
    assert_eq!(reasons("REJECT_REASON_ADDRESS_REFUSED"), 14, "{trouble}");
    assert_eq!(reasons("REJECT_REASON_NAMESPACE_FORBIDDEN"), 2);
    assert_eq!(reasons("REJECT_REASON_NAMESPACE_MISSING"), 1);
    assert_eq!(reasons("REJECT_REASON_INVALID"), 3);
    assert_eq!(all.writer.process.exited().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_deletes_nothing_and_disturbs_nobody() {
    let mut all = Bystanders::start().await;
    let mut agent = Agent::welcomed(&all.scene, &all.writer).await;
    let (kept, sent) = (key("team1", "kept"), key("team1", "sent"));
    agent.delta(vec![replace(&kept, &["10.1.0.1"])]).await;
    let kept_mirror = all.expect("hostile-kept", &["10.1.0.1"]).await;

    // Snapshots that do not match their summary: their entries count, absence in them does not.
    let view = [(sent.clone(), service(&["10.1.0.2"]))];
    let good = summary(&view);
    let resyncs = all.metric("resyncs_total", "hostile").await;
    agent.snapshot(&view, Summary { count: 2, ..good }).await;
    all.expect("hostile-sent", &["10.1.0.2"]).await;
    agent.asked_again("the snapshot holds 1 Services").await;
    all.flow_on(&mut agent).await;
    agent.snapshot(&view, Summary { digest: good.digest + good.digest, ..good }).await;
    agent.asked_again("their digests differ").await;
    all.flow_on(&mut agent).await;
    agent.frame(Frame::SnapshotEnd { summary: Summary::default() }).await;
    agent.snapshot(&[], Summary { count: 1, ..Summary::default() }).await;
    agent.asked_again("the snapshot holds 0 Services").await;
    all.flow_on(&mut agent).await;
    kept_mirror.expect_unchanged(&all.scene.gimbal, Duration::from_millis(1)).await.unwrap();
    let now = all.metric("resyncs_total", "hostile").await;
    assert!(now >= resyncs + 3.0, "{resyncs} resyncs before, {now} now");

    // Bytes that are not a message.
    let unreadable = all.metric("unreadable", "").await;
    for garbage in [vec![0xff; 300], b"GET / HTTP/1.1\r\n\r\n".to_vec(), Vec::new()] {
        agent.raw(garbage).await;
    }
    let keyless = |m: &WriterMessage| matches!(m, WriterMessage::Reject(r) if r.key.is_none());
    let WriterMessage::Reject(reject) = agent.until(keyless).await else { unreachable!() };
    assert_eq!(reject.reason, RejectReason::Invalid, "{reject:?}");
    all.expect_metric("unreadable", "", unreadable + 3.0).await;
    all.flow_on(&mut agent).await;

    // A lost frame: later differences do not count until a snapshot.
    agent.seq += 5;
    agent.delta(vec![PieceChange::Remove(kept.clone())]).await;
    agent.asked_again("was expected and").await;
    let stranger = service(&["10.1.0.77"]);
    let (ports, endpoint) = stranger.endpoints().next().unwrap();
    let change = gimbal_model::EndpointChange::Set(ports.clone(), endpoint);
    agent.delta(vec![PieceChange::Update { key: kept.clone(), header: None, parts: vec![change], more: false }]).await;
    all.flow_on(&mut agent).await;
    kept_mirror.expect_unchanged(&all.scene.gimbal, Duration::from_millis(1)).await.unwrap();

    // A snapshot that matches its summary: now absence is proven.
    agent.snapshot(&view, good).await;
    Mirror::expect_gone(&all.scene.gimbal, "team1", "hostile-kept").await.unwrap();
    all.expect("hostile-sent", &["10.1.0.2"]).await;
    all.flow_on(&mut agent).await;

    // Violations of the stream's rules.
    agent.say(hello()).await;
    agent.dismissed(GoodbyeReason::ProtocolError).await;
    all.expect_metric("goodbyes_total", "ProtocolError", 1.0).await;
    let mut early = Agent::dial(&all.scene, &all.writer).await;
    early.delta(vec![replace(&key("team1", "early"), &["10.1.0.1"])]).await;
    early.dismissed(GoodbyeReason::ProtocolError).await;
    all.expect_metric("refused_streams_total", "ProtocolError", 1.0).await;
    let mut future = Agent::dial(&all.scene, &all.writer).await;
    let AgentMessage::Hello(mut other) = hello() else { unreachable!() };
    other.protocol = (7, 9);
    future.say(AgentMessage::Hello(other)).await;
    future.dismissed(GoodbyeReason::Protocol).await;
    all.expect_metric("refused_streams_total", "\"Protocol\"", 1.0).await;

    // A frame above the limit ends that stream, with a status that gives the reason.
    let mut agent = Agent::welcomed(&all.scene, &all.writer).await;
    agent.raw(vec![0; 3 << 20]).await;
    let status = tokio::time::timeout(SOON, async {
        loop {
            match agent.answers.next().await {
                Some(Ok(_)) => {}
                Some(Err(status)) => return status,
                None => panic!("it ended without a status"),
            }
        }
    });
    let status = status.await.unwrap();
    // An agent that is still sending may see the stream's reset before the status that was sent first.
    let told = status.code() == tonic::Code::OutOfRange || status.message().contains("h2 protocol error");
    assert!(told, "{status:?}");
    all.expect_metric("broken_streams_total", "hostile", 1.0).await;
    all.expect("hostile-sent", &["10.1.0.2"]).await;
    let mut agent = Agent::welcomed(&all.scene, &all.writer).await;
    all.flow_on(&mut agent).await;

    let services = all.scene.gimbal.admin().items("/api/v1/namespaces/team1/services").await.unwrap();
    assert!(!services.iter().any(|service| service["metadata"]["name"] == "hostile-early"));
    assert_eq!(all.writer.process.exited().unwrap(), None);
    let streams = metric(all.discoverer.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap();
    assert!((streams - all.streams).abs() < 0.5, "the other backend's stream was disturbed: {streams}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_gimbal_clusters_own_is_left_out_and_its_source_hears_why() {
    let scene = Clusters::start().await.unwrap();
    let config = scene.config(&["node02"], "addresses: {allow: [\"10.0.0.0/8\"]}").unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("refusedAddresses: [\"10.96.0.0/12\"]\n{text}")).unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let ready = |addresses: &[&'static str]| {
        let endpoints: Vec<_> = addresses.iter().map(|address| gimbal_tests::Ep::Ready(address)).collect();
        slice("team1", "web", "a", &[("http", 80)], &endpoints)
    };
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&ready(&["10.1.0.1", "10.100.0.10", "192.0.2.1", "10.1.0.2"])).await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &["10.1.0.1:8080", "10.1.0.2:8080"]).await.unwrap();

    let below = Grpcurl::plaintext(discoverer.port);
    let rejected = |backend: &Value| backend["rejected"] == "1";
    for client in [&below, &scene.ask(&writer).unwrap()] {
        client.expect_backend("node02", "a Service is rejected in part", rejected).await.unwrap();
        let services = client.call("InspectionService/ListServices", &json!({"onlyTrouble": true})).unwrap();
        let web = &services["services"][0];
        assert_eq!(web["rejectReason"], "REJECT_REASON_ADDRESS_REFUSED", "{services}");
        let message = web["message"].as_str().unwrap();
        assert!(message.contains("10.100.0.10") && message.contains("refusedAddresses"), "{message}");
        assert!(message.contains("1 more"), "{message}");
    }
    expect_metric(discoverer.admin_port, "gimbal_discoverer_rejected", "AddressRefused", 1.0).await.unwrap();

    scene.put(&ready(&["10.1.0.1", "192.0.2.1"])).await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &["10.1.0.1:8080"]).await.unwrap();
    let told = async || {
        below.call("InspectionService/ListServices", &json!({})).unwrap()["services"][0]["message"].to_string()
    };
    gimbal_testkit::eventually("the message is of what is refused now", SOON, async || {
        let message = told().await;
        anyhow::ensure!(message.contains("192.0.2.1") && message.contains("addresses.allow"), "{message}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    scene.put(&ready(&["10.1.0.1"])).await.unwrap();
    below.expect_backend("node02", "nothing is rejected any more", |b| b.get("rejected").is_none()).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_rejected", "AddressRefused", 0.0).await.unwrap();
}
