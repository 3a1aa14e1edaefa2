//! Hostile content: names, namespaces, marks, addresses, amounts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gimbal_model::{Header, SourceKey};
use gimbal_session::{AgentMessage, GoodbyeReason, Hello, PieceChange, RejectReason};
use gimbal_tests::{Mirror, expect_log};

use super::siege::Siege;
use crate::bad_input::agent::{Agent, hello, key, piece, replace, service, summary};

fn hello_as(change: impl FnOnce(&mut Hello)) -> AgentMessage {
    let AgentMessage::Hello(mut hello) = hello() else { unreachable!() };
    change(&mut hello);
    AgentMessage::Hello(hello)
}

/// Returns the change to a Service with one good endpoint and these labels and annotations.
fn disguised(key: &SourceKey, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> PieceChange {
    let mut service = service(&["10.1.0.1"]);
    let entries = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let (labels, annotations) = (entries(labels), entries(annotations));
    service.header = Arc::new(Header { labels, annotations, ..(*service.header).clone() });
    PieceChange::Replace(piece(key, &service))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_it_says_leads_to_what_is_not_its_own() {
    let mut siege = Siege::begin().await;

    // Who it is: another backend's name, and its own name for another source.
    let mut agent = Agent::dial(&siege.scene, &siege.writer).await;
    agent.say(hello_as(|hello| hello.backend = "hostile-b".into())).await;
    agent.dismissed(GoodbyeReason::UnknownBackend).await;
    siege.expect_metric("refused_streams_total", "UnknownBackend", 1.0).await;
    expect_log(&siege.writer.process, &["stream refused", "UnknownBackend", "hostile-b"]).await.unwrap();
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;
    let mut other = Agent::dial(&siege.scene, &siege.writer).await;
    other.say(hello_as(|hello| hello.source_incarnation = "another-source".into())).await;
    other.dismissed(GoodbyeReason::Incarnation).await;
    siege.expect_metric("refused_streams_total", "Incarnation", 1.0).await;
    agent.delta(vec![replace(&key("team1", "fine"), &["10.1.0.1"])]).await;
    Mirror::expect(&siege.scene.gimbal, "team1", "hostile-fine", &["10.1.0.1:8080"]).await.unwrap();
    siege.unharmed().await;

    // Where it goes: another backend's namespace, the cluster's, a denied one, an invalid name.
    let mut forbidden = 0.0;
    for namespace in ["theirs", "kube-system", "kube-public", "default", "own-secret", "THEIRS", "..", "own-1."] {
        let key = key(namespace, "intruder");
        agent.delta(vec![replace(&key, &["10.1.0.1"])]).await;
        agent.rejected(&key, RejectReason::NamespaceForbidden).await;
        forbidden += 1.0;
    }
    siege.expect_metric("backend_rejected", "NamespaceForbidden", forbidden).await;
    expect_log(&siege.writer.process, &["rejected", "theirs/intruder", "NamespaceForbidden"]).await.unwrap();
    let missing = key("own-missing", "intruder");
    agent.delta(vec![replace(&missing, &["10.1.0.1"])]).await;
    agent.rejected(&missing, RejectReason::NamespaceMissing).await;
    siege.unharmed().await;

    // What it is called: names that join to another backend's name, and to a foreign Service's.
    let answers = [
        ("b-web", "the name team1/hostile-b-web is taken"),
        ("taken", "Service team1/hostile-taken exists and is not ours; it is never touched"),
    ];
    for (name, answer) in answers {
        let key = key("team1", name);
        agent.delta(vec![replace(&key, &["10.66.0.1"])]).await;
        assert_eq!(agent.rejected(&key, RejectReason::NameConflict).await, answer);
    }
    siege.unharmed().await;
    // Removing what it never had removes nothing.
    let foreign =
        [("team1", "b-web"), ("team1", "web"), ("theirs", "api"), ("theirs", "b-api"), ("kube-system", "dns")];
    agent.delta(foreign.iter().map(|(namespace, name)| PieceChange::Remove(key(namespace, name))).collect()).await;
    agent.snapshot(&[], summary(&[])).await;
    Mirror::expect_gone(&siege.scene.gimbal, "team1", "hostile-fine").await.unwrap();
    siege.unharmed().await;

    // What it carries: Gimbal's marks, another backend's name, and instructions to the cluster's controllers.
    let marked = key("team1", "marked");
    let labels = [
        ("app", "kept"),
        ("gimbal.projectcontour.io/managed-by", "someone"),
        ("gimbal.projectcontour.io/backend", "hostile-b"),
        ("gimbal.projectcontour.io/service", "web"),
        ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
        ("kubernetes.io/service-name", "hostile-b-web"),
        ("endpointslice.kubernetes.io/skip-mirror", "false"),
        ("service.kubernetes.io/service-proxy-name", "evil"),
        ("argocd.argoproj.io/instance", "theirs"),
    ];
    let annotations = [
        ("note", "kept"),
        ("gimbal.projectcontour.io/source", "team1/web"),
        ("gimbal.projectcontour.io/project-id", "theirs"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ("external-dns.alpha.kubernetes.io/hostname", "bank.example"),
        ("cert-manager.io/issuer", "theirs"),
        ("service.beta.kubernetes.io/aws-load-balancer-internal", "false"),
        ("meta.helm.sh/release-name", "theirs"),
        ("argocd.argoproj.io/sync-options", "Prune=false"),
        ("endpoints.kubernetes.io/over-capacity", "truncated"),
    ];
    agent.delta(vec![disguised(&marked, &labels, &annotations)]).await;
    let mirror = Mirror::expect(&siege.scene.gimbal, "team1", "hostile-marked", &["10.1.0.1:8080"]).await.unwrap();
    let meta = &mirror.service["metadata"];
    assert_eq!(
        meta["annotations"],
        serde_json::json!({"note": "kept", "gimbal.projectcontour.io/source": "team1/marked"})
    );
    let worn = |labels: &serde_json::Value, key: &str| labels[key].as_str().unwrap_or("nothing").to_owned();
    for labels in [&meta["labels"], &mirror.slices[0]["metadata"]["labels"]] {
        assert_eq!(worn(labels, "app"), "kept");
        assert_eq!(worn(labels, "gimbal.projectcontour.io/backend"), "hostile");
        assert_eq!(worn(labels, "gimbal.projectcontour.io/service"), "marked");
        for gone in ["service.kubernetes.io/service-proxy-name", "argocd.argoproj.io/instance"] {
            assert_eq!(worn(labels, gone), "nothing");
        }
    }
    assert_eq!(worn(&meta["labels"], "gimbal.projectcontour.io/managed-by"), "gimbal-writer");
    let labels = &mirror.slices[0]["metadata"]["labels"];
    assert_eq!(worn(labels, "endpointslice.kubernetes.io/managed-by"), "gimbal-writer");
    assert_eq!(worn(labels, "kubernetes.io/service-name"), "hostile-marked");
    assert_eq!(worn(labels, "endpointslice.kubernetes.io/skip-mirror"), "nothing");
    siege.unharmed().await;

    // Where traffic would go. Even addresses that the backend's own list allows are refused if no backend may lead
    // there.
    let lead = key("team1", "lead");
    let bad = [
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.96.0.1",
        "::ffff:10.1.0.9",
        "10.96.0.1",
        "10.111.255.255",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "::",
        "255.255.255.255",
        "fe80::1",
        "192.0.2.1",
        "2001:db8::1",
    ];
    let mut all = vec!["10.1.0.2", "fd00::2"];
    all.extend(bad);
    agent.delta(vec![replace(&lead, &all)]).await;
    let message = agent.rejected(&lead, RejectReason::AddressRefused).await;
    assert!(message.contains(&format!("{} more", bad.len() - 1)), "{message}");
    let good = ["10.1.0.2:8080", "fd00::2:8080"];
    let mirror = Mirror::expect(&siege.scene.gimbal, "team1", "hostile-lead", &good).await.unwrap();
    assert_eq!(mirror.endpoints, None);
    siege.expect_metric("backend_rejected", "AddressRefused", 1.0).await;
    siege.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_much_it_says_it_has_its_quota_and_others_their_turn() {
    let mut siege = Siege::begin().await;
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;

    // Too many Services, too many endpoints, too many bytes.
    let services: Vec<SourceKey> = (0..30).map(|n| key("team1", &format!("s{n:02}"))).collect();
    agent.delta(services.iter().map(|key| replace(key, &["10.1.0.1"])).collect()).await;
    siege.eventually("20 Services stand", async || siege.attackers().await.len() == 20).await;
    siege.expect_metric("backend_rejected", "Quota", 10.0).await;
    agent.delta(services.iter().skip(1).map(|key| PieceChange::Remove(key.clone())).collect()).await;
    siege.eventually("one Service is published", async || siege.attackers().await.len() == 1).await;
    // The writer must have observed the other removals: until then they count.
    siege.expect_metric("backend_quota_used", "backend=\"hostile\",measure=\"endpoints\"", 1.0).await;
    let addresses: Vec<String> = (0..100).map(|n| format!("10.2.0.{n}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let (many, heavy) = (key("team1", "many"), key("own-1", "heavy"));
    agent.delta(vec![replace(&many, &addresses)]).await;
    let message = agent.rejected(&many, RejectReason::Quota).await;
    assert!(message.contains("endpoints of this backend would be 101, and its quota is 40"), "{message}");
    agent.delta(vec![disguised(&heavy, &[], &[("weight", &"x".repeat(60_000))])]).await;
    let message = agent.rejected(&heavy, RejectReason::Quota).await;
    assert!(message.contains("bytes") && message.contains("its quota is 40000"), "{message}");
    // About as many labels as a frame can hold.
    let labels: Vec<String> = (0..80_000).map(|n| format!("{n:x}")).collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|label| (label.as_str(), "")).collect();
    agent.delta(vec![disguised(&heavy, &labels, &[])]).await;
    let message = agent.rejected(&heavy, RejectReason::Quota).await;
    assert!(message.contains("bytes"), "{message}");
    assert_eq!(siege.attackers().await, ["hostile-s00"]);
    siege.unharmed().await;

    // A flood of changes that never ends: each change of the honest backend arrives in the midst of it.
    let rounds = Arc::new(AtomicU64::new(0));
    let (sender, sent, mut seq) = (agent.sender.clone(), rounds.clone(), agent.seq);
    let flood = tokio::spawn(async move {
        let mut agent = Agent { sender, answers: agent.answers, seq: 0 };
        loop {
            seq += 1;
            agent.seq = seq - 1;
            let address = format!("10.3.{}.{}", seq >> 8 & 255, seq & 255);
            agent.delta((0..15).map(|n| replace(&key("team1", &format!("flood{n}")), &[&address])).collect()).await;
            sent.store(seq, Ordering::Relaxed);
        }
    });
    let mut last = rounds.load(Ordering::Relaxed);
    for _ in 0..5 {
        siege.change_arrives().await;
        assert!(!flood.is_finished(), "the flood was over");
        siege.eventually("the flood goes on", async || rounds.load(Ordering::Relaxed) > last).await;
        last = rounds.load(Ordering::Relaxed);
    }
    flood.abort();
    let pending = siege.metric("pending", "").await;
    assert!(pending <= 40.0, "what waits is a value for each key, and not each change: {pending}");
}
