//! docs/design.md#rule-6: if the Gimbal cluster's admission changes a written object, its form is accepted.

use gimbal_testkit::eventually;
use gimbal_tests::{Mirror, SOON, Scene, expect_log, expect_metric, slice_of, svc};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_that_adds_a_label_costs_one_write() {
    let scene = Scene::start().await.unwrap();
    let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "mesh"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["", "discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["services", "endpointslices"],
            }]},
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": "Object{metadata: Object.metadata{labels: {\"mesh.example/injected\": \"yes\"}}}",
                },
            }],
        },
    });
    let admin = scene.gimbal.admin();
    admin.post(policies, &policy).await.unwrap();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "mesh"}, "spec": {"policyName": "mesh"},
    });
    admin.post(&policies.replace("policies", "policybindings"), &binding).await.unwrap();
    // A policy takes effect after a moment.
    let probe = svc("team1", "probe", &[("http", 80)]);
    eventually("the admission policy is in force", SOON, async || {
        let answer = admin.post("/api/v1/namespaces/team1/services?dryRun=All", &probe).await?;
        anyhow::ensure!(answer["metadata"]["labels"].get("mesh.example/injected").is_some(), "no label was added");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();

    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let mirror = Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    assert_eq!(mirror.service["metadata"]["labels"]["mesh.example/injected"], "yes");

    // The next write passes the same queue, so a repeated write would have been made by then.
    scene.put(&svc("team1", "after", &[("http", 80)])).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-after", 0).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 3, "each object was written once: {writes:?}");

    expect_metric(writer.admin_port, "gimbal_writer_accepted_forms", "", 3.0).await.unwrap();
    expect_log(&writer.process, &["its form is accepted", "team1/node02-web"]).await.unwrap();

    // A change of the source causes one more write, and the API server's form of it is accepted again.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 4)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 4).await.unwrap();
    scene.put(&svc("team1", "last", &[("http", 80)])).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-last", 0).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 2, "{writes:?}");
}

/// A policy denies a label, on Services and slices alike: objects with it are not written, and removals are still made.
#[tokio::test(flavor = "multi_thread")]
async fn an_admission_that_denies_a_label_keeps_no_dead_endpoints() {
    let scene = Scene::start().await.unwrap();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "labels"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["", "discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["services", "endpointslices"],
            }]},
            "failurePolicy": "Fail",
            "validations": [{"expression": "!has(object.metadata.labels) || !('denied' in object.metadata.labels)"}],
        },
    });
    let admin = scene.gimbal.admin();
    admin.post(policies, &policy).await.unwrap();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "labels"}, "spec": {"policyName": "labels", "validationActions": ["Deny"]},
    });
    admin.post(&policies.replace("policies", "policybindings"), &binding).await.unwrap();
    let mut labelled = svc("team1", "web", &[("http", 80)]);
    labelled["metadata"]["labels"]["denied"] = json!("yes");
    eventually("the admission policy is in force", SOON, async || {
        let answer = admin.post("/api/v1/namespaces/team1/services?dryRun=All", &labelled).await;
        anyhow::ensure!(answer.is_err(), "the label was let in");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();

    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();

    scene.put(&labelled).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 2)).await.unwrap();
    let mirror = Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 2).await.unwrap();
    assert!(mirror.service["metadata"]["labels"].get("denied").is_none());
    expect_log(&writer.process, &["rejected", "team1/web", "Invalid"]).await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 4)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 4).await.unwrap();
}
