//! What happens to a lost backend, by its policy, over restarts of the writer.

use std::time::Duration;

use gimbal_testkit::process::free_port;
use gimbal_tests::{Grpcurl, Mirror, SOON, Scene, expect_log, expect_metric, metric, slice_of, svc};
use serde_json::{Value, json};

/// Short, so that no stage is delayed by it.
const SHORT_GRACE: &[&str] = &["--loss-grace", "6s"];
const WEB: &str = "node02-web";
const API: &str = "node02-api";

async fn filled(scene: &Scene) {
    for (number, name) in ["web", "api"].into_iter().enumerate() {
        scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", name, "a", (number as u32) << 8, 30)).await.unwrap();
    }
}

/// Waits until each of the two Services has 30 endpoints, all ready or none.
async fn all(scene: &Scene, ready: bool) -> Vec<Mirror> {
    let mut mirrors = Vec::new();
    for name in [WEB, API] {
        let holds = |mirror: &Mirror| {
            let there = mirror.addresses();
            let as_wanted = there.iter().filter(|address| address.starts_with('!') != ready).count();
            anyhow::ensure!((there.len(), as_wanted) == (30, 30), "{there:?}");
            Ok(())
        };
        mirrors.push(Mirror::expect_that(&scene.gimbal, "team1", name, holds).await.unwrap());
    }
    mirrors
}

async fn unchanged(scene: &Scene, mirrors: &[Mirror]) {
    for mirror in mirrors {
        mirror.expect_unchanged(&scene.gimbal, Duration::from_millis(1)).await.unwrap();
    }
}

async fn stage(client: &Grpcurl, stage: &str) -> Value {
    let wanted = format!("LOSS_STAGE_{stage}");
    client.expect_backend("node02", &wanted, |backend| backend["loss"]["stage"] == *wanted).await.unwrap()
}

/// A backend goes for good: its endpoints become not ready, then are removed, while its Services stay, and the writer
/// is killed in each stage. The guard does not delay the operator's decision, and nothing flaps. Then the backend comes
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_backend_is_not_ready_then_drained_and_restored_when_it_is_back() {
    let scene = Scene::start().await.unwrap();
    filled(&scene).await;
    let config = scene.config(&["node02"], "onLoss: {notReadyAfter: 6s, drainAfter: 25s}").unwrap();
    let port = free_port().unwrap();
    let mut writer = scene.writer_at(port, &config, SHORT_GRACE).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let ready = all(&scene, true).await;
    stage(&client, "HOLD").await;
    let there = |backend: &Value| backend["loss"].get("disconnectedMs").is_none();
    client.expect_backend("node02", "is not lost", there).await.unwrap();

    discoverer.process.kill().unwrap();
    let gone = |backend: &Value| backend["loss"].get("disconnectedMs").is_some();
    client.expect_backend("node02", "is disconnected", gone).await.unwrap();
    unchanged(&scene, &ready).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();
    // The next writer does not know the desired state, but knows since when the backend is lost.
    writer.process.kill().unwrap();
    writer = scene.writer_at(port, &config, SHORT_GRACE).await.unwrap();
    let not_ready = all(&scene, false).await;
    assert_eq!(scene.writes_since(mark).await.unwrap().len(), 2, "one write for each slice");
    for (before, after) in ready.iter().zip(&not_ready) {
        assert_eq!(before.service, after.service, "the Service is as it was");
        assert_eq!(before.slices[0]["metadata"]["labels"], after.slices[0]["metadata"]["labels"]);
        assert_eq!(before.slices[0]["ports"], after.slices[0]["ports"]);
    }
    let backend = stage(&client, "NOT_READY").await;
    assert!(backend["trouble"].as_str().unwrap().contains("onLoss.notReadyAfter"), "{backend}");
    expect_log(&writer.process, &["the backend is lost", "stage=\"not-ready\""]).await.unwrap();
    let line = "backend=\"node02\",stage=\"not-ready\"";
    expect_metric(writer.admin_port, "gimbal_writer_backend_loss_stage", line, 1.0).await.unwrap();
    let kept =
        scene.gimbal.admin().get("/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02").await.unwrap();
    assert_eq!(kept["data"]["lostStage"], "not-ready", "{kept}");

    // Killed in this stage: nothing flaps, and the next stage comes in time.
    writer.process.kill().unwrap();
    writer = scene.writer_at(port, &config, SHORT_GRACE).await.unwrap();
    let backend = stage(&client, "NOT_READY").await;
    let lost: u64 = backend["loss"]["lostMs"].as_str().unwrap().parse().unwrap();
    let here: u64 = backend["loss"]["disconnectedMs"].as_str().unwrap_or("0").parse().unwrap();
    assert!(lost >= here + 6000, "it has been lost for longer than this writer runs: {backend}");
    assert_eq!(scene.writes_since(mark).await.unwrap().len(), 2, "a restart wrote");
    for name in [WEB, API] {
        Mirror::expect_count(&scene.gimbal, "team1", name, 0).await.unwrap();
    }
    stage(&client, "DRAINED").await;
    let drained = "gimbal_writer_backend_drained_endpoints";
    expect_metric(writer.admin_port, drained, "backend=\"node02\"", 60.0).await.unwrap();
    assert_eq!(metric(writer.admin_port, "gimbal_writer_backend_guard_holds_total", "").await.unwrap(), 0.0);

    // Killed once more, and the agent comes back to a writer that knows nothing.
    writer.process.kill().unwrap();
    let writer = scene.writer_at(port, &config, SHORT_GRACE).await.unwrap();
    stage(&client, "DRAINED").await;
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let back = all(&scene, true).await;
    for (before, after) in ready.iter().zip(&back) {
        assert_eq!(before.service["metadata"]["uid"], after.service["metadata"]["uid"], "the Service was never away");
    }
    assert_eq!(scene.writes_since(mark).await.unwrap().len(), 2, "one write for each slice");
    stage(&client, "HOLD").await;
    expect_log(&writer.process, &["the backend is back"]).await.unwrap();
}

/// The agent lives and its source does not: that counts if the policy says so, and is visible in any case.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_down_counts_although_its_agent_is_connected() {
    let scene = Scene::start().await.unwrap();
    filled(&scene).await;
    // A source without changes reports that it is alive about once a minute.
    let loss = "onLoss: {notReadyAfter: 1s, sourceStaleAfter: 100s}";
    let writer = scene.writer(&scene.config(&["node02"], loss).unwrap(), &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    all(&scene, true).await;
    scene.source.stop_apiserver().unwrap();
    let silent = async || {
        let backend = client.backend("node02")?;
        anyhow::ensure!(backend["loss"].get("sourceSilentMs").is_some(), "{backend}");
        Ok::<_, anyhow::Error>(backend)
    };
    let backend = gimbal_testkit::eventually("the source is silent", SOON * 5, silent).await.unwrap();
    assert_eq!(backend["connected"], true, "{backend}");
    all(&scene, false).await;
    expect_metric(writer.admin_port, "gimbal_writer_backend_source_silent", "", 1.0).await.unwrap();
    scene.source.start_apiserver().await.unwrap();
    all(&scene, true).await;
    stage(&client, "HOLD").await;
}

/// A reconnect within a few seconds writes nothing, not even saved state.
#[tokio::test(flavor = "multi_thread")]
async fn a_mere_reconnect_writes_nothing() {
    let scene = Scene::start().await.unwrap();
    filled(&scene).await;
    let config = scene.config(&["node02"], "onLoss: {notReadyAfter: 60s, drainAfter: 60s}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let ready = all(&scene, true).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02";
    let kept = async || scene.gimbal.admin().get(path).await.unwrap()["metadata"]["resourceVersion"].clone();
    let before = kept().await;
    discoverer.process.kill().unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    let back = |backend: &Value| backend["connected"] == json!(true) && backend["generation"] != json!("0");
    client.expect_backend("node02", "is back", back).await.unwrap();
    unchanged(&scene, &ready).await;
    assert_eq!(kept().await, before);
}
