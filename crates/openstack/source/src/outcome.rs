//! What a poll came to.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{Id, ObjectKind, Unreadable};

/// What a poll came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollOutcome {
    /// The Services that differ from what was told before, in order; `None`: gone, and that is proven.
    pub changes: Vec<(SourceKey, Option<Arc<Service>>)>,
    /// Why nothing at all was seen, if so.
    pub unknown: Option<String>,
    /// Namespaces that were not seen whole, with the reason. What was last known of them stands; of what was never known,
    /// nothing was said. Unlike a Service that keeps its last state, that is no ground for a snapshot.
    pub unknown_namespaces: BTreeMap<Arc<str>, String>,
    /// Why there may be projects that were not seen: they have no namespace yet that could be called unknown.
    pub unlisted: Option<String>,
    /// Why there may be Services of which nothing is known and that were offered before, if so: what the writer has beside
    /// those that are told now stands. By itself it makes no poll incomplete.
    pub rest: Option<String>,
    /// What went wrong, however small.
    pub troubles: Vec<Trouble>,
    /// Member lists that were asked for since something said that they changed.
    pub members_needed: usize,
    /// Member lists that were asked for besides, for health and weights.
    pub members_swept: usize,
}

impl PollOutcome {
    /// Whether all of the cloud, as far as it is selected, was seen.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unknown.is_none() && self.unlisted.is_none() && self.unknown_namespaces.is_empty()
    }
}

/// Something that went wrong in a poll. None of these deletes anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A list was not had.
    #[error("the list of {kinds}{of} failed: {reason}", kinds = kind.plural(), of = of(project.as_ref()))]
    List {
        /// Of what.
        kind: ObjectKind,
        /// Of one project, if so.
        project: Option<Id>,
        /// Why.
        reason: String,
    },
    /// The members of a pool were not had; those last known stand.
    #[error("the members of pool {pool} are not known: {reason}")]
    Members {
        /// The pool.
        pool: Id,
        /// Why.
        reason: String,
    },
    /// A row cannot be read. What it last said stands.
    #[error("{kind} {id} cannot be read: {problem}", id = id.as_deref().unwrap_or("without an ID"))]
    Unreadable {
        /// What it is.
        kind: ObjectKind,
        /// Which one, if it says so.
        id: Option<String>,
        /// What is wrong with it.
        problem: String,
    },
    /// Two projects have names that yield one namespace. The one that had it first keeps it until the next restart; where
    /// the others go is for the writer's policy to say.
    #[error(
        "project {project} ({name:?}) is offered under its ID: its name yields namespace {namespace}, which project {holder} {}; the writer rejects it (NameConflict) until its policy gives that ID a namespace (namespaces.map)",
        if *held { "has, until a restart" } else { "could have as well, so that nobody has it" }
    )]
    NameConflict {
        /// The project that is offered under its ID.
        project: Id,
        /// Its name.
        name: Arc<str>,
        /// The namespace.
        namespace: Arc<str>,
        /// Who has it, or could have.
        holder: Id,
        /// Whether it has.
        held: bool,
    },
    /// A load balancer of a project that no list of projects has had, while that list cannot be had. It waits, and no other.
    #[error(
        "load balancer {load_balancer} belongs to project {project}, which is not known, and the list of projects failed"
    )]
    ProjectUnknown {
        /// The project.
        project: Id,
        /// The first of its load balancers.
        load_balancer: Id,
    },
    /// A project has left the list of those on which the user has a role.
    #[error(
        "project {project} ({name:?}) has left the list of projects: it was deleted or disabled, or a role on it was lost; what was last known of it stands for a while (--project-hold)"
    )]
    ProjectLeft {
        /// The project.
        project: Id,
        /// Its name.
        name: Arc<str>,
    },
    /// The token sees less than it did, so what it does not see is not gone.
    #[error("a role was lost: the token no longer has {}", roles.join(", "))]
    RoleLost {
        /// The names of the roles.
        roles: Vec<String>,
    },
    /// Nothing says that the token still sees what it saw.
    #[error("a project has vanished, and the roles of the token could not be asked for: {reason}")]
    RolesUnknown {
        /// Why.
        reason: String,
    },
    /// The poll was given up before all members were read.
    #[error("the members of {pools} pools were not read in time")]
    Unanswered {
        /// How many.
        pools: usize,
    },
    /// Two lists, read one after the other, do not fit together. What was last known of the load balancer stands, once.
    #[error("load balancer {load_balancer} and {missing} were listed at different times, and do not fit together yet")]
    OpenReference {
        /// The load balancer.
        load_balancer: Id,
        /// What is named in one list and missing in another.
        missing: Id,
    },
    /// The lists lack a project whose objects are there.
    #[error("project {project} has no load balancer in the list any more, and its load balancer {load_balancer} {why}")]
    ProjectUnseen {
        /// The project.
        project: Id,
        /// The load balancer that was asked for by itself.
        load_balancer: Id,
        /// What came of it.
        why: String,
    },
}

impl Trouble {
    pub(crate) fn unreadable(kind: ObjectKind, row: Unreadable) -> Self {
        Self::Unreadable { kind, id: row.id, problem: row.problem }
    }
}

fn of(project: Option<&Id>) -> String {
    project.map(|id| format!(" of project {id}")).unwrap_or_default()
}
