//! What `gimbalctl adopt` does not take, and says why.

use gimbal_testkit::eventually;
use gimbal_tests::{Mirror, SOON, expect_metric, metric, slice_of, svc};
use serde_json::{Value, json};

use super::stage::{MARK, Stage};

/// Returns the rows of a table, each cell parted from the next by one space.
fn rows(shown: &str) -> Vec<String> {
    shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// What an agent knew before it was killed says nothing about what the original has found since then.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_writer_does_not_know_the_source_endpoints_stay() {
    let stage = Stage::start().await;
    let (gimbal, admin) = (&stage.scene.gimbal, stage.scene.gimbal.admin());
    stage.scene.put(&slice_of("team1", "web", "v4", 7, 2)).await.unwrap();
    let (writer, mut agent) = stage.programs("endpointslices").await;
    stage.expect_conflicts(&writer).await;
    let (id, _) = stage.next(writer.port, "--dry-run");
    stage.gimbalctl(writer.port, &format!("--id {id} --wait 8")).expect_refusal("one object is not taken yet");
    let ask = stage.scene.ask(&writer).unwrap();
    ask.expect_synced("node02", "team1", "web").await.unwrap();

    agent.process.kill().unwrap();
    ask.expect_backend("node02", "its agent is gone", |backend| backend["connected"] != true).await.unwrap();
    let path = format!("/api/v1/namespaces/team1/endpoints/{}", stage.offered[0].name);
    let mut endpoints = admin.get(&path).await.unwrap();
    let fourth = json!({"ip": "10.0.0.10"});
    endpoints["subsets"][0]["addresses"].as_array_mut().unwrap().push(fourth);
    admin.put(&path, &endpoints).await.unwrap();
    let (id, shown) = stage.next(writer.port, "--drop-gone --dry-run");
    let waits =
        "Endpoints team1/node02-web wait the writer does not know the source now: no agent of the backend is connected";
    assert!(rows(&shown).contains(&waits.to_owned()), "{shown}");
    let waits = stage.gimbalctl(writer.port, &format!("--drop-gone --id {id} --wait 2"));
    waits.expect_refusal("one object is not taken yet");
    let there = admin.get(&path).await.unwrap();
    assert_eq!(there["subsets"][0]["addresses"].as_array().unwrap().len(), 4, "{there}");
    assert_eq!(there["metadata"]["labels"][MARK], Value::Null);

    // With an agent, what the source has is known, and a person may say that the rest goes.
    let _agent = stage.scene.discoverer("node02", &stage.scene.source, writer.port, &[]).unwrap();
    let known = |backend: &Value| backend["connected"] == true && backend["complete"] == true;
    ask.expect_backend("node02", "it is known again", known).await.unwrap();
    let (id, shown) = stage.next(writer.port, "--drop-gone --dry-run");
    let goes = "10.0.0.10 8080/TCP (http) goes: it is in no slice of the writer; 10.0.0.9 8080/TCP (http) goes";
    assert!(shown.contains(goes), "{shown}");
    assert_eq!(stage.gimbalctl(writer.port, &format!("--drop-gone --id {id}")).code, Some(0));
    Mirror::expect_that(gimbal, "team1", "node02-web", |mirror| {
        anyhow::ensure!(mirror.endpoints.is_none(), "{mirror:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// The original wrote no `appProtocol`, which consumers read before the annotations that it copied.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_port_would_speak_something_else_is_left_until_a_person_says_so() {
    let stage = Stage::start().await;
    let mut web = svc("team1", "web", &[("http", 80)]);
    web["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    stage.scene.put(&web).await.unwrap();
    let (writer, _agent) = stage.programs("endpointslices").await;
    stage.expect_conflicts(&writer).await;
    let change = "port 80/TCP gets appProtocol kubernetes.io/h2c";
    let shown = stage.gimbalctl(writer.port, "--dry-run").out;
    let left = |row: &String| row.starts_with(&format!("Service team1/node02-web leave {change}: "));
    assert!(rows(&shown).iter().any(left), "{shown}");
    assert!(shown.contains("to take: 3 Services, 3 Endpoints"), "{shown}");
    let shown = stage.gimbalctl(writer.port, "--change-app-protocol --dry-run").out;
    assert!(rows(&shown).contains(&format!("Service team1/node02-web take {change}")), "{shown}");
    assert!(shown.contains(" --change-app-protocol --id "), "{shown}");

    // With a policy that leaves the value out, nothing changes for consumers.
    let taken = metric(writer.admin_port, "gimbal_writer_config_reloads_total", "taken").await.unwrap();
    stage.scene.config(&["node02"], "appProtocol: {\"kubernetes.io/h2c\": null}").unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_config_reloads_total", "taken", taken + 1.0).await.unwrap();
    stage.expect_conflicts(&writer).await;
    let shown = stage.gimbalctl(writer.port, "--dry-run").out;
    assert!(rows(&shown).contains(&"Service team1/node02-web take".to_owned()), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_refuses_the_mark_keeps_no_other() {
    let stage = Stage::start().await;
    let admin = stage.scene.gimbal.admin();
    let api = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let refused =
        "object.metadata.name == 'node02-api' && 'gimbal.projectcontour.io/managed-by' in object.metadata.labels";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-mark"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["services"],
            }]},
            "failurePolicy": "Fail", "validations": [{"expression": format!("!({refused})")}],
        },
    });
    admin.post(api, &policy).await.unwrap();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-mark"}, "spec": {"policyName": "no-mark", "validationActions": ["Deny"]},
    });
    admin.post(&api.replace("policies", "policybindings"), &binding).await.unwrap();
    let api = "/api/v1/namespaces/team1/services/node02-api?dryRun=All";
    eventually("the admission policy is in force", SOON, async || {
        let answer = admin.patch(api, &json!({"metadata": {"labels": {MARK: "gimbal-writer"}}})).await;
        anyhow::ensure!(answer.is_err(), "the mark was let in");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();

    let (writer, _agent) = stage.programs("endpointslices").await;
    stage.expect_conflicts(&writer).await;
    let (id, _) = stage.next(writer.port, "--dry-run");
    let taken = stage.gimbalctl(writer.port, &format!("--id {id} --wait 8"));
    taken.expect_refusal("2 objects are not taken yet");
    let named = |row: &String| row.starts_with("Service team1/node02-api wait cannot change it: ");
    assert!(rows(&taken.out).iter().any(named), "{taken:?}");
    assert!(taken.out.contains("taken: 3 Services, 3 Endpoints"), "{taken:?}");
    for made in stage.offered.iter().filter(|made| made.name != "node02-api") {
        stage.is_ours(made).await;
    }
}
