//! Queries of the poller to its caller, and the replies.

use gimbal_octavia_rows::{Existence, Id, L7Policy, List, Listener, LoadBalancer, Member, Pool, Project};

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
    Projects(Result<List<Project>, String>),
    /// Answers [`Query::LoadBalancers`].
    LoadBalancers(ListScope, Result<List<LoadBalancer>, String>),
    /// Answers [`Query::Listeners`].
    Listeners(ListScope, Result<List<Listener>, String>),
    /// Answers [`Query::Pools`].
    Pools(ListScope, Result<List<Pool>, String>),
    /// Answers [`Query::L7Policies`].
    L7Policies(ListScope, Result<List<L7Policy>, String>),
    /// Answers [`Query::Members`].
    Members(ListScope, Id, Result<List<Member>, MembersError>),
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
    pub fn ask(&self) -> Query {
        match self {
            Self::Projects(_) => Query::Projects,
            Self::LoadBalancers(whose, _) => Query::LoadBalancers(whose.clone()),
            Self::Listeners(whose, _) => Query::Listeners(whose.clone()),
            Self::Pools(whose, _) => Query::Pools(whose.clone()),
            Self::L7Policies(whose, _) => Query::L7Policies(whose.clone()),
            Self::Members(whose, pool, _) => Query::Members(whose.clone(), pool.clone()),
            Self::LoadBalancer(whose, id, _) => Query::LoadBalancer(whose.clone(), id.clone()),
            Self::Listener(whose, id, _) => Query::Listener(whose.clone(), id.clone()),
            Self::Pool(whose, id, _) => Query::Pool(whose.clone(), id.clone()),
            Self::Roles(whose, _) => Query::Roles(whose.clone()),
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
