//! gimbal-operator on a real API server, with the rights of deploy/rbac. No controller makes pods there, so tests say how
//! Deployments are.

mod alerts;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gimbal_certificates::{KeyedCertificate, PairFacts, make_authority};
use gimbal_testkit::cluster::Method;
use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::{Process, Rights, TestCluster, eventually};
use gimbal_tests::{SOON, expect_log, expect_metric};
use serde_json::{Value, json};

const BACKENDS: &str = "/apis/gimbal.projectcontour.io/v1alpha1/backends";
const ACCOUNTS: &str = "/api/v1/namespaces/gimbal-discovery/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/gimbal-discovery/secrets";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/gimbal-discovery/networkpolicies";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/gimbal-discovery/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/gimbal-discovery/leases";
const USER: &str = "user-1";
const NAME: &str = "gimbal-kubernetes-discoverer-node02";
const PAIR: &str = "gimbal-kubernetes-discoverer-node02-tls";

struct Stage {
    cluster: TestCluster,
    dir: tempfile::TempDir,
}

struct Operator {
    process: Process,
    admin_port: u16,
}

impl Stage {
    async fn start() -> Self {
        let cluster = TestCluster::start().await.unwrap();
        cluster.install_crds().await.unwrap();
        cluster.bind(&cluster.user(USER).unwrap(), &rights()).await.unwrap();
        // The Lease as an operator leaves it at a clean stop. Without it, the first one would wait for a lease duration.
        let lease = json!({"metadata": {"name": "gimbal-operator"}, "spec": {}});
        cluster.admin().post(LEASES, &lease).await.unwrap();
        let stage = Self { cluster, dir: tempfile::tempdir().unwrap() };
        stage.authority().await;
        stage
    }

    /// Makes another authority.
    async fn authority(&self) {
        let KeyedCertificate { certificate, key } =
            make_authority(None, std::time::Duration::from_secs(1 << 25)).unwrap();
        self.secret("gimbal-authority", &json!({"ca.crt": certificate, "ca.key": key.as_str()})).await;
    }

    /// Makes a Secret, or gives it another content.
    async fn secret(&self, name: &str, content: &Value) {
        let object = json!({"metadata": {"name": name}, "stringData": content});
        match self.cluster.admin().post(SECRETS, &object).await {
            Err(error) if error.code == 409 => {
                let change = json!({"stringData": content});
                self.cluster.admin().patch(&format!("{SECRETS}/{name}"), &change).await.unwrap();
            }
            made => drop(made.unwrap()),
        }
    }

    async fn backend(&self, name: &str, source: &Value) {
        self.backend_as(name, &format!("spiffe://gimbal.example/backend/{name}"), source).await;
    }

    async fn backend_as(&self, name: &str, identity: &str, source: &Value) {
        let object = json!({
            "apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend", "metadata": {"name": name},
            "spec": {"identity": identity, "source": source},
        });
        self.cluster.admin().post(BACKENDS, &object).await.unwrap();
    }

    fn operator(&self) -> Operator {
        self.operator_in("gimbal-discovery", USER)
    }

    fn operator_in(&self, namespace: &str, user: &str) -> Operator {
        let admin_port = free_port().unwrap();
        let args = [
            format!("--kubeconfig={}", self.cluster.user(user).unwrap().kubeconfig().display()),
            format!("--admin-listen=127.0.0.1:{admin_port}"),
            format!("--namespace={namespace}"),
            "--writer=https://writer.example:7443".into(),
            "--identity-prefix=spiffe://gimbal.example/backend/".into(),
            "--kubernetes-discoverer-image=registry.example/gimbal-kubernetes-discoverer:1".into(),
            "--openstack-discoverer-image=registry.example/gimbal-openstack-discoverer:1".into(),
            "--lease-duration=3s".into(),
        ];
        let log = self.dir.path().join(format!("operator-{admin_port}.log"));
        let name = "gimbal-operator";
        Operator { process: Process::start(name, &binary(name).unwrap(), &args, &log).unwrap(), admin_port }
    }

    async fn get(&self, collection: &str, name: &str) -> Option<Value> {
        match self.cluster.admin().get(&format!("{collection}/{name}")).await {
            Ok(object) => Some(object),
            Err(error) if error.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn patch(&self, collection: &str, name: &str, change: &Value) {
        self.cluster.admin().patch(&format!("{collection}/{name}"), change).await.unwrap();
    }

    /// Waits until an object is as expected.
    async fn until(&self, what: &str, (collection, name): (&str, &str), holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, SOON, async || {
            let object = self.get(collection, name).await.unwrap_or_default();
            if holds(&object) { Ok(object) } else { Err(format!("{object}")) }
        })
        .await
        .unwrap()
    }

    /// Waits until the condition of a Backend has this status and this reason.
    async fn until_condition(&self, name: &str, status: &str, reason: &str) -> Value {
        let holds = |object: &Value| {
            condition(object, "DiscovererReady").is_some_and(|one| one["status"] == status && one["reason"] == reason)
        };
        let object = self.until(&format!("{name} says {reason}"), (BACKENDS, name), holds).await;
        condition(&object, "DiscovererReady").unwrap().clone()
    }

    /// Waits until node02 has no object any more.
    async fn until_gone(&self) {
        for place in [(DEPLOYMENTS, NAME), (SECRETS, PAIR), (POLICIES, NAME), (ACCOUNTS, NAME)] {
            self.until(&format!("{place:?} is gone"), place, Value::is_null).await;
        }
    }

    /// Waits until the Events about a Backend have these reasons.
    async fn until_events(&self, uid: &str, reasons: &[&str]) {
        let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{uid}");
        eventually(&format!("the Events are {reasons:?}"), SOON, async || {
            let events = self.cluster.admin().items(&path).await?;
            let mut found: Vec<_> = events.iter().map(|event| event["reason"].as_str().unwrap_or_default()).collect();
            found.sort_unstable();
            anyhow::ensure!(found == reasons, "{events:?}");
            anyhow::Ok(())
        })
        .await
        .unwrap();
    }

    /// Says, as controllers would, that the pod of a Deployment is available.
    async fn make_available(&self) {
        let mut deployment = self.get(DEPLOYMENTS, NAME).await.unwrap();
        deployment["status"] = json!({
            "observedGeneration": deployment["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1,
        });
        self.cluster.admin().put(&format!("{DEPLOYMENTS}/{NAME}/status"), &deployment).await.unwrap();
    }

    /// Returns the writes of the operator after a mark, but for those of its Lease. Nothing was forbidden to it.
    async fn writes(&self, mark: usize) -> Vec<String> {
        self.writes_of(USER, mark).await
    }

    async fn writes_of(&self, user: &str, mark: usize) -> Vec<String> {
        let all = self.cluster.audit_since(mark).await.unwrap();
        let own: Vec<_> = all.into_iter().filter(|entry| entry.user == user).collect();
        assert!(own.iter().all(|entry| entry.code != 403), "{own:?}");
        let writes = own.iter().filter(|entry| entry.is_write() && entry.resource != "leases");
        writes.map(|entry| format!("{} {} {} {}", entry.verb, entry.resource, entry.name, entry.code)).collect()
    }
}

fn rights() -> Rights {
    Rights::deployed(&["gimbal-operator", "gimbal-operator-backends", "gimbal-operator-place"]).unwrap()
}

fn condition<'a>(backend: &'a Value, type_: &str) -> Option<&'a Value> {
    backend["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == type_)
}

fn kubernetes() -> Value {
    json!({"kubernetes": {"kubeconfigSecret": {"name": "node02-kubeconfig"}}})
}

fn content(deployment: &Value) -> &str {
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    annotations["gimbal.projectcontour.io/content"].as_str().unwrap_or_default()
}

fn text(secret: &Value, key: &str) -> String {
    String::from_utf8(STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_with_a_source_gets_its_discoverer_and_loses_it() {
    let stage = Stage::start().await;
    let operator = stage.operator();
    stage.backend("node02", &kubernetes()).await;
    // What the writer says of it stays beside what the operator says.
    let ready = json!({"type": "Ready", "status": "True", "reason": "InForce", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-11-29T00:00:00Z"});
    let applied = json!({
        "apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend", "metadata": {"name": "node02"},
        "status": {"services": 3, "conditions": [ready]},
    });
    let path = format!("{BACKENDS}/node02/status?fieldManager=gimbal-writer&force=true");
    let kinds = ("application/apply-patch+yaml", "application/json");
    stage.cluster.admin().exchange(Method::PATCH, &path, kinds, applied.to_string().into_bytes()).await.unwrap();
    stage.until_condition("node02", "False", "SecretMissing").await;
    assert_eq!(stage.get(DEPLOYMENTS, NAME).await, None);
    let uid = stage.get(BACKENDS, "node02").await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();

    stage.secret("node02-kubeconfig", &json!({"kubeconfig": "the first kubeconfig"})).await;
    let first = stage.until("it has a pod", (DEPLOYMENTS, NAME), |object| object.is_object()).await;
    for place in [(ACCOUNTS, NAME), (POLICIES, NAME), (SECRETS, PAIR), (DEPLOYMENTS, NAME)] {
        let object = stage.get(place.0, place.1).await.unwrap();
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"], "gimbal-operator");
        assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "Backend");
    }
    let pair = stage.get(SECRETS, PAIR).await.unwrap();
    let facts = PairFacts::read(&text(&pair, "tls.crt"), &text(&pair, "tls.key")).unwrap();
    assert_eq!(facts.names, ["spiffe://gimbal.example/backend/node02"]);
    stage.until_condition("node02", "False", "NotAvailable").await;
    stage.make_available().await;
    stage.until_condition("node02", "True", "Available").await;
    expect_metric(operator.admin_port, "gimbal_operator_backends", "ready", 1.0).await.unwrap();

    // Another kubeconfig and another source make another pod, and another authority does not; an edit is taken back.
    stage.secret("node02-kubeconfig", &json!({"kubeconfig": "the second kubeconfig"})).await;
    let second = stage.until("it is rolled", (DEPLOYMENTS, NAME), |object| content(object) != content(&first)).await;
    stage.authority().await;
    let another = |object: &Value| !object.is_null() && object["data"]["tls.crt"] != pair["data"]["tls.crt"];
    let next = stage.until("another pair is signed", (SECRETS, PAIR), another).await;
    let trusted = make_authority(None, std::time::Duration::from_secs(1 << 25)).unwrap().certificate;
    let both = format!("{trusted}{}", text(&next, "ca.crt"));
    stage.secret("gimbal-authority", &json!({"trust.crt": both})).await;
    let trusts = |object: &Value| object["data"]["ca.crt"] == STANDARD.encode(&both);
    stage.until("it trusts the writer's authority, too", (SECRETS, PAIR), trusts).await;
    let source = json!({"kubernetes": {"namespaces": ["team-*"]}});
    stage.patch(BACKENDS, "node02", &json!({"spec": {"source": source}})).await;
    let has = |object: &Value| object.to_string().contains("--namespaces=team-*");
    let flagged = stage.until("it has the flag", (DEPLOYMENTS, NAME), has).await;
    assert_eq!(content(&flagged), content(&second), "the pod reads its certificate again");
    stage.patch(DEPLOYMENTS, NAME, &json!({"spec": {"replicas": 0}})).await;
    stage.until("it has a pod again", (DEPLOYMENTS, NAME), |object| object["spec"]["replicas"] == 1).await;

    stage.patch(BACKENDS, "node02", &json!({"spec": {"source": null}})).await;
    stage.until_gone().await;
    let without = |object: &Value| condition(object, "DiscovererReady").is_none();
    let backend = stage.until("it says nothing of a discoverer", (BACKENDS, "node02"), without).await;
    assert_eq!(condition(&backend, "Ready"), Some(&ready));
    assert_eq!(backend["status"]["services"], 3);
    stage.patch(BACKENDS, "node02", &json!({"spec": {"source": kubernetes()}})).await;
    stage.until_condition("node02", "False", "NotAvailable").await;
    stage.cluster.admin().delete(&format!("{BACKENDS}/node02")).await.unwrap();
    stage.until_gone().await;
    stage.until_events(&uid, &["DiscovererChanged", "DiscovererMade", "DiscovererRemoved", "SecretMissing"]).await;
    let log = operator.process.log();
    let authority = stage.get(SECRETS, "gimbal-authority").await.unwrap();
    // Secrets travel in Base64.
    let encoded = |secret: &Value, key: &str| secret["data"][key].as_str().unwrap()[..40].to_owned();
    let keys = [encoded(&pair, "tls.key"), encoded(&next, "tls.key"), encoded(&authority, "ca.key")];
    let kubeconfigs =
        ["the first kubeconfig", "the second kubeconfig"].map(|text| [text.to_owned(), STANDARD.encode(text)]);
    for hidden in keys.iter().chain(kubeconfigs.as_flattened()).map(String::as_str).chain(["PRIVATE KEY", "panicked"]) {
        assert!(!log.contains(hidden), "{hidden}: {log}");
    }
    stage.writes(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_left_alone() {
    let stage = Stage::start().await;
    let admin = stage.cluster.admin();
    stage.secret("node02-kubeconfig", &json!({"kubeconfig": "one"})).await;
    // One of the name without the mark, and one with the label that belongs to no Backend.
    let account = json!({"metadata": {"name": NAME, "labels": {"team": "another"}}});
    let made = admin.post(ACCOUNTS, &account).await.unwrap();
    let labels = json!({"app.kubernetes.io/managed-by": "gimbal-operator"});
    let policy = json!({"metadata": {"name": "copied", "labels": labels}, "spec": {"podSelector": {}}});
    let copied = admin.post(POLICIES, &policy).await.unwrap();
    let _operator = stage.operator();
    stage.backend("node02", &kubernetes()).await;
    let said = stage.until_condition("node02", "False", "NameTaken").await;
    assert!(said["message"].as_str().unwrap().contains(&format!("ServiceAccount {NAME}")), "{said}");
    assert_eq!(stage.get(DEPLOYMENTS, NAME).await, None);
    assert_eq!(stage.get(ACCOUNTS, NAME).await.unwrap(), made);

    // No Backend gets another identity than its own, whatever else is wrong.
    stage.secret("thief-kubeconfig", &json!({"kubeconfig": "one"})).await;
    let source = json!({"kubernetes": {"kubeconfigSecret": {"name": "thief-kubeconfig"}}});
    stage.backend_as("thief", "spiffe://gimbal.example/admin", &source).await;
    stage.until_condition("thief", "False", "IdentityRefused").await;
    for (collection, name) in [(SECRETS, "thief-tls"), (DEPLOYMENTS, "thief"), (ACCOUNTS, "thief")] {
        assert_eq!(stage.get(collection, &format!("gimbal-kubernetes-discoverer-{name}")).await, None);
    }

    admin.delete(&format!("{ACCOUNTS}/{NAME}")).await.unwrap();
    stage.until_condition("node02", "False", "NotAvailable").await;
    admin.delete(&format!("{BACKENDS}/node02")).await.unwrap();
    stage.until_gone().await;
    assert_eq!(stage.get(POLICIES, "copied").await.unwrap(), copied);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_nothing_changed_writes_nothing() {
    let stage = Stage::start().await;
    stage.secret("node02-kubeconfig", &json!({"kubeconfig": "one"})).await;
    stage.backend("node02", &kubernetes()).await;
    let mut operator = stage.operator();
    stage.until_condition("node02", "False", "NotAvailable").await;
    stage.make_available().await;
    stage.until_condition("node02", "True", "Available").await;
    operator.process.terminate(SOON).await.unwrap();
    // Each object was made by one call. Whether there was time for an Event, too, is another question.
    let mut made = stage.writes(0).await;
    made.retain(|write| !write.contains(" events "));
    assert_eq!(made.iter().filter(|write| write.starts_with("create")).count(), 4, "{made:#?}");
    assert!(made.iter().all(|write| write.starts_with("create") || write.contains("backends/status")), "{made:#?}");

    let mark = stage.cluster.audit_mark().await.unwrap();
    let operator = stage.operator();
    expect_metric(operator.admin_port, "gimbal_operator_leading", "", 1.0).await.unwrap();
    expect_metric(operator.admin_port, "gimbal_operator_backends", "ready", 1.0).await.unwrap();
    assert_eq!(stage.writes(mark).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_may_not_be_deleted_keeps_no_other() {
    let stage = Stage::start().await;
    let admin = stage.cluster.admin();
    for name in ["node02", "node03"] {
        stage.secret(&format!("{name}-kubeconfig"), &json!({"kubeconfig": "one"})).await;
        let source = json!({"kubernetes": {"kubeconfigSecret": {"name": format!("{name}-kubeconfig")}}});
        stage.backend(name, &source).await;
    }
    let _operator = stage.operator();
    for name in ["node02", "node03"] {
        stage.until_condition(name, "False", "NotAvailable").await;
    }
    let api = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "stays"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["deployments"],
            }]},
            "failurePolicy": "Fail", "validations": [{"expression": format!("oldObject.metadata.name != '{NAME}'")}],
        },
    });
    admin.post(api, &policy).await.unwrap();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "stays"}, "spec": {"policyName": "stays", "validationActions": ["Deny"]},
    });
    let bindings = api.replace("policies", "policybindings");
    admin.post(&bindings, &binding).await.unwrap();
    eventually("the admission policy is in force", SOON, async || {
        let answer = admin.delete(&format!("{DEPLOYMENTS}/{NAME}?dryRun=All")).await;
        anyhow::ensure!(answer.is_err(), "it may be deleted");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    for name in ["node02", "node03"] {
        stage.patch(BACKENDS, name, &json!({"spec": {"source": null}})).await;
    }
    let third = NAME.replace("node02", "node03");
    for place in
        [(DEPLOYMENTS, third.as_str()), (SECRETS, PAIR), (POLICIES, NAME), (ACCOUNTS, NAME), (ACCOUNTS, &third)]
    {
        stage.until(&format!("{place:?} is gone"), place, Value::is_null).await;
    }
    assert!(stage.get(DEPLOYMENTS, NAME).await.is_some());
    admin.delete(&format!("{bindings}/stays")).await.unwrap();
    stage.until_gone().await;
}

/// Two installations by mistake: the second one has everything that it would need.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_operator_of_the_cluster_does_nothing() {
    const OTHER: &str = "user-2";
    const CLAIM: (&str, &str) =
        ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "gimbal-operator-namespace");
    let stage = Stage::start().await;
    let admin = stage.cluster.admin();
    let elsewhere = rights().in_namespace("elsewhere");
    stage.cluster.bind(&stage.cluster.user(OTHER).unwrap(), &elsewhere).await.unwrap();
    let there = |collection: &str| collection.replace("gimbal-discovery", "elsewhere");
    stage.secret("node02-kubeconfig", &json!({"kubeconfig": "one"})).await;
    for name in ["node02-kubeconfig", "gimbal-authority"] {
        let data = stage.get(SECRETS, name).await.unwrap()["data"].take();
        admin.post(&there(SECRETS), &json!({"metadata": {"name": name}, "data": data})).await.unwrap();
    }
    let lease = json!({"metadata": {"name": "gimbal-operator"}, "spec": {}});
    admin.post(&there(LEASES), &lease).await.unwrap();

    let first = stage.operator();
    stage.backend("node02", &kubernetes()).await;
    stage.until_condition("node02", "False", "NotAvailable").await;
    let second = stage.operator_in("elsewhere", OTHER);
    expect_log(&second.process, &["an operator in another namespace serves", "gimbal-discovery"]).await.unwrap();
    expect_metric(second.admin_port, "gimbal_operator_leading", "", 0.0).await.unwrap();
    stage.make_available().await;
    stage.until_condition("node02", "True", "Available").await;
    assert_eq!(stage.writes_of(OTHER, 0).await, [""; 0]);
    assert_eq!(stage.get(&there(DEPLOYMENTS), NAME).await, None);
    expect_metric(first.admin_port, "gimbal_operator_leading", "", 1.0).await.unwrap();

    // A person gives it the Backends. What the first one made goes on, and is its namespace's.
    drop(first);
    admin.delete(&format!("{}/{}", CLAIM.0, CLAIM.1)).await.unwrap();
    let made = |object: &Value| object["metadata"]["namespace"] == "elsewhere";
    stage.until("the second one has made a pod", (&there(DEPLOYMENTS), NAME), made).await;
    let claimed = stage.get(CLAIM.0, CLAIM.1).await.unwrap();
    assert_eq!(claimed["spec"]["holderIdentity"], "elsewhere");
    assert!(stage.get(DEPLOYMENTS, NAME).await.is_some());
}
