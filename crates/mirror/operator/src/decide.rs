//! What is written next for a discoverer.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::LifecycleMeta;
use serde_json::Value;

use crate::certificate::short_digest;
use crate::condition::NOT_AVAILABLE;
use crate::difference::has_all;
use crate::{
    Deployment, ManagedKind, MarkedObject, ObjectId, OperatorSettings, PairState, ReadyStatement, WantedDiscoverer,
    WantedObject, pair_secret_name, wanted,
};

/// What is known of a Secret that a source names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CredentialsState {
    /// It was not read yet.
    #[default]
    Unknown,
    /// It does not exist.
    Missing,
    /// It exists.
    There {
        /// A digest of its content, by which the content cannot be guessed.
        digest: String,
        /// Its keys.
        keys: BTreeSet<String>,
    },
}

/// What is known of the authority.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuthorityState {
    /// Its Secret was not read yet.
    #[default]
    Unknown,
    /// It cannot sign, for this reason.
    Unusable(String),
    /// It can sign.
    Usable,
}

/// What is known of the objects and Secrets of a discoverer.
#[derive(Debug, Clone, Copy)]
pub struct DiscovererFacts<'a> {
    /// The objects of ours that exist.
    pub observed: &'a BTreeMap<ObjectId, MarkedObject>,
    /// Its Deployment, if that exists.
    pub deployment: Option<&'a Deployment>,
    /// The Secret that its source names.
    pub credentials: &'a CredentialsState,
    /// The authority that signs its pair.
    pub authority: &'a AuthorityState,
    /// Its pair.
    pub pair: &'a PairState,
    /// Names that somebody else's objects have.
    pub taken: &'a BTreeSet<ObjectId>,
    /// What was applied, and what the API server made of it, where these differ: it is not applied again.
    pub accepted: &'a BTreeMap<ObjectId, (Value, Value)>,
}

/// A write.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Make an object, unless there is one of its name.
    Create(WantedObject),
    /// Change the object that has the UID in its metadata.
    Apply(WantedObject),
    /// Sign a pair, and put it into the Secret of this name: the one with this metadata, or a new one.
    Sign(Option<LifecycleMeta>),
    /// Delete the object that was read with this metadata.
    Delete(ObjectId, LifecycleMeta),
}

/// What follows from the facts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NextSteps {
    /// The next writes.
    pub steps: Vec<Step>,
    /// What is said in the status; `None` while too little is known.
    pub stated: Option<ReadyStatement>,
}

/// Decides what is written next for a discoverer. Where something is missing, what runs goes on, and its certificate is renewed for
/// that.
#[must_use]
pub fn decide(discoverer: &WantedDiscoverer, settings: &OperatorSettings, facts: &DiscovererFacts<'_>) -> NextSteps {
    let credentials = match credentials(discoverer, settings, facts) {
        Ok(digest) => digest,
        Err(stated) => return NextSteps { steps: renewal(discoverer, facts).into_iter().collect(), stated },
    };
    let mut ids = object_ids(discoverer, settings).into_iter();
    let in_the_way = ids.find(|id| facts.taken.contains(id) && !facts.observed.contains_key(id));
    let pod = ObjectId { kind: ManagedKind::Deployment, name: discoverer.object_name() };
    let has_pod = facts.observed.contains_key(&pod);
    let pair = ObjectId { kind: ManagedKind::Secret, name: pair_secret_name(discoverer) };
    let mut steps: Vec<Step> = renewal(discoverer, facts).into_iter().collect();
    let is_new = is_due(facts) && !facts.observed.contains_key(&pair) && !facts.taken.contains(&pair);
    if is_new && (in_the_way.is_none() || has_pod) {
        steps.push(Step::Sign(None));
    }
    let content = (*facts.pair == PairState::Good).then(|| short_digest(credentials.as_bytes()));
    let is_held = |step: &Step| match step {
        Step::Create(wanted) => {
            let id = wanted.id();
            facts.taken.contains(&id) || in_the_way.is_some() && id == pod
        }
        _ => false,
    };
    let all = wanted(discoverer, settings, content.as_deref()).into_iter();
    steps.extend(all.filter_map(|wanted| step(wanted, &discoverer.uid, facts)).filter(|step| !is_held(step)));
    let stated = match in_the_way {
        None => running(discoverer, facts.deployment),
        Some(id) => {
            let then = if has_pod { "the pod that there is goes on" } else { "no pod is made" };
            let why = format!("{id} in {} is somebody else's and stays as it is; {then}", settings.namespace);
            ReadyStatement::not("NameTaken", why)
        }
    };
    NextSteps { steps, stated: Some(stated) }
}

/// Returns the digest of the credentials, or what is said where no pod can be made; `None` while too little is known.
fn credentials<'a>(
    discoverer: &WantedDiscoverer,
    settings: &OperatorSettings,
    facts: &DiscovererFacts<'a>,
) -> Result<&'a str, Option<ReadyStatement>> {
    let name = discoverer.secret();
    let not = |reason, message: String| Err(Some(ReadyStatement::not(reason, message)));
    match (facts.credentials, facts.authority) {
        (CredentialsState::Unknown, _) | (_, AuthorityState::Unknown) => Err(None),
        (CredentialsState::Missing, _) => {
            not("SecretMissing", format!("there is no Secret {name} in {}", settings.namespace))
        }
        (_, AuthorityState::Unusable(why)) => not("AuthorityUnusable", why.clone()),
        (CredentialsState::There { digest, keys }, AuthorityState::Usable) => {
            match discoverer.needed_key().filter(|key| !keys.contains(*key)) {
                Some(key) => not("SecretUnusable", format!("Secret {name} has no key {key}")),
                None => Ok(digest),
            }
        }
    }
}

fn is_due(facts: &DiscovererFacts<'_>) -> bool {
    *facts.pair == PairState::ToBeSigned && *facts.authority == AuthorityState::Usable
}

/// Returns the signature of the next pair in the Secret that there is. One of a Backend that is gone is deleted first.
fn renewal(discoverer: &WantedDiscoverer, facts: &DiscovererFacts<'_>) -> Option<Step> {
    let pair = ObjectId { kind: ManagedKind::Secret, name: pair_secret_name(discoverer) };
    let there = facts.observed.get(&pair).filter(|there| is_due(facts) && there.belongs_to(&discoverer.uid))?;
    Some(Step::Sign(Some(there.metadata.clone())))
}

/// Returns the write that makes an object as it is wanted, if it is not.
fn step(mut wanted: WantedObject, uid: &str, facts: &DiscovererFacts<'_>) -> Option<Step> {
    let Some(there) = facts.observed.get(&wanted.id()) else { return Some(Step::Create(wanted)) };
    // One of a Backend that is gone is deleted first.
    if !there.belongs_to(uid) {
        return None;
    }
    let body = wanted.body();
    let settled = facts.accepted.get(&wanted.id());
    if has_all(&there.body, &body) || settled.is_some_and(|(sent, made)| *sent == body && *made == there.body) {
        return None;
    }
    wanted.metadata_mut().meta.uid = there.metadata.meta.uid.clone();
    Some(Step::Apply(wanted))
}

/// Returns what is said where nothing is missing.
fn running(discoverer: &WantedDiscoverer, deployment: Option<&Deployment>) -> ReadyStatement {
    let name = discoverer.object_name();
    let current = deployment.is_some_and(|deployment| {
        let status = deployment.status;
        status.observed_generation >= deployment.metadata.generation
            && status.updated_replicas > 0
            && status.available_replicas > 0
    });
    match current {
        true => ReadyStatement { ready: true, reason: "Available", message: String::new() },
        false => ReadyStatement::not(NOT_AVAILABLE, format!("no pod of Deployment {name} is available")),
    }
}

/// Returns the objects that a discoverer has.
#[must_use]
pub fn object_ids(discoverer: &WantedDiscoverer, settings: &OperatorSettings) -> Vec<ObjectId> {
    let id = |kind, name: String| ObjectId { kind, name };
    let name = || discoverer.object_name();
    let mut ids = vec![
        id(ManagedKind::ServiceAccount, name()),
        id(ManagedKind::Secret, pair_secret_name(discoverer)),
        id(ManagedKind::Deployment, name()),
    ];
    if settings.network_policies {
        ids.push(id(ManagedKind::NetworkPolicy, name()));
    }
    ids
}

/// Returns the deletions of objects of ours that no Backend has any more. `backends` has, by their UIDs, those with a source; of one
/// whose source cannot be used everything stays.
#[must_use]
pub fn left_over(
    observed: &BTreeMap<ObjectId, MarkedObject>,
    backends: &BTreeMap<String, Option<WantedDiscoverer>>,
    settings: &OperatorSettings,
) -> Vec<Step> {
    let is_kept = |id: &ObjectId, there: &MarkedObject| {
        there.metadata.owner_references.iter().any(|owner| match backends.get(&*owner.uid) {
            None => false,
            Some(None) => true,
            Some(Some(discoverer)) => object_ids(discoverer, settings).contains(id),
        })
    };
    let gone = observed.iter().filter(|(id, there)| !is_kept(id, there) && !there.metadata.is_being_deleted());
    // The pod first, and what it needs after it.
    let mut steps: Vec<_> = gone.map(|(id, there)| Step::Delete(id.clone(), there.metadata.clone())).collect();
    steps.reverse();
    steps
}
