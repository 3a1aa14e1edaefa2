//! The observed objects, each reduced to what a plan needs.

use std::sync::Arc;

use gimbal_kubernetes_objects::{Meta, ServiceSpec, keys};
use gimbal_model::{Endpoints, Family, PortGroup, PortSet};

use super::{Owner, version};
use crate::print::Fingerprint;

/// The parts that all kinds share.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: Arc<str>,
    pub(crate) print: Fingerprint,
    pub(super) owner: Option<Arc<Owner>>,
    /// The backend label, if the object names no owner.
    pub(super) stray: Option<Arc<str>>,
    /// Deletion has begun, and a finalizer delays it.
    pub(crate) deleting: bool,
    /// Neither the list that began last nor a report since then has shown the object.
    pub(super) unlisted: bool,
    accepted: Option<Box<Accepted>>,
}

/// Fingerprints of an object as it was sent, and as the server stored it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Accepted {
    sent: Fingerprint,
    answer: Fingerprint,
}

impl Common {
    /// Keeps the accepted form of `old` as long as the object has that form.
    pub(super) fn new(meta: &Meta, print: Fingerprint, owner: Option<Arc<Owner>>, old: Option<Self>) -> Self {
        Self {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            print,
            stray: meta.labels.get(keys::BACKEND).filter(|_| owner.is_none()).cloned(),
            owner,
            deleting: meta.deletion_timestamp.is_some(),
            unlisted: false,
            accepted: old.and_then(|old| old.accepted).filter(|accepted| accepted.answer == print),
        }
    }

    /// Whether a deletion with this UID and version is about this object or a later one. An object with another UID
    /// may be older than the deletion; then it is gone, too.
    pub(super) fn ends_with(&self, uid: &str, resource_version: &str) -> bool {
        let same = uid.is_empty() || *self.uid == *uid;
        same || version::is_older(&self.resource_version, resource_version)
    }

    pub(super) fn accept(&mut self, sent: Fingerprint, answer: Fingerprint) -> bool {
        if sent == answer || self.print != answer {
            return false;
        }
        let new = Accepted { sent, answer };
        let first = self.accepted.as_deref() != Some(&new);
        self.accepted = Some(Box::new(new));
        first
    }

    /// Whether sending content with the fingerprint `print` would, as far as is known, change nothing.
    pub(crate) fn satisfies(&self, print: Fingerprint) -> bool {
        self.print == print || self.accepted.as_ref().is_some_and(|accepted| accepted.sent == print)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) common: Common,
    /// It has a cluster IP, which no update can remove, so only a new Service can be headless.
    pub(crate) fixed_address: bool,
}

pub(super) fn has_fixed_address(spec: &ServiceSpec) -> bool {
    let external = spec.type_.as_deref() == Some("ExternalName");
    !external && spec.cluster_ip.as_deref().is_some_and(|address| !address.is_empty() && address != "None")
}

#[derive(Debug, Clone)]
pub(crate) struct Slice {
    pub(crate) common: Common,
    pub(crate) name: Arc<str>,
    /// Fingerprint of labels and annotations.
    pub(crate) meta: Fingerprint,
    /// `None` for an address type that we never write.
    pub(crate) family: Option<Family>,
    pub(crate) ports: PortSet,
    pub(crate) endpoints: Endpoints,
    /// Ports and endpoints have exactly the form that we write.
    pub(crate) regular: bool,
}

/// An Endpoints object.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(crate) common: Common,
    pub(crate) groups: Vec<PortGroup>,
}
