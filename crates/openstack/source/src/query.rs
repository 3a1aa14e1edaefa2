//! Queries of the poller to its caller, and the replies.

use gimbal_octavia_rows::{CompleteList, Existence, Id, L7Policy, Listener, LoadBalancer, Member, Pool, Project};

/// The projects whose objects a list contains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListScope {
    /// All projects, listed with one token.
    AllProjects,
    /// One project, listed with a token for that project.
    Project(Id),
}

/// One thing to fetch. All queries that are returned before the next answer may be fetched concurrently.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The list of projects.
    Projects,
    /// A list of load balancers.
    LoadBalancers(ListScope),
    /// A list of listeners.
    Listeners(ListScope),
    /// A list of pools.
    Pools(ListScope),
    /// A list of L7 policies.
    L7Policies(ListScope),
    /// The members of a pool.
    Members(ListScope, Id),
    /// Whether one load balancer exists: distinguishes a deletion from a lost role.
    LoadBalancer(ListScope, Id),
    /// Whether one listener exists that other rows name and the list lacks, in two polls in a row.
    Listener(ListScope, Id),
    /// Whether one pool exists, like [`Self::Listener`].
    Pool(ListScope, Id),
    /// Whether the token still has the roles that it had when the mode was decided.
    Roles(ListScope),
}

/// The result of a [`Query`]. A list is complete or an error, whose text is human-readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Answers [`Query::Projects`].
    Projects(Result<CompleteList<Project>, String>),
    /// Answers [`Query::LoadBalancers`].
    LoadBalancers(ListScope, Result<CompleteList<LoadBalancer>, String>),
    /// Answers [`Query::Listeners`].
    Listeners(ListScope, Result<CompleteList<Listener>, String>),
    /// Answers [`Query::Pools`].
    Pools(ListScope, Result<CompleteList<Pool>, String>),
    /// Answers [`Query::L7Policies`].
    L7Policies(ListScope, Result<CompleteList<L7Policy>, String>),
    /// Answers [`Query::Members`].
    Members(ListScope, Id, Result<CompleteList<Member>, MembersError>),
    /// Answers [`Query::LoadBalancer`].
    LoadBalancer(ListScope, Id, Result<Existence, String>),
    /// Answers [`Query::Listener`].
    Listener(ListScope, Id, Result<Existence, String>),
    /// Answers [`Query::Pool`].
    Pool(ListScope, Id, Result<Existence, String>),
    /// Answers [`Query::Roles`] with the names of the roles that are missing now.
    Roles(ListScope, Result<Vec<String>, String>),
}

impl Reply {
    /// Returns the query that this reply answers.
    #[must_use]
    pub fn query(&self) -> Query {
        match self {
            Self::Projects(_) => Query::Projects,
            Self::LoadBalancers(list_scope, _) => Query::LoadBalancers(list_scope.clone()),
            Self::Listeners(list_scope, _) => Query::Listeners(list_scope.clone()),
            Self::Pools(list_scope, _) => Query::Pools(list_scope.clone()),
            Self::L7Policies(list_scope, _) => Query::L7Policies(list_scope.clone()),
            Self::Members(list_scope, pool, _) => Query::Members(list_scope.clone(), pool.clone()),
            Self::LoadBalancer(list_scope, id, _) => Query::LoadBalancer(list_scope.clone(), id.clone()),
            Self::Listener(list_scope, id, _) => Query::Listener(list_scope.clone(), id.clone()),
            Self::Pool(list_scope, id, _) => Query::Pool(list_scope.clone(), id.clone()),
            Self::Roles(list_scope, _) => Query::Roles(list_scope.clone()),
        }
    }
}

/// Why a pool's members are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembersError {
    /// 404: the pool was deleted between two calls, or was listed from a database replica that lags.
    PoolGone,
    /// Any other failure, human-readable.
    Failed(String),
}
