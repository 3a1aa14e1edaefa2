//! Decisions, from nothing to a discoverer that runs, and away again.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_operator_core::{
    AuthorityState, CredentialsState, Deployment, DeploymentStatus, DiscovererFacts, ManagedKind, MarkedObject,
    NextSteps, ObjectId, PairState, SecretData, SourceProblem, Step, WantedDiscoverer, WantedObject, decide,
    discoverers, is_ours, left_over, pair_object,
};
use serde_json::{Value, json};

use crate::{backend, kubernetes, settings};

pub(crate) struct World {
    pub(crate) observed: BTreeMap<ObjectId, MarkedObject>,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) credentials: CredentialsState,
    pub(crate) authority: AuthorityState,
    pub(crate) pair: PairState,
    taken: BTreeSet<ObjectId>,
    accepted: BTreeMap<ObjectId, (Value, Value)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            observed: BTreeMap::new(),
            deployment: None,
            credentials: there("one"),
            authority: AuthorityState::Usable,
            pair: PairState::Good,
            taken: BTreeSet::new(),
            accepted: BTreeMap::new(),
        }
    }

    pub(crate) fn decide(&self, discoverer: &WantedDiscoverer) -> NextSteps {
        let facts = DiscovererFacts {
            observed: &self.observed,
            deployment: self.deployment.as_ref(),
            credentials: &self.credentials,
            authority: &self.authority,
            pair: &self.pair,
            taken: &self.taken,
            accepted: &self.accepted,
        };
        decide(discoverer, &settings(), &facts)
    }

    fn reason(&self, discoverer: &WantedDiscoverer) -> &'static str {
        let decision = self.decide(discoverer);
        assert!(decision.steps.is_empty(), "{:?}", decision.steps);
        decision.stated.map_or("", |stated| stated.reason)
    }

    /// Carries out writes, as an API server would.
    fn carry_out(&mut self, discoverer: &WantedDiscoverer, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Create(wanted) | Step::Apply(wanted) => {
                    let id = wanted.id();
                    let observed = match wanted {
                        WantedObject::ServiceAccount(object) => MarkedObject::of(&object.metadata, &object),
                        WantedObject::NetworkPolicy(object) => MarkedObject::of(&object.metadata, &object),
                        WantedObject::Deployment(object) => {
                            self.deployment = Some(object.clone());
                            MarkedObject::of(&object.metadata, &object)
                        }
                    };
                    assert!(is_ours(&observed.metadata));
                    self.observed.insert(id, observed);
                }
                Step::Sign(_) => {
                    self.pair = PairState::Good;
                    self.observed.insert(pair_of(discoverer), pair(discoverer));
                }
                Step::Delete(id, _) => drop(self.observed.remove(&id)),
            }
        }
    }
}

fn pair_of(discoverer: &WantedDiscoverer) -> ObjectId {
    ObjectId { kind: ManagedKind::Secret, name: format!("{}-tls", discoverer.object_name()) }
}

fn pair(discoverer: &WantedDiscoverer) -> MarkedObject {
    MarkedObject::mark(&pair_object(discoverer, &settings(), "", SecretData::default()).metadata)
}

/// A discoverer that runs.
pub(crate) fn running() -> (World, WantedDiscoverer) {
    let (mut world, discoverer) = (World::new(), node02());
    world.pair = PairState::ToBeSigned;
    for _ in 0..2 {
        world.carry_out(&discoverer, world.decide(&discoverer).steps);
    }
    assert_eq!(world.observed.len(), 4);
    (world, discoverer)
}

pub(crate) fn there(digest: &str) -> CredentialsState {
    CredentialsState::There { digest: digest.into(), keys: BTreeSet::from(["kubeconfig".into()]) }
}

pub(crate) fn node02() -> WantedDiscoverer {
    backend("node02", &kubernetes()).discoverer(&settings()).unwrap()
}

fn kinds(steps: &[Step]) -> Vec<(&'static str, ManagedKind)> {
    let kind = |step: &Step| match step {
        Step::Create(wanted) => ("create", wanted.id().kind),
        Step::Apply(wanted) => ("apply", wanted.id().kind),
        Step::Sign(_) => ("sign", ManagedKind::Secret),
        Step::Delete(id, _) => ("delete", id.kind),
    };
    steps.iter().map(kind).collect()
}

#[test]
fn from_nothing_to_a_pod_and_then_nothing_is_written() {
    let (mut world, discoverer) = (World::new(), node02());
    world.pair = PairState::ToBeSigned;
    let first = world.decide(&discoverer).steps;
    let expected = [
        ("sign", ManagedKind::Secret),
        ("create", ManagedKind::ServiceAccount),
        ("create", ManagedKind::NetworkPolicy),
    ];
    assert_eq!(kinds(&first), expected, "no pod before its pair");
    world.carry_out(&discoverer, first);
    let second = world.decide(&discoverer).steps;
    assert_eq!(kinds(&second), [("create", ManagedKind::Deployment)]);
    world.carry_out(&discoverer, second);
    assert_eq!(world.reason(&discoverer), "NotAvailable");
    let status = DeploymentStatus { observed_generation: 1, updated_replicas: 1, available_replicas: 1 };
    world.deployment.as_mut().unwrap().status = status;
    assert_eq!(world.reason(&discoverer), "Available");
}

#[test]
fn other_credentials_and_an_edit_change_the_deployment_alone() {
    let (mut world, discoverer) = running();
    let id = ObjectId { kind: ManagedKind::Deployment, name: discoverer.object_name() };
    let changes: [fn(&mut World, &ObjectId); 2] = [
        |world, _| world.credentials = there("two"),
        |world, id| world.observed.get_mut(id).unwrap().body["spec"]["replicas"] = json!(0),
    ];
    for change in changes {
        change(&mut world, &id);
        let steps = world.decide(&discoverer).steps;
        assert_eq!(kinds(&steps), [("apply", ManagedKind::Deployment)]);
        world.carry_out(&discoverer, steps);
        assert_eq!(world.reason(&discoverer), "NotAvailable");
    }
    // What the API server makes of it, for instance by a webhook, is taken as it is, until either side changes.
    world.observed.get_mut(&id).unwrap().body["spec"]["replicas"] = json!(2);
    let steps = world.decide(&discoverer).steps;
    let [Step::Apply(applied)] = steps.as_slice() else { panic!("{steps:?}") };
    world.accepted.insert(id.clone(), (applied.body(), world.observed[&id].body.clone()));
    assert_eq!(world.reason(&discoverer), "NotAvailable");
    world.credentials = there("three");
    assert_eq!(kinds(&world.decide(&discoverer).steps), [("apply", ManagedKind::Deployment)]);
}

/// Programs read their files again, and an authority that is replaced is that of all discoverers at once.
#[test]
fn another_pair_makes_no_other_pod() {
    let (mut world, discoverer) = running();
    world.pair = PairState::ToBeSigned;
    let steps = world.decide(&discoverer).steps;
    assert_eq!(kinds(&steps), [("sign", ManagedKind::Secret)]);
    world.carry_out(&discoverer, steps);
    assert_eq!(world.reason(&discoverer), "NotAvailable");
}

#[test]
fn what_is_missing_is_told_and_what_runs_goes_on_with_a_certificate() {
    let (mut world, discoverer) = running();
    for due in [false, true] {
        world.pair = if due { PairState::ToBeSigned } else { PairState::Good };
        for (credentials, reason) in [
            (CredentialsState::Missing, "SecretMissing"),
            (CredentialsState::There { digest: "x".into(), keys: BTreeSet::new() }, "SecretUnusable"),
            (CredentialsState::Unknown, ""),
        ] {
            world.credentials = credentials;
            let NextSteps { steps, stated } = world.decide(&discoverer);
            assert_eq!(stated.map_or("", |stated| stated.reason), reason);
            assert_eq!(kinds(&steps), [("sign", ManagedKind::Secret)][..usize::from(due)], "{reason}");
        }
    }
    world.credentials = there("two");
    world.authority = AuthorityState::Unusable("it has ended".into());
    assert_eq!(world.reason(&discoverer), "AuthorityUnusable");
    let world = World { pair: PairState::ToBeSigned, credentials: CredentialsState::Missing, ..World::new() };
    assert_eq!(world.reason(&discoverer), "SecretMissing", "without a pod, nothing is signed");
}

/// As when somebody takes the label off an account.
#[test]
fn what_is_somebody_elses_keeps_a_new_pod_and_no_certificate() {
    let (mut world, discoverer) = running();
    let id = |kind| ObjectId { kind, name: discoverer.object_name() };
    let account = id(ManagedKind::ServiceAccount);
    world.taken.insert(account.clone());
    world.credentials = there("two");
    assert_eq!(kinds(&world.decide(&discoverer).steps), [("apply", ManagedKind::Deployment)], "it is ours by now");
    world.observed.remove(&account);
    world.pair = PairState::ToBeSigned;
    let NextSteps { steps, stated } = world.decide(&discoverer);
    assert_eq!(kinds(&steps), [("sign", ManagedKind::Secret)]);
    let stated = stated.unwrap();
    assert_eq!(stated.reason, "NameTaken");
    assert!(stated.message.ends_with("the pod that there is goes on"), "{}", stated.message);
    world.carry_out(&discoverer, steps);
    let steps = world.decide(&discoverer).steps;
    assert_eq!(kinds(&steps), [("apply", ManagedKind::Deployment)]);
    world.carry_out(&discoverer, steps);
    assert_eq!(world.reason(&discoverer), "NameTaken");
    // The pair, too, unless somebody else has its name.
    world.observed.remove(&pair_of(&discoverer));
    world.pair = PairState::ToBeSigned;
    assert_eq!(kinds(&world.decide(&discoverer).steps), [("sign", ManagedKind::Secret)]);
    world.taken.insert(pair_of(&discoverer));
    assert_eq!(world.reason(&discoverer), "NameTaken");
    let mut world = World { taken: BTreeSet::from([account]), pair: PairState::ToBeSigned, ..World::new() };
    assert_eq!(kinds(&world.decide(&discoverer).steps), [("create", ManagedKind::NetworkPolicy)]);
    world.pair = PairState::Good;
    assert_eq!(kinds(&world.decide(&discoverer).steps), [("create", ManagedKind::NetworkPolicy)], "no pod");
    let said = world.decide(&discoverer).stated.unwrap().message;
    assert!(said.ends_with("no pod is made"), "{said}");
}

#[test]
fn objects_go_with_their_backend_the_pod_first() {
    let (mut world, discoverer) = running();
    let with = |backend| BTreeMap::from([(discoverer.uid.clone(), backend)]);
    let left = |world: &World, backends| kinds(&left_over(&world.observed, &backends, &settings()));
    assert!(left(&world, with(Some(discoverer.clone()))).is_empty());
    assert!(left(&world, with(None)).is_empty(), "one that cannot be used keeps what it has");
    let expected =
        [ManagedKind::Deployment, ManagedKind::Secret, ManagedKind::NetworkPolicy, ManagedKind::ServiceAccount]
            .map(|kind| ("delete", kind));
    assert_eq!(left(&world, BTreeMap::new()), expected);
    // Another kind of source has other objects.
    let cloud = json!({"openstack": {"credentialsSecret": {"name": "osp1"}}});
    let other = backend("node02", &cloud).discoverer(&settings()).unwrap();
    assert_eq!(left(&world, with(Some(other))), expected);
    // A Backend that was made anew under the same name has another UID.
    let anew = WantedDiscoverer { uid: "another".into(), ..discoverer };
    for pair in [PairState::Good, PairState::ToBeSigned] {
        world.pair = pair;
        assert!(world.decide(&anew).steps.is_empty());
    }
    let backends = BTreeMap::from([(anew.uid.clone(), Some(anew.clone()))]);
    world.carry_out(&anew, left_over(&world.observed, &backends, &settings()));
    assert_eq!(kinds(&world.decide(&anew).steps).len(), 3);
}

#[test]
fn what_is_another_backends_is_refused() {
    let secret = |name: &str| json!({"kubernetes": {"kubeconfigSecret": {"name": name}}});
    let made = |name: &str, source: &Value, at: &str| {
        let mut backend = backend(name, source);
        backend.metadata.creation_timestamp = Some(at.into());
        backend
    };
    let own = BTreeSet::from(["gimbal-kubernetes-discoverer-a-tls".to_owned()]);
    let refused = |backends: &[_]| -> Vec<(String, SourceProblem)> {
        let all = discoverers(backends, &own, &settings());
        all.into_iter().filter_map(|(uid, one)| Some((uid, one.err()?))).collect()
    };
    let (a, b) = (made("a", &secret("a"), "2026-01-02"), made("b", &secret("b"), "2026-01-01"));
    assert_eq!(refused(&[a.clone(), b.clone()]), []);
    // One that is run by hand has an identity, too.
    let by_hand = |at: &str| {
        let mut by_hand = made("c", &Value::Null, at);
        by_hand.spec["identity"] = json!("SPIFFE://gimbal.example/backend/A");
        by_hand
    };
    assert_eq!(refused(&[a.clone(), b.clone(), by_hand("2026-01-03")]), [], "whoever comes later stops no other");
    let all = refused(&[a.clone(), b.clone(), by_hand("2026-01-01")]);
    assert!(matches!(all.as_slice(), [(uid, SourceProblem::Identity(_))] if uid == "uid-of-a"), "{all:?}");
    for (source, is) in
        [(secret("a"), "Secret a is that of backend a"), (secret("gimbal-kubernetes-discoverer-a-tls"), "certificate")]
    {
        let all = refused(&[made("late", &source, "2026-01-03"), a.clone(), b.clone()]);
        let [(uid, SourceProblem::Invalid(why))] = all.as_slice() else { panic!("{all:?}") };
        assert!(uid == "uid-of-late" && why.contains(is), "{why}");
    }
}

#[test]
fn a_backend_that_waits_for_the_approval_of_its_removal_keeps_its_discoverer() {
    let mut backend = backend("node02", &kubernetes());
    backend.metadata.meta.deletion_timestamp = Some("2026-11-29T00:00:00Z".into());
    assert!(backend.has_source());
    assert_eq!(backend.secret(), Some("node02-kubeconfig"));
    assert!(backend.discoverer(&settings()).is_ok());
}

#[test]
fn no_identity_but_that_of_the_name_is_signed_and_the_authority_is_no_source() {
    let mut thief = backend("node02", &kubernetes());
    thief.spec["identity"] = json!("spiffe://gimbal.example/admin");
    assert!(matches!(thief.discoverer(&settings()), Err(SourceProblem::Identity(_))));
    thief.spec["identity"] = json!("spiffe://gimbal.example/backend/node03");
    assert!(matches!(thief.discoverer(&settings()), Err(SourceProblem::Identity(_))));
    let authority = json!({"kubernetes": {"kubeconfigSecret": {"name": "gimbal-authority"}}});
    assert!(matches!(backend("a", &authority).discoverer(&settings()), Err(SourceProblem::Invalid(_))));
    let both = json!({
        "kubernetes": {"kubeconfigSecret": {"name": "a"}}, "openstack": {"credentialsSecret": {"name": "b"}},
    });
    assert!(matches!(backend("a", &both).discoverer(&settings()), Err(SourceProblem::Invalid(_))));
}

#[test]
fn a_label_alone_makes_no_object_ours() {
    let mut metadata = World::new();
    metadata.carry_out(&node02(), metadata.decide(&node02()).steps);
    let mut object = metadata.observed.into_values().next().unwrap().metadata;
    assert!(is_ours(&object));
    object.owner_references[0].kind = "Deployment".into();
    assert!(!is_ours(&object));
    object.owner_references[0].kind = "Backend".into();
    object.meta.labels.clear();
    assert!(!is_ours(&object));
}
