//! Objects of a cloud that are not published, and the reasons.

use std::fmt;

use gimbal_octavia_rows::{Id, ObjectKind};

/// Why an object is not published, or is published without endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// A load balancer of a project that `projects` does not match, or `exclude` does.
    ProjectNotSelected,
    /// A load balancer of a project that the complete list of projects does not have.
    ProjectGone,
    /// An object whose row cannot be read and was never read before.
    Unreadable,
    /// A listener of the load balancer's own metrics: it has no members.
    Prometheus,
    /// A listener, or a pool, of a protocol that cannot be represented (`PROXY` pools among them).
    Unsupported,
    /// A listener, or a member, without a port.
    NoPort,
    /// A listener with the port and transport of another one.
    DuplicatePort,
    /// A listener without a pool: a port without endpoints.
    NoPool,
    /// A member without an address.
    NoAddress,
    /// A member whose address is not an IP address.
    BadAddress,
    /// Switched off (`admin_state_up`): without endpoints.
    Off,
    /// Being deleted: without endpoints.
    Deleting,
    /// A member with weight 0.
    NoWeight,
}

impl SkipReason {
    /// Returns the reason as used in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProjectNotSelected => "ProjectNotSelected",
            Self::ProjectGone => "ProjectGone",
            Self::Unreadable => "Unreadable",
            Self::Prometheus => "Prometheus",
            Self::Unsupported => "Unsupported",
            Self::NoPort => "NoPort",
            Self::DuplicatePort => "DuplicatePort",
            Self::NoPool => "NoPool",
            Self::NoAddress => "NoAddress",
            Self::BadAddress => "BadAddress",
            Self::Off => "Off",
            Self::Deleting => "Deleting",
            Self::NoWeight => "NoWeight",
        }
    }

    /// Returns the reason as a clause that ends a sentence.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::ProjectNotSelected => "its project is not selected (--projects, --exclude-projects)",
            Self::ProjectGone => "its project is not in the list of projects: it was deleted, or we have no role on it",
            Self::Unreadable => "its row cannot be read",
            Self::Prometheus => "it serves the load balancer's own metrics and has no members",
            Self::Unsupported => "its protocol cannot be represented",
            Self::NoPort => "it has no port",
            Self::DuplicatePort => "another listener has its port and transport",
            Self::NoPool => "it has no pool, so its port has no endpoints",
            Self::NoAddress => "it has no address",
            Self::BadAddress => "its address is not an IP address",
            Self::Off => "it is switched off (admin_state_up)",
            Self::Deleting => "it is being deleted",
            Self::NoWeight => "its weight is 0",
        }
    }
}

/// One object that is left out, completely or without its endpoints (see [`SkipReason`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The object's ID.
    pub id: Id,
    /// The reason.
    pub skip: SkipReason,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id, skip } = self;
        write!(f, "{kind} {id} is left out: {} ({})", skip.sentence(), skip.as_str())
    }
}
