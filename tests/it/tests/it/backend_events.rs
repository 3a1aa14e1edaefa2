//! Events about Backends: each once for what happened, whoever leads.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Mirror, SOON, Scene, expect_log, slice_of, svc};
use serde_json::{Value, json};

use super::backend_objects::{BACKENDS, backend, expect_condition, scene, writer_at};

/// Returns the UID of a Backend.
pub(crate) async fn uid_of(scene: &Scene, name: &str) -> String {
    let object = scene.gimbal.admin().get(&format!("{BACKENDS}/{name}")).await.unwrap();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Returns the Events that `kubectl describe backend` would show.
async fn described(scene: &Scene, uid: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{uid}");
    scene.gimbal.admin().items(&path).await.unwrap()
}

/// Waits until exactly these Events are about a Backend: type, reason and count. Returns their messages, in that order.
pub(crate) async fn expect_events(scene: &Scene, uid: &str, wanted: &[(&str, &str, u64)]) -> Vec<String> {
    eventually(&format!("the Events are {wanted:?}"), SOON, async || {
        let events = described(scene, uid).await;
        let message = |(kind, reason, count): &(&str, &str, u64)| {
            let is = |event: &&Value| event["type"] == *kind && event["reason"] == *reason && event["count"] == *count;
            Some(events.iter().find(is)?["message"].as_str()?.to_owned())
        };
        let messages: Option<Vec<String>> = wanted.iter().map(message).collect();
        messages.filter(|_| events.len() == wanted.len()).ok_or_else(|| format!("{events:?}"))
    })
    .await
    .unwrap()
}

/// Offers Services `web0`, `web1`... with eight endpoints each.
pub(crate) async fn offer(scene: &Scene, services: u32) {
    for number in 0..services {
        let name = format!("web{number}");
        scene.put(&svc("team1", &name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", &name, "a", number << 8, 8)).await.unwrap();
    }
}

/// Waits until all of [`offer`] is published.
pub(crate) async fn expect_published(scene: &Scene, services: u32) {
    for number in 0..services {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-web{number}"), 8).await.unwrap();
    }
}

/// Waits until the status of node02 has a hold, and returns its id.
pub(crate) async fn held_id(scene: &Scene) -> String {
    let object = expect_condition(scene, "node02", "Held", ["True", "MassChange"]).await;
    object["status"]["heldChanges"][0].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_and_its_release_are_reported_once_over_a_restart() {
    let scene = scene().await;
    offer(&scene, 5).await;
    scene.gimbal.admin().post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let uid = uid_of(&scene, "node02").await;
    let port = free_port().unwrap();
    let mut writer = writer_at(&scene, port, &[]).await;
    let mut agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_published(&scene, 5).await;
    agent.process.terminate(Duration::from_secs(5)).await.unwrap();
    for number in 0..5 {
        scene.remove("team1", &format!("web{number}")).await.unwrap();
    }
    let _agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let id = held_id(&scene).await;
    let words = expect_events(&scene, &uid, &[("Warning", "RemovalHeld", 1)]).await;
    assert!(words[0].contains("40 of 40 endpoints") && words[0].contains(&id), "{words:?}");

    // Another writer: the hold goes on under its id, and nothing is new.
    writer.process.kill().unwrap();
    let writer = writer_at(&scene, port, &[]).await;
    expect_log(&writer.process, &["the mass-change guard holds a removal", &id]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let holds = |backend: &Value| backend["complete"] == true && backend["heldChanges"][0]["id"] == *id;
    client.expect_backend("node02", "holds it under the same id", holds).await.unwrap();
    assert_eq!(held_id(&scene).await, id);

    client.call("AdminService/Approve", &json!({"backend": "node02", "id": id})).unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-web0").await.unwrap();
    let words = expect_events(&scene, &uid, &[("Normal", "HoldReleased", 1), ("Warning", "RemovalHeld", 1)]).await;
    assert!(words[0].contains(&format!("{id} of 40 endpoints is released: it was approved")), "{words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stage_of_a_loss_is_reported() {
    let scene = scene().await;
    offer(&scene, 1).await;
    let spec = json!({"onLoss": {"notReadyAfter": "1s", "drainAfter": "8s"}});
    scene.gimbal.admin().post(BACKENDS, &backend("node02", spec)).await.unwrap();
    let uid = uid_of(&scene, "node02").await;
    let writer = writer_at(&scene, free_port().unwrap(), &["--loss-grace", "1s"]).await;
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 1).await;
    expect_condition(&scene, "node02", "Ready", ["True", "InForce"]).await;
    agent.process.kill().unwrap();
    expect_condition(&scene, "node02", "Lost", ["True", "Drained"]).await;
    let lost = [("Warning", "EndpointsNotReady", 1), ("Warning", "EndpointsRemoved", 1)];
    expect_events(&scene, &uid, &lost).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 1).await;
    expect_events(&scene, &uid, &[lost[0], lost[1], ("Normal", "BackendBack", 1)]).await;
}
