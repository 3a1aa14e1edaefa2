//! What admission leaves to programs where rights alone are too coarse.

use std::time::Duration;

use gimbal_deploy_tests::{Chart, deploy, of_kind};
use gimbal_testkit::{Rights, TestCluster, eventually};
use serde_json::{Value, json};

use super::server::install;

const BACKENDS: &str = "/apis/gimbal.projectcontour.io/v1alpha1/backends";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const FINALIZER: &str = "gimbal.projectcontour.io/backend";
const IN_FORCE_WITHIN: Duration = Duration::from_secs(30);

/// Of a Backend the writer changes its own finalizer and the status, although it may patch the object.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_changes_nothing_of_a_backend_but_its_finalizer() {
    let cluster = TestCluster::start().await.unwrap();
    install(&cluster, &deploy("crds").join("backend.yaml")).await;
    let user = cluster.user("writer").unwrap();
    let rights = Rights::deployed(&["gimbal-writer", "gimbal-writer-backends"]).unwrap().in_namespace("kube-system");
    cluster.bind(&user, &rights).await.unwrap();
    let chart = Chart::example("gimbal-writer", "minimal.yaml").set("backends=\"objects\"");
    let objects = chart.render().unwrap();
    let account = "'system:serviceaccount:gimbal:gimbal-writer'";
    let policy = of_kind(&objects, "ValidatingAdmissionPolicy").next().unwrap().to_string();
    assert!(policy.contains(account), "{policy}");
    // The account of a pod is a user of this cluster.
    let policy: Value = serde_json::from_str(&policy.replace(account, "'writer'")).unwrap();
    let api = cluster.admin();
    api.post(POLICIES, &policy).await.unwrap();
    let binding = of_kind(&objects, "ValidatingAdmissionPolicyBinding").next().unwrap();
    api.post(&POLICIES.replace("policies", "policybindings"), binding).await.unwrap();
    let backend = json!({
        "apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend",
        "metadata": {"name": "node02", "finalizers": ["example/other"], "annotations": {"a": "b"}},
        "spec": {"identity": "node02.example"},
    });
    api.post(BACKENDS, &backend).await.unwrap();
    let writer = cluster.api(&user).unwrap();
    let path = format!("{BACKENDS}/node02");
    let forged = json!({"spec": {"identity": "forged.example"}});
    eventually("the policy is in force", IN_FORCE_WITHIN, async || {
        match writer.patch(&format!("{path}?dryRun=All"), &forged).await {
            Ok(_) => Err("it is not".to_owned()),
            Err(refused) if refused.message.contains("does not change what a Backend says") => Ok(()),
            Err(refused) => Err(refused.to_string()),
        }
    })
    .await
    .unwrap();
    for (change, why) in [
        (json!({"metadata": {"annotations": {"gimbal.projectcontour.io/approve": "1"}}}), "no labels, annotations"),
        (json!({"metadata": {"annotations": null}}), "no labels, annotations"),
        (json!({"metadata": {"labels": {"a": "b"}}}), "no labels, annotations"),
        (json!({"metadata": {"finalizers": [FINALIZER]}}), "no finalizer of a Backend but its own"),
        (
            json!({"metadata": {"finalizers": ["example/other", "another/one"]}}),
            "no finalizer of a Backend but its own",
        ),
    ] {
        let refused = writer.patch(&path, &change).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{change}: {refused}");
    }
    let both = json!({"metadata": {"finalizers": ["example/other", FINALIZER]}});
    assert_eq!(writer.patch(&path, &both).await.unwrap()["metadata"]["finalizers"], both["metadata"]["finalizers"]);
    let status = writer.patch(&format!("{path}/status"), &json!({"status": {"services": 3}})).await.unwrap();
    assert_eq!(status["status"]["services"], 3);
    api.delete(&path).await.unwrap();
    let own = json!({"metadata": {"finalizers": ["example/other"]}});
    assert_eq!(writer.patch(&path, &own).await.unwrap()["metadata"]["finalizers"], own["metadata"]["finalizers"]);
    // Others are not concerned.
    api.patch(&path, &forged).await.unwrap();
    api.patch(&path, &json!({"metadata": {"finalizers": null}})).await.unwrap();
}
