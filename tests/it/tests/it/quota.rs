//! Quotas of a backend, with real binaries: what is published stays, what is over quota waits, and other backends are
//! not affected.

use gimbal_testkit::eventually;
use gimbal_tests::{Mirror, SOON, Scene, expect_metric, metric, slice_of, svc};
use serde_json::Value;

async fn offer(scene: &Scene, name: &str, first: u32, count: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "v4", first, count)).await.unwrap();
}

async fn reload(scene: &Scene, admin_port: u16, policy: &str) {
    let taken = metric(admin_port, "gimbal_writer_config_reloads_total", "taken").await.unwrap();
    scene.config(&["node02"], policy).unwrap();
    expect_metric(admin_port, "gimbal_writer_config_reloads_total", "taken", taken + 1.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_a_quota_waits_for_room_and_what_stands_stays() {
    let scene = Scene::start().await.unwrap();
    offer(&scene, "m1", 10, 3).await;
    offer(&scene, "m2", 20, 3).await;
    let config = scene.config(&["node02"], "quota: {services: 2, endpoints: 8}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    for name in ["node02-m1", "node02-m2"] {
        Mirror::expect_count(&scene.gimbal, "team1", name, 3).await.unwrap();
    }
    // In the order of names it would be the first.
    offer(&scene, "a0", 30, 1).await;
    let (ask, ask_agent) = (scene.ask(&writer).unwrap(), agent.ask());
    for ask in [&ask, &ask_agent] {
        let message = ask.expect_rejected("node02", "team1", "a0", "QUOTA").await.unwrap();
        assert!(
            message.contains("services") && message.contains("would be 3") && message.contains("is 2"),
            "{message}"
        );
    }
    let figures = |backend: &Value| {
        let policy = &backend["policy"];
        policy["services"]["used"] == "2" && policy["services"]["limit"] == "2" && policy["waitingForRoom"] == "1"
    };
    ask.expect_backend("node02", "the figures are shown", figures).await.unwrap();
    let quota = |what: &'static str| format!("backend=\"node02\",measure=\"{what}\"");
    expect_metric(writer.admin_port, "gimbal_writer_backend_quota_used", &quota("endpoints"), 6.0).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_quota_limit", &quota("endpoints"), 8.0).await.unwrap();

    // The same after a restart of both: published Services keep their place.
    let port = writer.port;
    drop(agent);
    drop(writer);
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let (ask, ask_agent) = (scene.ask(&writer).unwrap(), agent.ask());
    ask_agent.expect_rejected("node02", "team1", "a0", "QUOTA").await.unwrap();
    ask.expect_synced("node02", "team1", "m2").await.unwrap();
    assert_eq!(scene.writes_since(mark).await.unwrap(), Vec::<String>::new());

    // Growth waits, and what is published stays as it is.
    scene.put(&slice_of("team1", "m1", "v4", 10, 7)).await.unwrap();
    let message = ask_agent.expect_rejected("node02", "team1", "m1", "QUOTA").await.unwrap();
    assert!(message.contains("endpoints") && message.contains("would be 10"), "{message}");
    Mirror::expect_count(&scene.gimbal, "team1", "node02-m1", 3).await.unwrap();
    // A lowered quota removes nothing.
    reload(&scene, writer.admin_port, "quota: {services: 1, endpoints: 1}").await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-m2", 3).await.unwrap();
    scene.put(&slice_of("team1", "m2", "v4", 20, 2)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-m2", 2).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-m1", 3).await.unwrap();
    // Room is taken up at once.
    reload(&scene, writer.admin_port, "quota: {services: 2, endpoints: 8}").await;
    scene.remove("team1", "m2").await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-m1", 7).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-a0", 1).await.unwrap();
    for name in ["m1", "a0"] {
        ask_agent.expect_synced("node02", "team1", name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paced_backend_loses_no_change_and_slows_no_other() {
    let scene = Scene::start().await.unwrap();
    for n in 0..12 {
        offer(&scene, &format!("s{n}"), 10 + n, 1).await;
    }
    let config = scene.config(&["slow", "fast"], "").unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    let paced = text.replace("- name: slow\n", "- name: slow\n  quota: {changesPerSecond: 2}\n");
    std::fs::write(&config, paced).unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let slow = scene.discoverer("slow", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "slow-s0", 1).await.unwrap();
    let fast = scene.discoverer("fast", &scene.source, writer.port, &[]).unwrap();
    for n in 0..12 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("fast-s{n}"), 1).await.unwrap();
    }
    let ask = scene.ask(&writer).unwrap();
    let waits = ask.backend("slow").unwrap();
    assert!(waits["pending"] != "0" && waits["rejected"].is_null(), "it waits, and nothing is rejected: {waits}");
    // Deleted while it waits to be created, or after: either way nothing of it is left.
    for n in 0..12 {
        scene.remove("team1", &format!("s{n}")).await.unwrap();
    }
    for backend in ["fast", "slow"] {
        eventually("nothing is left", SOON, async || {
            let services = scene.gimbal.admin().items("/api/v1/namespaces/team1/services").await?;
            let names = services.iter().filter_map(|service| service["metadata"]["name"].as_str());
            let left: Vec<&str> = names.filter(|name| name.starts_with(backend)).collect();
            anyhow::ensure!(left.is_empty(), "{left:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await
        .unwrap();
    }
    drop((slow, fast));
}
