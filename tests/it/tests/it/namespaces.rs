//! Mapped, missing and deleted namespaces.

use gimbal_testkit::eventually;
use gimbal_tests::{Mirror, SOON, Scene, slice_of, svc};
use serde_json::json;

async fn offer(scene: &Scene, namespace: &str, name: &str) {
    scene.source.namespace(namespace).await.unwrap();
    scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of(namespace, name, "v4", 7, 3)).await.unwrap();
}

/// Begins to delete a namespace, as its controller would, which these clusters do not have: the namespace becomes
/// terminating, then its objects are deleted. `finalize_namespace` ends the deletion.
async fn delete_namespace(scene: &Scene, name: &str) {
    let api = scene.gimbal.admin();
    let path = format!("/api/v1/namespaces/{name}");
    api.delete(&path).await.unwrap();
    for objects in ["/api/v1", "/apis/discovery.k8s.io/v1"] {
        for plural in ["services", "endpointslices"] {
            let collection = format!("{objects}/namespaces/{name}/{plural}");
            // Not every group has every kind.
            for object in api.items(&collection).await.unwrap_or_default() {
                let object = object["metadata"]["name"].as_str().unwrap();
                api.delete(&format!("{collection}/{object}")).await.unwrap();
            }
        }
    }
}

async fn finalize_namespace(scene: &Scene, name: &str) {
    let api = scene.gimbal.admin();
    let path = format!("/api/v1/namespaces/{name}");
    let mut namespace = api.get(&path).await.unwrap();
    namespace["spec"]["finalizers"] = json!([]);
    api.put(&format!("{path}/finalize"), &namespace).await.unwrap();
    eventually("the namespace is gone", SOON, async || match api.get(&path).await {
        Err(error) if error.code == 404 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_comes_goes_and_comes_again_is_taken_up_each_time() {
    let scene = Scene::start().await.unwrap();
    offer(&scene, "team2", "web").await;
    offer(&scene, "team2", "api").await;
    offer(&scene, "team1", "web").await;
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let (ask_writer, ask_agent) = (scene.ask(&writer).unwrap(), agent.ask());
    // The writer's own knowledge, not the API server's answer to a write: no write is tried.
    let known = "namespace team2 does not exist in the Gimbal cluster";
    let missing = async || {
        for ask in [&ask_writer, &ask_agent] {
            for name in ["web", "api"] {
                ask.expect_rejected("node02", "team2", name, "NAMESPACE_MISSING").await.unwrap();
                eventually(known, SOON, async || {
                    let status = ask.status("node02", "team2", name)?;
                    anyhow::ensure!(status["message"] == known, "it is {status}");
                    Ok::<_, anyhow::Error>(())
                })
                .await
                .unwrap();
            }
        }
    };
    let there = async || {
        for name in ["web", "api"] {
            Mirror::expect_count(&scene.gimbal, "team2", &format!("node02-{name}"), 3).await.unwrap();
            for ask in [&ask_writer, &ask_agent] {
                ask.expect_synced("node02", "team2", name).await.unwrap();
            }
        }
    };

    missing().await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    // No write is sent to a namespace that is known to be missing.
    assert!(scene.writes_since(0).await.unwrap().iter().all(|write| !write.contains("team2")));
    scene.gimbal.namespace("team2").await.unwrap();
    there().await;

    for _ in 0..2 {
        delete_namespace(&scene, "team2").await;
        missing().await;
        // Nothing is written back while it is terminating, and other namespaces are served.
        let services = scene.gimbal.admin().items("/api/v1/namespaces/team2/services").await.unwrap();
        assert_eq!(services.len(), 0);
        finalize_namespace(&scene, "team2").await;
        missing().await;
        let mark = scene.gimbal.audit_mark().await.unwrap();
        scene.put(&slice_of("team1", "web", "v4", 20, 5)).await.unwrap();
        Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 5).await.unwrap();
        scene.put(&slice_of("team1", "web", "v4", 7, 3)).await.unwrap();
        Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
        let writes = scene.writes_since(mark).await.unwrap();
        assert_eq!(writes.len(), 2, "team2 is left alone: {writes:?}");
        scene.gimbal.namespace("team2").await.unwrap();
        there().await;
    }

    // Deleted in the source while its namespace is missing: no write is pending any more.
    delete_namespace(&scene, "team2").await;
    missing().await;
    scene.remove("team2", "web").await.unwrap();
    eventually("it is forgotten", SOON, async || match ask_writer.status("node02", "team2", "web") {
        Ok(status) if status.is_null() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    ask_writer.expect_backend("node02", "one is rejected", |backend| backend["rejected"] == "1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_publishes_where_its_policy_lets_it() {
    let scene = Scene::start().await.unwrap();
    let forbidden = [
        ("kube-public", "kube-public", "Gimbal cluster's own"),
        ("sneaky", "kube-system", "Gimbal cluster's own"),
        ("secret", "team-secret", "denied to this backend"),
        ("elsewhere", "elsewhere", "not allowed to this backend"),
    ];
    for namespace in ["project-a", "team-b", "kube-public", "sneaky", "secret", "elsewhere"] {
        offer(&scene, namespace, "web").await;
    }
    for namespace in ["project-a", "team-a", "team-b", "team-secret", "secret", "sneaky", "elsewhere"] {
        scene.gimbal.namespace(namespace).await.unwrap();
    }
    let policy = "namespaces:
  allow: [\"team-*\", \"kube-*\"]
  deny: [\"*-secret\"]
  map: {project-a: team-a, secret: team-secret, sneaky: kube-system}";
    let writer = scene.writer(&scene.config(&["node02"], policy).unwrap(), &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team-a", "node02-web", 3).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team-b", "node02-web", 3).await.unwrap();
    let (ask_writer, ask_agent) = (scene.ask(&writer).unwrap(), agent.ask());
    for (source, target, why) in forbidden {
        for ask in [&ask_writer, &ask_agent] {
            let message = ask.expect_rejected("node02", source, "web", "NAMESPACE_FORBIDDEN").await.unwrap();
            assert!(message.contains(why) && message.contains(target), "{message}");
        }
    }
    let mirror = Mirror::get(&scene.gimbal, "team-a", "node02-web").await.unwrap().unwrap();
    let annotations = &mirror.service["metadata"]["annotations"];
    assert_eq!(annotations["gimbal.projectcontour.io/source"], "project-a/web", "it names the source's namespace");

    // A change of a forbidden Service is forbidden too, and its deletion ends the reject.
    scene.put(&slice_of("secret", "web", "v4", 9, 4)).await.unwrap();
    scene.remove("elsewhere", "web").await.unwrap();
    for ask in [&ask_writer, &ask_agent] {
        ask.expect_backend("node02", "three are rejected", |backend| backend["rejected"] == "3").await.unwrap();
        ask.expect_rejected("node02", "secret", "web", "NAMESPACE_FORBIDDEN").await.unwrap();
    }
    let writes = scene.writes_since(0).await.unwrap();
    let elsewhere = |write: &&String| !write.contains(" team-a/") && !write.contains(" team-b/");
    assert_eq!(writes.iter().filter(elsewhere).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(writes.len(), 4, "{writes:?}");
}
