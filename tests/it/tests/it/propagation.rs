//! The writer's own measure of how long changes take, beside a stopwatch.

use std::time::Instant;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Mirror, SOON, Scene, expect_metric, metric, slice_of, svc};
use jiff::Timestamp;
use serde_json::{Value, json};

const SUM: &str = "gimbal_propagation_seconds_sum";
const COUNT: &str = "gimbal_propagation_seconds_count";
/// An answer of the API server arrives at the writer a little later than the change at those who watch.
const AFTER_SHOWN: f64 = 0.25;

/// Returns a slice of `web` with this number of endpoints, and when its change began.
fn caused(endpoints: u32, cause: Timestamp) -> Value {
    let mut slice = slice_of("team1", "web", "a", 1, endpoints);
    slice["metadata"]["annotations"] = json!({"endpoints.kubernetes.io/last-change-trigger-time": cause.to_string()});
    slice
}

/// Changes the slice of `web`. Returns how many seconds it took until the mirror has it.
async fn stopwatch(scene: &Scene, slice: &Value, endpoints: usize) -> f64 {
    let begun = Instant::now();
    scene.put(slice).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", endpoints).await.unwrap();
    begun.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_leg_is_measured_as_a_stopwatch_does_and_a_snapshots_change_from_its_beginning() {
    let scene = Scene::start_alone().await.unwrap();
    scene.source.namespace("nowhere").await.unwrap();
    for (namespace, name) in [("team1", "web"), ("team1", "api")] {
        scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of(namespace, name, "a", 1, 3)).await.unwrap();
    }
    let config = scene.config(&["node02"], "").unwrap();
    let port = free_port().unwrap();
    let writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    for mirror in ["node02-web", "node02-api"] {
        Mirror::expect_count(&scene.gimbal, "team1", mirror, 3).await.unwrap();
    }
    assert_eq!(metric(writer.admin_port, COUNT, "").await.unwrap(), 0.0, "what was there is no change");

    // It begins in the source some time before its slice is written. Meanwhile, what is refused is counted apart.
    let (cause, begun) = (Timestamp::now(), Instant::now());
    scene.put(&svc("nowhere", "lost", &[("http", 80)])).await.unwrap();
    expect_metric(writer.admin_port, COUNT, "leg=\"total\",outcome=\"rejected\"", 1.0).await.unwrap();
    assert_eq!(metric(writer.admin_port, COUNT, "outcome=\"written\"").await.unwrap(), 0.0);
    let before = begun.elapsed().as_secs_f64();
    let took = stopwatch(&scene, &caused(5, cause), 5).await;
    let of = |leg: &str| format!("backend=\"node02\",leg=\"{leg}\",outcome=\"written\"");
    expect_metric(writer.admin_port, COUNT, &of("total"), 1.0).await.unwrap();
    let sum = async |leg: &str| metric(writer.admin_port, SUM, &of(leg)).await.unwrap();
    let (source, total) = (sum("source").await, sum("total").await);
    // Times travel in whole milliseconds.
    let least = before - 0.002;
    assert!((least..=before + took).contains(&source), "{source} s by the annotation, {before} s and {took} s");
    assert!((least..=before + took + AFTER_SHOWN).contains(&total), "{total} s measured, {before} s and {took} s");
    let legs = source + sum("agent").await + sum("queue").await + sum("apiserver").await;
    assert!((legs - total).abs() < 0.001, "{legs} s in legs, {total} s");
    assert!(sum("apiserver").await > 0.0, "an answer takes time");

    // A change that comes with the snapshot for the next writer is as old as it is.
    drop(writer);
    eventually("the discoverer has no stream", SOON, async || {
        let connected = metric(discoverer.admin_port, "gimbal_discoverer_connected", "").await?;
        anyhow::ensure!(connected < 0.5, "it has one");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let begun = Instant::now();
    scene.put(&slice_of("team1", "web", "a", 1, 7)).await.unwrap();
    let put = begun.elapsed().as_secs_f64();
    let writer = scene.writer_at(port, &config, &[]).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 7).await.unwrap();
    let took = begun.elapsed().as_secs_f64();
    expect_metric(writer.admin_port, COUNT, &of("total"), 1.0).await.unwrap();
    let total = metric(writer.admin_port, SUM, &of("total")).await.unwrap();
    let least = took - put - 1.5;
    assert!((least..=took + AFTER_SHOWN).contains(&total), "{total} s measured, {took} s by the stopwatch");
    assert_eq!(
        metric(writer.admin_port, COUNT, &of("source")).await.unwrap(),
        0.0,
        "the source did not say when it began"
    );
}
