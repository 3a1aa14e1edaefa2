//! What is read of objects, and what is made of it.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::Object as _;
use gimbal_operator_core::{
    AuthorityState, DeploymentStatus, ManagedKind, MarkedObject, ObjectId, OperatorSettings, PairSecret, PairState,
    SecretData, ServiceAccount, SourceSecret, Step, is_ours, left_over, pair_object,
};
use serde_json::{Value, json};

use crate::decisions::{World, node02, running, there};
use crate::{backend, kubernetes, settings};

#[test]
fn a_pod_is_available_when_the_newest_template_is() {
    let (mut world, discoverer) = running();
    let mut ready = |generation, observed_generation, updated_replicas, available_replicas| {
        let deployment = world.deployment.as_mut().unwrap();
        deployment.metadata.generation = generation;
        deployment.status = DeploymentStatus { observed_generation, updated_replicas, available_replicas };
        world.decide(&discoverer).stated.unwrap().ready
    };
    assert!(ready(2, 2, 1, 1));
    assert!(!ready(3, 2, 1, 1), "the status is about the one before");
    assert!(!ready(2, 2, 0, 1), "the former pod is");
    assert!(!ready(2, 2, 1, 0));
}

#[test]
fn while_too_little_is_known_nothing_is_said_or_made() {
    let discoverer = node02();
    let mut world = World::new();
    world.authority = AuthorityState::Unknown;
    let decision = world.decide(&discoverer);
    assert_eq!((decision.steps.as_slice(), decision.stated), (&[][..], None));
}

#[test]
fn a_change_names_the_object_that_was_read() {
    let (mut world, discoverer) = running();
    let id = ObjectId { kind: ManagedKind::Deployment, name: discoverer.object_name() };
    world.observed.get_mut(&id).unwrap().metadata.meta.uid = "of-the-pod".into();
    world.credentials = there("two");
    let steps = world.decide(&discoverer).steps;
    let [Step::Apply(applied)] = steps.as_slice() else { panic!("{steps:?}") };
    let gimbal_operator_core::WantedObject::Deployment(deployment) = applied else { panic!("{applied:?}") };
    assert_eq!(&*deployment.meta().uid, "of-the-pod");
}

#[test]
fn a_pair_of_a_backend_that_is_gone_is_not_signed_again() {
    let (mut world, discoverer) = running();
    world.pair = PairState::ToBeSigned;
    let anew = gimbal_operator_core::WantedDiscoverer { uid: "another".into(), ..discoverer };
    world.observed.retain(|id, _| id.kind == ManagedKind::Secret);
    let steps = world.decide(&anew).steps;
    assert!(!steps.iter().any(|step| matches!(step, Step::Sign(_))), "{steps:?}");
}

#[test]
fn what_is_being_deleted_is_not_deleted_again() {
    let (mut world, discoverer) = running();
    let id = ObjectId { kind: ManagedKind::Deployment, name: discoverer.object_name() };
    world.observed.get_mut(&id).unwrap().metadata.meta.deletion_timestamp = Some("2026-11-29T00:00:00Z".into());
    let steps = left_over(&world.observed, &BTreeMap::new(), &settings());
    assert_eq!(steps.len(), 3);
    assert!(!steps.iter().any(|step| matches!(step, Step::Delete(left, _) if *left == id)), "{steps:?}");
}

#[test]
fn network_policies_go_when_they_are_not_wanted_any_more() {
    let (world, discoverer) = running();
    let without = OperatorSettings { network_policies: false, ..settings() };
    let backends = BTreeMap::from([(discoverer.uid.clone(), Some(discoverer))]);
    let steps = left_over(&world.observed, &backends, &without);
    assert!(
        matches!(steps.as_slice(), [Step::Delete(ObjectId { kind: ManagedKind::NetworkPolicy, .. }, _)]),
        "{steps:?}"
    );
}

#[test]
fn what_the_server_counts_makes_no_other_object() {
    let object = |uid: &str, version: &str, owner: &str| {
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {
            "name": "a", "uid": uid, "resourceVersion": version, "generation": 3, "creationTimestamp": version,
            "labels": {"a": "b"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Backend", "name": owner, "uid": owner}],
        }}))
        .unwrap();
        MarkedObject::of(&account.metadata, &account).body
    };
    assert_eq!(object("1", "2", "x"), object("3", "4", "y"));
    assert_eq!(object("1", "2", "x")["metadata"]["labels"], json!({"a": "b"}));
}

#[test]
fn a_backend_of_another_api_is_no_owner() {
    let mut metadata = pair_object(&node02(), &settings(), "", SecretData::default()).metadata;
    assert!(is_ours(&metadata));
    metadata.owner_references[0].api_version = "gimbal.projectcontour.io/v2".into();
    assert!(is_ours(&metadata), "a later version is the same kind");
    metadata.owner_references[0].api_version = "elsewhere.example/v1alpha1".into();
    assert!(!is_ours(&metadata));
}

/// An annotation of `kubectl apply` is a copy of the content.
#[test]
fn nothing_of_a_secret_is_kept_that_is_not_needed_or_shown() {
    let object = json!({
        "metadata": {"name": "a", "uid": "u", "labels": {"a": "very secret"}, "annotations": {"last": "very secret"}},
        "data": {"password": "dmVyeSBzZWNyZXQ="},
    });
    let secret: SourceSecret = serde_json::from_value(object.clone()).unwrap();
    assert_eq!((&*secret.meta().uid, secret.meta().labels.len(), secret.meta().annotations.len()), ("u", 0, 0));
    let shown = format!("{secret:?}");
    assert!(shown.contains("password") && !shown.contains("very secret") && !shown.contains("dmVye"), "{shown}");
    let pair: PairSecret = serde_json::from_value(object).unwrap();
    assert!(!format!("{:?}", pair.data).contains("dmVye"));
}

#[test]
fn a_pair_says_which_authority_signed_it() {
    let pair = pair_object(&node02(), &settings(), "abc", SecretData::default());
    assert_eq!(pair.signed_by(), Some("abc"));
}

#[test]
fn a_source_that_is_null_is_none_and_the_own_condition_is_found_among_others() {
    let mut backend = backend("node02", &Value::Null);
    assert!(!backend.has_source());
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "t",
            "observedGeneration": 1})
    };
    backend.status = json!({"conditions": [condition("Ready", "InForce")]});
    assert_eq!(backend.condition(), None);
    backend.status = json!({"conditions": [condition("Ready", "InForce"), condition("DiscovererReady", "Available")]});
    assert_eq!(backend.condition().unwrap().reason, "Available");
}

#[test]
fn of_two_that_were_made_at_once_one_has_the_secret() {
    let mut pair = ["a", "b"].map(|name| backend(name, &kubernetes()));
    for one in &mut pair {
        one.metadata.creation_timestamp = Some("2026-01-01".into());
    }
    let found = gimbal_operator_core::discoverers(&pair, &BTreeSet::new(), &settings());
    let usable: Vec<&str> = found.iter().filter(|(_, one)| one.is_ok()).map(|(uid, _)| uid.as_str()).collect();
    assert_eq!(usable, ["uid-of-a"]);
}

#[test]
fn a_pod_is_rolled_by_its_credentials() {
    let (world, _) = running();
    let deployment = world.deployment.unwrap();
    let annotation = |deployment: &Value| {
        deployment["template"]["metadata"]["annotations"]["gimbal.projectcontour.io/content"].clone()
    };
    assert_eq!(annotation(&deployment.spec).as_str().unwrap().len(), 32);
}
