//! `gimbalctl config diff`: what another configuration would change, before it does.

use gimbal_tests::{Mirror, Scene, gimbalctl, slice_of, svc};
use serde_json::{Value, json};

use super::backend_objects::{BACKENDS, backend, expect_condition, scene as scene_of_objects, writer_at};

async fn offer(scene: &Scene) {
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 7, 3)).await.unwrap();
}

/// Returns the answer for a text, one object for each backend that differs.
fn differ(scene: &Scene, port: u16, text: &str) -> Vec<Value> {
    let path = scene.path("next.yaml");
    std::fs::write(&path, text).unwrap();
    gimbalctl(scene, port, &format!("config diff {} -o json", path.display())).unwrap().json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compared_with_what_is_in_force() {
    let scene = Scene::start().await.unwrap();
    offer(&scene).await;
    let config = scene.config(&["node02"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let mirror = Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    let now = std::fs::read_to_string(&config).unwrap();
    assert_eq!(differ(&scene, writer.port, &now), [Value::Null; 0]);
    let denied = format!(
        "{now}  namespaces: {{deny: [team1]}}\n- name: node03\n  identity: spiffe://gimbal.example/backend/node03\n"
    );
    let found = differ(&scene, writer.port, &denied);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        (&found[0]["backend"], &found[0]["difference"], &found[0]["deleted"]),
        (&json!("node02"), &json!("changed"), &json!(2))
    );
    assert_eq!(found[0]["first"][0]["namespace"], "team1", "{found:?}");
    assert_eq!((&found[1]["backend"], &found[1]["difference"]), (&json!("node03"), &json!("added")));
    let refused =
        gimbalctl(&scene, writer.port, &format!("config diff {}", scene.path("other.yaml").display())).unwrap();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    std::fs::write(scene.path("other.yaml"), "backend: []").unwrap();
    let refused =
        gimbalctl(&scene, writer.port, &format!("config diff {}", scene.path("other.yaml").display())).unwrap();
    refused.expect_refusal("the configuration");
    mirror.expect_unchanged(&scene.gimbal, std::time::Duration::from_millis(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_as_objects_are_compared_one_by_one() {
    let scene = scene_of_objects().await;
    offer(&scene).await;
    let now = backend("node02", json!({}));
    scene.gimbal.admin().post(BACKENDS, &now).await.unwrap();
    let writer = writer_at(&scene, gimbal_testkit::process::free_port().unwrap(), &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    assert_eq!(differ(&scene, writer.port, &now.to_string()), [Value::Null; 0]);
    let next = backend("node02", json!({"namespaces": {"deny": ["team1"]}}));
    let found = differ(&scene, writer.port, &next.to_string());
    assert_eq!((found.len(), &found[0]["difference"], &found[0]["deleted"]), (1, &json!("changed"), &json!(2)));
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
}
