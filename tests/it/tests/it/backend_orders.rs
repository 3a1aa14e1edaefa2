//! What people decide by annotations of a Backend: once, by an exact value, and with an answer in its status.

use std::time::Duration;

use gimbal_testkit::process::free_port;
use gimbal_testkit::{TestCluster, eventually};
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, discoverer_rights, expect_log, put, slice_of, svc};
use serde_json::{Value, json};

use super::backend_events::{expect_events, expect_published, held_id, offer, uid_of};
use super::backend_objects::{BACKENDS, backend, expect_condition, scene, writer_at};

const APPROVE: &str = "gimbal.projectcontour.io/approve";
const CONFIRM: &str = "gimbal.projectcontour.io/confirm-incarnation";

/// Sets an annotation of node02.
pub(crate) async fn annotate(scene: &Scene, key: &str, value: &str) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    scene.gimbal.admin().patch(&format!("{BACKENDS}/node02"), &patch).await.unwrap();
}

/// Waits until the status of node02 has this answer to an annotation. Returns the message.
pub(crate) async fn expect_answer(scene: &Scene, key: &str, value: &str, result: &str) -> String {
    let mut message = String::new();
    eventually(&format!("{key}={value} is answered: {result}"), SOON, async || {
        let object = scene.gimbal.admin().get(&format!("{BACKENDS}/node02")).await?;
        let answers = object["status"]["answers"].as_array().into_iter().flatten();
        let is =
            |answer: &&Value| answer["annotation"] == key && answer["value"] == value && answer["result"] == result;
        let found = answers.clone().find(is);
        anyhow::ensure!(found.is_some(), "{}", object["status"]["answers"]);
        message = found.and_then(|answer| answer["message"].as_str()).unwrap_or_default().to_owned();
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    message
}

/// Takes everything away that the source offers while its agent is away, so that the guard holds it.
async fn lose_everything(scene: &Scene, port: u16, services: u32, mut agent: Discoverer) -> Discoverer {
    agent.process.terminate(Duration::from_secs(5)).await.unwrap();
    for number in 0..services {
        scene.remove("team1", &format!("web{number}")).await.unwrap();
    }
    scene.discoverer("node02", &scene.source, port, &[]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_approved_by_its_id_and_that_approves_no_later_one() {
    let scene = scene().await;
    offer(&scene, 5).await;
    scene.gimbal.admin().post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let uid = uid_of(&scene, "node02").await;
    let port = free_port().unwrap();
    let mut writer = writer_at(&scene, port, &[]).await;
    let agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_published(&scene, 5).await;
    let agent = lose_everything(&scene, port, 5, agent).await;
    let first = held_id(&scene).await;

    annotate(&scene, APPROVE, "another").await;
    let why = expect_answer(&scene, APPROVE, "another", "Refused").await;
    assert!(why.contains(&format!("held is {first}")), "{why}");
    let words = expect_events(&scene, &uid, &[("Warning", "OrderRefused", 1), ("Warning", "RemovalHeld", 1)]).await;
    assert!(words[0].starts_with(&format!("{APPROVE}=another: ")), "{words:?}");
    expect_published(&scene, 5).await;

    annotate(&scene, APPROVE, &first).await;
    expect_answer(&scene, APPROVE, &first, "Done").await;
    for number in 0..5 {
        Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
    }
    expect_condition(&scene, "node02", "Held", ["False", "NothingHeld"]).await;

    // The same once more: the annotation is still there, and so is its answer.
    offer(&scene, 5).await;
    expect_published(&scene, 5).await;
    let _agent = lose_everything(&scene, port, 5, agent).await;
    let second = held_id(&scene).await;
    assert_ne!(first, second);
    // A writer that is killed before it has sent an Event sends it no more.
    let reported = [("Normal", "HoldReleased", 1), ("Warning", "OrderRefused", 1), ("Warning", "RemovalHeld", 2)];
    expect_events(&scene, &uid, &reported).await;
    writer.process.kill().unwrap();
    let writer = writer_at(&scene, port, &[]).await;
    let client = scene.ask(&writer).unwrap();
    let holds = |backend: &Value| backend["complete"] == true && backend["heldChanges"][0]["id"] == *second;
    client.expect_backend("node02", "holds it under the same id", holds).await.unwrap();
    expect_answer(&scene, APPROVE, &first, "Done").await;
    expect_published(&scene, 5).await;
    annotate(&scene, APPROVE, &second).await;
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-web0").await.unwrap();
    let reported = [("Normal", "HoldReleased", 2), ("Warning", "OrderRefused", 1), ("Warning", "RemovalHeld", 2)];
    expect_events(&scene, &uid, &reported).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_source_is_confirmed_by_an_annotation() {
    let scene = scene().await;
    let second = TestCluster::start().await.unwrap();
    second.bind(&second.user("discoverer").unwrap(), &discoverer_rights().unwrap()).await.unwrap();
    second.namespace("team1").await.unwrap();
    offer(&scene, 1).await;
    put(&second, &svc("team1", "second", &[("http", 80)])).await.unwrap();
    put(&second, &slice_of("team1", "second", "a", 7 << 8, 3)).await.unwrap();
    scene.gimbal.admin().post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let uid = uid_of(&scene, "node02").await;
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 1).await;
    agent.process.terminate(Duration::from_secs(5)).await.unwrap();
    let agent = scene.discoverer("node02", &second, writer.port, &[]).unwrap();
    expect_log(&agent.process, &["no stream to the writer", "Incarnation"]).await.unwrap();
    let object = expect_condition(&scene, "node02", "Stalled", ["True", "IncarnationRefused"]).await;
    let refused = object["status"]["refusedIncarnation"].as_str().unwrap().to_owned();
    let words = expect_events(&scene, &uid, &[("Warning", "IncarnationRefused", 1)]).await;
    assert!(words[0].contains(&format!("{CONFIRM}={refused}")), "{words:?}");

    annotate(&scene, CONFIRM, "11111111-2222-3333-4444-555555555555").await;
    expect_answer(&scene, CONFIRM, "11111111-2222-3333-4444-555555555555", "Refused").await;
    annotate(&scene, CONFIRM, &refused).await;
    expect_answer(&scene, CONFIRM, &refused, "Done").await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-second", 3).await.unwrap();
    let kind = |reason| ("Warning", reason, 1);
    let reported = [kind("IncarnationRefused"), kind("OrderRefused"), ("Normal", "IncarnationConfirmed", 1)];
    expect_events(&scene, &uid, &reported).await;
}
