//! The record of a backend, as a writer of another release leaves it.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Mirror, SOON, Scene, expect_log, slice_of, svc};
use serde_json::{Value, json};

const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02";
/// How long a writer may take to end when it is asked to.
const END: Duration = Duration::from_secs(10);

async fn offer(scene: &Scene, name: &str, first: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "a", first, 3)).await.unwrap();
}

async fn data(scene: &Scene) -> anyhow::Result<Value> {
    Ok(scene.gimbal.admin().get(RECORD).await?["data"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_is_too_old_for_a_record_publishes_and_removes_nothing() {
    let scene = Scene::start().await.unwrap();
    let (config, port) = (scene.config(&["node02"], "").unwrap(), free_port().unwrap());
    let mut writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    offer(&scene, "web", 1).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    let written = eventually("the record is there", SOON, async || data(&scene).await).await.unwrap();
    assert_eq!((&written["format"], &written["oldestReader"]), (&json!("2"), &json!("1")));

    writer.process.terminate(END).await.unwrap();
    let newer = json!({"data": {"format": "9", "oldestReader": "9", "later": "x"}});
    scene.gimbal.admin().patch(RECORD, &newer).await.unwrap();
    let writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let line = ["backend=node02", "is for programs that know format 9", "nothing of the backend is removed"];
    expect_log(&writer.process, &line).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let shown = |backend: &Value| {
        let trouble = backend["trouble"].as_str().unwrap_or_default();
        trouble.starts_with("nothing of it is removed: ConfigMap gimbal-backend-node02")
    };
    client.expect_backend("node02", "its record is the trouble", shown).await.unwrap();
    let web = Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    scene.remove("team1", "web").await.unwrap();
    offer(&scene, "api", 20).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-api", 3).await.unwrap();
    let held = |backend: &Value| backend["rejected"] == "1" && backend.get("pending").is_none();
    client.expect_backend("node02", "the removal is held", held).await.unwrap();
    web.expect_unchanged(&scene.gimbal, Duration::from_secs(3)).await.unwrap();
    let kept = data(&scene).await.unwrap();
    assert_eq!((&kept["oldestReader"], &kept["later"]), (&json!("9"), &json!("x")), "{kept}");
    let lines = writer.process.log().matches("the stored state of a backend is not for this writer").count();
    assert_eq!(lines, 1, "it is logged once");

    // The newer release lets this one use its record.
    scene.gimbal.admin().patch(RECORD, &json!({"data": {"oldestReader": "2"}})).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-web").await.unwrap();
    let kept = data(&scene).await.unwrap();
    assert_eq!((&kept["format"], &kept["later"]), (&json!("9"), &json!("x")), "{kept}");
    assert_eq!(kept["incarnation"], written["incarnation"]);
}
