//! The kinds of objects.

use std::fmt;

/// The kind of an object, for messages and for ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // The variants are Keystone's and Octavia's own words.
pub enum ObjectKind {
    Project,
    LoadBalancer,
    Listener,
    Pool,
    Member,
    L7Policy,
}

impl ObjectKind {
    /// Returns the plural, for messages about lists.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Project => "projects",
            Self::LoadBalancer => "load balancers",
            Self::Listener => "listeners",
            Self::Pool => "pools",
            Self::Member => "members",
            Self::L7Policy => "L7 policies",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::LoadBalancer => "load balancer",
            Self::Listener => "listener",
            Self::Pool => "pool",
            Self::Member => "member",
            Self::L7Policy => "L7 policy",
        })
    }
}
