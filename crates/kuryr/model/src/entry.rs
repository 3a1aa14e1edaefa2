//! What is held under a key.

use std::sync::Arc;

use gimbal_model::Digest;

use crate::canonical;
use crate::{DesiredKey, DesiredMembers, LoadBalancerHeader, Text, VipWish};

/// A load balancer that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredLoadBalancer {
    /// Generation of the custom resource that says so. It is not part of the header: most generations change members alone.
    pub generation: i64,
    /// Everything except the members.
    pub header: Arc<LoadBalancerHeader>,
    /// Members.
    pub members: DesiredMembers,
}

/// What is held under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredEntry {
    /// It is wanted.
    LoadBalancer(DesiredLoadBalancer),
    /// Its owner is going: everything that carries the owner's UID is to be removed. The entry stays until that is done.
    Deleting {
        /// UID of the owner.
        owner: Text,
    },
}

impl DesiredEntry {
    /// Returns the UID of the owner.
    #[must_use]
    pub fn owner(&self) -> &Text {
        match self {
            Self::LoadBalancer(wanted) => &wanted.header.owner,
            Self::Deleting { owner } => owner,
        }
    }

    /// Whether its owner is going.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        matches!(self, Self::Deleting { .. })
    }

    /// Whether it names its owner, and wants nothing.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::LoadBalancer(wanted) if wanted.header.vip == VipWish::default())
    }

    /// Returns the digest under `key`: the sum of those of header, generation and members. The order in which members
    /// came does not matter.
    #[must_use]
    pub fn digest(&self, key: &DesiredKey) -> Digest {
        match self {
            Self::Deleting { owner } => canonical::deleting(key, owner),
            Self::LoadBalancer(wanted) => wanted.digest(key),
        }
    }
}

impl DesiredLoadBalancer {
    /// Whether another state wants the same of OpenStack: the generation does not matter for that, nor whether the status names
    /// what exists.
    #[must_use]
    pub fn wants_the_same(&self, other: &Self) -> bool {
        let header =
            |header: &Arc<LoadBalancerHeader>| LoadBalancerHeader { known: true, ..LoadBalancerHeader::clone(header) };
        self.members == other.members && (self.header == other.header || header(&self.header) == header(&other.header))
    }

    pub(crate) fn digest(&self, key: &DesiredKey) -> Digest {
        let whole = canonical::header(key, &self.header) + canonical::generation(key, self.generation);
        self.members.as_slice().iter().fold(whole, |sum, member| sum + canonical::member(key, member))
    }
}
