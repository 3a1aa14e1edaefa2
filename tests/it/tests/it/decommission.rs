//! The removal of a backend, ordered by an admin.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_testkit::process::free_port;
use gimbal_tests::{Grpcurl, Mirror, Scene, expect_log, expect_metric, gimbalctl, put, slice_of, svc};
use serde_json::{Value, json};

async fn filled(scene: &Scene) {
    for number in 0..6_u32 {
        let name = format!("web{number}");
        scene.put(&svc("team1", &name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", &name, "a", number << 8, 10)).await.unwrap();
    }
}

fn decommission(client: &Grpcurl, request: &Value) -> anyhow::Result<Value> {
    client.call("AdminService/Decommission", request)
}

/// Returns every object except for the backend's.
async fn others(scene: &Scene, backend: &str) -> BTreeMap<String, String> {
    let mut all = scene.published().await.unwrap();
    all.retain(|name, _| !name.contains(&format!("/{backend}-")));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_long_gone_is_removed_wholly_and_nothing_else() {
    let scene = Scene::start().await.unwrap();
    filled(&scene).await;
    let both = scene.config(&["node02", "node021"], "").unwrap();
    let port = free_port().unwrap();
    let mut writer = scene.writer_at(port, &both, &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let mut gone = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let _stays = scene.discoverer("node021", &scene.source, port, &[]).unwrap();
    for number in 0..6 {
        for backend in ["node02", "node021"] {
            Mirror::expect_count(&scene.gimbal, "team1", &format!("{backend}-web{number}"), 10).await.unwrap();
        }
    }
    // A foreign Service with a name and labels like a mirror's.
    let mut foreign = svc("team1", "node02-foreign", &[("http", 80)]);
    foreign["metadata"]["labels"] = json!({"gimbal.projectcontour.io/backend": "node02"});
    put(&scene.gimbal, &foreign).await.unwrap();
    let foreign = async || scene.gimbal.admin().get("/api/v1/namespaces/team1/services/node02-foreign").await.unwrap();
    let before = (foreign().await, others(&scene, "node02").await);

    // Refused while the backend is configured, and from a backend.
    let dry = json!({"backend": "node02", "dry_run": true});
    let error = decommission(&client, &dry).unwrap_err().to_string();
    assert!(error.contains("FailedPrecondition") && error.contains("is configured"), "{error}");
    let backend = Grpcurl::tls(&scene.pki, &scene.pair("node02").unwrap(), port);
    let error = decommission(&backend, &dry).unwrap_err().to_string();
    assert!(error.contains("PermissionDenied"), "{error}");

    // The agent ends, the backend is removed from the file, and a new writer knows it only by its objects. It writes
    // slowly, so that it can be killed half way.
    gone.process.kill().unwrap();
    writer.process.kill().unwrap();
    let one = scene.config(&["node021"], "").unwrap();
    writer = scene.writer_at(port, &one, &["--write-qps", "3"]).await.unwrap();
    let listed = |backend: &Value| backend["trouble"].as_str().is_some_and(|text| text.contains("decommissioned"));
    client.expect_backend("node02", "is known by its objects", listed).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let preview = decommission(&client, &dry).unwrap();
    assert_eq!(
        (&preview["services"], &preview["endpointSlices"], &preview["endpoints"]),
        (&json!("6"), &json!("6"), &json!("60"))
    );
    let error = decommission(&client, &json!({"backend": "node02", "id": "other"})).unwrap_err().to_string();
    assert!(error.contains("FailedPrecondition") && error.contains("dry_run"), "{error}");
    assert_eq!(scene.writes_since(mark).await.unwrap(), [""; 0], "a preview writes nothing");

    let order = json!({"backend": "node02", "id": preview["id"]});
    // A person does what the dry run prints.
    let ctl = |words: &str| gimbalctl(&scene, port, words).unwrap();
    let shown = ctl("decommission --backend node02 --dry-run").out;
    let next = shown.lines().find_map(|line| line.strip_prefix("next: gimbalctl ")).unwrap();
    let (next, _) = next.split_once(" removes").unwrap();
    assert_eq!(next, format!("decommission --backend node02 --id {}", preview["id"].as_str().unwrap()));
    let begun = ctl(next).out;
    assert!(begun.starts_with("to remove: 6 Services, 6 slices with 60 endpoints"), "{begun}");
    let error = decommission(&client, &order).unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");
    let under_way = |backend: &Value| {
        let left = &backend["decommission"]["services"];
        left.as_str().is_some_and(|left| left != "6")
    };
    client.expect_backend("node02", "is on its way", under_way).await.unwrap();
    // Half way: the next writer knows the order.
    writer.process.kill().unwrap();
    let writer = scene.writer_at(port, &one, &[]).await.unwrap();
    expect_log(&writer.process, &["the backend is decommissioned", "node02"]).await.unwrap();
    for number in 0..6 {
        let name = format!("node02-web{number}");
        Mirror::expect_gone(&scene.gimbal, "team1", &name).await.unwrap();
        let writes = scene.writes_since(mark).await.unwrap();
        let of = |write: &&String| write.contains(&format!("/{name}"));
        let order: Vec<&str> = writes.iter().filter(of).filter_map(|write| write.split(' ').nth(1)).collect();
        assert_eq!(order, ["endpointslices", "services"], "slices first, once: {writes:?}");
    }
    let (foreign_now, others_now) = (foreign().await, others(&scene, "node02").await);
    assert_eq!((foreign_now, others_now), before, "nothing of anyone else's changed");
    let left = scene.published().await.unwrap();
    assert_eq!(left.keys().filter(|name| name.contains("/node02-")).count(), 1, "only the foreign one: {left:?}");
    gimbal_testkit::eventually("what was kept of it is gone", Duration::from_secs(10), async || {
        let kept = scene.gimbal.admin().items("/api/v1/namespaces/kube-system/configmaps").await?;
        let there = kept.iter().any(|map| map["metadata"]["name"] == "gimbal-backend-node02");
        anyhow::ensure!(!there, "it is there");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    assert!(client.backend("node02").is_err(), "it is not known any more");

    // The backend can come back later.
    let writer_port = writer.port;
    let both = scene.config(&["node02", "node021"], "").unwrap();
    drop(writer);
    let _writer = scene.writer_at(writer_port, &both, &[]).await.unwrap();
    let _back = scene.discoverer("node02", &scene.source, writer_port, &[]).unwrap();
    for number in 0..6 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-web{number}"), 10).await.unwrap();
    }
}
