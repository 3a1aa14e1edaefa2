//! Rejections reach the owner of a Service: by the agent's log, metrics and inspection, and by an Event on the source's
//! Service if that is enabled.

use gimbal_testkit::{Rights, TestCluster, eventually};
use gimbal_tests::{Discoverer, Grpcurl, Mirror, SOON, Scene, expect_log, expect_metric, metric, put, slice_of, svc};
use serde_json::{Value, json};

const EVENTS: &[&str] = &["--write-events"];

/// Grants the rights of `gimbal-kubernetes-discoverer-events` in `deploy/rbac`, beside the usual ones.
async fn let_write_events(cluster: &TestCluster) {
    let names = ["gimbal-kubernetes-discoverer", "gimbal-kubernetes-discoverer-events"];
    cluster.bind(&cluster.user("discoverer").unwrap(), &Rights::deployed(&names).unwrap()).await.unwrap();
}

async fn offer(scene: &Scene, namespace: &str, name: &str) {
    scene.source.namespace(namespace).await.unwrap();
    scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of(namespace, name, "v4", 7, 3)).await.unwrap();
}

/// Returns the Events that `kubectl describe service` would show.
async fn described(scene: &Scene, namespace: &str, name: &str) -> Vec<Value> {
    let api = scene.source.admin();
    let service = api.get(&format!("/api/v1/namespaces/{namespace}/services/{name}")).await.unwrap();
    let uid = service["metadata"]["uid"].as_str().unwrap();
    let fields = [("name", name), ("namespace", namespace), ("kind", "Service"), ("uid", uid)];
    let selector: Vec<String> =
        fields.iter().map(|(field, value)| format!("involvedObject.{field}%3D{value}")).collect();
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={}", selector.join("%2C"));
    let mut events = api.get(&path).await.unwrap()["items"].as_array().cloned().unwrap();
    // The API server itself writes Events, for example about cluster addresses that it repairs.
    events.retain(|event| event["reportingComponent"] == "gimbal-kubernetes-discoverer");
    events
}

/// Waits until exactly these Events are on a Service: type, reason and count. Returns the messages, in that order.
async fn expect_events(scene: &Scene, (namespace, name): (&str, &str), wanted: &[(&str, &str, u64)]) -> Vec<String> {
    eventually(&format!("the Events of {namespace}/{name} are {wanted:?}"), SOON, async || {
        let events = described(scene, namespace, name).await;
        let message = |(kind, reason, count): &(&str, &str, u64)| {
            let told =
                |event: &&Value| event["type"] == *kind && event["reason"] == *reason && event["count"] == *count;
            Some(events.iter().find(told)?["message"].as_str()?.to_owned())
        };
        let messages: Option<Vec<String>> = wanted.iter().map(message).collect();
        messages.filter(|_| events.len() == wanted.len()).ok_or_else(|| format!("{events:?}"))
    })
    .await
    .unwrap()
}

/// Returns the writes that the discoverer sent to its source since `mark`.
async fn writes(scene: &Scene, mark: usize) -> Vec<String> {
    let entries = scene.source.audit_since(mark).await.unwrap();
    let own = entries.iter().filter(|entry| entry.user == "discoverer" && entry.is_write());
    own.map(|e| format!("{} {} {} {}", e.verb, e.resource, e.name, e.code)).collect()
}

fn foreign(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": name},
        "spec": {"ports": [{"port": 80}]},
    })
}

/// A Service that is rejected.
struct Case {
    namespace: &'static str,
    name: &'static str,
    reason: &'static str,
    constant: &'static str,
    says: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        namespace: "nowhere",
        name: "lost",
        reason: "NamespaceMissing",
        constant: "NAMESPACE_MISSING",
        says: "namespace nowhere does not exist in the Gimbal cluster",
    },
    Case {
        namespace: "team1",
        name: "taken",
        reason: "NameConflict",
        constant: "NAME_CONFLICT",
        says: "team1/node02-taken",
    },
    Case {
        namespace: "secret",
        name: "web",
        reason: "NamespaceForbidden",
        constant: "NAMESPACE_FORBIDDEN",
        says: "denied to this backend",
    },
];

/// Creates the causes of three rejections, and one Service that is accepted.
async fn troubles(scene: &Scene) {
    for Case { namespace, name, .. } in CASES {
        offer(scene, namespace, name).await;
    }
    offer(scene, "team1", "web").await;
    scene.gimbal.namespace("secret").await.unwrap();
    put(&scene.gimbal, &foreign("team1", "node02-taken")).await.unwrap();
}

/// Waits for log, metrics and inspection. Returns the message of each case.
async fn expect_told(agent: &Discoverer, above: &Grpcurl) -> Vec<String> {
    let below = agent.ask();
    let mut sentences = Vec::new();
    for Case { namespace, name, reason, constant, says } in CASES {
        let sentence = below.expect_rejected("node02", namespace, name, constant).await.unwrap();
        assert!(sentence.contains(says), "{sentence}");
        assert_eq!(above.expect_rejected("node02", namespace, name, constant).await.unwrap(), sentence);
        let service = format!("service={namespace}/{name}");
        let text = format!("text={sentence:?}");
        let parts = ["WARN", "the writer rejects a Service", &service, reason, &text];
        expect_log(&agent.process, &parts).await.unwrap();
        let label = format!("reason=\"{reason}\"");
        expect_metric(agent.admin_port, "gimbal_discoverer_rejected", &label, 1.0).await.unwrap();
        sentences.push(sentence);
    }
    assert_eq!(below.backend("node02").unwrap()["rejected"], "3");
    sentences
}

async fn expect_over(agent: &Discoverer, Case { namespace, name, reason, .. }: &Case) {
    agent.ask().expect_synced("node02", namespace, name).await.unwrap();
    let service = format!("service={namespace}/{name}");
    expect_log(&agent.process, &["the writer no longer rejects a Service", &service]).await.unwrap();
    let label = format!("reason=\"{reason}\"");
    expect_metric(agent.admin_port, "gimbal_discoverer_rejected", &label, 0.0).await.unwrap();
}

/// Removes the causes, one after the other.
async fn mend(scene: &Scene, agent: &Discoverer) {
    let policy = |deny: &str| scene.config(&["node02"], &format!("namespaces: {{deny: [{deny}]}}")).unwrap();
    scene.gimbal.namespace("nowhere").await.unwrap();
    expect_over(agent, &CASES[0]).await;
    scene.gimbal.admin().delete("/api/v1/namespaces/team1/services/node02-taken").await.unwrap();
    expect_over(agent, &CASES[1]).await;
    policy("");
    expect_over(agent, &CASES[2]).await;
    for Case { namespace, name, .. } in CASES {
        Mirror::expect_count(&scene.gimbal, namespace, &format!("node02-{name}"), 3).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_in_log_metrics_inspection_and_an_event_and_its_end_is_too() {
    let scene = Scene::start().await.unwrap();
    let_write_events(&scene.source).await;
    troubles(&scene).await;
    let config = scene.config(&["node02"], "namespaces: {deny: [secret]}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let mark = scene.source.audit_mark().await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, EVENTS).unwrap();
    let sentences = expect_told(&agent, &scene.ask(&writer).unwrap()).await;
    for (case, sentence) in CASES.iter().zip(sentences) {
        let key = (case.namespace, case.name);
        let told = expect_events(&scene, key, &[("Warning", case.reason, 1)]).await;
        assert_eq!(told, [sentence]);
        let event = &described(&scene, case.namespace, case.name).await[0];
        assert_eq!(event["source"]["component"], "gimbal-kubernetes-discoverer");
        assert_eq!(event["reportingComponent"], "gimbal-kubernetes-discoverer");
        assert_eq!(event["reportingInstance"], "node02");
        assert_eq!(event["involvedObject"]["apiVersion"], "v1");
        assert!(event["firstTimestamp"].is_string() && event["firstTimestamp"] == event["lastTimestamp"], "{event}");
    }
    mend(&scene, &agent).await;
    for case in &CASES {
        let key = (case.namespace, case.name);
        expect_events(&scene, key, &[("Warning", case.reason, 1), ("Normal", "Accepted", 1)]).await;
    }
    expect_events(&scene, ("team1", "web"), &[]).await;
    // One call for each, and no other.
    let written = writes(&scene, mark).await;
    assert!(written.iter().all(|write| write.starts_with("create events ") && write.ends_with(" 201")), "{written:?}");
    assert_eq!(written.len(), 6, "{written:?}");
    expect_metric(agent.admin_port, "gimbal_discoverer_event_writes_total", "written", 6.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_again_is_counted_in_the_same_event_even_after_a_restart() {
    let scene = Scene::start().await.unwrap();
    let_write_events(&scene.source).await;
    offer(&scene, "team1", "taken").await;
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, EVENTS).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-taken", 3).await.unwrap();
    expect_events(&scene, ("team1", "taken"), &[]).await;
    // The Service is Gimbal's while it has the mark: without it, it is foreign.
    let path = "/api/v1/namespaces/team1/services/node02-taken";
    let mark = |value: Value| json!({"metadata": {"labels": {"gimbal.projectcontour.io/managed-by": value}}});
    for round in 1..=2 {
        scene.gimbal.admin().patch(path, &mark(Value::Null)).await.unwrap();
        let before = if round == 1 { vec![] } else { vec![("Normal", "Accepted", round - 1)] };
        let events = [vec![("Warning", "NameConflict", round)], before].concat();
        expect_events(&scene, ("team1", "taken"), &events).await;
        scene.gimbal.admin().delete(path).await.unwrap();
        let events = [("Warning", "NameConflict", round), ("Normal", "Accepted", round)];
        expect_events(&scene, ("team1", "taken"), &events).await;
    }
    scene.gimbal.admin().patch(path, &mark(Value::Null)).await.unwrap();
    let events = |count| [("Warning", "NameConflict", count), ("Normal", "Accepted", 2)];
    expect_events(&scene, ("team1", "taken"), &events(3)).await;
    agent.process.kill().unwrap();
    agent = scene.discoverer("node02", &scene.source, writer.port, EVENTS).unwrap();
    expect_events(&scene, ("team1", "taken"), &events(4)).await;

    // A new Service of the same name has Events of its own.
    scene.remove("team1", "taken").await.unwrap();
    // An object that comes back at once is the same to both ends: its reported state stays.
    for ask in [agent.ask(), scene.ask(&writer).unwrap()] {
        eventually("it is forgotten", SOON, async || match ask.status("node02", "team1", "taken") {
            Ok(status) if status.is_null() => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
    }
    offer(&scene, "team1", "taken").await;
    expect_events(&scene, ("team1", "taken"), &[("Warning", "NameConflict", 1)]).await;
    assert!(agent.process.terminate(SOON).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_flag_nothing_is_written_though_the_right_is_there() {
    let scene = Scene::start().await.unwrap();
    let_write_events(&scene.source).await;
    troubles(&scene).await;
    let config = scene.config(&["node02"], "namespaces: {deny: [secret]}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_told(&agent, &scene.ask(&writer).unwrap()).await;
    mend(&scene, &agent).await;
    agent.process.terminate(SOON).await.unwrap();
    let entries = scene.source.audit().await.unwrap();
    let own: Vec<_> = entries.iter().filter(|entry| entry.user == "discoverer").collect();
    let odd: Vec<_> = own.iter().filter(|e| e.is_write() || (e.verb == "get" && e.resource == "services")).collect();
    assert!(!own.is_empty() && odd.is_empty(), "a discoverer only reads: {odd:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_told_once_and_holds_nothing_up() {
    let scene = Scene::start().await.unwrap();
    troubles(&scene).await;
    let config = scene.config(&["node02"], "namespaces: {deny: [secret]}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, EVENTS).unwrap();
    expect_told(&agent, &scene.ask(&writer).unwrap()).await;
    expect_metric(agent.admin_port, "gimbal_discoverer_event_writes_total", "denied", 3.0).await.unwrap();
    let line = expect_log(&agent.process, &["WARN", "cannot write Events", "--write-events"]).await.unwrap();
    assert!(line.contains("forbidden"), "{line}");
    let told = |agent: &Discoverer| agent.process.log().matches("cannot write Events").count();
    assert_eq!(told(&agent), 1);
    mend(&scene, &agent).await;
    assert_eq!(told(&agent), 1);
    assert_eq!(metric(agent.admin_port, "gimbal_discoverer_event_writes_total", "written").await.unwrap(), 0.0);

    // The right is granted: rejections from then on are reported.
    let_write_events(&scene.source).await;
    put(&scene.gimbal, &foreign("team1", "node02-late")).await.unwrap();
    offer(&scene, "team1", "late").await;
    expect_events(&scene, ("team1", "late"), &[("Warning", "NameConflict", 1)]).await;
    expect_log(&agent.process, &["Events can be written again"]).await.unwrap();
    agent.process.terminate(SOON).await.unwrap();
}
