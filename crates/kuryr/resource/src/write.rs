//! Writes to the API server, as values, and how they end.

use std::time::Duration;

use gimbal_kubernetes_objects::{BalancedService, Ingress, LifecycleMeta, Meta};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrLoadBalancer};
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;
use serde_json::{Value, json};

use crate::{InFlightWrite, KuryrKind, Purpose};

/// An object that is written to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterObject {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its kind.
    pub kind: KuryrKind,
}

impl ClusterObject {
    /// Returns the object of a kind under a key.
    #[must_use]
    pub fn new(key: &SourceKey, kind: KuryrKind) -> Self {
        Self { namespace: key.namespace.clone(), name: key.name.clone(), kind }
    }

    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> SourceKey {
        SourceKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// A call to the API server. Until it has ended there is no other one for its object.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterWrite {
    /// The object.
    pub object: ClusterObject,
    /// What to do.
    pub body: WriteBody,
    /// What it is for, for the log: "set the finalizer".
    pub purpose: &'static str,
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteBody {
    /// Create this object.
    Create(NewObject),
    /// Merge this into the object. The version and the UID in `meta` have to be those of the object.
    Patch {
        /// Name, namespace, UID and version.
        meta: Meta,
        /// An RFC 7386 merge patch, without UID and version.
        change: Value,
    },
    /// Merge this into the status, through the subresource.
    PatchStatus {
        /// Name, namespace, UID and version.
        meta: Meta,
        /// An RFC 7386 merge patch of the status alone.
        status: Value,
    },
    /// Delete the object, if it has this UID and this version.
    Delete {
        /// Name, namespace, UID and version.
        meta: Meta,
    },
    /// Read the object, before its absence, or what it says, counts as the end of a load balancer: the watch may be behind.
    Read,
}

/// An object that is to be created.
#[derive(Debug, Clone, PartialEq)]
pub enum NewObject {
    /// A KuryrLoadBalancer.
    LoadBalancer(Box<KuryrLoadBalancer>),
    /// A KuryrL7Router.
    Router(Box<KuryrL7Router>),
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteOutcome {
    /// It was carried out. This is the answer.
    Done(WrittenObject),
    /// 409: the object has another version or another UID, or a create found the name taken.
    Conflict,
    /// 404, and the answer names the object: it does not exist. Any other 404 is [`Refused`](Self::Refused).
    NotFound,
    /// The API server does not take it, for instance for want of a right, by an admission rule, or because the kind is not
    /// served.
    Refused(String),
    /// The API server asks to wait, possibly for a given time.
    Throttled(Option<Duration>),
    /// There was no answer, or none that can be read: it may have been carried out or not.
    Unknown(String),
    /// It was not sent: this process does not lead, or is about to end.
    NotSent,
}

/// What the API server answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum WrittenObject {
    /// The Service as it is now.
    Service(Box<BalancedService>),
    /// The KuryrLoadBalancer as it is now.
    LoadBalancer(Box<KuryrLoadBalancer>),
    /// The Ingress as it is now.
    Ingress(Box<Ingress>),
    /// The KuryrL7Router as it is now.
    Router(Box<KuryrL7Router>),
    /// The answer to a [`Delete`](WriteBody::Delete).
    Deleted,
}

impl WrittenObject {
    /// The version of the object, unless nothing keeps it from being gone: then the API server stores nothing, and answers with the
    /// version of before.
    pub(crate) fn version(&self) -> Option<&Text> {
        let metadata = self.metadata()?;
        let is_gone = metadata.is_being_deleted() && metadata.finalizers.is_empty();
        (!is_gone).then_some(&metadata.meta.resource_version)
    }

    /// Whether the object has a finalizer.
    pub(crate) fn has_finalizer(&self, finalizer: &str) -> Option<bool> {
        Some(self.metadata()?.has_finalizer(finalizer))
    }

    fn metadata(&self) -> Option<&LifecycleMeta> {
        match self {
            Self::Service(service) => Some(&service.metadata),
            Self::LoadBalancer(balancer) => Some(&balancer.metadata),
            Self::Ingress(ingress) => Some(&ingress.metadata),
            Self::Router(router) => Some(&router.metadata),
            Self::Deleted => None,
        }
    }
}

/// A write, and what is remembered until it ends.
pub type PlannedWrite = (WriteBody, InFlightWrite);

/// Names the object that a write is for, as it is known.
#[must_use]
pub fn target(metadata: &LifecycleMeta) -> Meta {
    let Meta { name, namespace, uid, resource_version, .. } = metadata.meta.clone();
    Meta { name, namespace, uid, resource_version, ..Meta::default() }
}

/// Sets a finalizer, beside those of others.
#[must_use]
pub fn protect(metadata: &LifecycleMeta, finalizer: &'static str) -> PlannedWrite {
    let change = json!({"metadata": {"finalizers": with_finalizer(metadata, finalizer)}});
    let in_flight = InFlightWrite { finalizer: Some(finalizer), ..InFlightWrite::new(Purpose::Protect) };
    (WriteBody::Patch { meta: target(metadata), change }, in_flight)
}

/// Removes a finalizer.
#[must_use]
pub fn release(metadata: &LifecycleMeta, finalizer: &'static str) -> PlannedWrite {
    let others: Vec<&str> = metadata.finalizers.iter().map(|name| &**name).filter(|name| *name != finalizer).collect();
    let change = json!({"metadata": {"finalizers": others}});
    let in_flight = InFlightWrite { finalizer: Some(finalizer), ..InFlightWrite::new(Purpose::Release) };
    (WriteBody::Patch { meta: target(metadata), change }, in_flight)
}

/// Returns the finalizers of an object, and one more.
#[must_use]
pub fn with_finalizer<'a>(metadata: &'a LifecycleMeta, finalizer: &'a str) -> Vec<&'a str> {
    metadata.finalizers.iter().map(|name| &**name).chain([finalizer]).collect()
}

#[cfg(test)]
mod tests {
    use gimbal_kuryr_crd::names::finalizers;

    use super::*;

    fn service(version: &str, is_deleted: bool, finalizers: &[&str]) -> BalancedService {
        let deletion_timestamp = is_deleted.then(|| "2026-11-21T12:00:00Z".into());
        let meta = Meta { resource_version: version.into(), deletion_timestamp, ..Meta::default() };
        let finalizers = finalizers.iter().map(|one| (*one).into()).collect();
        let metadata = LifecycleMeta { meta, finalizers, ..LifecycleMeta::default() };
        BalancedService { metadata, ..BalancedService::default() }
    }

    /// Nor does it tell that a webhook has made a new version while it undid the rest.
    #[test]
    fn a_finalizer_that_did_not_stay_is_undone_whatever_the_version_is() {
        let with = |write: PlannedWrite| InFlightWrite { version: Some("7".into()), ..write.1 };
        let protected = with(protect(&service("7", false, &[]).metadata, finalizers::SERVICE));
        let released = with(release(&service("7", false, &[finalizers::SERVICE]).metadata, finalizers::SERVICE));
        for (left, of_protect, of_release) in
            [(&["theirs"][..], true, false), (&["theirs", finalizers::SERVICE], false, true)]
        {
            let answer = WrittenObject::Service(Box::new(service("8", false, left)));
            assert_eq!(
                (protected.is_undone(&answer), released.is_undone(&answer)),
                (of_protect, of_release),
                "{left:?}"
            );
        }
    }

    /// The API server stores nothing of an object that goes with its last finalizer, and answers with the version of before. A
    /// webhook that puts a finalizer back answers with that version as well.
    #[test]
    fn the_release_of_the_last_finalizer_is_not_undone() {
        let (_, released) = release(&service("7", true, &["ours"]).metadata, "ours");
        let released = InFlightWrite { version: Some("7".into()), ..released };
        for (version, is_deleted, left, is_undone) in [
            ("7", true, &[][..], false),
            ("7", true, &["ours"], true),
            ("7", true, &["theirs"], true),
            ("8", true, &["theirs"], false),
            ("7", false, &[], true),
            ("8", false, &[], false),
        ] {
            let answer = WrittenObject::Service(Box::new(service(version, is_deleted, left)));
            assert_eq!(released.is_undone(&answer), is_undone, "version {version}, deleted: {is_deleted}, {left:?}");
        }
        assert!(!released.is_undone(&WrittenObject::Deleted));
    }
}
