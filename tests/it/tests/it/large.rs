//! Large Services, and many of them.

use std::collections::BTreeSet;

use gimbal_tests::{Mirror, Scene, expect_slices, offer_many, put, slice_of, svc};
use serde_json::json;

const SLICES: u32 = 50;
const EACH: u32 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn of_five_thousand_endpoints_one_is_replaced_by_one_write() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "big", &[("http", 80)])).await.unwrap();
    for part in 0..SLICES {
        scene.put(&slice_of("team1", "big", &format!("part-{part}"), 1 + part * EACH, EACH)).await.unwrap();
    }
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &["--comparison-interval", "1s"]).await.unwrap();
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let all = (SLICES * EACH) as usize;
    let mirror = Mirror::expect_count(&scene.gimbal, "team1", "node02-big", all).await.unwrap();
    let sizes = |mirror: &Mirror| {
        mirror.slices.iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&mirror), [EACH as usize; SLICES as usize]);
    writer.settled(1).await.unwrap();
    assert_eq!(scene.writes_since(0).await.unwrap().len(), 1 + SLICES as usize);

    // A pod is replaced by another, with another address.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let mut changed = slice_of("team1", "big", "part-17", 1 + 17 * EACH, EACH);
    changed["endpoints"][40]["addresses"] = json!(["10.200.0.1"]);
    scene.put(&changed).await.unwrap();
    let mirror = expect_address(&scene, "10.200.0.1", all).await;
    writer.settled(1).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(sizes(&mirror), [EACH as usize; SLICES as usize]);

    // A change that happens while the discoverer is down goes into the same slice.
    agent.process.kill().unwrap();
    let mark = scene.gimbal.audit_mark().await.unwrap();
    changed["endpoints"][41]["addresses"] = json!(["10.200.0.2"]);
    scene.put(&changed).await.unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_address(&scene, "10.200.0.2", all).await;
    writer.settled(1).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
}

async fn expect_address(scene: &Scene, address: &str, count: usize) -> Mirror {
    Mirror::expect_that(&scene.gimbal, "team1", "node02-big", |mirror| {
        let there = mirror.addresses();
        anyhow::ensure!(there.contains(&format!("{address}:8080")), "{address} is not there");
        anyhow::ensure!(there.len() == count, "{} endpoints", there.len());
        Ok(())
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_services_arrive_with_one_write_for_each_object() {
    const SERVICES: u32 = 1000;
    let scene = std::sync::Arc::new(Scene::start().await.unwrap());
    offer_many(&scene, SERVICES).await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &["--comparison-interval", "1s"]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_slices(&scene, SERVICES).await.unwrap();
    writer.settled(1).await.unwrap();
    let services = scene.gimbal.admin().items("/api/v1/services").await.unwrap();
    let names: BTreeSet<&str> = services.iter().filter_map(|s| s["metadata"]["name"].as_str()).collect();
    let missing: Vec<_> = (0..SERVICES).filter(|n| !names.contains(&*format!("node02-web-{n}"))).collect();
    assert_eq!(missing, Vec::<u32>::new());
    let writes = scene.writes_since(0).await.unwrap();
    assert_eq!(writes.len(), 2 * SERVICES as usize);
    assert!(
        writes.iter().all(|write| write.starts_with("create ") && write.ends_with(" 201")),
        "each at its first try"
    );

    // Each change costs one write.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    for n in [1, 500, 999] {
        let name = format!("web-{n}");
        put(&scene.source, &slice_of("team1", &name, "v4", 1 + n * 3, 4)).await.unwrap();
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-{name}"), 4).await.unwrap();
    }
    assert_eq!(scene.writes_since(mark).await.unwrap().len(), 3);
    let status = agent.ask().status("node02", "team1", "web-500").unwrap();
    assert_eq!(status["state"], "SERVICE_STATE_SYNCED", "{status}");
}
