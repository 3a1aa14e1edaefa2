//! The mass-change guard: a source loses much, and the published objects are kept.

use std::time::Duration;

use gimbal_testkit::process::free_port;
use gimbal_tests::{Grpcurl, Mirror, Scene, expect_log, expect_metric, gimbalctl, slice_of, svc};
use serde_json::{Value, json};

const HELD: &str = "the mass-change guard holds a removal";

/// Offers Services `web0`, `web1`... with `endpoints` endpoints each.
async fn fill(scene: &Scene, services: u32, endpoints: u32) {
    for number in 0..services {
        let name = format!("web{number}");
        scene.put(&svc("team1", &name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", &name, "a", number << 8, endpoints)).await.unwrap();
    }
}

async fn expect_all(scene: &Scene, services: std::ops::Range<u32>, endpoints: usize) -> Vec<Mirror> {
    let mut mirrors = Vec::new();
    for number in services {
        let name = format!("node02-web{number}");
        mirrors.push(Mirror::expect_count(&scene.gimbal, "team1", &name, endpoints).await.unwrap());
    }
    mirrors
}

async fn still_as_they_were(scene: &Scene, mirrors: &[Mirror]) {
    for mirror in mirrors {
        mirror.expect_unchanged(&scene.gimbal, Duration::from_millis(1)).await.unwrap();
    }
}

/// Waits until the backend's first held change removes this many endpoints, and returns it.
async fn held(client: &Grpcurl, endpoints: u64) -> Value {
    let wanted = endpoints.to_string();
    let what = format!("holds the removal of {endpoints} endpoints");
    let holds = |backend: &Value| {
        backend["connected"] == true
            && backend["complete"] == true
            && backend["heldChanges"][0]["endpointsRemoved"] == *wanted
    };
    let backend = client.expect_backend("node02", &what, holds).await.unwrap();
    assert!(backend["trouble"].as_str().unwrap().contains("mass-change guard"), "{backend}");
    backend["heldChanges"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drop_to_nothing_is_held_through_restarts_until_a_person_approves_it() {
    let scene = Scene::start().await.unwrap();
    fill(&scene, 5, 8).await;
    let config = scene.config(&["node02"], "").unwrap();
    let port = free_port().unwrap();
    let mut writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let mirrors = expect_all(&scene, 0..5, 8).await;

    // Everything is deleted while the agent is away, so that its next snapshot is complete and empty.
    discoverer.process.terminate(Duration::from_secs(5)).await.unwrap();
    for number in 0..5 {
        scene.remove("team1", &format!("web{number}")).await.unwrap();
    }
    let mut discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let change = held(&client, 40).await;
    assert_eq!((&change["endpointsBefore"], &change["services"]), (&json!("40"), &json!("5")), "{change}");
    let id = change["id"].as_str().unwrap().to_owned();
    still_as_they_were(&scene, &mirrors).await;
    let services = client.call("InspectionService/ListServices", &json!({"onlyTrouble": true})).unwrap();
    let services = services["services"].as_array().unwrap();
    assert_eq!(services.len(), 5);
    for service in services {
        assert_eq!(service["state"], "SERVICE_STATE_HELD", "{service}");
        assert_eq!(service["rejectReason"], "REJECT_REASON_HELD", "{service}");
        assert_eq!(service["endpoints"], "8", "{service}");
    }
    expect_log(&discoverer.process, &["the writer rejects a Service", "team1/web0", "Held"]).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_rejected", "reason=\"Held\"", 5.0).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_held_endpoints", "backend=\"node02\"", 40.0).await.unwrap();

    // A reconnecting agent with the same state does not approve the removal.
    discoverer.process.terminate(Duration::from_secs(5)).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    assert_eq!(held(&client, 40).await["id"], *id, "the agent's restart changed nothing");
    still_as_they_were(&scene, &mirrors).await;

    // Neither does a new writer that knows only the objects.
    writer.process.kill().unwrap();
    let writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let change = held(&client, 40).await;
    assert_eq!((&change["endpointsBefore"], &change["id"]), (&json!("40"), &json!(id)));
    still_as_they_were(&scene, &mirrors).await;

    // Only removals are held.
    scene.put(&svc("team1", "new", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "new", "a", 1000, 2)).await.unwrap();
    scene.put(&svc("team1", "web0", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web0", "a", 2000, 1)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-new", 2).await.unwrap();
    // The eight previous endpoints and the new one.
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 9).await.unwrap();
    still_as_they_were(&scene, &mirrors[1..]).await;

    let change = held(&client, 40).await;
    let approve = |id: &Value| client.call("AdminService/Approve", &json!({"backend": "node02", "id": id}));
    let error = approve(&json!("another")).unwrap_err().to_string();
    assert!(error.contains("NotFound") && error.contains("another"), "{error}");
    // A person does what `gimbalctl backends` prints.
    let shown = gimbalctl(&scene, port, "backends").unwrap().out;
    let line = shown.lines().find_map(|line| line.trim_start().strip_prefix("gimbalctl ")).unwrap();
    assert_eq!(line, format!("approve {} --backend node02", change["id"].as_str().unwrap()));
    let released = gimbalctl(&scene, port, line).unwrap();
    assert!(released.out.starts_with("released: "), "{released:?}");
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 1).await.unwrap();
    for number in 1..5 {
        Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
    }
    let well = |backend: &Value| backend.get("heldChanges").is_none() && backend.get("rejected").is_none();
    client.expect_backend("node02", "holds nothing any more", well).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_rejected", "", 0.0).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_held_endpoints", "", 0.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_drop_is_released_by_a_later_snapshot_that_still_says_so() {
    let scene = Scene::start().await.unwrap();
    fill(&scene, 10, 10).await;
    let config = scene.config(&["node02"], "guard: {window: 2s, quietTime: 2s}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_all(&scene, 0..10, 10).await;

    discoverer.process.terminate(Duration::from_secs(5)).await.unwrap();
    for number in 0..6 {
        scene.remove("team1", &format!("web{number}")).await.unwrap();
    }
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let line = expect_log(&writer.process, &[HELD, "node02"]).await.unwrap();
    assert!(line.contains("endpoints=60") && line.contains("before=100"), "{line}");
    for number in 0..6 {
        Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
    }
    expect_log(&writer.process, &["the held removal is released", "by=Snapshot"]).await.unwrap();
    expect_all(&scene, 6..10, 10).await;
    let well = |backend: &Value| backend.get("heldChanges").is_none() && backend.get("rejected").is_none();
    client.expect_backend("node02", "holds nothing any more", well).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_rejected", "", 0.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everyday_removals_never_meet_the_guard() {
    let scene = Scene::start().await.unwrap();
    fill(&scene, 2, 8).await;
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_all(&scene, 0..2, 8).await;
    // One of two small Services is removed, then the other is scaled to zero: all of the backend, but few endpoints.
    scene.remove("team1", "web0").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-web0").await.unwrap();
    scene.put(&slice_of("team1", "web1", "a", 0, 0)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web1", 0).await.unwrap();
    // A larger removal, though less than half of what exists even together with the earlier ones.
    for (name, first, count) in [("large", 3 << 8, 40), ("larger", 4 << 8, 99)] {
        scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", name, "a", first, count)).await.unwrap();
    }
    Mirror::expect_count(&scene.gimbal, "team1", "node02-large", 40).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-larger", 99).await.unwrap();
    // Unready pods do not count as removed, however many they are.
    let mut unready = slice_of("team1", "larger", "a", 4 << 8, 99);
    for endpoint in unready["endpoints"].as_array_mut().unwrap() {
        endpoint["conditions"] = json!({"ready": false, "serving": false, "terminating": false});
    }
    scene.put(&unready).await.unwrap();
    Mirror::expect_that(&scene.gimbal, "team1", "node02-larger", |mirror| {
        let there = mirror.addresses();
        anyhow::ensure!(there.len() == 99 && there.iter().all(|address| address.starts_with('!')), "{there:?}");
        Ok(())
    })
    .await
    .unwrap();
    scene.remove("team1", "large").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-large").await.unwrap();
    assert!(!writer.process.log().contains(HELD), "{}", writer.process.log_tail());
}

/// A drop that continues while the writer is killed again and again: each writer alone would see a small one.
#[tokio::test(flavor = "multi_thread")]
async fn killing_the_writer_does_not_get_a_drop_past_the_guard() {
    let scene = Scene::start().await.unwrap();
    fill(&scene, 12, 10).await;
    scene.put(&svc("team1", "large", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "large", "a", 99 << 8, 21)).await.unwrap();
    let config = scene.config(&["node02"], "guard: {window: 10m, quietTime: 1h}").unwrap();
    let port = free_port().unwrap();
    let mut writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let mut mirrors = expect_all(&scene, 0..12, 10).await;
    mirrors.push(Mirror::expect_count(&scene.gimbal, "team1", "node02-large", 21).await.unwrap());

    for numbers in [0..2, 2..4, 4..5] {
        for number in numbers {
            scene.remove("team1", &format!("web{number}")).await.unwrap();
            Mirror::expect_gone(&scene.gimbal, "team1", &format!("node02-web{number}")).await.unwrap();
        }
        writer.process.kill().unwrap();
        writer = scene.writer_at(port, &config, &[]).await.unwrap();
        let back = |backend: &Value| backend["connected"] == true && backend["complete"] == true;
        client.expect_backend("node02", "is back", back).await.unwrap();
    }
    // 50 of 141 have been removed. The next removal is less than half of the rest, and hardly above what is always
    // allowed, but it is held because of the earlier ones.
    scene.remove("team1", "large").await.unwrap();
    let change = held(&client, 21).await;
    assert_eq!(change["endpointsBefore"], "141", "{change}");
    still_as_they_were(&scene, &mirrors[5..]).await;

    // The hold is kept by the next writer: the id that a person saw is still valid.
    writer.process.kill().unwrap();
    let _writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let again = held(&client, 21).await;
    assert_eq!(again["id"], change["id"]);
    still_as_they_were(&scene, &mirrors[5..]).await;
    let answer = client.call("AdminService/Approve", &json!({"backend": "node02", "id": change["id"]})).unwrap();
    assert_eq!(answer["servicesReleased"], "1");
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-large").await.unwrap();
    still_as_they_were(&scene, &mirrors[5..12]).await;
}

/// A node controller that is cut off from its nodes marks every endpoint not ready at once.
#[tokio::test(flavor = "multi_thread")]
async fn with_readiness_too_many_that_are_not_ready_at_once_stay_ready_until_a_person_approves_it() {
    let scene = Scene::start().await.unwrap();
    fill(&scene, 2, 15).await;
    let writer = scene.writer(&scene.config(&["node02"], "guard: {readiness: true}").unwrap(), &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let mirrors = expect_all(&scene, 0..2, 15).await;
    for number in 0..2 {
        let mut slice = slice_of("team1", &format!("web{number}"), "a", number << 8, 15);
        for endpoint in slice["endpoints"].as_array_mut().unwrap() {
            endpoint["conditions"] = json!({"ready": false, "serving": false, "terminating": false});
        }
        scene.put(&slice).await.unwrap();
    }
    // Some may have become not ready before, up to the number that is always allowed.
    let holds = |backend: &Value| backend["heldChanges"][0]["readiness"] == true;
    let backend = client.expect_backend("node02", "keeps endpoints ready", holds).await.unwrap();
    let change = &backend["heldChanges"][0];
    assert!(change["message"].as_str().unwrap().contains("keeps ready"), "{change}");
    let explained = client
        .call("InspectionService/Explain", &json!({"target": {"namespace": "team1", "name": "node02-web1"}}))
        .unwrap()
        .to_string();
    assert!(explained.contains("keeps ready") && explained.contains("guard"), "{explained}");
    mirrors[1].expect_unchanged(&scene.gimbal, Duration::from_millis(500)).await.unwrap();
    client.call("AdminService/Approve", &json!({"backend": "node02", "id": change["id"]})).unwrap();
    for number in 0..2 {
        let name = format!("node02-web{number}");
        Mirror::expect_that(&scene.gimbal, "team1", &name, |mirror| {
            let there = mirror.addresses();
            anyhow::ensure!(there.len() == 15 && there.iter().all(|address| address.starts_with('!')), "{there:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}
