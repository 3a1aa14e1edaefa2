//! What is not done: without the lead, before everything is known, about what is somebody else's, and without an answer.

use super::*;

impl Stage {
    /// Lists what is known, of every kind.
    fn list_all(&mut self) {
        self.operator.take(Event::Backend(WatchEvent::ListDone));
        self.operator.take(Event::Account(WatchEvent::ListDone));
        self.operator.take(Event::Policy(WatchEvent::ListDone));
        self.operator.take(Event::Deployment(WatchEvent::ListDone));
        self.operator.take(Event::Pair(WatchEvent::ListDone));
    }

    /// Puts the pair of a discoverer among what is known.
    fn pair(&mut self, discoverer: &WantedDiscoverer) -> PairSecret {
        let signer = &self.operator.signer;
        let pair = signer.sign(discoverer, &self.operator.settings, DAY, None).unwrap().unwrap();
        self.operator.pairs.put(pair.clone());
        pair
    }
}

#[tokio::test]
async fn nothing_is_due_before_everything_was_listed_or_without_the_lead() {
    let mut stage = Stage::start().await;
    stage.operator.changed = true;
    assert!(!stage.operator.is_due(), "nothing was listed");
    stage.list_all();
    assert!(stage.operator.is_due());
    assert!(!stage.operator.is_due(), "nothing changed");
    stage.operator.changed = true;
    let (_leader, follows) = tokio::sync::watch::channel(Leadership::Follower { holder: "other".into() });
    stage.operator.leadership = follows;
    assert!(!stage.operator.is_due(), "another one leads");
}

#[tokio::test]
async fn nothing_is_done_while_it_is_not_known_which_namespace_serves() {
    let mut stage = Stage::start().await;
    stage.list_all();
    assert!(stage.operator.is_due());
    stage.server.answer(403, &json!({"kind": "Status", "reason": "Forbidden", "code": 403, "message": "m"}));
    assert!(!stage.operator.serves().await);
    assert!(stage.operator.is_due(), "it is asked again");
    assert!(stage.metrics().contains("gimbal_operator_leading 0"), "{}", stage.metrics());
}

#[tokio::test]
async fn what_lacks_the_mark_is_neither_used_nor_removed() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    let mut pair = stage.pair(&one);
    let id = ObjectId { kind: ManagedKind::Secret, name: gimbal_operator_core::pair_secret_name(&one) };
    assert!(stage.operator.pair(&one).is_some() && stage.operator.observe(&id).is_some());
    assert_eq!(stage.operator.marked().len(), 1);
    pair.metadata.owner_references.clear();
    stage.operator.pairs.put(pair);
    assert!(stage.operator.pair(&one).is_none() && stage.operator.observe(&id).is_none());
    assert_eq!(stage.operator.marked().len(), 0);
}

#[tokio::test]
async fn a_name_that_somebody_else_has_is_not_tried_again() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    let details = json!({"name": "gimbal-kubernetes-discoverer-node02-tls", "kind": "secrets"});
    let taken = json!({"kind": "Status", "reason": "AlreadyExists", "code": 409, "message": "m", "details": details});
    stage.server.answer(409, &taken);
    let mut account = wanted(&one, &stage.operator.settings, None)[0].body();
    account["metadata"]["ownerReferences"] = json!([{"apiVersion": "gimbal.projectcontour.io/v1alpha1",
        "kind": "Backend", "name": "node02", "uid": "uid-of-node02"}]);
    stage.server.answer(201, &account);
    let said = stage.operator.bring_about(&one).await.unwrap();
    assert_eq!(said.reason, "NameTaken");
    let all = ["post /api/v1/namespaces/here/secrets", "post /api/v1/namespaces/here/serviceaccounts"];
    assert_eq!(stage.server.requests(), all);
    stage.operator.bring_about(&one).await;
    assert_eq!(stage.server.requests(), [""; 0]);
}

#[tokio::test]
async fn a_condition_stays_while_too_little_is_known_and_goes_with_the_source() {
    let mut stage = Stage::start().await;
    let mut backend = stage.backend("a", "spiffe://gimbal.example/backend/");
    let said = ReadyStatement::not("SecretMissing", "there is no Secret");
    let condition = condition_to_write(&said, 0, None, "2026-11-29T00:00:00Z").unwrap();
    backend.status = json!({"conditions": [condition]});
    stage.operator.say(&backend, None).await;
    assert_eq!(stage.server.requests(), [""; 0]);
    backend.spec["source"] = Value::Null;
    stage.operator.say(&backend, None).await;
    assert_eq!(stage.server.requests(), ["patch /apis/gimbal.projectcontour.io/v1alpha1/backends/a/status"]);
}

/// It may be that of a definition that was deleted, or of an API server that was restored.
#[tokio::test]
async fn an_empty_list_of_backends_removes_nothing() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    stage.pair(&one);
    assert!(stage.operator.backends.remove("node02", &one.uid));
    stage.operator.reconcile().await;
    assert_eq!(stage.server.requests(), [""; 0]);
}

#[tokio::test]
async fn without_an_answer_no_further_deletion_is_tried() {
    let mut stage = Stage::start().await;
    for name in ["gone", "left"] {
        let one = stage.discoverer(name);
        stage.pair(&one);
        assert!(stage.operator.backends.remove(name, &one.uid));
        stage.operator.deleted.insert(one.uid);
    }
    // The client stays that of the former one, which has ended.
    stage.server = ScriptedCluster::start().await.unwrap();
    stage.operator.reconcile().await;
    let metrics = stage.metrics();
    let deletions: Vec<&str> = metrics.lines().filter(|line| line.contains(r#"what="delete""#)).collect();
    assert!(matches!(deletions.as_slice(), [one] if one.ends_with(" 1")), "{deletions:?}");
}

#[tokio::test]
async fn a_backend_whose_pod_is_on_its_way_is_not_blocked() {
    let mut stage = Stage::start().await;
    let one = stage.discoverer("node02");
    stage.pair(&one);
    let settings = stage.operator.settings.clone();
    let owners = json!([{"apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend", "name": "node02",
        "uid": "uid-of-node02"}]);
    for object in wanted(&one, &settings, Some("x")) {
        let mut body = object.body();
        body["metadata"]["ownerReferences"] = owners.clone();
        stage.server.answer(201, &body);
    }
    stage.operator.reconcile().await;
    let state = |state: &str, count: u32| format!("gimbal_operator_backends{{state=\"{state}\"}} {count}");
    for (name, count) in [("all", 1), ("ready", 0), ("blocked", 0)] {
        assert!(stage.metrics().contains(&state(name, count)), "{}", stage.metrics());
    }
    stage.backend("thief", "spiffe://elsewhere.example/");
    stage.operator.reconcile().await;
    for (name, count) in [("all", 2), ("ready", 0), ("blocked", 1)] {
        assert!(stage.metrics().contains(&state(name, count)), "{}", stage.metrics());
    }
}
