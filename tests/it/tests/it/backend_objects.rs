//! Backends that are objects of the kind Backend (`--backends objects`).

use std::path::PathBuf;

use gimbal_testkit::pki::backend_identity;
use gimbal_testkit::{Rights, eventually};
use gimbal_tests::{Mirror, SOON, Scene, Writer, expect_log, expect_metric, slice_of, svc};
use serde_json::{Value, json};

use super::backend_removal::expect_finalizer;

pub(crate) const BACKENDS: &str = "/apis/gimbal.projectcontour.io/v1alpha1/backends";
pub(crate) const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/backends.gimbal.projectcontour.io";
pub(crate) const OBJECTS: [&str; 2] = ["--backends", "objects"];

/// Installs the definitions, and grants the rights that go with them.
pub(crate) async fn scene() -> Scene {
    let scene = Scene::start().await.unwrap();
    scene.gimbal.install_crds().await.unwrap();
    let rights = Rights::deployed(&["gimbal-writer", "gimbal-writer-backends"]).unwrap().in_namespace("kube-system");
    scene.gimbal.bind(&scene.gimbal.user("writer").unwrap(), &rights).await.unwrap();
    scene
}

pub(crate) fn file(scene: &Scene) -> PathBuf {
    let path = scene.path("writer.yaml");
    std::fs::write(&path, "admins: [\"spiffe://gimbal.example/admin\"]\n").unwrap();
    path
}

async fn writer(scene: &Scene) -> Writer {
    scene.writer(&file(scene), &OBJECTS).await.unwrap()
}

/// Starts a writer on this port, with further flags.
pub(crate) async fn writer_at(scene: &Scene, port: u16, flags: &[&str]) -> Writer {
    scene.writer_at(port, &file(scene), &[&OBJECTS, flags].concat()).await.unwrap()
}

pub(crate) fn backend(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend", "metadata": {"name": name}, "spec": spec,
    });
    object["spec"]["identity"] = json!(backend_identity(name));
    object
}

/// Waits until a condition of a Backend has this status and this reason.
pub(crate) async fn expect_condition(scene: &Scene, name: &str, type_: &str, expected: [&str; 2]) -> Value {
    let mut found = Value::Null;
    eventually("the condition is as expected", SOON, async || {
        let object = scene.gimbal.admin().get(&format!("{BACKENDS}/{name}")).await?;
        let all = object["status"]["conditions"].as_array().into_iter().flatten();
        let is =
            all.clone().any(|one| one["type"] == type_ && one["status"] == expected[0] && one["reason"] == expected[1]);
        anyhow::ensure!(is, "{}", object["status"]);
        found = object;
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_is_admitted_changed_and_refused_by_its_object() {
    let scene = scene().await;
    let api = scene.gimbal.admin();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "v4", 7, 3)).await.unwrap();
    let writer = writer(&scene).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();

    // It is made while the writer runs. One beside it cannot be used: two have the same identity.
    api.post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let mut twin = backend("node03", json!({}));
    twin["spec"]["identity"] = json!(backend_identity("node02"));
    api.post(BACKENDS, &twin).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_objects", "in-force", 1.0).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_objects", "refused", 1.0).await.unwrap();
    let ready = expect_condition(&scene, "node02", "Ready", ["True", "InForce"]).await;
    assert_eq!(ready["status"]["observedGeneration"], 1);
    expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    let twin = expect_condition(&scene, "node03", "Stalled", ["True", "IdentityTaken"]).await;
    assert!(twin["status"].to_string().contains("backend node02 has the same"), "{twin}");

    // Its policy changes, and its status says of which generation it is.
    let path = format!("{BACKENDS}/node02");
    let deny = json!({"spec": {"namespaces": {"deny": ["team1"]}, "guard": {"maxDropPercent": 100}}});
    api.patch(&path, &deny).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-web").await.unwrap();
    api.patch(&path, &json!({"spec": {"namespaces": null}})).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    eventually("the status is about the third spec", SOON, async || {
        let object = api.get(&path).await?;
        anyhow::ensure!(object["status"]["observedGeneration"] == 3, "{}", object["status"]);
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();

    // It is deleted, and somebody takes its finalizer away: its agent is refused, and its objects stay.
    expect_finalizer(&scene).await;
    api.delete(&path).await.unwrap();
    expect_condition(&scene, "node02", "Removed", ["False", "AwaitsApproval"]).await;
    api.patch(&path, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    let gone = |backend: &Value| backend["connected"].is_null() && backend["policy"]["listed"].is_null();
    scene.ask(&writer).unwrap().expect_backend("node02", "it is refused and still shown", gone).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    expect_condition(&scene, "node03", "Stalled", ["False", "NotStalled"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_with_the_definition_stays_and_without_it_no_writer_starts() {
    let scene = scene().await;
    let api = scene.gimbal.admin();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "v4", 7, 3)).await.unwrap();
    api.post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let writer = writer(&scene).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();

    expect_finalizer(&scene).await;
    api.delete(DEFINITION).await.unwrap();
    // It is deleted along, and waits as any other.
    expect_condition(&scene, "node02", "Removed", ["False", "AwaitsApproval"]).await;
    api.patch(&format!("{BACKENDS}/node02"), &json!({"metadata": {"finalizers": null}})).await.unwrap();
    expect_log(&writer.process, &["Backend node02: it is gone, and was not deleted"]).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_objects", "kept", 1.0).await.unwrap();
    eventually("the definition is gone", SOON, async || {
        anyhow::ensure!(api.get(DEFINITION).await.is_err_and(|error| error.code == 404), "it is there");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    scene.put(&slice_of("team1", "web", "v4", 7, 4)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 4).await.unwrap();

    let kubeconfig = scene.gimbal.user("writer").unwrap();
    let start = async |config: PathBuf| {
        scene.writer_by(kubeconfig.kubeconfig(), &config, &OBJECTS).await.err().unwrap().to_string()
    };
    let error = start(file(&scene)).await;
    assert!(error.contains("the Gimbal cluster has no definition backends.gimbal.projectcontour.io"), "{error}");
    // Nor beside a second list of backends.
    let error = start(scene.config(&["node02"], "").unwrap()).await;
    assert!(error.contains("backends are objects (--backends objects)"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_refuses_what_cannot_be() {
    let scene = scene().await;
    let api = scene.gimbal.admin();
    for (name, spec, expected) in [
        ("Node02", json!({}), "Invalid value"),
        ("a.b", json!({}), "the name of a backend has lower-case letters"),
        ("a", json!({"onLoss": {"notReadyAfter": "10m", "drainAfter": "5m"}}), "drainAfter comes before notReadyAfter"),
        ("a", json!({"onLoss": {"notReadyAfter": "500ms"}}), "use at least 1s"),
        ("a", json!({"guard": {"window": "1d"}}), "spec.guard.window"),
        ("a", json!({"guard": {"maxDropPercent": 101}}), "less than or equal to 100"),
        ("a", json!({"addresses": {"allow": ["10.0.0.1"]}}), "write a range of addresses as in 10.0.0.0/8"),
        ("a", json!({"namespaces": {"allow": ["Team"]}}), "spec.namespaces.allow"),
        ("a", json!({"namespaces": {"map": {"a": "B"}}}), "spec.namespaces.map"),
        ("a", json!({"quota": {"changesPerSecond": 0}}), "greater than or equal to 1"),
        ("a", json!({"mode": "off"}), "supported values"),
        ("a", json!({"source": {}}), "name exactly one source: kubernetes or openstack"),
        ("a", json!({"source": {"kubernetes": {"kubeconfigSecret": {"name": "A"}}}}), "kubeconfigSecret.name"),
        (
            "a",
            json!({"source": {"openstack": {"credentialsSecret": {"name": "a"}, "mode": "all"}}}),
            "supported values",
        ),
    ] {
        let error = api.post(BACKENDS, &backend(name, spec.clone())).await.unwrap_err();
        assert!(error.code == 422 && error.message.contains(expected), "{spec}: {error}");
    }
    let mut object = backend("a", json!({}));
    object["spec"]["identity"] = json!("*.example");
    let error = api.post(BACKENDS, &object).await.unwrap_err();
    assert!(error.message.contains("use one URI or DNS name"), "{error}");
    let example = include_str!("../../../../deploy/examples/backend.yaml");
    let example: Value = serde_saphyr::from_str(example).unwrap();
    let made = api.post(BACKENDS, &example).await.unwrap();
    assert_eq!(made["spec"], example["spec"], "nothing is dropped");
}
