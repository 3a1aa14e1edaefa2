//! Changes whose answers were lost.

use std::time::Duration;

use crate::seen::{Provisioning, Seen};

/// The kind of an object that is found by its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Balancer,
    Port,
    FloatingIp,
}

/// A change whose answer was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LostChange {
    pub(super) root: Root,
    /// Those that were there.
    pub(super) had: Vec<String>,
    /// The one that was to be deleted.
    pub(super) goes: Option<String>,
    pub(super) since: Duration,
    pub(super) looks: u32,
}

impl Root {
    pub(super) fn ids(self, seen: &Seen) -> Vec<&String> {
        match self {
            Self::Balancer => seen.balancers.iter().map(|one| &one.id).collect(),
            Self::Port => seen.ports.iter().map(|one| &one.id).collect(),
            Self::FloatingIp => seen.floating.iter().map(|one| &one.id).collect(),
        }
    }
}

impl LostChange {
    /// Whether the effect of the change is seen.
    pub(super) fn is_found(&self, seen: &Seen) -> bool {
        let ids = self.root.ids(seen);
        let begun = |id: &String| {
            let mut all = seen.balancers.iter();
            all.any(|one| one.id == *id && one.provisioning == Provisioning::PendingDelete)
        };
        match &self.goes {
            Some(id) => !ids.contains(&id) || begun(id),
            None => ids.iter().any(|id| !self.had.contains(id)),
        }
    }
}
