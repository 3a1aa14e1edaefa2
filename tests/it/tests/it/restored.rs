//! A cluster whose etcd was restored to an older state: its versions go backwards.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_tests::{Discoverer, Mirror, Scene, Writer, expect_metric, metric, slice_of, svc};

async fn offer(scene: &Scene, name: &str, first: u32, endpoints: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "a", first << 8, endpoints)).await.unwrap();
}

/// Offers five Services of 30 endpoints each, and waits until they are published.
async fn mirrored(scene: &Scene) -> (Writer, Discoverer) {
    for number in 0..5 {
        offer(scene, &format!("web{number}"), number, 30).await;
    }
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    for number in 0..5 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-web{number}"), 30).await.unwrap();
    }
    (writer, discoverer)
}

/// Changes a Service, adds one, and changes another so often that all versions after a restoration were seen before.
async fn changed(scene: &Scene) {
    offer(scene, "later", 100, 3).await;
    offer(scene, "web0", 0, 31).await;
    for round in 0..50 {
        offer(scene, "web1", 1, 20 + round % 5).await;
    }
    offer(scene, "web1", 1, 30).await;
    is_changed(scene).await;
}

async fn is_changed(scene: &Scene) {
    Mirror::expect_count(&scene.gimbal, "team1", "node02-later", 3).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 31).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web1", 30).await.unwrap();
}

/// What the Gimbal cluster lost is created again, what is older there is written again, and later changes are
/// published.
#[tokio::test(flavor = "multi_thread")]
async fn a_gimbal_cluster_restored_to_an_older_state_is_made_as_the_sources_are() {
    let scene = Scene::start().await.unwrap();
    let (writer, _discoverer) = mirrored(&scene).await;
    let record = "/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02";
    let kept = async || scene.gimbal.admin().get(record).await.map(|record| record["data"]["incarnation"].clone());
    let before = eventually("the source is known", Duration::from_secs(20), kept).await.unwrap();
    // As in a backup from before the backend was known.
    scene.gimbal.admin().delete(record).await.unwrap();
    let backup = scene.gimbal.back_up().await.unwrap();
    changed(&scene).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();

    scene.gimbal.restore(&backup).await.unwrap();
    is_changed(&scene).await;
    let writes = scene.writes_since(mark).await.unwrap();
    let creates = writes.iter().filter(|write| write.starts_with("create")).count();
    assert!(creates < 10, "{creates} creates: {writes:?}");
    let others: Vec<_> = writes.iter().filter(|w| !["later", "web0", "web1"].iter().any(|n| w.contains(n))).collect();
    assert_eq!(others, [""; 0], "what is as it was is not written");
    offer(&scene, "web1", 1, 29).await;
    offer(&scene, "web2", 2, 29).await;
    scene.remove("team1", "later").await.unwrap();
    for name in ["node02-web1", "node02-web2"] {
        Mirror::expect_count(&scene.gimbal, "team1", name, 29).await.unwrap();
    }
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-later").await.unwrap();
    assert_eq!(metric(writer.admin_port, "gimbal_writer_comparison_differences", "").await.unwrap(), 0.0);
    let after = eventually("whose name it is, is kept again", Duration::from_secs(20), kept).await.unwrap();
    assert_eq!(after, before);
}

/// What the restored source does not have is removed; all else is compared by content and not written; and later
/// changes are published, although their versions were seen before.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_restored_to_an_older_state_loses_nothing_but_what_it_lost() {
    let scene = Scene::start().await.unwrap();
    let empty = scene.source.back_up().await.unwrap();
    let (writer, _discoverer) = mirrored(&scene).await;
    let backup = scene.source.back_up().await.unwrap();
    changed(&scene).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();

    scene.source.restore(&backup).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-later").await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 30).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    let others: Vec<_> = writes.iter().filter(|w| !w.contains("later") && !w.contains("web0")).collect();
    assert_eq!(others, [""; 0], "what is as it was is not written");
    offer(&scene, "web2", 2, 29).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web2", 29).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_held_endpoints", "", 0.0).await.unwrap();

    // If it is restored to a state without Services, the guard holds the removals.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene.source.restore(&empty).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_held_endpoints", "", 149.0).await.unwrap();
    assert_eq!(scene.writes_since(mark).await.unwrap(), [""; 0]);
    assert_eq!(metric(writer.admin_port, "gimbal_writer_comparison_differences", "").await.unwrap(), 0.0);
}
