//! Tests whose result depends on how fast servers answer: `cargo xtask test` runs them when everything else has ended.

use std::sync::Arc;
use std::time::Duration;

use gimbal_testkit::{ApiProxy, eventually};
use gimbal_tests::{SOON, Scene, expect_metric, expect_slices, metric, offer_many};

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_api_server_is_given_what_it_answers_in_time_and_more_when_it_recovers() {
    const SERVICES: u32 = 300;
    let scene = Arc::new(Scene::start_alone().await.unwrap());
    offer_many(&scene, SERVICES).await.unwrap();
    let proxy = ApiProxy::start(&scene.gimbal, &scene.gimbal.user("writer").unwrap()).await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let args = ["--comparison-interval", "1s", "--write-concurrency", "16", "--write-latency-target", "200ms"];
    let writer = scene.writer_through(&proxy, &config, &args).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_concurrency", "", 16.0).await.unwrap();

    // With sixteen concurrent writes the last one would be answered after 800 ms; with four, in time.
    proxy.slow_down(1, Duration::from_millis(50));
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    eventually("fewer go side by side", SOON, async || {
        let limit = metric(writer.admin_port, "gimbal_writer_concurrency", "").await?;
        anyhow::ensure!((1.0..=6.0).contains(&limit), "{limit}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    assert!(proxy.most_waiting() >= 12, "it began with many");
    let shown = metric(writer.admin_port, "gimbal_writer_write_latency_tolerated_seconds", "").await.unwrap();
    assert!(shown >= 0.2, "{shown}");

    proxy.recover();
    expect_slices(&scene, SERVICES).await.unwrap();
    writer.settled(1).await.unwrap();
    assert!(proxy.most_waiting() <= 12, "until it recovered, few waited there");
    expect_metric(writer.admin_port, "gimbal_writer_concurrency", "", 16.0).await.unwrap();
    assert_eq!(scene.writes_since(0).await.unwrap().len(), 2 * SERVICES as usize);
}
