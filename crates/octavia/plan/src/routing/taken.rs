//! Which requests a policy takes, by the meaning of its routes.

use gimbal_kuryr_model::{HostMatch, PathMatch};

/// The hosts and paths of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakenRequests {
    pub(crate) host: HostMatch,
    /// At least one.
    pub(crate) paths: Vec<PathMatch>,
}

impl TakenRequests {
    /// Whether there are requests that both take.
    pub(crate) fn meet(&self, other: &Self) -> bool {
        let by_path = |one: &PathMatch| other.paths.iter().any(|other| paths_meet(one, other));
        hosts_meet(&self.host, &other.host) && self.paths.iter().any(by_path)
    }
}

fn hosts_meet(one: &HostMatch, other: &HostMatch) -> bool {
    match (one, other) {
        (HostMatch::Any, _) | (_, HostMatch::Any) => true,
        (HostMatch::Exact(host), HostMatch::Wildcard(parent))
        | (HostMatch::Wildcard(parent), HostMatch::Exact(host)) => {
            host.split_once('.').is_some_and(|(_, rest)| *rest == **parent)
        }
        (HostMatch::Exact(one), HostMatch::Exact(other)) | (HostMatch::Wildcard(one), HostMatch::Wildcard(other)) => {
            one == other
        }
    }
}

fn paths_meet(one: &PathMatch, other: &PathMatch) -> bool {
    match (one, other) {
        (PathMatch::Any, _) | (_, PathMatch::Any) => true,
        (PathMatch::Exact(one), PathMatch::Exact(other)) => one == other,
        (PathMatch::Exact(path), PathMatch::Prefix(prefix)) | (PathMatch::Prefix(prefix), PathMatch::Exact(path)) => {
            begins_with(path, prefix)
        }
        (PathMatch::Prefix(one), PathMatch::Prefix(other)) => begins_with(one, other) || begins_with(other, one),
    }
}

/// Whether a path begins with another one, by segments.
fn begins_with(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
