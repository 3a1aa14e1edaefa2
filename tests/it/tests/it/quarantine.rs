//! For a backend in quarantine, writes are planned and shown, but not made until it is admitted.

use std::time::Duration;

use gimbal_tests::{Mirror, Scene, expect_metric, metric, slice_of, svc};
use serde_json::{Value, json};

async fn offer(scene: &Scene, name: &str, first: u32, count: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "v4", first, count)).await.unwrap();
}

async fn reload(scene: &Scene, admin_port: u16, policy: &str) {
    let taken = metric(admin_port, "gimbal_writer_config_reloads_total", "taken").await.unwrap();
    scene.config(&["node02"], policy).unwrap();
    expect_metric(admin_port, "gimbal_writer_config_reloads_total", "taken", taken + 1.0).await.unwrap();
}

fn plans(created: &'static str, changed: &'static str, deleted: &'static str) -> impl Fn(&Value) -> bool {
    let is = |count: &Value, wanted: &str| count == wanted || (wanted == "0" && count.is_null());
    move |backend| {
        let (policy, planned) = (&backend["policy"], &backend["policy"]["planned"]);
        policy["mode"] == "BACKEND_MODE_QUARANTINE"
            && is(&planned["created"], created)
            && is(&planned["changed"], changed)
            && is(&planned["deleted"], deleted)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_until_it_is_admitted_and_then_at_once() {
    let scene = Scene::start().await.unwrap();
    offer(&scene, "web", 7, 2).await;
    offer(&scene, "api", 10, 3).await;
    let writer = scene.writer(&scene.config(&["node02"], "mode: quarantine").unwrap(), &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let (ask, ask_agent) = (scene.ask(&writer).unwrap(), agent.ask());
    for name in ["web", "api"] {
        for ask in [&ask, &ask_agent] {
            ask.expect_rejected("node02", "team1", name, "QUARANTINED").await.unwrap();
        }
    }
    ask.expect_backend("node02", "it is planned", plans("4", "0", "0")).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_planned", "change=\"create\"", 4.0).await.unwrap();
    let source = json!({"source": {"backend": "node02", "key": {"namespace": "team1", "name": "web"}}});
    let explained = ask.call("InspectionService/Explain", &source).unwrap();
    let planned = explained["planned"].as_array().unwrap();
    let kinds: Vec<_> = planned.iter().map(|p| (p["verb"].as_str().unwrap(), p["kind"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("create", "Service"), ("create", "EndpointSlice")]);
    let diff = |n: usize| planned[n]["diff"].as_array().unwrap().clone();
    assert!(diff(0).contains(&json!("+ port http 80/TCP -> 8080")), "{planned:?}");
    assert!(diff(1).contains(&json!("+ endpoint 10.0.0.7 8080/TCP ready")), "{planned:?}");
    assert_eq!(scene.writes_since(0).await.unwrap(), Vec::<String>::new());

    reload(&scene, writer.admin_port, "").await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 2).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-api", 3).await.unwrap();
    for name in ["web", "api"] {
        ask_agent.expect_synced("node02", "team1", name).await.unwrap();
    }
    assert_eq!(scene.writes_since(0).await.unwrap().len(), 4);

    // A published backend: its objects stay as they are, and the planned writes are shown.
    reload(&scene, writer.admin_port, "mode: quarantine").await;
    let there = Mirror::get(&scene.gimbal, "team1", "node02-web").await.unwrap().unwrap();
    scene.put(&slice_of("team1", "web", "v4", 8, 2)).await.unwrap();
    scene.remove("team1", "api").await.unwrap();
    offer(&scene, "new", 20, 1).await;
    ask.expect_backend("node02", "it is planned", plans("2", "1", "2")).await.unwrap();
    let explained = ask.call("InspectionService/Explain", &source).unwrap();
    let lines = json!(["+ endpoint 10.0.0.9 8080/TCP ready", "- endpoint 10.0.0.7 8080/TCP ready"]);
    assert_eq!(explained["planned"][0]["diff"], lines, "{explained}");
    there.expect_unchanged(&scene.gimbal, Duration::from_secs(2)).await.unwrap();
    assert_eq!(scene.writes_since(0).await.unwrap().len(), 4);
    reload(&scene, writer.admin_port, "").await;
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &["10.0.0.8:8080", "10.0.0.9:8080"]).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-api").await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-new", 1).await.unwrap();
    assert_eq!(scene.writes_since(0).await.unwrap().len(), 9);
}
