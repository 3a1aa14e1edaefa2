//! The result of a poll.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_error_text::first_line;
use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{Id, ObjectKind, UnreadableRow};

/// The result of a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollOutcome {
    /// The Services that differ from those published before, by key. `None`: the Service is proven to be gone.
    pub changes: Vec<(SourceKey, Option<Arc<Service>>)>,
    /// Why the poll shows nothing of the cloud, if it does not.
    pub unknown: Option<String>,
    /// The namespaces that were not listed completely, with the reason. Their published Services stay as they are;
    /// Services that were never known are not published. Such a namespace is no basis for a snapshot, unlike a single
    /// Service that keeps its last state.
    pub unknown_namespaces: BTreeMap<Arc<str>, String>,
    /// Why there may be projects that were not listed, if so. They have no namespace yet that could be reported as
    /// unknown.
    pub unlisted: Option<String>,
    /// Why Services that an earlier process published may exist although nothing is known of them now, if so. The
    /// writer keeps what it has beyond the Services published now. This alone does not make a poll incomplete.
    pub rest: Option<String>,
    /// Everything that went wrong in the poll.
    pub troubles: Vec<PollTrouble>,
    /// The number of member lists that were read because they may have changed.
    pub members_needed: usize,
    /// The number of further member lists that the sweep read, for health and weights.
    pub members_swept: usize,
}

impl PollOutcome {
    /// Returns whether all selected projects of the cloud were listed completely.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unknown.is_none() && self.unlisted.is_none() && self.unknown_namespaces.is_empty()
    }
}

/// Something that went wrong in a poll. None of these deletes anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PollTrouble {
    /// A list failed.
    #[error("the list of {kinds}{of} failed: {reason}", kinds = kind.plural(), of = of(project.as_ref()))]
    List {
        /// The kind of object that was listed.
        kind: ObjectKind,
        /// The project whose list it was; `None` for a list of all projects' objects.
        project: Option<Id>,
        /// The error or the cause, human-readable.
        reason: String,
    },
    /// The members of a pool could not be read. The last known members stay published.
    #[error("the members of pool {pool} are not known: {reason}")]
    Members {
        /// The pool.
        pool: Id,
        /// The error or the cause, human-readable.
        reason: String,
    },
    /// A row of a list cannot be read. Its last readable state stays in use.
    #[error("{kind} {id} cannot be read: {problem}", id = id.as_deref().unwrap_or("without an ID"))]
    Unreadable {
        /// The kind of the object.
        kind: ObjectKind,
        /// The object's ID, shortened, if it can be read.
        id: Option<String>,
        /// The decoder's error, shortened.
        problem: String,
    },
    /// Two projects have names that yield the same namespace. The project that had it first keeps it until the next
    /// restart; the writer's policy decides where the others go.
    #[error(
        "project {project} ({name:?}) is offered under its ID: its name yields namespace {namespace}, which project {holder} {}; the writer rejects it (NameConflict) until its policy gives that ID a namespace (namespaces.map)",
        if *held { "has, until a restart" } else { "could have as well, so that no project has it" }
    )]
    NameConflict {
        /// The project that is offered under its ID.
        project: Id,
        /// The project's name.
        name: Arc<str>,
        /// The namespace that both names yield.
        namespace: Arc<str>,
        /// The other project, which has the namespace or could have it as well.
        holder: Id,
        /// Whether `holder` has the namespace.
        held: bool,
    },
    /// A load balancer belongs to a project that was in no list of projects, and that list fails now. Only this
    /// project's load balancers wait.
    #[error(
        "load balancer {load_balancer} belongs to project {project}, which is not known, and the list of projects failed"
    )]
    ProjectUnknown {
        /// The project.
        project: Id,
        /// The first of its load balancers.
        load_balancer: Id,
    },
    /// A project left the list of projects on which the user has a role.
    #[error(
        "project {project} ({name:?}) has left the list of projects: it was deleted or disabled, or a role on it was lost; what was last known of it stays published for a while (--project-hold)"
    )]
    ProjectLeft {
        /// The project.
        project: Id,
        /// The project's name.
        name: Arc<str>,
    },
    /// The token lost roles, so what it no longer lists is not proven to be gone.
    #[error("a role was lost: the token no longer has {}", roles.join(", "))]
    RoleLost {
        /// The names of the roles.
        roles: Vec<String>,
    },
    /// The token's roles could not be read, so it may list less than before.
    #[error("a project has vanished, and the roles of the token could not be asked for: {reason}")]
    RolesUnknown {
        /// The error or the cause, human-readable.
        reason: String,
    },
    /// The poll timed out before all members were read.
    #[error("the members of {pools} pools were not read in time")]
    Unanswered {
        /// The number of pools whose members were not read.
        pools: usize,
    },
    /// Two lists, read one after the other, do not fit together. The load balancer's last known state stays published
    /// until they do, or until the missing object is shown to be gone.
    #[error("load balancer {load_balancer} and {missing} were listed at different times, and do not fit together yet")]
    OpenReference {
        /// The load balancer.
        load_balancer: Id,
        /// The object that one list names and another lacks.
        missing: Id,
    },
    /// The lists have nothing of a project that had load balancers, and its deletion is not proven.
    #[error("project {project} has no load balancer in the list any more, and its load balancer {load_balancer} {why}")]
    ProjectUnseen {
        /// The project.
        project: Id,
        /// The load balancer that was looked up.
        load_balancer: Id,
        /// The result of the lookup, as a phrase.
        why: String,
    },
}

impl PollTrouble {
    pub(crate) fn unreadable(kind: ObjectKind, row: UnreadableRow) -> Self {
        let id = row.id.map(|id| first_line(&id));
        Self::Unreadable { kind, id, problem: first_line(&row.problem) }
    }
}

fn of(project: Option<&Id>) -> String {
    project.map(|id| format!(" of project {id}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cloud_calls_its_objects_makes_no_long_line() {
        let long = "x".repeat(100_000);
        let row = UnreadableRow { id: Some(long.clone()), project: None, problem: format!("{long} is no ID") };
        let line = PollTrouble::unreadable(ObjectKind::LoadBalancer, row).to_string();
        assert!(line.len() < 1000 && line.starts_with("load balancer xxx"), "{} characters", line.len());
    }
}
