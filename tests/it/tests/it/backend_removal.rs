//! A Backend that is deleted: everything stays until somebody approves its removal, and then nothing of it is left.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Mirror, SOON, Scene, expect_log, expect_metric, gimbalctl, slice_of, svc};
use serde_json::{Value, json};

use super::backend_events::{expect_events, expect_published, offer, uid_of};
use super::backend_objects::{BACKENDS, backend, expect_condition, scene, writer_at};
use super::backend_orders::{annotate, expect_answer};

const DECOMMISSION: &str = "gimbal.projectcontour.io/decommission";
const FINALIZER: &str = "gimbal.projectcontour.io/backend";

/// Waits until node02 has the finalizer.
pub(crate) async fn expect_finalizer(scene: &Scene) {
    eventually("node02 has the finalizer", SOON, async || {
        let object = scene.gimbal.admin().get(&format!("{BACKENDS}/node02")).await?;
        anyhow::ensure!(object["metadata"]["finalizers"] == json!([FINALIZER]), "{}", object["metadata"]);
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

/// Deletes node02, which stays. Returns what would be removed.
async fn delete(scene: &Scene) -> Value {
    expect_finalizer(scene).await;
    scene.gimbal.admin().delete(&format!("{BACKENDS}/node02")).await.unwrap();
    let object = expect_condition(scene, "node02", "Removed", ["False", "AwaitsApproval"]).await;
    object["status"]["removal"].clone()
}

fn id_of(removal: &Value) -> String {
    removal["id"].as_str().unwrap().to_owned()
}

/// Waits until node02 is gone, and everything that the writer kept of it.
async fn expect_gone(scene: &Scene) {
    eventually("node02 is gone", SOON, async || {
        let backends = scene.gimbal.admin().items(BACKENDS).await?;
        anyhow::ensure!(backends.is_empty(), "{backends:?}");
        let kept = scene.gimbal.admin().items("/api/v1/namespaces/kube-system/configmaps").await?;
        let kept = kept.iter().find(|map| map["metadata"]["name"] == "gimbal-backend-node02");
        anyhow::ensure!(kept.is_none(), "{kept:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

/// Waits until all of [`offer`] is there, and none of its endpoints is ready.
async fn expect_not_ready(scene: &Scene, services: u32) {
    for number in 0..services {
        let not_ready = |mirror: &Mirror| {
            let addresses = mirror.addresses();
            let are = addresses.len() == 8 && addresses.iter().all(|address| address.starts_with('!'));
            anyhow::ensure!(are, "{addresses:?}");
            Ok(())
        };
        let name = format!("node02-web{number}");
        Mirror::expect_that(&scene.gimbal, "team1", &name, not_ready).await.unwrap();
    }
}

/// Waits until none of the endpoints of [`offer`] is not ready.
async fn expect_ready(scene: &Scene, services: u32) {
    for number in 0..services {
        let ready = |mirror: &Mirror| {
            let addresses = mirror.addresses();
            anyhow::ensure!(addresses.iter().all(|address| !address.starts_with('!')), "{addresses:?}");
            Ok(())
        };
        let name = format!("node02-web{number}");
        Mirror::expect_that(&scene.gimbal, "team1", &name, ready).await.unwrap();
    }
}

/// Waits until the status of node02 says until when none of its endpoints is ready. Returns that.
async fn expect_until(scene: &Scene) -> String {
    let said = async || {
        let object = scene.gimbal.admin().get(&format!("{BACKENDS}/node02")).await?;
        let removal = &object["status"]["removal"];
        let until = removal["until"].as_str().ok_or_else(|| anyhow::anyhow!("{removal}"))?;
        anyhow::ensure!(removal["phase"] == "NotReady", "{removal}");
        Ok::<_, anyhow::Error>(until.to_owned())
    };
    eventually("the status says until when nothing is ready", SOON, said).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_backend_stays_in_force_until_its_removal_is_approved() {
    let scene = scene().await;
    offer(&scene, 3).await;
    let patient = json!({"onRemoval": {"notReadyFor": "1h"}});
    scene.gimbal.admin().post(BACKENDS, &backend("node02", patient)).await.unwrap();
    let uid = uid_of(&scene, "node02").await;
    let port = free_port().unwrap();
    let mut writer = writer_at(&scene, port, &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_published(&scene, 3).await;
    let removal = delete(&scene).await;
    let id = id_of(&removal);
    assert!(id.starts_with("node02-3-3-0-24-"), "{removal}");
    assert_eq!(removal["endpoints"], 24, "{removal}");
    assert_eq!(removal["first"].as_array().unwrap().len(), 3, "{removal}");
    let awaits = ("Warning", "RemovalAwaitsApproval", 1);
    let words = expect_events(&scene, &uid, &[awaits]).await;
    assert!(words[0].contains("3 Services") && words[0].contains(&format!("{DECOMMISSION}={id}")), "{words:?}");

    // It is as it was: what changes in the source is published, and another writer waits as well.
    scene.put(&slice_of("team1", "web0", "a", 0, 9)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 9).await.unwrap();
    writer.process.kill().unwrap();
    let writer = writer_at(&scene, port, &[]).await;
    scene.put(&slice_of("team1", "web0", "a", 0, 8)).await.unwrap();
    expect_published(&scene, 3).await;
    annotate(&scene, DECOMMISSION, "node02-1-1-0-8").await;
    let why = expect_answer(&scene, DECOMMISSION, "node02-1-1-0-8", "Refused").await;
    assert!(why.contains(&id), "{why}");
    expect_published(&scene, 3).await;

    annotate(&scene, DECOMMISSION, &id).await;
    // Everything is there and not ready, over a restart of the writer, for as long as the spec says.
    let until = expect_until(&scene).await;
    let refused = ("Warning", "OrderRefused", 1);
    let waits = ("Warning", "NotReadyBeforeRemoval", 1);
    let words = expect_events(&scene, &uid, &[awaits, refused, waits]).await;
    assert!(words[2].contains(&until), "{words:?}");
    expect_not_ready(&scene, 3).await;
    let client = scene.ask(&writer).unwrap();
    let shown = |backend: &Value| backend["decommission"]["removedInMs"].is_string();
    client.expect_backend("node02", "says when it is removed", shown).await.unwrap();
    drop(writer);
    let writer = writer_at(&scene, port, &[]).await;
    expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
    expect_not_ready(&scene, 3).await;
    let enough = json!({"spec": {"onRemoval": {"notReadyFor": "0s"}}});
    scene.gimbal.admin().patch(&format!("{BACKENDS}/node02"), &enough).await.unwrap();
    for number in 0..3 {
        Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
    }
    expect_gone(&scene).await;
    let done = [("Normal", "Decommissioning", 1), ("Normal", "Drained", 1)];
    expect_events(&scene, &uid, &[awaits, refused, waits, done[0], done[1]]).await;
    // Its agent is still there, and refused.
    let client = scene.ask(&writer).unwrap();
    let known = client.call("InspectionService/ListBackends", &json!({})).unwrap();
    assert!(known["backends"].is_null(), "it is not known any more: {known}");

    // One that is made anew is another one.
    scene.gimbal.admin().post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let other = uid_of(&scene, "node02").await;
    expect_published(&scene, 3).await;
    expect_finalizer(&scene).await;
    // Nothing was reported of it before its own deletion, or that would be there, too: Events are written in their order.
    scene.gimbal.admin().delete(&format!("{BACKENDS}/node02")).await.unwrap();
    expect_events(&scene, &other, &[awaits]).await;
}

/// What a person has seen is what goes: other Services, however many, need another approval.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_about_the_services_that_were_shown() {
    let scene = scene().await;
    offer(&scene, 3).await;
    let unguarded = json!({"guard": {"maxDropPercent": 100}});
    scene.gimbal.admin().post(BACKENDS, &backend("node02", unguarded)).await.unwrap();
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 3).await;
    let shown = delete(&scene).await;
    for number in 0..3_u32 {
        let name = format!("pay{number}");
        scene.put(&svc("team1", &name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", &name, "a", (number + 8) << 8, 8)).await.unwrap();
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-{name}"), 8).await.unwrap();
        scene.remove("team1", &format!("web{number}")).await.unwrap();
        Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
    }
    annotate(&scene, DECOMMISSION, &id_of(&shown)).await;
    let why = expect_answer(&scene, DECOMMISSION, &id_of(&shown), "Refused").await;
    let pay: Vec<String> = (0..3).map(|number| format!("team1/node02-pay{number}")).collect();
    eventually("the status names what would go", SOON, async || {
        let object = scene.gimbal.admin().get(&format!("{BACKENDS}/node02")).await?;
        let removal = &object["status"]["removal"];
        anyhow::ensure!(removal["first"] == json!(pay) && why.contains(&id_of(removal)), "{removal} {why}");
        anyhow::ensure!(removal["services"] == shown["services"] && removal["endpoints"] == shown["endpoints"]);
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    for number in 0..3 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-pay{number}"), 8).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_removes_a_deleted_backend_and_who_takes_the_finalizer_away_keeps_everything() {
    let scene = scene().await;
    offer(&scene, 2).await;
    let api = scene.gimbal.admin();
    let object = backend("node02", json!({"onRemoval": {"notReadyFor": "0s"}}));
    api.post(BACKENDS, &object).await.unwrap();
    let port = free_port().unwrap();
    let writer = writer_at(&scene, port, &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_published(&scene, 2).await;
    let refused = gimbalctl(&scene, port, "decommission --backend node02 --dry-run").unwrap();
    refused.expect_refusal("delete its object");

    // By mistake. Without its finalizer the object goes, and what is published stays for the next one.
    delete(&scene).await;
    api.patch(&format!("{BACKENDS}/node02"), &json!({"metadata": {"finalizers": null}})).await.unwrap();
    let gone = |backend: &Value| backend["connected"].is_null() && backend["policy"]["listed"].is_null();
    scene.ask(&writer).unwrap().expect_backend("node02", "it is refused and still shown", gone).await.unwrap();
    expect_published(&scene, 2).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();
    api.post(BACKENDS, &object).await.unwrap();
    expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    assert_eq!(scene.writes_since(mark).await.unwrap(), [""; 0]);

    delete(&scene).await;
    let shown = gimbalctl(&scene, port, "decommission --backend node02 --dry-run").unwrap().out;
    let next = shown.lines().find_map(|line| line.strip_prefix("next: gimbalctl ")).unwrap();
    gimbalctl(&scene, port, next.split_once(" removes").unwrap().0).unwrap();
    for number in 0..2 {
        Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
    }
    expect_gone(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_writer_wrote_is_not_removed_and_a_backend_of_nothing_goes_at_once() {
    let scene = scene().await;
    offer(&scene, 2).await;
    // Another writer, with a namespace of its own, publishes it.
    let config = scene.config(&["node02"], "").unwrap();
    let port = free_port().unwrap();
    let other = scene.writer_at(port, &config, &[]).await.unwrap();
    let mut agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_published(&scene, 2).await;
    agent.process.terminate(Duration::from_secs(5)).await.unwrap();
    drop(other);
    scene.gimbal.admin().delete("/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02").await.unwrap();

    for name in ["node02", "node03"] {
        scene.gimbal.admin().post(BACKENDS, &backend(name, json!({}))).await.unwrap();
    }
    let _writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    expect_finalizer(&scene).await;
    let uid = uid_of(&scene, "node02").await;
    for name in ["node02", "node03"] {
        scene.gimbal.admin().delete(&format!("{BACKENDS}/{name}")).await.unwrap();
    }
    expect_condition(&scene, "node02", "Removed", ["False", "OfAnotherWriter"]).await;
    expect_events(&scene, &uid, &[("Warning", "RemovalRefused", 1)]).await;
    eventually("node03 is gone", SOON, async || {
        let backends = scene.gimbal.admin().items(BACKENDS).await?;
        anyhow::ensure!(backends.len() == 1, "{backends:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    annotate(&scene, DECOMMISSION, "node02-2-2-0-16").await;
    let why = expect_answer(&scene, DECOMMISSION, "node02-2-2-0-16", "Refused").await;
    assert!(why.contains("belongs to another writer"), "{why}");
    expect_published(&scene, 2).await;
}

/// Consumers have let go of it, somebody noticed, and it is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_made_anew_while_it_is_not_ready_has_lost_nothing() {
    let scene = scene().await;
    offer(&scene, 2).await;
    let api = scene.gimbal.admin();
    let object = backend("node02", json!({"onRemoval": {"notReadyFor": "1h"}}));
    api.post(BACKENDS, &object).await.unwrap();
    let port = free_port().unwrap();
    let writer = writer_at(&scene, port, &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_published(&scene, 2).await;
    let removal = delete(&scene).await;
    annotate(&scene, DECOMMISSION, &id_of(&removal)).await;
    expect_condition(&scene, "node02", "Removed", ["False", "NotReady"]).await;
    expect_not_ready(&scene, 2).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();
    api.patch(&format!("{BACKENDS}/node02"), &json!({"metadata": {"finalizers": null}})).await.unwrap();
    api.post(BACKENDS, &object).await.unwrap();
    expect_log(&writer.process, &["the removal of this backend was approved, and is over", "services=2"])
        .await
        .unwrap();
    expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    expect_ready(&scene, 2).await;
    let writes = scene.writes_since(mark).await.unwrap();
    assert!(writes.iter().all(|write| !write.starts_with("delete") && !write.starts_with("create")), "{writes:?}");
}

/// Another object is not the one that was approved, however little it admits: what it finds was not shown.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_not_about_the_next_object_of_the_name() {
    let scene = scene().await;
    offer(&scene, 2).await;
    let api = scene.gimbal.admin();
    let path = format!("{BACKENDS}/node02");
    api.post(BACKENDS, &backend("node02", json!({"onRemoval": {"notReadyFor": "1h"}}))).await.unwrap();
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 2).await;
    let removal = delete(&scene).await;
    annotate(&scene, DECOMMISSION, &id_of(&removal)).await;
    expect_until(&scene).await;
    expect_not_ready(&scene, 2).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();
    api.patch(&path, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    let quarantined = json!({"mode": "quarantine", "onRemoval": {"notReadyFor": "0s"}});
    api.post(BACKENDS, &backend("node02", quarantined)).await.unwrap();
    let over = ["the removal of this backend was approved, and is over", "another one has its name", "services=2"];
    expect_log(&writer.process, &over).await.unwrap();
    let object = expect_condition(&scene, "node02", "Synced", ["False", "Quarantined"]).await;
    assert!(object["status"]["removal"].is_null(), "{}", object["status"]);
    expect_not_ready(&scene, 2).await;
    assert_eq!(scene.writes_since(mark).await.unwrap(), [""; 0], "what is in quarantine stays as it is");
    api.patch(&path, &json!({"spec": {"mode": "admit"}})).await.unwrap();
    expect_ready(&scene, 2).await;
}

/// Which is what a person does with a command that is refused: `kubectl annotate KEY-`, and the same once more.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_was_refused_is_given_again_as_its_event_says() {
    let scene = scene().await;
    offer(&scene, 1).await;
    let quick = json!({"onRemoval": {"notReadyFor": "0s"}});
    scene.gimbal.admin().post(BACKENDS, &backend("node02", quick)).await.unwrap();
    let uid = uid_of(&scene, "node02").await;
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 1).await;
    expect_finalizer(&scene).await;
    let path = format!("{BACKENDS}/node02");
    scene.gimbal.admin().delete(&path).await.unwrap();
    let object = expect_condition(&scene, "node02", "Removed", ["False", "AwaitsApproval"]).await;
    let id = id_of(&object["status"]["removal"]);
    annotate(&scene, DECOMMISSION, "node02-1-1-0-8").await;
    let why = expect_answer(&scene, DECOMMISSION, "node02-1-1-0-8", "Refused").await;
    assert!(why.contains(&format!("`kubectl annotate backend node02 {DECOMMISSION}-`")), "{why}");
    let kinds = [("Warning", "RemovalAwaitsApproval", 1), ("Warning", "OrderRefused", 1)];
    expect_events(&scene, &uid, &kinds).await;
    // Both at once, faster than the writer looks.
    let remove = json!({"metadata": {"annotations": {DECOMMISSION: null}}});
    scene.gimbal.admin().patch(&path, &remove).await.unwrap();
    annotate(&scene, DECOMMISSION, "node02-1-1-0-8").await;
    expect_events(&scene, &uid, &[kinds[0], ("Warning", "OrderRefused", 2)]).await;
    annotate(&scene, DECOMMISSION, &id).await;
    expect_gone(&scene).await;
}
