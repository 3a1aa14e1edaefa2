//! Decisions, from nothing to a discoverer that runs, and away again.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_operator_core::{
    AuthorityState, CredentialsState, Deployment, DeploymentStatus, DiscovererFacts, ManagedKind, MarkedObject,
    NextSteps, ObjectId, PairState, SourceProblem, Step, WantedDiscoverer, WantedObject, decide, is_ours, left_over,
};
use serde_json::{Value, json};

use crate::{backend, kubernetes, settings};

struct World {
    observed: BTreeMap<ObjectId, MarkedObject>,
    deployment: Option<Deployment>,
    credentials: CredentialsState,
    authority: AuthorityState,
    pair: PairState,
    taken: BTreeSet<ObjectId>,
    accepted: BTreeMap<ObjectId, (Value, Value)>,
}

impl World {
    fn new() -> Self {
        Self {
            observed: BTreeMap::new(),
            deployment: None,
            credentials: there("one"),
            authority: AuthorityState::Usable,
            pair: PairState::Good("pair".into()),
            taken: BTreeSet::new(),
            accepted: BTreeMap::new(),
        }
    }

    fn decide(&self, discoverer: &WantedDiscoverer) -> NextSteps {
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
    fn carry_out(&mut self, steps: Vec<Step>) {
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
                Step::Sign(_) => self.pair = PairState::Good("pair".into()),
                Step::Delete(id, _) => drop(self.observed.remove(&id)),
            }
        }
    }
}

fn there(digest: &str) -> CredentialsState {
    CredentialsState::There { digest: digest.into(), keys: BTreeSet::from(["kubeconfig".into()]) }
}

fn node02() -> WantedDiscoverer {
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
    world.carry_out(first);
    let second = world.decide(&discoverer).steps;
    assert_eq!(kinds(&second), [("create", ManagedKind::Deployment)]);
    world.carry_out(second);
    assert_eq!(world.reason(&discoverer), "NotAvailable");
    let status = DeploymentStatus { observed_generation: 1, updated_replicas: 1, available_replicas: 1 };
    world.deployment.as_mut().unwrap().status = status;
    assert_eq!(world.reason(&discoverer), "Available");
}

#[test]
fn other_credentials_another_pair_and_an_edit_change_the_deployment_alone() {
    let (mut world, discoverer) = (World::new(), node02());
    world.carry_out(world.decide(&discoverer).steps);
    let id = ObjectId { kind: ManagedKind::Deployment, name: discoverer.object_name() };
    let changes: [fn(&mut World, &ObjectId); 3] = [
        |world, _| world.credentials = there("two"),
        |world, _| world.pair = PairState::Good("next".into()),
        |world, id| world.observed.get_mut(id).unwrap().body["spec"]["replicas"] = json!(0),
    ];
    for change in changes {
        change(&mut world, &id);
        let steps = world.decide(&discoverer).steps;
        assert_eq!(kinds(&steps), [("apply", ManagedKind::Deployment)]);
        world.carry_out(steps);
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

#[test]
fn what_is_missing_or_somebody_elses_is_told_and_what_runs_goes_on() {
    let (mut world, discoverer) = (World::new(), node02());
    world.carry_out(world.decide(&discoverer).steps);
    for (credentials, reason) in [
        (CredentialsState::Missing, "SecretMissing"),
        (CredentialsState::There { digest: "x".into(), keys: BTreeSet::new() }, "SecretUnusable"),
        (CredentialsState::Unknown, ""),
    ] {
        world.credentials = credentials;
        assert_eq!(world.reason(&discoverer), reason);
    }
    world.credentials = there("two");
    world.authority = AuthorityState::Unusable("it has ended".into());
    assert_eq!(world.reason(&discoverer), "AuthorityUnusable");
    world.authority = AuthorityState::Usable;
    let id = ObjectId { kind: ManagedKind::ServiceAccount, name: discoverer.object_name() };
    world.taken.insert(id.clone());
    assert_eq!(kinds(&world.decide(&discoverer).steps).len(), 1, "it is ours by now");
    world.observed.remove(&id);
    assert_eq!(world.reason(&discoverer), "NameTaken");
}

#[test]
fn objects_go_with_their_backend_the_pod_first() {
    let (mut world, discoverer) = (World::new(), node02());
    world.carry_out(world.decide(&discoverer).steps);
    let with = |backend| BTreeMap::from([(discoverer.uid.clone(), backend)]);
    let left = |world: &World, backends| kinds(&left_over(&world.observed, &backends, &settings()));
    assert!(left(&world, with(Some(discoverer.clone()))).is_empty());
    assert!(left(&world, with(None)).is_empty(), "one that cannot be used keeps what it has");
    let expected =
        [ManagedKind::Deployment, ManagedKind::NetworkPolicy, ManagedKind::ServiceAccount].map(|kind| ("delete", kind));
    assert_eq!(left(&world, BTreeMap::new()), expected);
    // Another kind of source has other objects.
    let cloud = json!({"openstack": {"credentialsSecret": {"name": "osp1"}}});
    let other = backend("node02", &cloud).discoverer(&settings()).unwrap();
    assert_eq!(left(&world, with(Some(other))), expected);
    // A Backend that was made anew under the same name has another UID.
    let anew = WantedDiscoverer { uid: "another".into(), ..discoverer };
    assert!(world.decide(&anew).steps.is_empty());
    world.carry_out(left_over(&world.observed, &BTreeMap::from([(anew.uid.clone(), Some(anew.clone()))]), &settings()));
    assert_eq!(kinds(&world.decide(&anew).steps).len(), 3);
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
    metadata.carry_out(metadata.decide(&node02()).steps);
    let mut object = metadata.observed.into_values().next().unwrap().metadata;
    assert!(is_ours(&object));
    object.owner_references[0].kind = "Deployment".into();
    assert!(!is_ours(&object));
    object.owner_references[0].kind = "Backend".into();
    object.meta.labels.clear();
    assert!(!is_ours(&object));
}
