//! The status of Backends, while somebody is in its way.

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{SOON, Scene, expect_log};
use serde_json::json;

use super::backend_events::{expect_published, offer};
use super::backend_objects::{BACKENDS, backend, expect_condition, scene, writer_at};
use super::backend_removal::expect_finalizer;

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_replaced_is_written_again() {
    let scene = scene().await;
    offer(&scene, 1).await;
    let api = scene.gimbal.admin();
    api.post(BACKENDS, &backend("node02", json!({}))).await.unwrap();
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_published(&scene, 1).await;
    expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    let nothing = json!({"status": {"conditions": null, "incarnation": null}});
    api.patch(&format!("{BACKENDS}/node02/status"), &nothing).await.unwrap();
    let object = expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    assert!(object["status"]["incarnation"].is_string(), "{object}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_refused_keeps_no_other_waiting() {
    let scene = scene().await;
    let api = scene.gimbal.admin();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-status"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["gimbal.projectcontour.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                "resources": ["backends/status"],
            }]},
            "validations": [{"expression": "object.metadata.name != 'node02'", "message": "not this one"}],
        },
    });
    api.post(policies, &policy).await.unwrap();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-status"}, "spec": {"policyName": "no-status", "validationActions": ["Deny"]},
    });
    api.post(&policies.replace("policies", "policybindings"), &binding).await.unwrap();
    for name in ["node02", "node03"] {
        api.post(BACKENDS, &backend(name, json!({}))).await.unwrap();
    }
    eventually("the policy is in force", SOON, async || {
        let status = json!({"status": {"services": 1}});
        match api.patch(&format!("{BACKENDS}/node02/status?dryRun=All"), &status).await {
            Ok(_) => Err("it lets the status through".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await
    .unwrap();
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    expect_log(&writer.process, &["cannot write the status or the finalizer", "node02"]).await.unwrap();
    // Its finalizer does not depend on that, so it is removed as safely as any other.
    expect_finalizer(&scene).await;
    expect_condition(&scene, "node03", "Ready", ["False", "NoAgent"]).await;
    let log = writer.process.log();
    let lines = log.lines().filter(|line| line.contains("cannot write the status")).count();
    assert_eq!(lines, 1, "{log}");
    let binding = format!("{}/no-status", policies.replace("policies", "policybindings"));
    api.delete(&binding).await.unwrap();
    expect_condition(&scene, "node02", "Ready", ["False", "NoAgent"]).await;
    expect_log(&writer.process, &["can be written again", "node02"]).await.unwrap();
}

/// Returns how often the status of a Backend was written since then.
async fn statuses_since(scene: &Scene, mark: usize) -> usize {
    let entries = scene.gimbal.audit_since(mark).await.unwrap();
    entries.iter().filter(|entry| entry.is_write() && entry.uri.contains("/backends/node02/status")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lacks_room_and_a_source_that_is_away_are_said_once() {
    let scene = scene().await;
    offer(&scene, 2).await;
    let api = scene.gimbal.admin();
    api.post(BACKENDS, &backend("node02", json!({"quota": {"services": 1}}))).await.unwrap();
    let writer = writer_at(&scene, free_port().unwrap(), &[]).await;
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_condition(&scene, "node02", "QuotaExceeded", ["True", "NoRoom"]).await;
    api.patch(&format!("{BACKENDS}/node02"), &json!({"spec": {"quota": null}})).await.unwrap();
    expect_condition(&scene, "node02", "QuotaExceeded", ["False", "Room"]).await;
    expect_published(&scene, 2).await;
    expect_condition(&scene, "node02", "Synced", ["True", "Written"]).await;
    expect_condition(&scene, "node02", "SourceFresh", ["True", "SourceHeard"]).await;

    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene.source.stop_apiserver().unwrap();
    expect_condition(&scene, "node02", "SourceFresh", ["False", "SourceUnread"]).await;
    assert_eq!(statuses_since(&scene, mark).await, 1);
    expect_published(&scene, 2).await;
    scene.source.start_apiserver().await.unwrap();
    expect_condition(&scene, "node02", "SourceFresh", ["True", "SourceHeard"]).await;
    assert_eq!(statuses_since(&scene, mark).await, 2);
}
