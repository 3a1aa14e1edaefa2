use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gimbal_certificates::make_authority;
use gimbal_operator_core::{SecretData, SourceSecret, condition_to_write, made_notice, wanted};
use gimbal_runtime::Readiness;
use gimbal_testkit::ScriptedCluster;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use zeroize::Zeroizing;

use super::*;

mod careful;

const DAY: Duration = Duration::from_secs(86_400);

struct Stage {
    server: ScriptedCluster,
    operator: Operator,
    registry: Registry,
}

impl Stage {
    /// Returns an operator that leads and knows its authority, before an API server that refuses everything.
    async fn start() -> Self {
        let server = ScriptedCluster::start().await.unwrap();
        let mut registry = Registry::default();
        let operator = Operator::new(OperatorParts {
            cluster: server.cluster.apart(),
            permitted: server.cluster.apart(),
            leadership: Leadership::unopposed(),
            identity: "one".into(),
            settings: OperatorSettings {
                namespace: "here".into(),
                writer: vec!["https://writer.example:7443".into()],
                identity_prefix: "spiffe://gimbal.example/backend/".into(),
                authority_secret: "authority".into(),
                ..OperatorSettings::default()
            },
            lifetime: DAY,
            metrics: OperatorMetrics::register(&mut registry),
            health: Liveness::new(DAY),
            listing: Readiness::new().block("a test"),
        });
        let mut stage = Self { server, operator, registry };
        stage.authority();
        stage
    }

    /// Makes another authority.
    fn authority(&mut self) {
        let made = make_authority(None, DAY * 365).unwrap();
        let secret = secret(&[("ca.crt", &made.certificate), ("ca.key", &made.key)]);
        self.operator.signer.read(&self.operator.settings, Some(&secret));
    }

    /// Makes a Backend, whose kubeconfig is there.
    fn backend(&mut self, name: &str, prefix: &str) -> SourcedBackend {
        let backend: SourcedBackend = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": format!("uid-of-{name}")},
            "spec": {
                "identity": format!("{prefix}{name}"),
                "source": {"kubernetes": {"kubeconfigSecret": {"name": format!("{name}-kubeconfig")}}},
            },
        }))
        .unwrap();
        self.operator.secrets.put(&format!("{name}-kubeconfig"), secret(&[("kubeconfig", "one")]));
        self.operator.backends.put(backend.clone());
        backend
    }

    fn discoverer(&mut self, name: &str) -> WantedDiscoverer {
        let backend = self.backend(name, "spiffe://gimbal.example/backend/");
        backend.discoverer(&self.operator.settings).unwrap()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn secret(values: &[(&str, &str)]) -> SourceSecret {
    let encoded = |(key, value): &(&str, &str)| ((*key).to_owned(), Zeroizing::new(STANDARD.encode(value)));
    SourceSecret { data: SecretData(values.iter().map(encoded).collect()), ..SourceSecret::default() }
}

#[test]
fn each_time_that_a_process_leads_again_is_a_beginning() {
    let mut led = false;
    let begun = [true, true, false, false, true].map(|leads| begins(&mut led, leads));
    assert_eq!(begun, [true, false, false, false, true]);
}

/// Else it would be tried four times, five times a second, until the watch has caught up.
#[tokio::test]
async fn an_object_that_moved_ends_the_round_and_counts_as_no_signature() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    let mut pair = stage.operator.signer.sign(&one, &stage.operator.settings, DAY, None).unwrap().unwrap();
    pair.metadata.meta.uid = "as it was".into();
    stage.operator.pairs.put(pair);
    stage.authority();
    let moved = json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": "uid",
        "details": {"name": "gimbal-kubernetes-discoverer-node02-tls", "kind": "secrets"}});
    stage.server.answer(409, &moved);
    stage.operator.bring_about(&one).await;
    let path = "/api/v1/namespaces/here/secrets/gimbal-kubernetes-discoverer-node02-tls";
    assert_eq!(stage.server.requests(), [format!("patch {path}")]);
    assert!(stage.metrics().contains("gimbal_operator_certificates_signed_total 0"), "{}", stage.metrics());
    stage.operator.bring_about(&one).await;
    assert_eq!(stage.server.requests(), [""; 0], "it waits");
}

#[tokio::test]
async fn statuses_are_last_and_what_is_refused_waits() {
    let mut stage = Stage::start().await;
    stage.backend("a", "spiffe://elsewhere.example/");
    stage.discoverer("b");
    stage.operator.reconcile().await;
    let status = |name| format!("patch /apis/gimbal.projectcontour.io/v1alpha1/backends/{name}/status");
    let all = ["post /api/v1/namespaces/here/secrets".to_owned(), status("a"), status("b")];
    assert_eq!(stage.server.requests(), all);
    stage.operator.reconcile().await;
    assert_eq!(stage.server.requests(), [""; 0], "each waits for its time");
    assert!(stage.operator.failures.is_due(Instant::now() + DAY));
    // A Backend that asks for no discoverer any more is not due for one.
    stage.backend("b", "spiffe://elsewhere.example/");
    stage.operator.reconcile().await;
    assert!(!stage.operator.failures.is_due(Instant::now() + DAY));
}

#[tokio::test]
async fn an_object_that_cannot_be_deleted_keeps_no_other_and_waits() {
    let mut stage = Stage::start().await;
    for name in ["gone", "left"] {
        let one = stage.discoverer(name);
        let pair = stage.operator.signer.sign(&one, &stage.operator.settings, DAY, None).unwrap().unwrap();
        stage.operator.pairs.put(pair);
        let uid = one.uid.clone();
        assert!(stage.operator.backends.remove(name, &uid));
        stage.operator.deleted.insert(uid);
    }
    let path = |name| format!("delete /api/v1/namespaces/here/secrets/gimbal-kubernetes-discoverer-{name}-tls");
    stage.operator.reconcile().await;
    assert_eq!(stage.server.requests(), [path("left"), path("gone")]);
    stage.operator.reconcile().await;
    assert_eq!(stage.server.requests(), [""; 0], "each waits for its time");
}

impl Stage {
    /// Returns the reasons of the Events since the last call.
    fn reasons(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.operator.notices.added)
    }
}

#[tokio::test]
async fn a_problem_is_an_event_once_its_condition_is_written() {
    let mut stage = Stage::start().await;
    let mut backend = stage.backend("a", "spiffe://elsewhere.example/");
    stage.operator.reconcile().await;
    assert_eq!(stage.reasons(), [""; 0], "the next try would say it again");
    let problem = backend.discoverer(&stage.operator.settings).unwrap_err();
    let condition = condition_to_write(&stated(&problem), 0, None, "2026-11-29T00:00:00Z").unwrap();
    backend.status = json!({"conditions": [condition]});
    let mut answer = serde_json::to_value(&backend).unwrap();
    answer["status"] = backend.status.clone();
    stage.server.answer(200, &answer);
    stage.operator.unsaid.done("a");
    drop(stage.server.requests());
    stage.operator.reconcile().await;
    assert_eq!(stage.server.requests(), ["patch /apis/gimbal.projectcontour.io/v1alpha1/backends/a/status"]);
    assert_eq!(stage.reasons(), ["IdentityRefused"]);
    stage.operator.reconcile().await;
    assert_eq!((stage.server.requests(), stage.reasons()), (vec![], vec![]), "it is said already");
}

#[tokio::test]
async fn a_deployment_that_is_made_changed_or_removed_is_an_event() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    let pair = stage.operator.signer.sign(&one, &stage.operator.settings, DAY, None).unwrap().unwrap();
    stage.operator.pairs.put(pair);
    // As an API server answers: with what it, or a webhook, made of the object.
    let settings = stage.operator.settings.clone();
    let answer = |number: usize, uid: &str, replicas: u32| {
        let mut body = wanted(&one, &settings, Some("x"))[number].body();
        body["metadata"]["uid"] = json!(uid);
        body["metadata"]["ownerReferences"] = json!([{"apiVersion": "gimbal.projectcontour.io/v1alpha1",
            "kind": "Backend", "name": "node02", "uid": "uid-of-node02"}]);
        if number == 1 {
            body["spec"]["replicas"] = json!(replicas);
        }
        body
    };
    stage.server.answer(201, &answer(0, "account", 0));
    stage.server.answer(201, &answer(1, "pod", 2));
    stage.operator.bring_about(&one).await;
    assert_eq!((stage.server.requests().len(), stage.reasons()), (2, vec!["DiscovererMade"]), "an account is no news");
    for (kubeconfig, replicas, reasons) in [("two", 2, &[][..]), ("three", 3, &["DiscovererChanged"])] {
        stage.operator.secrets.put("node02-kubeconfig", secret(&[("kubeconfig", kubeconfig)]));
        stage.server.answer(200, &answer(1, "pod", replicas));
        stage.operator.bring_about(&one).await;
        assert_eq!((stage.server.requests().len(), &*stage.reasons()), (1, reasons), "{kubeconfig}");
    }
    let id = ObjectId { kind: ManagedKind::Deployment, name: one.object_name() };
    let metadata = stage.operator.deployments.get(&id.name).unwrap().metadata.clone();
    stage.operator.delete(&id, &metadata).await.unwrap_err();
    assert_eq!(stage.reasons(), [""; 0], "it was refused");
    stage.server.answer(200, &json!({"kind": "Status", "status": "Success"}));
    stage.operator.delete(&id, &metadata).await.unwrap();
    assert_eq!(stage.reasons(), ["DiscovererRemoved"]);
}

#[tokio::test]
async fn an_operator_that_leads_no_more_forgets_its_events() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    let id = ObjectId { kind: ManagedKind::Deployment, name: one.object_name() };
    for exists in [false, true] {
        stage.operator.notices.push(&made_notice(&one, &stage.operator.settings, &id, exists));
    }
    stage.operator.notices.write_next(Instant::now());
    assert!(stage.metrics().contains("gimbal_operator_events_waiting 1"), "{}", stage.metrics());
    let (_leader, follows) = tokio::sync::watch::channel(Leadership::Follower { holder: "other".into() });
    stage.operator.leadership = follows;
    assert!(!stage.operator.is_due());
    stage.operator.notices.write_next(Instant::now());
    assert!(stage.metrics().contains("gimbal_operator_events_waiting 0"), "{}", stage.metrics());
}
